package visit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// saveAll saves the received responses in one commit. Responses that cannot be saved are kept for the next iteration,
// and their jobs stay busy.
func (v *visit) saveAll(ctx context.Context) error {
	return v.save(ctx, v.outcomesOf(v.unsaved), len(v.unsaved))
}

// save saves the outcomes that are left of the first so many received responses, and forgets these responses.
func (v *visit) save(ctx context.Context, said []jobOutcomes, responses int) error {
	for len(said) > 0 {
		jobs := v.results(said)
		var wake []dispatch.Account
		if !time.Now().Before(v.lease) { // another visit may have planned the next one without these responses
			wake = append(wake, v.account)
		}
		saved, err := v.visits.Store.Save(ctx, jobs, wake...)
		if err != nil {
			v.rememberAttempt(said, jobs)
			return err
		}
		if said, err = v.noteSaved(ctx, said, byID(saved)); err != nil {
			return err
		}
	}
	over := v.unsaved[:responses]
	v.unsaved, v.tried = v.unsaved[responses:], nil
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

// attempt is a job as a failed Save was to store it. The Save may have been committed nevertheless.
type attempt struct {
	job      dispatch.Job
	outcomes int // how many outcomes the job includes
}

// result returns the job as it is to be saved. If a Save of the same outcomes and version failed, the same job is saved
// again.
func (v *visit) result(s jobOutcomes) dispatch.Job {
	for _, t := range v.tried[s.job.ID] {
		if t.job.Version == s.job.Version && t.outcomes == len(s.outcomes) {
			return t.job
		}
	}
	return s.next(v.now())
}

// rememberAttempt records the jobs of a Save whose outcome is unknown.
func (v *visit) rememberAttempt(said []jobOutcomes, jobs []dispatch.Job) {
	for i, j := range jobs {
		t := attempt{j, len(said[i].outcomes)}
		known := func(k attempt) bool { return k.job.Version == j.Version && k.outcomes == t.outcomes }
		if !slices.ContainsFunc(v.tried[j.ID], known) {
			dispatch.SetInMap(&v.tried, j.ID, append(v.tried[j.ID], t))
		}
	}
}

// unsavedOf returns the outcomes of s without those that an earlier Save of unknown outcome has stored, which would
// count twice.
func (v *visit) unsavedOf(s jobOutcomes) []dispatch.Outcome {
	kept := 0
	for _, t := range v.tried[s.job.ID] {
		if t.wasStoredAs(s.job) {
			kept = max(kept, t.outcomes)
		}
	}
	return s.outcomes[kept:]
}

// wasStoredAs reports whether row is what the attempt stored. Fields that the owner sets may have changed since.
func (t attempt) wasStoredAs(row dispatch.Job) bool {
	j := t.job
	return row.Version > j.Version && row.Phase == j.Phase && row.Epoch == j.Epoch && row.Attempt == j.Attempt &&
		row.Ref == j.Ref &&
		row.Status == j.Status && row.Attention == j.Attention && row.Seen == j.Seen && row.Polls == j.Polls &&
		row.Tries == j.Tries && len(row.Orphans) == len(j.Orphans) && len(row.Past) == len(j.Past) &&
		row.Checked.Equal(j.Checked.Truncate(time.Microsecond)) &&
		row.Updated.Equal(j.Updated.Truncate(time.Microsecond))
}

// results returns the jobs as they are to be saved.
func (v *visit) results(said []jobOutcomes) []dispatch.Job {
	jobs := make([]dispatch.Job, len(said))
	for i, s := range said {
		jobs[i] = v.result(s)
	}
	return jobs
}

// noteSaved notes which jobs were saved. It returns those whose rows have changed meanwhile, with the current rows, so
// that their outcomes are applied again.
func (v *visit) noteSaved(
	ctx context.Context, said []jobOutcomes, is map[dispatch.JobID]*dispatch.Job,
) (again []jobOutcomes, err error) {
	v.kept = v.kept || len(is) > 0
	for _, s := range said {
		j, ok := is[s.job.ID]
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
func freedSlot(was, is dispatch.Job) bool {
	return was.Phase.HoldsSlot() && (is.Phase == dispatch.Ended || is.Retried > was.Retried)
}

// reload adds s to again with the job's current row, unless all its outcomes are saved.
func (v *visit) reload(ctx context.Context, s jobOutcomes, again []jobOutcomes) ([]jobOutcomes, error) {
	was, err := s.job, error(nil)
	s.job, err = v.visits.Store.Load(ctx, was.ID)
	if dispatch.Is(err, dispatch.NotFound) { // the job was purged, or the database server that answers lags behind
		s.job, v.resume = was, dispatch.Later(v.resume, time.Now().Add(dispatch.Repair))
		if s.mustNotBeLost() {
			v.visits.keepUnsaved([]jobOutcomes{s})
		}
		return again, nil
	}
	if err != nil {
		return again, err
	}
	last := s.outcomes[len(s.outcomes)-1]
	if s.outcomes = v.unsavedOf(s); len(s.outcomes) > 0 {
		return append(again, s), nil
	}
	v.freed = v.freed || freedSlot(was, s.job)
	v.visits.Hub.NotifySaved(ctx, was, s.job, last.Err)
	return again, nil
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
