package deviations

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// charged is the part of the responses of GET /upscale_tasks/{id} and /usage that tells of costs.
type charged struct {
	Jobs []struct {
		Status   string   `json:"status"`
		Costs    *float64 `json:"costs"`
		Unit     string   `json:"cost_unit"`
		Duration float64  `json:"duration"`
		Usage    *struct {
			CPU struct {
				Value float64 `json:"value"`
				Unit  string  `json:"unit"`
			} `json:"cpu"`
		} `json:"usage"`
	} `json:"jobs"`
}

// charges returns what the user's jobs cost at the openEO platform, whatever the month.
func (s *stage) charges() (text string) {
	s.Helper()
	var all []struct {
		Platform string `json:"platform"`
		Charges  []struct {
			Unit  string  `json:"unit"`
			Costs float64 `json:"costs"`
			Runs  int     `json:"runs"`
		} `json:"charges"`
	}
	s.ask(200, "GET", "/usage", "", &all)
	for _, u := range all {
		for _, c := range u.Charges {
			text += fmt.Sprintf("%s: %v %s of %d runs\n", u.Platform, c.Costs, c.Unit, c.Runs)
		}
	}
	return text
}

// A platform reports costs five hours after the end, and usage only of single jobs, as those of openEO do. The owner
// sees both of jobs whose end came from a listing, what failed attempts cost stays booked when they are retried before
// it is known, and all of it when the task is deleted.
func TestDeviations_CostsComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := with(t, "openeo")
		late := simulator.Life{Queue: time.Minute, Run: 10 * time.Minute, Fail: 1, Billing: 5 * time.Hour}
		s.platform.SetLife(late)
		defer s.open()()
		s.submitTask()
		ended := func(status string) func() bool {
			return func() bool { now, _ := s.readTask(); return now[status] == 6 }
		}
		if !s.watch(time.Hour, often, nil, ended("failed")) {
			t.Fatal("the jobs have not failed")
		}
		if charges := s.charges(); charges != "" {
			t.Errorf("before the platform reports costs: %s", charges)
		}
		late.Fail = 0
		s.platform.SetLife(late)
		var task map[string]any
		s.ask(200, "POST", fmt.Sprintf("/upscale_tasks/%d/retry", s.task), "", &task)
		if !s.watch(time.Hour, often, nil, ended("finished")) {
			t.Fatal("the jobs have not finished")
		}
		time.Sleep(13 * time.Hour) // by then costs were read again
		var is charged
		s.ask(200, "GET", fmt.Sprintf("/upscale_tasks/%d", s.task), "", &is)
		for i, j := range is.Jobs {
			if j.Costs == nil || *j.Costs != 3 || j.Unit != "credits" || j.Duration != 600 || j.Usage == nil ||
				j.Usage.CPU.Value != 2400 || j.Usage.CPU.Unit != "cpu-seconds" {
				t.Errorf("job %d: %+v", i, j)
			}
		}
		if charges := s.charges(); charges != "openeo: 18 credits of 12 runs\n" {
			t.Errorf("booked: %s", charges)
		}
		var gone any
		s.ask(200, "DELETE", fmt.Sprintf("/upscale_tasks/%d", s.task), "", &gone)
		time.Sleep(2 * time.Hour)
		if err := s.broker.Store.(conformance.Store).Purge(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if charges := s.charges(); charges != "openeo: 18 credits of 12 runs\n" {
			t.Errorf("after the task was deleted: %s", charges)
		}
		asked := s.oracle.Requests(readJob)
		time.Sleep(10 * time.Hour) // to the last time at which costs would be read, a day after the end
		if more := s.oracle.Requests(readJob) - asked; more > 0 {
			t.Errorf("%d requests later", more)
		}
	})
}
