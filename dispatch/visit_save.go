package dispatch

import (
	"context"
	"slices"
	"time"
)

// saveAll saves what was answered, in one commit. What cannot be saved now is kept for the next turn, and its jobs stay
// busy.
func (v *visit) saveAll(ctx context.Context) error {
	said := v.unsavedOutcomes()
	for len(said) > 0 {
		again, err := v.save(ctx, said)
		if err != nil {
			return err
		}
		said = again
	}
	over := v.unsaved
	v.unsaved, v.tried = nil, nil
	var err error
	for _, f := range over {
		v.mark(f.jobs, false)
		v.noteUnlisted(f)
		err = firstOf(err, v.applyAllBackpressure(ctx, f.outcomes))
		if len(f.outcomes) > 0 {
			err = firstOf(err, v.noteAnswered(ctx, f.outcomes[0].Outcome))
		}
	}
	return firstOf(err, v.noteStarts(ctx), v.resumeWhenFreed(ctx))
}

// resumeWhenFreed lets the account submit again when a job has ended at a platform that was full.
func (v *visit) resumeWhenFreed(ctx context.Context) error {
	freed := v.freed
	v.freed = false
	if !freed || v.agenda.Why != Full || !v.now().Before(v.agenda.Hold) {
		return nil
	}
	return v.broker.Store.Hold(ctx, v.account, 0, None, "")
}

// jobOutcomes is all that was answered about one job.
type jobOutcomes struct {
	job      Job
	outcomes []Outcome
	missing  time.Time // since when the store does not know the job; zero: it does
}

// unsavedOutcomes puts the unsaved answers together by job, in the order they came.
func (v *visit) unsavedOutcomes() (all []jobOutcomes) {
	at := map[JobID]int{}
	for _, f := range v.unsaved {
		for _, a := range f.outcomes {
			i, known := at[a.job.ID]
			if !known {
				i = len(all)
				at[a.job.ID], all = i, append(all, jobOutcomes{job: a.job})
			}
			a.Err, a.At, a.Timing = v.backend.blame(a.Err), f.asked, v.timing
			a.Settles = v.backend.settlesAfter(v.timing, v.agenda.Starts)
			all[i].outcomes = append(all[i].outcomes, a.Outcome)
		}
	}
	return all
}

func (s jobOutcomes) next(now time.Time) Job {
	j := s.job
	for _, o := range s.outcomes {
		j = next(j, o, now)
	}
	return j
}

// attempt is what a Save that failed was to keep of a job: it may have been committed all the same.
type attempt struct {
	job      Job
	outcomes int // how many are in it
}

// result is the job as it is to be saved. What was tried before is tried again unchanged.
func (v *visit) result(s jobOutcomes) Job {
	for _, t := range v.tried[s.job.ID] {
		if t.job.Version == s.job.Version && t.outcomes == len(s.outcomes) {
			return t.job
		}
	}
	return s.next(v.now())
}

// note remembers what was to be saved, by a Save whose end is not known.
func (v *visit) note(said []jobOutcomes, jobs []Job) {
	if v.tried == nil {
		v.tried = map[JobID][]attempt{}
	}
	for i, j := range jobs {
		t := attempt{j, len(said[i].outcomes)}
		known := func(k attempt) bool { return k.job.Version == j.Version && k.outcomes == t.outcomes }
		if !slices.ContainsFunc(v.tried[j.ID], known) {
			v.tried[j.ID] = append(v.tried[j.ID], t)
		}
	}
}

// unsavedOf leaves out the outcomes that a Save kept whose answer was lost: else they would count twice.
func (v *visit) unsavedOf(s jobOutcomes) []Outcome {
	kept := 0
	for _, t := range v.tried[s.job.ID] {
		if t.is(s.job) {
			kept = max(kept, t.outcomes)
		}
	}
	return s.outcomes[kept:]
}

// is reports whether the attempt made the row what it is. Owners may have changed what they write meanwhile.
func (t attempt) is(row Job) bool {
	j := t.job
	return row.Version > j.Version && row.Phase == j.Phase && row.Turn == j.Turn && row.Attempt == j.Attempt && row.Ref == j.Ref &&
		row.Status == j.Status && row.Attention == j.Attention && row.Seen == j.Seen && row.Looks == j.Looks && row.Tries == j.Tries &&
		len(row.Orphans) == len(j.Orphans) && len(row.Past) == len(j.Past) &&
		row.Checked.Equal(j.Checked.Truncate(time.Microsecond)) && row.Updated.Equal(j.Updated.Truncate(time.Microsecond))
}

// save applies the answers to the jobs, and returns those whose rows have changed meanwhile, with the jobs as they are
// now: for them next is to be asked again.
func (v *visit) save(ctx context.Context, said []jobOutcomes) (again []jobOutcomes, err error) {
	jobs := make([]Job, len(said))
	for i, s := range said {
		jobs[i] = v.result(s)
	}
	saved, err := v.broker.Store.Save(ctx, jobs, v.wakes()...)
	if err != nil {
		v.note(said, jobs)
		return nil, err
	}
	is := byID(saved)
	v.kept = v.kept || len(saved) > 0
	for _, s := range said {
		j, ok := is[s.job.ID]
		if !ok {
			if again, err = v.reload(ctx, s, again); err != nil {
				return nil, err
			}
			continue
		}
		v.freed = v.freed || s.job.Phase.Holds() && j.Phase == Ended
		v.broker.tell(ctx, s.job, j, s.outcomes[len(s.outcomes)-1].Err)
		v.sawStart(s.job, j)
	}
	return again, nil
}

// wakes are the accounts that a save wakes: this one where its lease may be over, since another visit may have planned it without
// what is saved.
func (v *visit) wakes() []Account {
	if time.Now().Before(v.lease) {
		return nil
	}
	return []Account{v.account}
}

// reload adds s to again with the job as it is now, unless there is nothing left to save of it.
func (v *visit) reload(ctx context.Context, s jobOutcomes, again []jobOutcomes) ([]jobOutcomes, error) {
	was, err := s.job, error(nil)
	s.job, err = v.broker.Store.Load(ctx, was.ID)
	if Is(err, NotFound) { // purged, or the database that answers lags behind
		s.job, v.resume = was, later(v.resume, time.Now().Add(repair))
		if s.mustNotBeLost() {
			v.broker.keepUnsaved([]jobOutcomes{s})
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
	v.freed = v.freed || was.Phase.Holds() && s.job.Phase == Ended
	v.broker.tell(ctx, was, s.job, last.Err)
	return again, nil
}

func (v *visit) applyAllBackpressure(ctx context.Context, outcomes []jobOutcome) error {
	var err error
	for _, a := range outcomes {
		err = firstOf(err, v.applyBackpressure(ctx, a))
	}
	return err
}

// applyBackpressure does what a platform that turns requests away asks for: the account waits, not only the job.
func (v *visit) applyBackpressure(ctx context.Context, a jobOutcome) error {
	switch {
	case a.Unsent:
	case a.Started:
		v.broker.refused.end(v.account)
	case !Is(a.Err, Busy) && !Is(a.Err, Unavailable):
	case a.Asked == AskSubmit:
		d := v.timing.pause(v.broker.refused.count(v.account), a.Err)
		return v.broker.Store.Hold(ctx, v.account, d, a.why(), TextFor(a.Err))
	case retryAfter(a.Err) > 0:
		v.resume = later(v.resume, time.Now().Add(retryAfter(a.Err)))
	}
	return nil
}
