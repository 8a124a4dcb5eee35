package visit

import (
	"cmp"
	"context"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// enqueueWaiting assigns the free slots to queues with jobs whose documents are available, by share. For the other jobs
// it saves the outcome of the document check.
func (v *visit) enqueueWaiting(ctx context.Context) error {
	free := v.backend.Limits.Free(v.agenda.Held)
	w, ready := missingDocuments{}, map[dispatch.Queue][]dispatch.Job{}
	queues, err := v.readyQueues(ctx, &w, ready, free)
	if err = cmp.Or(err, v.keepPrepared(ctx, w)); err != nil {
		return err
	}
	for _, l := range dispatch.Share(queues, free) {
		if len(ready[l]) > 0 {
			v.queue.due[classSubmit] = append(v.queue.due[classSubmit], ready[l][0])
			ready[l] = ready[l][1:]
		}
	}
	return nil
}

// ready returns at most n due jobs of a queue whose documents are available. The other jobs keep waiting.
func (v *visit) ready(ctx context.Context, w *missingDocuments, l dispatch.Queue, n int) ([]dispatch.Job, error) {
	jobs, err := v.idle(ctx, l, n)
	if err != nil {
		return nil, err
	}
	good, err := v.withDocuments(ctx, w, jobs)
	if err != nil || len(good) == len(jobs) {
		return good, err
	}
	more, err := v.idle(ctx, l, agendaSize)
	if err != nil || len(more) <= len(jobs) {
		return good, err
	}
	others, err := v.withDocuments(ctx, w, more[len(jobs):])
	good = append(good, others...)
	return good[:min(n, len(good))], err
}

// idle returns at most n due jobs of a queue. One with a request under way, such as the read of what an attempt before
// cost, cannot be submitted, so it takes no turn of its queue or of its owner.
func (v *visit) idle(ctx context.Context, l dispatch.Queue, n int) ([]dispatch.Job, error) {
	busy := func(j dispatch.Job) bool { return v.busy[j.ID] }
	jobs, err := v.visits.Store.Ready(ctx, v.account, l, n)
	if err != nil || !slices.ContainsFunc(jobs, busy) {
		return jobs, err
	}
	jobs, err = v.visits.Store.Ready(ctx, v.account, l, n+len(v.busy))
	jobs = slices.DeleteFunc(jobs, busy)
	return jobs[:min(n, len(jobs))], err
}

// readyQueues returns the queues that can get free slots. It adds the jobs of the queues whose turn it is to the map
// ready. Queues without a job whose document is available are left out, so that the other queues get their slots.
func (v *visit) readyQueues(ctx context.Context, w *missingDocuments, ready map[dispatch.Queue][]dispatch.Job,
	free int) ([]dispatch.Queue, error) {
	queues := slices.Clone(v.agenda.Queues)
	for range prepareRounds {
		before := len(queues)
		for _, l := range dispatch.Share(queues, free) {
			if _, known := ready[l]; known {
				continue
			}
			jobs, err := v.ready(ctx, w, l, free)
			if err != nil {
				return queues, err
			}
			ready[l] = jobs
		}
		queues = slices.DeleteFunc(queues, func(l dispatch.Queue) bool {
			jobs, known := ready[l]
			return known && len(jobs) == 0
		})
		if len(queues) == before {
			break
		}
	}
	return queues, nil
}

const prepareRounds = 16 // how often readyQueues replaces queues without a job whose document is available
