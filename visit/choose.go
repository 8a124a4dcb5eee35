package visit

import (
	"cmp"
	"context"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// enqueueWaiting assigns the free slots to lines with jobs whose documents are available, in the order of share. For
// the other jobs it saves the outcome of the document check.
func (v *visit) enqueueWaiting(ctx context.Context) error {
	free := v.backend.Limits.Free(v.agenda.Held)
	w, ready := missingDocuments{}, map[dispatch.Line][]dispatch.Job{}
	lines, err := v.readyLines(ctx, &w, ready, free)
	if err = cmp.Or(err, v.keepPrepared(ctx, w)); err != nil {
		return err
	}
	for _, l := range dispatch.Share(lines, free) {
		if len(ready[l]) > 0 {
			v.queue.due[classSubmit] = append(v.queue.due[classSubmit], ready[l][0])
			ready[l] = ready[l][1:]
		}
	}
	return nil
}

// ready returns at most n due jobs of a line whose documents are available. The other jobs keep waiting. A job whose
// document was requested less than fetchGrace ago is left unchanged. A job whose document is not available gets an
// outcome to be saved.
func (v *visit) ready(ctx context.Context, w *missingDocuments, l dispatch.Line, n int) ([]dispatch.Job, error) {
	p, can := v.backend.Platform.(dispatch.Preparer)
	jobs, err := v.visits.Store.Ready(ctx, v.account, l, n)
	if err != nil || !can {
		return jobs, err
	}
	good, err := v.withDocuments(ctx, p, w, jobs)
	if err != nil || len(good) == len(jobs) {
		return good, err
	}
	more, err := v.visits.Store.Ready(ctx, v.account, l, agendaSize)
	if err != nil || len(more) <= len(jobs) {
		return good, err
	}
	others, err := v.withDocuments(ctx, p, w, more[len(jobs):])
	good = append(good, others...)
	return good[:min(n, len(good))], err
}

// readyLines returns the lines that can get free slots. It adds the jobs of the lines whose turn it is to the map
// ready. Lines without a job whose document is available are left out, so that the other lines get their slots.
func (v *visit) readyLines(ctx context.Context, w *missingDocuments, ready map[dispatch.Line][]dispatch.Job,
	free int) ([]dispatch.Line, error) {
	lines := slices.Clone(v.agenda.Lines)
	for range prepareRounds {
		before := len(lines)
		for _, l := range dispatch.Share(lines, free) {
			if _, known := ready[l]; known {
				continue
			}
			jobs, err := v.ready(ctx, w, l, free)
			if err != nil {
				return lines, err
			}
			ready[l] = jobs
		}
		lines = slices.DeleteFunc(lines, func(l dispatch.Line) bool {
			jobs, known := ready[l]
			return known &&
				len(jobs) == 0
		})
		if len(lines) == before {
			break
		}
	}
	return lines, nil
}

const prepareRounds = 16 // how often readyLines replaces lines without a job whose document is available
