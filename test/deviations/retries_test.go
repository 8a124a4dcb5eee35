package deviations

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// A job with options.retries that fails because of the platform, as a rule of the operator tells, is submitted again
// after growing pauses, shows why it waits, and keeps what all its attempts cost. Without such a rule it fails: what
// the platform says does not tell that the platform is to blame.
func TestDeviations_PlatformFailsJobsForAWhile(t *testing.T) {
	for _, protocol := range []string{"openeo", "ogc"} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprint(protocol, known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := with(t, protocol)
					s.request = strings.Replace(s.request, `{"title"`, `{"options": {"retries": 5}, "title"`, 1)
					s.platform.SetLife(simulator.Life{Run: time.Minute, Fail: 1})
					if known {
						s.failures = dispatch.FailureRules{{Matches: regexp.MustCompile("simulated"),
							Cause: dispatch.CausedByPlatform}}
					}
					defer s.open()()
					s.retriedJob(known)
				})
			})
		}
	}
}

type retried struct {
	shown
	Retries struct{ Allowed, Done int } `json:"retries"`
}

func (s *stage) retriedJob(known bool) {
	var j retried
	s.ask(201, "POST", "/unit_jobs", s.request, &j)
	path := fmt.Sprintf("/unit_jobs/%d", j.ID)
	refs, waits := map[string]bool{}, 0
	for range 4 * 60 {
		time.Sleep(15 * time.Second)
		was := j
		j = retried{}
		s.ask(200, "GET", path, "", &j)
		if refs[j.Ref] = true; j.Ref == "" {
			delete(refs, "")
		}
		if j.Attention.Code == "retrying" && was.Attention.Code != "retrying" {
			waits++
		}
		if j.Retries.Done == 2 {
			s.platform.SetLife(simulator.Life{Run: time.Minute})
		}
		if j.ended() {
			break
		}
	}
	switch {
	case known && (j.Status != "finished" || j.Retries.Done != 2 || j.Retries.Allowed != 5 || len(refs) != 3 ||
		waits != 2):
		s.Errorf("%+v after %d waits and the platform jobs %v", j, waits, refs)
	case !known && (j.Status != "failed" || j.Retries.Done != 0 || len(refs) != 1 || j.Failure == ""):
		s.Errorf("%+v at the platform as %v", j, refs)
	}
	if runs := s.oracle.Sum().Runs; runs != len(refs) {
		s.Errorf("%d runs of the platform jobs %v", runs, refs)
	}
}
