package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	longest = 5 * time.Minute // maximum duration of a visit; no step begins later
	// if the next step is due within this time, the visit waits for it instead of ending
	nearby      = time.Second
	agendaFresh = 50 * time.Millisecond // an agenda younger than this need not be reloaded before the next steps
	shortWait   = 20 * time.Millisecond // shortest wait for the next status read
	repair      = time.Second           // pause before a failed statement is repeated
	renewed     = 10 * time.Second
	lingering   = 50 * time.Millisecond // how long a visit that has submitted jobs waits for further ones before it ends
	agendaSize  = 100                   // due jobs of each kind in the agenda of an iteration
)

// Visits visits accounts, each in one goroutine at a time.
type Visits struct {
	*Setup
	Store     Store
	Hub       *Hub
	Documents *Documents

	blocked  blockedAccounts
	refused  streaks // submissions that were turned away
	noted    platformNotes
	queues   queues
	runTimes runTimesCache
	listings listings
	singles  singles
	backlog  backlog
	suspects suspects
}

// visit is one exclusive pass over the work of an account. All its state belongs to the goroutine of run; requests only
// send their responses to it.
type visit struct {
	visits  *Visits
	backend *Backend
	timing  Timing // of the broker, complete
	account Account
	held    Lease

	services map[serviceKey]serviceOf // of waiting jobs

	agenda    Agenda
	queue     stepQueue
	busy      map[JobID]bool // jobs with a request under way, or with a response that is not saved yet
	unlisted  map[JobID]bool // jobs that a listing did not show
	pending   int
	responses chan platformResponse
	unsaved   []platformResponse
	saving    *save               // of unsaved responses, the last that was begun; nil: none is
	tried     map[JobID][]attempt // failed saves of unsaved responses
	pass      Token               // token with which the last steps were begun
	blockedBy error               // why no request can be sent, until blockAccount has stored it; otherwise nil
	woken     bool                // the account was woken since the agenda was read
	noToken   bool                // blockedBy is the error of a token that was not available
	freed     bool                // a job has ended since the last resumeWhenFreed
	queued    bool                // a status read had to wait for a send time
	kept      bool                // a response was saved
	submitted bool                // an intent was committed
	refusals  int                 // tokens in a row that the platform refused

	refs   sync.Map    // the job of each Ref that the platform returned in this visit; for requests, too
	starts StartsSeen  // not stored yet
	ran    []serviceAt // services of jobs that ended, whose run times may have to be stored

	asked   map[JobID]time.Time // when a status read was begun
	lookAt  time.Time           // when to look next, see planLooks, in the store's time; zero: no job waits for a slot
	planned time.Time           // when lookAt was determined

	// On this process's monotonic clock. Times of the store are never compared with it.
	read         time.Time    // the agenda
	lease        time.Time    // earliest end of the lease
	resume       time.Time    // no request is sent before
	noSendBefore [2]time.Time // no send time is requested before, for each Purpose
	endsAt       time.Time    // no step is begun after

	careful bool // visits of the account keep ending in crashes: see saveAsFailed

	gated      map[JobID]*gate // suspects that this visit submits
	suspectsAt time.Time       // when to check again whether suspects may be submitted; zero: none waits
	fetching   time.Time       // when to check again for documents that are being fetched; zero: none is
	begun      time.Time
	leaseDrift time.Duration // drift when the lease was renewed
}

// Visit does the work that is due for an account that Store.Dequeue leased, and plans the next visit. When ctx is done
// it starts no further step, and returns when the requests under way have ended. Conflict: the lease was lost to
// another process.
func (vs *Visits) Visit(ctx context.Context, l Lease) error {
	backend := vs.backendNamed(l.Account.Platform())
	if backend == nil {
		return vs.visitWithoutPlatform(context.WithoutCancel(ctx), l)
	}
	v := &visit{
		visits: vs, backend: backend, timing: vs.Timing.complete(), account: l.Account, held: l,
		busy: map[JobID]bool{}, unlisted: map[JobID]bool{}, responses: make(chan platformResponse, backend.Limits.Requests),
		endsAt: time.Now().Add(longest), begun: time.Now(), careful: l.Lapses >= mostBegun,
	}
	if !l.Until.IsZero() {
		v.lease = earlier(l.Until, time.Now().Add(v.backend.Limits.Lease()))
	}
	defer v.releaseGates()
	orderly := false
	defer func() {
		if !orderly { // a panic
			v.visits.keepUnsaved(v.unsavedAfterPanic())
		}
	}()
	err := v.run(ctx)
	orderly = true
	if err != nil && v.kept {
		v.wakeOther(context.WithoutCancel(ctx))
	}
	return err
}

// wakeOther wakes the account after a visit that may have saved responses without holding the lease, because another
// process may have planned the next visit without these responses. It retries for missingFor.
func (v *visit) wakeOther(ctx context.Context) {
	for begun := time.Now(); time.Since(begun) < missingFor; time.Sleep(repair) {
		err := v.visits.Store.Wake(ctx, v.account)
		if err == nil {
			v.visits.Hub.wake(v.account)
			return
		}
		v.visits.Log.DebugContext(ctx, "waking an account failed", "account", string(v.account), "error", err)
	}
}

func (v *visit) run(ctx context.Context) error {
	woken, stop := v.visits.Hub.woken.watch(v.account)
	defer stop()
	keep := context.WithoutCancel(ctx) // responses are saved even while the process stops
	for {
		ending := ctx.Err() != nil || time.Now().After(v.endsAt)
		err := v.iterate(keep, ending)
		if Is(err, Conflict) { // another process has the account
			v.endsAt = time.Time{}
		}
		ours := time.Now().Before(v.lease)
		switch {
		case v.pending > 0, len(v.unsaved) > 0 && ours:
		case err != nil && (ending || !ours || Is(err, Conflict)):
			v.visits.keepUnsaved(v.unsavedOutcomes())
			return err
		case err != nil:
		case ending, v.nothingDueSoon() && !v.linger(ctx, woken):
			return v.release(keep)
		case v.woken:
			continue
		}
		v.wait(ctx, woken, err)
	}
}

// linger waits a moment for further jobs after some were submitted, and reports whether the account was woken. A client
// that submits one job after the other would otherwise wait for the end of a visit and the begin of the next one with
// each job.
func (v *visit) linger(ctx context.Context, woken <-chan struct{}) bool {
	if !v.submitted {
		return false
	}
	timer := time.NewTimer(lingering)
	defer timer.Stop()
	select {
	case <-woken:
		v.woken = true
	case <-timer.C:
	case <-ctx.Done():
	}
	return v.woken
}

// release ends the lease. It retries until that succeeds or the lease has run out, because no process can lease the
// account before then.
func (v *visit) release(ctx context.Context) error {
	v.bookAhead(ctx)
	due := v.due()
	for {
		err := v.visits.Store.Release(ctx, v.held, v.agenda.Wakes, due)
		if err == nil || Is(err, Conflict) || time.Now().After(v.lease) {
			return err
		}
		time.Sleep(repair)
	}
}

// iterate saves the received responses, reloads the agenda, and starts as many steps as Limits.Requests allows.
func (v *visit) iterate(ctx context.Context, ending bool) error {
	if err := v.checkRefs(ctx); err != nil {
		return err
	}
	well := v.allResponsesSucceeded()
	if well && v.mayGoOn(ending) {
		if err := v.sendRemaining(ctx); err != nil {
			return err
		}
	}
	if err := v.saveAll(ctx, nil); err != nil {
		return err
	}
	for _, do := range []func(context.Context) error{v.renew, v.blockAccount} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	if well && !v.woken && v.pending >= v.backend.Limits.Requests && !v.queue.empty(v.maySend) &&
		time.Since(v.read) < agendaFresh {
		return nil // no step can begin now, and the queue has one for the next response
	}
	if err := v.reloadAgenda(ctx); err != nil {
		return err
	}
	if v.mustCompareNow(ending) {
		return v.compare(ctx)
	}
	if ending || v.queue.empty(v.maySend) || v.pending >= v.backend.Limits.Requests || time.Now().Before(v.resume) {
		return nil
	}
	t, ok, err := v.authorize(ctx)
	if err != nil || !ok {
		return err
	}
	v.pass = t
	steps, err := v.steps(ctx, t, nil)
	_, failed := v.begin(ctx, steps)
	return cmp.Or(failed, err)
}

// checkRefs checks received responses that the database did not let check before. None is saved until all are checked.
func (v *visit) checkRefs(ctx context.Context) (err error) {
	for _, f := range v.unsaved {
		for i, a := range f.outcomes {
			if f.outcomes[i].Outcome, err = v.visits.distinct(ctx, v.account, a.job.ID, a.Outcome); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayGoOn reports whether steps may begin before the received responses are saved, by the last agenda. None do after a
// response that was an error.
func (v *visit) mayGoOn(ending bool) bool {
	return !ending && time.Since(v.read) <= nearby && v.pending < v.backend.Limits.Requests
}

// sendRemaining starts jobs that were just created, and steps of the last agenda, while the other received responses
// are saved, so that the platform does not wait for that.
func (v *visit) sendRemaining(ctx context.Context) error {
	starts, others, err := v.splitCreated(ctx)
	if err != nil {
		return err
	}
	if len(starts) == 0 && v.queue.empty(v.maySend) {
		return nil
	}
	steps, err := v.steps(ctx, v.pass, starts)
	saved := v.beginSave(ctx, v.outcomesOf(v.unsaved[:others]), others)
	intended, failed := v.begin(ctx, steps)
	err = cmp.Or(failed, err, v.endCreated(ctx, others, intended))
	return cmp.Or(err, v.saveAll(ctx, saved))
}

// allResponsesSucceeded reports whether there are new responses, and none is an error.
func (v *visit) allResponsesSucceeded() bool {
	for _, f := range v.unsaved {
		for _, a := range f.outcomes {
			if a.Err != nil {
				return false
			}
		}
	}
	return len(v.unsaved) > 0 && v.blockedBy == nil
}

// renew renews the lease early enough that a request which starts now has most of Limits.Send left, see deadline.
func (v *visit) renew(ctx context.Context) error {
	now, drift, ttl := time.Now(), v.drift(), v.backend.Limits.Lease()
	if lost := max(0, drift-v.leaseDrift); now.Add(lost).Before(v.lease.Add(min(renewed, v.backend.Limits.Send/3) - ttl)) {
		return nil
	}
	if err := v.visits.Store.Renew(ctx, v.held, ttl); err != nil {
		return err
	}
	v.lease, v.leaseDrift = now.Add(ttl), drift
	return nil
}

// reloadAgenda reads the agenda and queues the due jobs by class.
func (v *visit) reloadAgenda(ctx context.Context) (err error) {
	v.read, v.woken, v.suspectsAt = time.Now(), false, time.Time{}
	if v.agenda, err = v.visits.agendaOf(ctx, v.account, agendaSize); err != nil {
		return err
	}
	if err := v.planLooks(ctx); err != nil {
		return err
	}
	v.queue.due = [classCount][]Job{classCancel: v.agenda.Cancel, classSettle: v.agenda.Settle, classMeter: v.agenda.Meter,
		classRemove: v.agenda.Remove}
	v.enqueueStatusReads()
	if v.agenda.Why == NoPlatform && v.agenda.Now.Before(v.agenda.Hold) { // the platform is configured again
		return v.visits.Store.Hold(ctx, v.account, 0, None, "")
	}
	if held, err := v.heldByOperator(ctx); held || err != nil {
		return err
	}
	if v.agenda.Now.Before(v.agenda.Hold) || v.agenda.Restored != NotRestored {
		return nil
	}
	v.queue.due[classSubmit] = v.agenda.Start
	if !v.agenda.creates(v.backend.Limits) {
		return v.prepareAgain(ctx)
	}
	return v.enqueueWaiting(ctx)
}

// enqueueWaiting assigns the free slots to lines with jobs whose documents are available, in the order of share. For
// the other jobs it saves the outcome of the document check.
func (v *visit) enqueueWaiting(ctx context.Context) error {
	free := v.backend.Limits.free(v.agenda.Held)
	w, ready := missingDocuments{}, map[Line][]Job{}
	lines, err := v.readyLines(ctx, &w, ready, free)
	if err = cmp.Or(err, v.keepPrepared(ctx, w)); err != nil {
		return err
	}
	for _, l := range share(lines, free) {
		if len(ready[l]) > 0 {
			v.queue.due[classSubmit] = append(v.queue.due[classSubmit], ready[l][0])
			ready[l] = ready[l][1:]
		}
	}
	return nil
}

// enqueueStatusReads queues the due status reads, those that a client awaits before the others. If a rate limits
// requests, all due status reads of a user with an awaited one are queued together, oldest first; otherwise some would
// be read early and the rest late.
func (v *visit) enqueueStatusReads() {
	waits := map[UserID]bool{}
	for _, j := range v.agenda.Poll {
		waits[j.Owner] = waits[j.Owner] || j.Awaited && v.backend.Limits.Pace > 0
	}
	for _, j := range v.agenda.Poll {
		c := classPoll
		if j.Awaited || waits[j.Owner] {
			c = classAwaited
		}
		v.queue.due[c] = append(v.queue.due[c], j)
	}
}

// now returns the store's time.
func (v *visit) now() time.Time { return v.agenda.Now.Add(time.Since(v.read)) }

// due returns when the next visit is needed, in the store's time; zero: none is needed until something changes.
func (v *visit) due() time.Time {
	due := earlier(v.after(v.agenda.due(v.backend.Limits), v.noSendBefore[Acting]), v.after(v.nextRead(),
		v.noSendBefore[Reading]))
	return v.after(due, v.resume)
}

// nextRead returns when the next status is to be read, in the store's time; zero: none is.
func (v *visit) nextRead() time.Time { return earlier(v.agenda.NextPoll, v.lookAt) }

// after returns the later of due and t, a time of this process's clock, in the store's time. If due is zero it returns
// zero.
func (v *visit) after(due, t time.Time) time.Time {
	if due.IsZero() {
		return due
	}
	return later(due, v.now().Add(time.Until(t)))
}

// bookAhead books a send time for the next status read, no earlier than that read is due, if a status read of this
// visit had to wait for one. So accounts get their status reads in turn, and no visit is needed only to book a send
// time.
func (v *visit) bookAhead(ctx context.Context) {
	if due := v.agenda.NextPoll; v.queued && due.After(v.now()) {
		_, _ = v.reserveSendTime(ctx, Reading, due)
	}
}

// nothingDueSoon reports whether nothing is due within nearby.
func (v *visit) nothingDueSoon() bool {
	due := v.due()
	return due.IsZero() || due.Sub(v.now()) > nearby
}

// wait waits for a response, a wake, or the time at which the next iteration is due.
func (v *visit) wait(ctx context.Context, woken <-chan struct{}, err error) {
	timer := time.NewTimer(v.waitTime(err))
	defer timer.Stop()
	done := ctx.Done()
	if ctx.Err() != nil {
		done = nil
	}
	select {
	case f := <-v.responses:
		v.receive(f)
	case <-woken:
		v.woken = true
	case <-timer.C:
	case <-done:
	}
}

// waitTime returns how long to wait for a response or a wake.
func (v *visit) waitTime(err error) time.Duration {
	if err != nil {
		return repair
	}
	if d := time.Until(v.fetching); d > 0 && v.pending < v.backend.Limits.Requests {
		return min(repair, d, v.timeToNextRead())
	}
	if time.Now().Before(v.suspectsAt) && v.pending == 0 {
		return v.suspectsWaitTime()
	}
	if v.pending > 0 { // until the next status read, if a further request may be sent
		if next := time.Until(v.noSendBefore[Reading]); next > 0 && v.pending < v.backend.Limits.Requests {
			return min(repair, next)
		}
		if !v.lookAt.IsZero() && v.pending < v.backend.Limits.Requests {
			return min(repair, max(v.lookAt.Sub(v.now()), replanned))
		}
		return repair
	}
	return max(v.due().Sub(v.now()), time.Millisecond)
}

// timeToNextRead returns how long until a status may be read, at least 20 ms.
func (v *visit) timeToNextRead() time.Duration {
	next := v.after(v.nextRead(), v.noSendBefore[Reading])
	if next.IsZero() {
		return repair
	}
	return max(next.Sub(v.now()), shortWait)
}

// receive takes a response and all others that have arrived, so that one iteration handles them together.
func (v *visit) receive(f platformResponse) {
	for more := true; more; {
		v.pending--
		v.noteTokenRefusal(f)
		v.unsaved = append(v.unsaved, f)
		select {
		case f = <-v.responses:
		default:
			more = false
		}
	}
}

// visitWithoutPlatform visits an account whose platform is no longer configured. It marks the jobs with NoPlatform and
// plans another visit after Timing.Recheck.
func (vs *Visits) visitWithoutPlatform(ctx context.Context, l Lease) error {
	if err := vs.Store.Hold(ctx, l.Account, vs.Timing.complete().Recheck, NoPlatform, noPlatformText); err != nil {
		return err
	}
	for {
		g, err := vs.agendaOf(ctx, l.Account, agendaSize)
		if err != nil {
			return err
		}
		jobs := slices.Concat(g.Cancel, g.Settle, g.Start, g.Poll)
		if len(jobs) == 0 {
			return vs.Store.Release(ctx, l, g.Wakes, g.dueWithoutPlatform(vs.Timing.complete()))
		}
		if err := vs.markAllNoPlatform(ctx, jobs, g.Now); err != nil {
			return err
		}
	}
}

func (vs *Visits) markAllNoPlatform(ctx context.Context, jobs []Job, now time.Time) error {
	was := map[JobID]Job{}
	for i, j := range jobs {
		was[j.ID], jobs[i] = j, markNoPlatform(j, vs.Timing.complete(), now)
	}
	saved, err := vs.Store.Save(ctx, jobs)
	for _, j := range saved {
		vs.Hub.notifySaved(ctx, was[j.ID], j, nil)
	}
	return err
}

// dueWithoutPlatform returns when an account without a configured platform is visited again; zero: it has no jobs left.
func (g Agenda) dueWithoutPlatform(t Timing) time.Time {
	if g.done() {
		return time.Time{}
	}
	return g.Now.Add(t.Recheck)
}

// agendaOf returns what is due for an account.
func (vs *Visits) agendaOf(ctx context.Context, a Account, n int) (Agenda, error) {
	var stalled time.Duration
	if backend := vs.backendNamed(a.Platform()); backend != nil {
		stalled = vs.freesAfter(backend)
	}
	return vs.Store.Agenda(ctx, a, n, stalled)
}
