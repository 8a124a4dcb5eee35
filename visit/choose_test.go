package visit

import (
	"context"
	"slices"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// readyJobs are the due jobs of queues.
type readyJobs struct {
	Store
	jobs map[dispatch.Queue][]dispatch.Job
}

func (s readyJobs) Ready(_ context.Context, _ dispatch.Account, l dispatch.Queue, n int) ([]dispatch.Job, error) {
	return slices.Clone(s.jobs[l][:min(n, len(s.jobs[l]))]), nil
}

// TestChoose_ABusyJobTakesNoTurn: while what an earlier attempt of a waiting job cost is read, the turn of its queue
// goes to the next job of the queue and, if there is none, to another queue of its owner before that of another owner.
func TestChoose_ABusyJobTakesNoTurn(t *testing.T) {
	job := func(id dispatch.JobID) (j dispatch.Job) { j.ID = id; return j }
	busy, alone := dispatch.Queue{Owner: "ann", Task: 1, First: 1}, dispatch.Queue{Owner: "ann", Task: 2, First: 3}
	other := dispatch.Queue{Owner: "bob", Task: 3, First: 4, OwnerServed: 1, Served: 1}
	v := &visit{backend: &dispatch.Backend{Platform: struct{ dispatch.Platform }{}},
		busy: map[dispatch.JobID]bool{1: true, 9: true}}
	v.backend.Limits = dispatch.Limits{Jobs: 1, Requests: 1}
	for want, ready := range map[dispatch.JobID]map[dispatch.Queue][]dispatch.Job{
		2: {busy: {job(1), job(2)}, alone: {job(3)}, other: {job(4)}},
		3: {busy: {job(1)}, alone: {job(3)}, other: {job(4)}},
		4: {busy: {job(1)}, other: {job(4)}},
	} {
		v.visits, v.agenda.Queues = &Visits{Store: readyJobs{jobs: ready}}, nil
		for _, l := range []dispatch.Queue{other, busy, alone} {
			if len(ready[l]) > 0 {
				v.agenda.Queues = append(v.agenda.Queues, l)
			}
		}
		v.queue = stepQueue{}
		if err := v.enqueueWaiting(t.Context()); err != nil {
			t.Fatal(err)
		}
		if chosen := v.queue.due[classSubmit]; len(chosen) != 1 || chosen[0].ID != want {
			t.Errorf("%d is to be submitted, chosen: %v", want, chosen)
		}
	}
}
