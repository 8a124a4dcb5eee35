package visit

import (
	"cmp"
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// saveAll saves the received responses in one commit. Responses that cannot be saved are kept for the next iteration,
// and their jobs stay busy.
func (v *visit) saveAll(ctx context.Context) error {
	return v.save(ctx, v.outcomesOf(v.unsaved), len(v.unsaved))
}

// save saves the outcomes that are left of the first so many received responses, and forgets these responses.
func (v *visit) save(ctx context.Context, received []jobOutcomes, responses int) error {
	for len(received) > 0 {
		jobs := v.results(received)
		var wake []dispatch.Account
		if !time.Now().Before(v.lease) { // another visit may have planned the next one without these responses
			wake = append(wake, v.account)
		}
		saved, err := v.visits.Store.Save(ctx, jobs, wake...)
		if err != nil {
			v.uncertain = true
			return err
		}
		if received, err = v.noteSaved(ctx, received, byID(saved)); err != nil {
			return err
		}
	}
	over := v.unsaved[:responses]
	v.unsaved, v.uncertain = v.unsaved[responses:], false
	var err error
	for _, f := range over {
		v.setBusy(f.jobs, false)
		v.noteUnlisted(f)
		for _, a := range f.outcomes {
			err = cmp.Or(err, v.applyBackpressure(ctx, a))
		}
		if len(f.outcomes) > 0 {
			err = cmp.Or(err, v.noteResponse(ctx, f.outcomes[0].Outcome))
		}
	}
	return cmp.Or(err, v.noteStarts(ctx), v.resumeWhenFreed(ctx))
}

// resumeWhenFreed ends the hold of an account whose platform was full when one of its jobs has ended.
func (v *visit) resumeWhenFreed(ctx context.Context) error {
	freed := v.freed
	v.freed = false
	if !freed || v.agenda.Why != dispatch.Full || !v.now().Before(v.agenda.Hold) {
		return nil
	}
	return v.visits.Store.Hold(ctx, v.account, 0, dispatch.None, "")
}

// jobOutcomes holds all outcomes of one job that are not saved yet.
type jobOutcomes struct {
	job      dispatch.Job
	outcomes []dispatch.Outcome
	missing  time.Time // since when the job is missing in the store; zero: it is not
}

// outcomesOf groups the outcomes of responses by job, in the order in which they arrived.
func (v *visit) outcomesOf(responses []platformResponse) (all []jobOutcomes) {
	n := 0
	for _, f := range responses {
		n += len(f.outcomes)
	}
	at := make(map[dispatch.JobID]int, n)
	all = make([]jobOutcomes, 0, n) // a job has a kilobyte
	for _, f := range responses {
		for i := range f.outcomes {
			a := &f.outcomes[i]
			k, known := at[a.job.ID]
			if !known {
				k = len(all)
				at[a.job.ID], all = k, append(all, jobOutcomes{job: a.job})
			}
			all[k].outcomes = append(all[k].outcomes, v.complete(a.Outcome, f.asked))
		}
	}
	return all
}

// complete adds to an outcome what [next] must know of the platform and of the request, which was sent at the given
// time.
func (v *visit) complete(o dispatch.Outcome, asked time.Time) dispatch.Outcome {
	o = v.answered(o, asked)
	o.Settles = v.backend.SettlesAfter(v.timing, v.agenda.Starts)
	return o
}

// answered is complete without what depends on the agenda, so that it may be called after the visit.
func (v *visit) answered(o dispatch.Outcome, asked time.Time) dispatch.Outcome {
	o.Err, o.At, o.Timing = v.backend.TokenError(o.Err), asked, v.timing
	o.Failures, o.Account = v.backend.Failures, v.account
	return o
}

func (s jobOutcomes) next(now time.Time) dispatch.Job {
	j := s.job
	for _, o := range s.outcomes {
		j = dispatch.Next(j, o, now)
	}
	return j
}

// results returns the jobs as they are to be saved.
func (v *visit) results(received []jobOutcomes) []dispatch.Job {
	jobs := make([]dispatch.Job, len(received))
	for i, s := range received {
		jobs[i] = s.next(v.now())
	}
	return jobs
}

// noteSaved notes which jobs were saved. It returns those whose rows have changed meanwhile, with the current rows, so
// that their outcomes are applied again.
func (v *visit) noteSaved(
	ctx context.Context, received []jobOutcomes, saved map[dispatch.JobID]*dispatch.Job,
) (again []jobOutcomes, err error) {
	v.kept = v.kept || len(saved) > 0
	for _, s := range received {
		j, ok := saved[s.job.ID]
		if !ok {
			if again, err = v.reload(ctx, s, again); err != nil {
				return nil, err
			}
			continue
		}
		v.freed = v.freed || freedSlot(s.job, *j)
		v.visits.Hub.NotifySaved(ctx, s.job, *j, s.outcomes[len(s.outcomes)-1].Err)
		v.noteStart(s.job, *j)
	}
	return again, nil
}

// freedSlot reports whether a job has ended at its platform, for good or until it is retried.
func freedSlot(before, after dispatch.Job) bool {
	return before.Phase.HoldsSlot() && (after.Phase == dispatch.Ended || after.Retried > before.Retried)
}

// reload adds s to again with the job's current row. If the outcomes may be stored already, by a Save that failed, what
// reads found out is left out: it would count twice, and is read again. What is left changes nothing the second time.
func (v *visit) reload(ctx context.Context, s jobOutcomes, again []jobOutcomes) ([]jobOutcomes, error) {
	before, err := s.job, error(nil)
	s.job, err = v.visits.Store.Load(ctx, before.ID)
	if dispatch.Is(err, dispatch.NotFound) { // the job was purged, or the database server that answers lags behind
		s.job, v.resume = before, dispatch.Later(v.resume, time.Now().Add(dispatch.Repair))
		if s.mustNotBeLost() {
			v.visits.keepUnsaved([]jobOutcomes{s})
		}
		return again, nil
	}
	if err != nil {
		return again, err
	}
	if v.uncertain {
		v.freed = v.freed || freedSlot(before, s.job)
		v.visits.Hub.NotifySaved(ctx, before, s.job, s.outcomes[len(s.outcomes)-1].Err)
		for i := range s.outcomes {
			if s.outcomes[i].Asked != dispatch.AskSubmit {
				s.outcomes[i].Epoch = -1
			}
		}
	}
	return append(again, s), nil
}

// applyBackpressure holds the account, not only the job, when its platform turns a submission away. For any other
// request it pauses the visit for the Retry-After.
func (v *visit) applyBackpressure(ctx context.Context, a jobOutcome) error {
	switch {
	case a.Unsent:
	case a.Started:
		v.visits.accounts.endRefusals(v.account)
	case !dispatch.Is(a.Err, dispatch.Busy) && !dispatch.Is(a.Err, dispatch.Unavailable):
	case a.Asked == dispatch.AskSubmit:
		d := v.timing.PauseAfter(v.visits.accounts.countRefusal(v.account), a.Err)
		return v.visits.Store.Hold(ctx, v.account, d, a.ShownAttention(), dispatch.TextFor(a.Err))
	case dispatch.RetryAfter(a.Err) > 0:
		v.resume = dispatch.Later(v.resume, time.Now().Add(dispatch.RetryAfter(a.Err)))
	}
	return nil
}
