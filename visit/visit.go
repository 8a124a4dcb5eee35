package visit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/catalogue/documents"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/hub"
)

const (
	longest = 5 * time.Minute // maximum duration of a visit; no step begins later
	// if the next step is due within this time, the visit waits for it instead of ending
	nearby      = time.Second
	agendaFresh = 50 * time.Millisecond // an agenda younger than this need not be reloaded before the next steps
	shortWait   = 20 * time.Millisecond // shortest wait for what is due while something else is awaited
	renewed     = 10 * time.Second
	// how long a visit that has submitted jobs waits for further ones before it ends
	moreWithin = 50 * time.Millisecond
	agendaSize = 100 // due jobs of each kind in the agenda of an iteration
)

// Visits visits accounts, each in one goroutine at a time.
type Visits struct {
	*dispatch.Setup
	Store     Store
	Hub       *hub.Hub
	Documents *documents.Documents

	accounts accounts
	noted    PlatformNotes
	listings listings
	backlog  backlog
	suspects suspects
	runs     runs
}

// visit is one exclusive pass over the work of an account. All its state belongs to the goroutine of run; requests only
// send their responses to it.
type visit struct {
	visits  *Visits
	backend *dispatch.Backend
	timing  dispatch.Timing // of the broker, complete
	account dispatch.Account
	held    dispatch.Lease

	services map[serviceKey]serviceOf // of waiting jobs

	agenda    dispatch.Agenda
	queue     stepQueue
	busy      map[dispatch.JobID]bool // jobs with a request under way, or with a response that is not saved yet
	unlisted  map[dispatch.JobID]bool // jobs that a listing did not show
	pending   int
	responses chan platformResponse
	unsaved   []platformResponse
	uncertain bool           // a Save of unsaved responses failed, and may have been committed
	pass      dispatch.Token // token with which the last steps were begun
	// why no request can be sent, until blockAccount has stored it; otherwise nil
	blockedBy error
	woken     bool // the account was woken since the agenda was read
	noToken   bool // blockedBy is the error of a token that was not available
	freed     bool // a job has ended since the last resumeWhenFreed
	queued    bool // a status read had to wait for a send time
	kept      bool // a response was saved
	submitted bool // an intent was committed
	refusals  int  // tokens in a row that the platform refused

	refs   map[dispatch.Ref]dispatch.JobID // that submissions of this visit returned
	starts dispatch.StartsSeen             // not stored yet

	asked map[dispatch.JobID]time.Time // when a status read was begun
	// when to poll early next, see planEarlyPolls, in the store's time; zero: no job waits for a slot
	earlyPollAt time.Time
	planned     time.Time // when earlyPollAt was determined

	// On this process's monotonic clock. Times of the store are never compared with it.
	read         time.Time    // the agenda
	lease        time.Time    // earliest end of the lease
	resume       time.Time    // no request is sent before
	noSendBefore [2]time.Time // no send time is requested before, for each Purpose
	endsAt       time.Time    // no step is begun after

	careful bool // visits of the account keep ending in crashes: see saveAsFailed

	gated      map[dispatch.JobID]int // suspects that this visit submits, with their Begun
	suspectsAt time.Time              // when to check again whether suspects may be submitted; zero: none waits
	fetching   time.Time              // when to check again for documents that are being fetched; zero: none is
	begun      time.Time
	leaseDrift time.Duration // drift when the lease was renewed
}

// Visit does the work that is due for an account that Store.Dequeue leased, and plans the next visit. When ctx is done
// it starts no further step, and returns when the requests under way have ended. Conflict: the lease was lost to
// another process.
func (vs *Visits) Visit(ctx context.Context, l dispatch.Lease) error {
	backend := vs.BackendNamed(l.Account.Platform())
	if backend == nil {
		return vs.visitWithoutPlatform(context.WithoutCancel(ctx), l)
	}
	v := &visit{
		visits: vs, backend: backend, timing: vs.Timing.Complete(), account: l.Account, held: l,
		busy: map[dispatch.JobID]bool{}, unlisted: map[dispatch.JobID]bool{}, responses: make(chan platformResponse,
			backend.Limits.Requests),
		refs:   map[dispatch.Ref]dispatch.JobID{},
		endsAt: time.Now().Add(longest), begun: time.Now(), careful: l.Lapses >= dispatch.MostBegun,
	}
	if !l.Until.IsZero() {
		v.lease = dispatch.Earlier(l.Until, time.Now().Add(v.backend.Limits.Lease()))
	}
	defer func() {
		for id := range v.gated {
			v.releaseGate(id)
		}
	}()
	orderly := false
	defer func() {
		if orderly {
			return
		}
		v.visits.keepUnsaved(v.outcomesOf(v.unsaved))
		if bug := recover(); bug != nil {
			v.visits.backlog.working.Go(v.keepPending)
			panic(bug)
		}
	}()
	err := v.run(ctx)
	orderly = true
	if err != nil && v.kept {
		v.wakeOther(context.WithoutCancel(ctx))
	}
	return err
}

// keepPending hands over the responses that are still to come after a visit ended with a panic.
func (v *visit) keepPending() {
	for range v.pending {
		v.visits.keepUnsaved(v.outcomesOf([]platformResponse{<-v.responses}))
	}
}

// wakeOther wakes the account after a visit that may have saved responses without holding the lease, because another
// process may have planned the next visit without these responses. It retries for missingFor.
func (v *visit) wakeOther(ctx context.Context) {
	for begun := time.Now(); time.Since(begun) < missingFor; time.Sleep(dispatch.Repair) {
		err := v.visits.Store.Wake(ctx, v.account)
		if err == nil {
			v.visits.Hub.Wake(v.account)
			return
		}
		v.visits.Log.DebugContext(ctx, "waking an account failed", "account", string(v.account), "error", err)
	}
}

func (v *visit) run(ctx context.Context) error {
	woken, stop := v.visits.Hub.Woken.Watch(v.account)
	defer stop()
	keep := context.WithoutCancel(ctx) // responses are saved even while the process stops
	for {
		ending := ctx.Err() != nil || time.Now().After(v.endsAt)
		err := v.iterate(keep, ending)
		if dispatch.Is(err, dispatch.Conflict) { // another process has the account
			v.endsAt = time.Time{}
		}
		ours := time.Now().Before(v.lease)
		switch {
		case v.pending > 0, len(v.unsaved) > 0 && ours:
		case err != nil && (ending || !ours || dispatch.Is(err, dispatch.Conflict)):
			v.visits.keepUnsaved(v.outcomesOf(v.unsaved))
			return err
		case err != nil:
		case ending, v.nothingDueSoon() && !v.awaitMore(ctx, woken):
			return v.release(keep)
		case v.woken:
			continue
		}
		v.wait(ctx, woken, err)
	}
}

// awaitMore waits a moment for further jobs after some were submitted, and reports whether the account was woken. A
// client that submits one job after the other would otherwise wait for the end of a visit and the begin of the next one
// with each job.
func (v *visit) awaitMore(ctx context.Context, woken <-chan struct{}) bool {
	if !v.submitted {
		return false
	}
	timer := time.NewTimer(moreWithin)
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
		if err == nil || dispatch.Is(err, dispatch.Conflict) || time.Now().After(v.lease) {
			return err
		}
		time.Sleep(dispatch.Repair)
	}
}

// iterate saves the received responses, reloads the agenda, and starts as many steps as Limits.Requests allows.
func (v *visit) iterate(ctx context.Context, ending bool) error {
	if err := v.checkRefs(ctx); err != nil {
		return err
	}
	well := v.allResponsesSucceeded()
	// steps may begin before the received responses are saved, by the last agenda
	if well && !ending && time.Since(v.read) <= nearby && v.pending < v.backend.Limits.Requests {
		if err := v.sendRemaining(ctx); err != nil {
			return err
		}
	}
	if err := v.saveAll(ctx); err != nil {
		return err
	}
	if err := v.renew(ctx); err != nil {
		return err
	}
	if err := v.blockAccount(ctx); err != nil {
		return err
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
	steps, err := v.steps(ctx, t)
	_, failed := v.begin(ctx, steps, nil)
	return cmp.Or(failed, err)
}

// checkRefs checks the identifiers in received responses. No response is saved until all are checked.
func (v *visit) checkRefs(ctx context.Context) (err error) {
	for _, f := range v.unsaved {
		for i, a := range f.outcomes {
			f.outcomes[i].Outcome, err = v.visits.distinct(ctx, v.refs, v.account, a.job, a.Outcome)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sendRemaining starts steps of the last agenda. The received responses are saved with the intents, so that the
// platform waits for one commit.
func (v *visit) sendRemaining(ctx context.Context) error {
	if v.queue.empty(v.maySend) {
		return nil
	}
	steps, err := v.steps(ctx, v.pass)
	responses := len(v.unsaved)
	received := v.outcomesOf(v.unsaved)
	written, failed := v.begin(ctx, steps, received)
	if err = cmp.Or(failed, err); err != nil || written == nil {
		return err
	}
	if received, err = v.noteSaved(ctx, received, written); err != nil {
		return err
	}
	return v.save(ctx, received, responses)
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
	if lost := max(0, drift-v.leaseDrift); now.Add(lost).Before(v.lease.Add(min(renewed,
		v.backend.Limits.Send/3) - ttl)) {
		return nil
	}
	if err := v.visits.Store.Renew(ctx, v.held, ttl); err != nil {
		return err
	}
	v.lease, v.leaseDrift = now.Add(ttl), drift
	return nil
}

// reloadAgenda reads the agenda and queues the due jobs by class. If it cannot be read, the last one stays: its time is
// that of responses which are still to come.
func (v *visit) reloadAgenda(ctx context.Context) error {
	asked := time.Now()
	agenda, err := v.visits.AgendaOf(ctx, v.account, agendaSize)
	if err != nil {
		return err
	}
	v.agenda, v.read, v.woken, v.suspectsAt = agenda, asked, false, time.Time{}
	if err := v.planEarlyPolls(ctx); err != nil {
		return err
	}
	v.queue.due = [classCount][]dispatch.Job{classCancel: v.agenda.Cancel, classSettle: v.agenda.Settle,
		classMeter:  v.agenda.Meter,
		classRemove: v.agenda.Remove}
	v.enqueueStatusReads()
	if v.agenda.Why == dispatch.NoPlatform && v.agenda.Now.Before(v.agenda.Hold) { // the platform is configured again
		return v.visits.Store.Hold(ctx, v.account, 0, dispatch.None, "")
	}
	if held, err := v.heldByOperator(ctx); held || err != nil {
		return err
	}
	if v.agenda.Now.Before(v.agenda.Hold) || v.agenda.Restored != dispatch.NotRestored {
		return nil
	}
	v.queue.due[classSubmit] = v.agenda.Start
	if !v.agenda.Creates(v.backend.Limits) {
		return v.prepareAgain(ctx)
	}
	return v.enqueueWaiting(ctx)
}

// enqueueStatusReads queues the due status reads, those that a client awaits before the others. If a rate limits
// requests, all due status reads of a user with an awaited one are queued together, oldest first; otherwise some would
// be read early and the rest late.
func (v *visit) enqueueStatusReads() {
	waits := map[dispatch.UserID]bool{}
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

// bookAhead books a send time for the next status read, no earlier than that read is due, if a status read of this
// visit had to wait for one. So accounts get their status reads in turn, and no visit is needed only to book a send
// time.
func (v *visit) bookAhead(ctx context.Context) {
	if due := v.agenda.NextPoll; v.queued && due.After(v.now()) {
		_, _ = v.reserveSendTime(ctx, dispatch.Reading, due)
	}
}

func (v *visit) nothingDueSoon() bool {
	due := v.due()
	return due.IsZero() || due.Sub(v.now()) > nearby
}

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

// waitTime returns how long to wait until something is due. What was due when the agenda was read, and was not begun,
// waits for a response, for a document, or for its turn.
func (v *visit) waitTime(err error) time.Duration {
	wait := dispatch.Repair
	switch {
	case err != nil, v.pending >= v.backend.Limits.Requests:
		return wait
	case v.pending > 0, time.Now().Before(v.fetching):
	case time.Now().Before(v.suspectsAt):
		wait = time.Until(v.suspectsAt)
	default:
		return max(v.due().Sub(v.now()), time.Millisecond)
	}
	read := v.noSendBefore[dispatch.Reading]
	for _, due := range []time.Time{v.agenda.Next, v.after(v.agenda.NextPoll, read),
		v.after(v.earlyPollAt, dispatch.Later(read, v.planned.Add(replanned))), v.after(v.agenda.Now, v.fetching)} {
		if due.After(v.agenda.Now) {
			wait = min(wait, max(due.Sub(v.now()), shortWait))
		}
	}
	return wait
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
func (vs *Visits) visitWithoutPlatform(ctx context.Context, l dispatch.Lease) error {
	if err := vs.Store.Hold(ctx, l.Account, vs.Timing.Complete().Recheck, dispatch.NoPlatform,
		dispatch.NoPlatformText); err != nil {
		return err
	}
	for {
		g, err := vs.AgendaOf(ctx, l.Account, agendaSize)
		if err != nil {
			return err
		}
		jobs := slices.Concat(g.Cancel, g.Settle, g.Start, g.Poll)
		if len(jobs) == 0 {
			var due time.Time // none, once no jobs are left
			if !g.Done() {
				due = g.Now.Add(vs.Timing.Complete().Recheck)
			}
			return vs.Store.Release(ctx, l, g.Wakes, due)
		}
		if err := vs.markAllNoPlatform(ctx, jobs, g.Now); err != nil {
			return err
		}
	}
}

func (vs *Visits) markAllNoPlatform(ctx context.Context, jobs []dispatch.Job, now time.Time) error {
	before := map[dispatch.JobID]dispatch.Job{}
	for i, j := range jobs {
		before[j.ID], jobs[i] = j, dispatch.MarkNoPlatform(j, vs.Timing.Complete(), now)
	}
	saved, err := vs.Store.Save(ctx, jobs)
	for _, j := range saved {
		vs.Hub.NotifySaved(ctx, before[j.ID], j, nil)
	}
	return err
}
