package dispatch

import (
	"context"
	"slices"
	"time"
)

// flight is a step on its way: not before at, not after deadline.
type flight struct {
	step
	token        Token
	refusals     int // when it left
	at, deadline time.Time
	asked        time.Time     // when it leaves, in the store's time
	drift        time.Duration // see visit.leaseDrift
}

// flown is a flight that is over.
type flown struct {
	flight
	answers []answer
}

// slotAhead is how far away a slot may be that a visit takes: so long it has to get ready when its account has booked one.
const slotAhead = 2 * time.Second

// inTurn is how long before the slot of a reading the next is asked for: so accounts get theirs one after the other, and one
// that is alone still loses none.
const inTurn = 250 * time.Millisecond

// steps takes the most urgent steps, as many as may be under way at once and the platform's rate allows.
func (v *visit) steps(ctx context.Context, t Token) ([]flight, error) {
	var steps []flight
	if v.broker.backlog.full() {
		v.resume = later(v.resume, time.Now().Add(repair))
	}
	for v.flying+len(steps) < v.backend.Limits.Requests && !time.Now().Before(v.resume) {
		j, c, any := v.turns.take(v.open)
		if !any {
			break
		}
		if v.busy[j.ID] || c == submit && !v.admits(j) {
			continue
		}
		slot, err := v.take(ctx, c.purpose(), time.Time{})
		if err == nil && !slot.Given {
			v.submitted(j.ID)
			continue
		}
		var s step
		if err == nil {
			s, err = v.stepFor(ctx, c, j)
		}
		if err != nil {
			v.submitted(j.ID)
			return steps, err
		}
		v.mark(s.jobs, true)
		steps = append(steps, flight{step: s, token: t, refusals: v.refusals, at: time.Now().Add(slot.Wait)})
	}
	return steps, nil
}

// take asks for the platform's next request slot, where it has a rate, and not again before that makes sense.
func (v *visit) take(ctx context.Context, p Purpose, due time.Time) (Served, error) {
	if v.backend.Limits.Pace == 0 {
		return Served{Given: true}, nil
	}
	s, err := v.broker.Store.Take(ctx, Ask{Account: v.account, Pace: v.backend.Limits.Pace, Purpose: p, Ahead: min(slotAhead, v.backend.Limits.Send/8), Due: due})
	switch {
	case err != nil:
	case !s.Given:
		v.shut[p] = time.Now().Add(s.Wait)
	case p == Reading:
		v.shut[p] = time.Now().Add(s.Wait - inTurn)
	}
	v.queued = v.queued || p == Reading && (s.Wait > 0 || !s.Given)
	return s, err
}

// open reports whether a slot may be had for a class of steps.
func (v *visit) open(c class) bool { return !time.Now().Before(v.shut[c.purpose()]) }

// begin commits the intents of the steps that submit, all at once, and sends all steps; none if the account is
// another's by now.
func (v *visit) begin(ctx context.Context, flights []flight) error {
	flights, err := v.foresee(ctx, flights)
	if err != nil {
		return err
	}
	intended, err := v.intend(ctx, flights)
	for _, f := range flights {
		j, ok := intended[f.jobs[0].ID]
		f.asked = v.now().Add(max(0, time.Until(f.at)))
		if f.submit && err != nil && !Is(err, Conflict) {
			v.unsaved = append(v.unsaved, flown{f, f.takenBack(v.held)})
			continue
		}
		if Is(err, Conflict) || f.submit && !ok {
			v.mark(f.jobs, false)
			continue
		}
		if f.submit {
			f.jobs = []Job{j}
		}
		f.deadline, f.drift = v.deadline(), v.leaseDrift
		v.flying++
		go v.send(ctx, f)
	}
	return err
}

// foresee saves, where visits of the account keep ending in crashes, that the questions of flights brought nothing, before they are
// asked. So the next process does not begin with the question that ended this one. The answers replace that.
func (v *visit) foresee(ctx context.Context, flights []flight) ([]flight, error) {
	if !v.careful {
		return flights, nil
	}
	err := &Error{Kind: Internal, Op: "dispatch.visit", Text: "The broker may have crashed at this question."}
	var asked []Job
	for _, f := range flights {
		for _, a := range f.failed(err) {
			if !f.submit {
				asked = append(asked, next(a.job, a.Outcome, v.now()))
			}
		}
	}
	if len(asked) == 0 {
		return flights, nil
	}
	saved, failed := v.broker.Store.Save(ctx, asked)
	is := byID(saved)
	var kept []flight
	for _, f := range flights {
		if !f.submit {
			f.jobs = v.stillAsked(f.jobs, is)
		}
		switch {
		case failed != nil:
			v.mark(f.jobs, false)
		case len(f.jobs) > 0:
			kept = append(kept, f)
		}
	}
	return kept, failed
}

// byID gives jobs by their ids.
func byID(jobs []Job) map[JobID]Job {
	m := make(map[JobID]Job, len(jobs))
	for _, j := range jobs {
		m[j.ID] = j
	}
	return m
}

// stillAsked gives those of a flight's jobs that were saved, as they are now. The others changed meanwhile, and are looked at again.
func (v *visit) stillAsked(jobs []Job, is map[JobID]Job) (kept []Job) {
	for _, j := range jobs {
		if now, saved := is[j.ID]; saved {
			kept = append(kept, now)
		} else {
			v.mark([]Job{j}, false)
		}
	}
	return kept
}

func (v *visit) intend(ctx context.Context, flights []flight) (map[JobID]Job, error) {
	var jobs []Job
	for _, f := range flights {
		if f.submit {
			j := v.tagged(f.jobs[0]).waited(v.triable(f.jobs[0]), v.now())
			j.IntentLease = v.held.Generation
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	now, drift := time.Now(), v.drift()
	jobs, err := v.broker.Store.Intend(ctx, v.held, v.backend.Limits, jobs)
	if err != nil {
		return nil, err
	}
	v.lease, v.leaseDrift = now.Add(v.backend.Limits.Lease()), drift
	return byID(jobs), nil
}

// triable is since when a job could have been submitted if there had been a slot: since it was due, and since its platform last had the
// account wait.
func (v *visit) triable(j Job) time.Time {
	if v.agenda.Why == NotTaken || v.agenda.Why == Unreachable {
		return later(j.Due, v.agenda.Hold)
	}
	return j.Due
}

// deadline of a request: it is over before a stored send deadline that was committed before, and before the lease.
func (v *visit) deadline() time.Time {
	return v.lease.Add(-v.backend.Limits.Lease() + v.backend.Limits.Send)
}

// send carries out a step. Once begun it runs to its answer or its deadline, whoever wants to stop: to break off a
// submit is to not know. A process that was asleep past the deadline sends nothing.
func (v *visit) send(ctx context.Context, f flight) {
	time.Sleep(time.Until(f.at))
	ctx, cancel := context.WithDeadline(ctx, f.deadline)
	defer cancel()
	if ctx.Err() != nil || v.slept(f) {
		v.answers <- flown{f, f.unsent()}
		return
	}
	v.answers <- flown{f, v.asked(ctx, f)}
}

// drift is how far the wall clock went ahead of the monotonic clock since the visit began. On Linux the monotonic clock stops
// while the machine is suspended.
func (v *visit) drift() time.Duration {
	wall := time.Now
	if v.broker.Wall != nil {
		wall = v.broker.Wall
	}
	return wall().Round(0).Sub(v.begun.Round(0)) - time.Since(v.begun)
}

// slept reports whether the machine was suspended past the deadline of a flight since its lease was renewed.
func (v *visit) slept(f flight) bool {
	lost := v.drift() - f.drift
	return lost > 0 && time.Now().Add(lost).After(f.deadline)
}

func (v *visit) mark(jobs []Job, busy bool) {
	for _, j := range jobs {
		if busy {
			v.busy[j.ID] = true
		} else {
			delete(v.busy, j.ID)
			v.submitted(j.ID)
		}
	}
}

// saveAll saves what was answered, in one commit. What cannot be saved now is kept for the next turn, and its jobs stay
// busy.
func (v *visit) saveAll(ctx context.Context) error {
	said := v.said()
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
		v.shown(f)
		err = firstOf(err, v.heedAll(ctx, f.answers))
		if len(f.answers) > 0 {
			err = firstOf(err, v.hear(ctx, f.answers[0].Outcome))
		}
	}
	return firstOf(err, v.noteStarts(ctx), v.retake(ctx))
}

// retake lets the account submit again when a job has ended at a platform that was full.
func (v *visit) retake(ctx context.Context) error {
	freed := v.freed
	v.freed = false
	if !freed || v.agenda.Why != Full || !v.now().Before(v.agenda.Hold) {
		return nil
	}
	return v.broker.Store.Hold(ctx, v.account, 0, None, "")
}

// saying is all that was answered about one job.
type saying struct {
	job      Job
	outcomes []Outcome
	missing  time.Time // since when the store does not know the job; zero: it does
}

// said puts the unsaved answers together by job, in the order they came.
func (v *visit) said() (all []saying) {
	at := map[JobID]int{}
	for _, f := range v.unsaved {
		for _, a := range f.answers {
			i, known := at[a.job.ID]
			if !known {
				i = len(all)
				at[a.job.ID], all = i, append(all, saying{job: a.job})
			}
			a.Err, a.At, a.GiveUp, a.Stalled = v.backend.blame(a.Err), f.asked, v.broker.GiveUpAfter, v.broker.StalledAfter
			a.Settles = v.backend.SettlesAfter(v.agenda.Starts)
			all[i].outcomes = append(all[i].outcomes, a.Outcome)
		}
	}
	return all
}

func (s saying) next(now time.Time) Job {
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
func (v *visit) result(s saying) Job {
	for _, t := range v.tried[s.job.ID] {
		if t.job.Version == s.job.Version && t.outcomes == len(s.outcomes) {
			return t.job
		}
	}
	return s.next(v.now())
}

// note remembers what was to be saved, by a Save whose end is not known.
func (v *visit) note(said []saying, jobs []Job) {
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
func (v *visit) unsavedOf(s saying) []Outcome {
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
		len(row.Strays) == len(j.Strays) && len(row.Past) == len(j.Past) &&
		row.Checked.Equal(j.Checked.Truncate(time.Microsecond)) && row.Updated.Equal(j.Updated.Truncate(time.Microsecond))
}

// save applies the answers to the jobs, and returns those whose rows have changed meanwhile, with the jobs as they are
// now: for them next is to be asked again.
func (v *visit) save(ctx context.Context, said []saying) (again []saying, err error) {
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
func (v *visit) reload(ctx context.Context, s saying, again []saying) ([]saying, error) {
	was, err := s.job, error(nil)
	s.job, err = v.broker.Store.Load(ctx, was.ID)
	if Is(err, NotFound) { // purged, or the database that answers lags behind
		s.job, v.resume = was, later(v.resume, time.Now().Add(repair))
		if s.carries() {
			v.broker.keepUnsaved([]saying{s})
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

func (v *visit) heedAll(ctx context.Context, answers []answer) error {
	var err error
	for _, a := range answers {
		err = firstOf(err, v.heed(ctx, a))
	}
	return err
}

// heed does what a platform that turns requests away asks for: the account waits, not only the job.
func (v *visit) heed(ctx context.Context, a answer) error {
	switch {
	case a.Unsent:
	case a.Started:
		v.broker.refused.end(v.account)
	case !Is(a.Err, Busy) && !Is(a.Err, Unavailable):
	case a.Asked == AskSubmit:
		d := pause(v.broker.refused.count(v.account), a.Err)
		return v.broker.Store.Hold(ctx, v.account, d, a.why(), TextFor(a.Err))
	case retryAfter(a.Err) > 0:
		v.resume = later(v.resume, time.Now().Add(retryAfter(a.Err)))
	}
	return nil
}
