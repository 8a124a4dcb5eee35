package visit

import (
	"cmp"
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// prepareAgain requests the documents of waiting jobs with the attention [dispatch.ApplicationUnreachable] again, and
// saves the outcomes. It runs when nothing can be submitted, so that such a job gets its place in the queue as soon as
// its document is available. It requests no other job's document.
func (v *visit) prepareAgain(ctx context.Context) error {
	v.fetching = time.Time{}
	if due := v.agenda.NextUnprepared; due.IsZero() || due.After(v.agenda.Now) {
		return nil
	}
	jobs, err := v.visits.Store.Unprepared(ctx, v.account, agendaSize)
	if err != nil {
		return err
	}
	w, good := missingDocuments{}, jobs
	if p, can := v.backend.Platform.(dispatch.Preparer); can {
		good, err = v.withDocuments(ctx, p, &w, jobs)
	}
	for _, j := range good {
		w.outcomes = append(w.outcomes, jobOutcome{j, dispatch.Outcome{Asked: dispatch.AskPrepare, Attempt: j.Attempt,
			Epoch: j.Epoch}})
	}
	return cmp.Or(err, v.keepPrepared(ctx, w))
}

// keepPrepared saves the outcomes of document checks, and records when to check again for documents that are being
// fetched.
func (v *visit) keepPrepared(ctx context.Context, w missingDocuments) error {
	v.fetching = w.checkAt
	if len(w.outcomes) == 0 {
		return nil
	}
	v.unsaved = append(v.unsaved, platformResponse{outcomes: w.outcomes})
	return v.saveAll(ctx, nil)
}
