package broker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// savedPhases counts the saved jobs by their phases.
type savedPhases struct {
	conformance.Store
	mu    sync.Mutex
	saved map[dispatch.Phase]int
}

func (s *savedPhases) Save(ctx context.Context, jobs []dispatch.Job, wake ...dispatch.Account) ([]dispatch.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range jobs {
		s.saved[j.Phase]++
	}
	return s.Store.Save(ctx, jobs, wake...)
}

// The response that created a job is stored with the intent to start it, and is not lost if the owner no longer wants
// the job.
func TestStart_CreationIsStoredWithTheIntent(t *testing.T) {
	for _, unwanted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &savedPhases{Store: conformance.NewMemStore(clock{}), saved: map[dispatch.Phase]int{}}
			tasks := make(chan dispatch.TaskID, 1)
			p, started := inTwoSteps(func() {
				task := <-tasks
				tasks <- task
				if unwanted {
					if _, err := s.CancelTask(t.Context(), "ann", task, false); err != nil {
						t.Error(err)
					}
				}
			})
			h := open(s, backend("a", dispatch.AccessShared, p))
			tasks <- h.task(t, 4)
			time.Sleep(time.Second)
			h.stop()
			created, want := s.saved[dispatch.Created], map[bool]int{false: 4}[unwanted]
			if int(started.Load()) != want || !unwanted && created != 0 {
				t.Errorf("unwanted %v: %d starts, want %d, and %d creations saved apart", unwanted, started.Load(),
					want, created)
			}
			if unwanted && (created == 0 || p.cancels.Load() == 0) {
				t.Errorf("the jobs that were created and are no longer wanted: %d saved, %d canceled", created,
					p.cancels.Load())
			}
		})
	}
}
