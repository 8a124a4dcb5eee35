package deviations

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// wrongNamespace names a process below a namespace that the platform does not have.
const wrongNamespace = `"service": {"endpoint": "http://ogc.example", "namespace": "apex", "application": "ndvi"}`

// refusal is the response to a request that is not accepted.
type refusal struct {
	Code    string `json:"error_code"`
	Message string
}

// platformState returns what GET /platforms says about the OGC platform.
func (s *stage) platformState() string {
	var all struct {
		Platforms []struct{ Name, State string }
	}
	s.ask(http.StatusOK, "GET", "/platforms", "", &all)
	for _, p := range all.Platforms {
		if p.Name == "ogc" {
			return p.State
		}
	}
	return ""
}

// A platform that refuses to describe one process can be reached: requests that name this process are refused, also as
// a task, and nobody else notices. Once such a job was accepted, it fails with the platform's reason.
func TestDeviations_ProcessThatIsNotDescribed(t *testing.T) {
	for name, answer := range map[string]simulator.Fault{
		"400 of ZOO-Project": {Status: 400, Code: "BadRequest", Message: "The resource is not available"},
		"404":                {Status: 404, Code: "no-such-process", Message: "No such process"},
		"405":                {Status: 405, Code: "not-allowed", Message: "Not allowed"},
		"410":                {Status: 410, Code: "gone", Message: "Gone"},
		"a page":             {Status: 200, Form: simulator.HTML},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := with(t, "ogc")
				s.inMemory = true
				s.ogc.ZOO = true
				mends(s)
				defer s.open()()
				right := `"service": {"endpoint": "http://ogc.example", "application": "ndvi"}`
				request := strings.Replace(s.request, right, wrongNamespace, 1)
				if name == "400 of ZOO-Project" {
					s.refusedEverywhere(request)
				}
				answer.Route = "GET /processes/{id}"
				other := strings.Replace(s.request, `"application": "ndvi"`, `"application": "ndvi-item"`, 1)
				s.faults.Add(answer)
				s.refusedEverywhere(other)

				// The job is accepted while the platform does not respond.
				s.faults.Set(simulator.Fault{Route: answer.Route, Times: 1, Status: 503}, answer)
				other = strings.Replace(s.request, `"application": "ndvi"`, `"application": "statistics"`, 1)
				var job shown
				s.ask(http.StatusCreated, "POST", "/unit_jobs", other, &job)
				s.job = job.ID
				for until := time.Now().Add(5 * time.Minute); !job.ended() && time.Now().Before(until); job = s.read() {
					pass(10 * time.Second)
				}
				if job.String() != "failed" || !strings.Contains(job.Failure, "process") {
					t.Errorf("the accepted job is %s: %s", job, job.Failure)
				}
				mends(s)
				before := time.Now()
				if first := s.submit(); first.String() != "submitted" || time.Since(before) > time.Second {
					t.Errorf("another job is %s after %v", first, time.Since(before))
				}
				if state := s.platformState(); state != "ok" {
					t.Errorf("the platform is %s", state)
				}
			})
		})
	}
}

// refusedEverywhere checks that a request is refused as a job and as a task, and that its service is not described.
func (s *stage) refusedEverywhere(request string) {
	s.Helper()
	task := asTask(strings.Replace(request, `{"bbox": {"bbox": [5, 51, 5.1, 51.1]}}`, `{}`, 1))
	var job, many, parameters refusal
	s.ask(http.StatusUnprocessableEntity, "POST", "/unit_jobs", request, &job)
	s.ask(http.StatusUnprocessableEntity, "POST", "/upscale_tasks", task, &many)
	s.ask(http.StatusUnprocessableEntity, "POST", "/params", request, &parameters)
	for _, r := range []refusal{job, many, parameters} {
		if r.Code != "VALIDATION_ERROR" || !strings.Contains(r.Message, "process") {
			s.Errorf("refused by %+v", r)
		}
	}
}

// asTask returns a request with its area as a dimension.
func asTask(request string) string {
	const dimension = `"dimension": {"name": "bbox", "values": [[5, 51, 6, 52]]}, `
	return strings.Replace(request, `"title"`, dimension+`"title"`, 1)
}

// A process that only runs synchronously runs as a job and in a task.
func TestDeviations_ProcessWithoutJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := with(t, "ogc")
		s.inMemory = true
		mends(s)
		defer s.open()()
		request := ogcRequestOf("sync-only", `{"bbox": {"bbox": [5, 51, 5.1, 51.1]}}`)
		task := strings.Replace(ogcRequestOf("sync-only", `{}`), `"title"`,
			`"dimension": {"name": "bbox", "values": [{"bbox": [5, 51, 6, 52]}, {"bbox": [6, 51, 7, 52]}]}, "title"`, 1)
		var job, many struct {
			ID     int64
			Status string
		}
		s.ask(http.StatusCreated, "POST", "/unit_jobs", request, &job)
		s.ask(http.StatusCreated, "POST", "/upscale_tasks", task, &many)
		time.Sleep(time.Hour)
		for _, path := range []string{fmt.Sprint("/unit_jobs/", job.ID), fmt.Sprint("/upscale_tasks/", many.ID)} {
			if s.ask(http.StatusOK, "GET", path, "", &job); job.Status != "finished" {
				t.Errorf("%s: %+v", path, job)
			}
		}
		if got := s.oracle.Sum(); got.Runs != 3 {
			t.Errorf("events at the platform: %+v", got)
		}
	})
}
