package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"sync/atomic"
	"time"
)

const (
	decideWithin = 10 * time.Second   // how long Accept waits for the platform's word
	readWithin   = 5 * time.Second    // how long Read and List wait for fresher statuses
	lately       = 5 * readWithin / 2 // a platform that answered within this time is there
	resultsFresh = 10 * time.Second   // how old a status may be from which there are no results yet
	minPoll      = 2 * time.Second
	elsewhere    = time.Second // how often a waiter looks for what another replica saved
)

// Broker takes jobs and carries them out. Set its fields before first use.
type Broker struct {
	Store        Store
	Engine       Engine
	Tokens       Tokens
	Backends     []*Backend
	Installation string // see Store.Installation
	Log          *slog.Logger
	UserJobs     int           // how many jobs a user may have that have not ended; 0: any number
	UserDaily    int           // how many jobs a user may submit in a day; 0: any number
	UserBytes    int64         // how many bytes the requests of a user's jobs that have not ended may take; 0: any number
	SignInWithin time.Duration // how long waiting jobs wait for their user; 0: 14 days
	GiveUpAfter  time.Duration // how long a job is tried for that the platform turns away, or that stays unknown; 0: a day
	StalledAfter time.Duration // how long a job may stay as it is until its owner is told, and Limits.FreeStalled frees its slot; 0: six hours

	// Nonce returns the random part of the tag of a job's next attempt; nil: eight random letters and digits.
	Nonce func(Job) string

	Wall func() time.Time // the wall clock, which goes on while the machine is suspended; nil: time.Now

	saved    signals[JobID]   // an answer was saved
	changed  signals[UserID]  // likewise, or the owner did something; before shown
	shown    signals[UserID]  // something looks different to the owner
	shownJob signals[JobID]   // a job looks different to its owner
	shownAll signals[UserID]  // any of the owner's jobs may look different
	woken    signals[Account] // there is something new for a visit in this process
	denials  denials
	refused  rows // submissions that were turned away
	noted    noted
	queues   queues
	listings listings
	calls    slots // outside visits
	ownCalls slots // and of each user, by platform/user
	syncs    slots // synchronous runs of each platform
	ownSyncs slots // and of each user there, by platform/user
	results  keptCollections
	backlog  backlog
	suspects suspects

	preparing preparations
	refusedAt atomic.Int64 // when the database last refused to write, in nanoseconds; 0: never
}

// Accept keeps a job and waits a moment for the platform's word. What the platform refuses for good is hidden, and the
// reason returned; in every other case the job is ours from here on, and given as it is. A request with a key that was
// used before gives what became of the first, and waits with it if that is not known yet.
func (b *Broker) Accept(ctx context.Context, u UserID, r Request, k Key) (Record, error) {
	d, r, err := b.draft(ctx, u, r, nil)
	if err != nil {
		if first := b.keptUnder(ctx, u, k); first.Job != 0 {
			return b.repeatedJob(ctx, u, first.Job)
		}
		return Record{}, err
	}
	drafts := []Draft{d}
	first, err := b.keep(ctx, u, k, nil, drafts)
	switch {
	case err != nil:
		return Record{}, err
	case first.Task != 0:
		return Record{}, keyReused()
	case first.Job != 0:
		return b.repeatedJob(ctx, u, first.Job)
	}
	return b.decided(ctx, u, drafts[0].ID, &Record{Job: drafts[0].Job, Request: r})
}

// keptUnder gives what was kept when a key was used first. It is for a request that would not be accepted now: its document, or what its
// owner may do, can have changed since. Zero: the key is new, was used for another request, or the database does not say.
func (b *Broker) keptUnder(ctx context.Context, u UserID, k Key) Repeated {
	if k == (Key{}) {
		return Repeated{}
	}
	first, err := b.Store.Repeated(ctx, u, k)
	if err != nil {
		return Repeated{}
	}
	return first
}

// repeatedJob is the job that a key stands for. One that its owner deleted is Conflict: it is gone, and the key submits no other.
func (b *Broker) repeatedJob(ctx context.Context, u UserID, id JobID) (Record, error) {
	r, err := b.Store.Refused(ctx, u, id)
	if Is(err, NotFound) || err == nil && r.Hidden && !r.refused() {
		return Record{}, &Error{Kind: Conflict, Op: "dispatch.Accept", Text: "This key stands for a job that was deleted. Use another."}
	}
	if err != nil {
		return Record{}, err
	}
	return b.decided(ctx, u, id, nil)
}

// keep keeps what was asked for, if its owner may have so many jobs more, and wakes the account. What a key stands for
// already, it gives whatever the limit.
func (b *Broker) keep(ctx context.Context, u UserID, k Key, t *Task, drafts []Draft) (Repeated, error) {
	first, err := b.Store.Accept(ctx, k, t, drafts, b.quotas(drafts[0].Account)...)
	if err == nil && first == (Repeated{}) {
		b.queues.forget(drafts[0].Account)
		b.wake(drafts[0].Account)
		b.showJob(u, drafts[0].ID)
		b.audit(ctx, "submit", u, drafts[0].Job, len(drafts))
	}
	if Is(err, Conflict) {
		err = keyReused()
	}
	return first, err
}

func keyReused() error {
	const text = "This key was used for another request."
	return &Error{Kind: Invalid, Op: "dispatch.Accept", Text: text,
		Faults: []Fault{{Loc: []any{"header", "Idempotency-Key"}, Msg: text, Type: "value_error"}}}
}

// draft is the job that a request asks for, or with a dimension what the jobs of a task have in common. The request is given as
// it is kept: with parameters, and with a warning if it was not checked in full.
func (b *Broker) draft(ctx context.Context, u UserID, r Request, d *Dimension) (Draft, Request, error) {
	r = r.complete()
	backend, err := b.Backend(r.Service, r.Label)
	if err != nil {
		return Draft{}, r, err
	}
	if err := backend.admit(ctx); err != nil {
		return Draft{}, r, err
	}
	base, err := backend.Platform.Base(r.Service)
	if err != nil {
		return Draft{}, r, err
	}
	if err := backend.permitted(r); err != nil {
		return Draft{}, r, err
	}
	document, warning, err := b.inspect(ctx, u, backend, r, d)
	if err != nil {
		return Draft{}, r, err
	}
	r.Warning = warning
	body, err := r.encode()
	return Draft{Body: body, Document: document, Job: Job{
		Owner: u, Account: backend.Account(u), Base: base, Desired: WantRun, MaxDuration: r.MaxDuration(), Phase: Waiting, Status: Accepted,
	}}, r, err
}

// inspect checks a request against its service's document. It gives that document to be kept, and what of the request could not be
// checked. A document that cannot be fetched in a moment is left to the time when the job is submitted.
func (b *Broker) inspect(ctx context.Context, u UserID, backend *Backend, r Request, d *Dimension) (doc *Document, warning string, err error) {
	defer idleIfSlow(ctx)()
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	if err := b.fetched(ctx, backend, u, r.Service); Is(err, DocumentInvalid) {
		return nil, "", err
	} else if err != nil {
		return nil, "", nil
	}
	if warning, err = b.check(ctx, u, backend, r, d); err != nil {
		return nil, "", err
	}
	return backend.document(ctx, r.Service), warning, nil
}

// encode leaves the characters of parameters and options as they are.
func (r Request) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, &Error{Kind: Invalid, Op: "dispatch.Accept", Text: "The request cannot be kept as JSON.", Err: err}
	}
	return b.Bytes(), nil
}

// complete is r with parameters, if only none.
func (r Request) complete() Request {
	if len(r.Parameters) == 0 {
		r.Parameters = json.RawMessage("{}")
	}
	return r
}

// decided waits for the platform's word on a job that was just accepted, or for a reason why there is none yet. committed is
// what was kept just now, nil where it was kept before: it is the answer where the store does not answer any more, or from a server
// that lacks the commit. The job is accepted, and its owner must hear so.
func (b *Broker) decided(ctx context.Context, u UserID, id JobID, committed *Record) (Record, error) {
	lacking := false
	load := func() (Record, error) {
		r, err := b.Store.Refused(ctx, u, id)
		if lacking = committed != nil && (Is(err, NotFound) || Is(err, Unavailable)); lacking {
			return *committed, nil
		}
		return r, err
	}
	r, err := b.await(ctx, id, decideWithin, load, func(j Job) bool { return j.Ref != Ref{} || j.Phase == Ended || j.Attention != None })
	if err != nil || lacking {
		return r, err
	}
	if ctx.Err() != nil || !r.refused() {
		shown, err := b.presentOne(ctx, r)
		if committed != nil && Is(err, Unavailable) {
			return r, nil
		}
		return shown, err
	}
	if _, err := b.Store.Cancel(ctx, u, id, true); err != nil && !Is(err, NotFound) {
		b.Log.WarnContext(ctx, "a refused job stays visible", "job", id, "error", err)
	}
	return Record{}, r.refusal()
}

// refused reports whether the platform refused j for good, so that it never was there.
func (j Job) refused() bool {
	switch j.Attention {
	case None, RefusedForbidden, RefusedUnsupported, ApplicationInvalid:
		return j.Status == Failed && j.Ref == Ref{}
	}
	return false
}

// refusal is the error of a job that was refused, as it can be told from the row.
func (j Job) refusal() error {
	e := InvalidBody("dispatch.Accept", j.Failure)
	switch j.Attention {
	case RefusedForbidden:
		e.Kind = Forbidden
	case RefusedUnsupported:
		e.Kind = Unsupported
	case ApplicationInvalid:
		e = InvalidBody("dispatch.Accept", j.Failure, "service", "application")
		e.Kind = DocumentInvalid
	}
	return e
}

// Read gives a job whose status is no older than fresh, or the last known one if the platform does not answer in time.
func (b *Broker) Read(ctx context.Context, u UserID, id JobID, fresh time.Duration) (Record, error) {
	load := func() (Record, error) { return b.Store.Record(ctx, u, id) }
	r, err := load()
	if err != nil {
		return r, err
	}
	if r.Phase != Started || fresh == AsKnown {
		return b.presentOne(ctx, r)
	}
	switch err := b.refresh(ctx, u, Scope{Job: id}, fresh, b.gap(r.Account.Platform())); {
	case refusedWrite(err):
		return b.presentOne(ctx, r)
	case err != nil:
		return r, err
	}
	r, err = b.await(ctx, id, readWithin, load, func(j Job) bool { return !j.awaited() })
	if err != nil {
		return r, err
	}
	return b.presentOne(ctx, r)
}

// AsKnown is a freshness for which no platform is asked.
const AsKnown = time.Duration(math.MaxInt64)

// Freshen waits until statuses are no older than fresh, a moment at most. However many wait, each status is asked for
// once. Where the database refuses to write, statuses stay as they are kept.
func (b *Broker) Freshen(ctx context.Context, u UserID, s Scope, fresh time.Duration) error {
	if fresh == AsKnown {
		return nil
	}
	changed, stop := b.changed.watch(u)
	defer stop()
	err := b.refresh(ctx, u, s, fresh, b.gaps())
	if refusedWrite(err) {
		return nil
	}
	for end := time.Now().Add(readWithin); err == nil; {
		var awaited bool
		if awaited, err = b.Store.Awaited(ctx, u, s); !awaited || !again(ctx, changed, end) {
			break
		}
	}
	return err
}

// refresh wakes the accounts of statuses that are older than fresh.
func (b *Broker) refresh(ctx context.Context, u UserID, s Scope, fresh, gap time.Duration) error {
	accounts, err := b.Store.Await(ctx, u, s, fresh, gap)
	if refusedWrite(err) {
		b.refusedAt.Store(time.Now().UnixNano())
	}
	for _, a := range accounts {
		b.wake(a)
	}
	return err
}

// refusedWrite reports whether the database answered, and refused to write.
func refusedWrite(err error) bool {
	e := OfDatabase(err)
	return e != nil && e.Answered
}

// unwritable reports whether the database refused to write within readWithin: a status that is late may have been told and not saved.
func (b *Broker) unwritable() bool {
	at := b.refusedAt.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < readWithin
}

// awaited reports whether a fresher status of j is on its way.
func (j Job) awaited() bool { return j.Awaited && j.Phase == Started }

// admit marks started jobs as Unreachable whose platform does not answer: a request for their status failed, or one that a
// client waits for has been due for readWithin. A platform that told the status of another job of the account lately, or
// that does not find a job, is only slow. All times compared are of the store's clock, and how fresh the reader wanted the
// statuses does not matter: else readers would be told different things of the same job.
func (b *Broker) admit(records []Record) []Record {
	answers, unwritable := map[Account]bool{}, b.unwritable()
	for _, r := range records {
		answers[r.Account] = answers[r.Account] || r.heard()
	}
	for i, r := range records {
		if r.Phase == Started && r.Looks == 0 && (r.Tries > 0 || r.late() && !unwritable) && !answers[r.Account] && r.Attention == None {
			records[i].Attention = Unreachable
		}
	}
	return records
}

// heard reports whether the platform told the status of a started job lately.
func (r Record) heard() bool { return r.Phase == Started && r.Read.Sub(r.Checked) < lately }

// late reports whether a client waits for a status that has been due for readWithin.
func (r Record) late() bool { return r.Awaited && r.Read.Sub(r.Due) >= readWithin }

// presentOne adds to a record what there is to say of it at the moment.
func (b *Broker) presentOne(ctx context.Context, r Record) (Record, error) {
	records, err := b.queued(ctx, b.admit([]Record{r}), queuePlaces{})
	return records[0], err
}

// gap is the least time between two questions for the same status.
func (b *Broker) gap(platform string) time.Duration {
	if backend := b.named(platform); backend != nil && backend.Limits.MinPoll > 0 {
		return backend.Limits.MinPoll
	}
	return minPoll
}

// gaps is the gap that keeps every platform's.
func (b *Broker) gaps() time.Duration {
	var most time.Duration
	for _, backend := range b.Backends {
		most = max(most, b.gap(backend.Name))
	}
	return most
}

// await gives a job as soon as done holds, or as it is when the time is over.
func (b *Broker) await(ctx context.Context, id JobID, d time.Duration, load func() (Record, error), done func(Job) bool) (Record, error) {
	saved, stop := b.saved.watch(id)
	defer stop()
	for end := time.Now().Add(d); ; {
		r, err := load()
		if err != nil || done(r.Job) || !again(ctx, saved, end) {
			return r, err
		}
	}
}

// again waits until it is worth to look once more, and reports false when it is not, because the time is over.
func again(ctx context.Context, changed <-chan struct{}, end time.Time) bool {
	left := time.Until(end)
	if left <= 0 || ctx.Err() != nil {
		return false
	}
	defer idle(ctx)()
	timer := time.NewTimer(min(elsewhere, left))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// Delete hides a job from its owner at once. The broker cancels it at the platform.
func (b *Broker) Delete(ctx context.Context, u UserID, id JobID) error {
	_, err := b.cancel(ctx, u, id, true)
	return err
}

// Cancel has a job canceled that its owner wants to go on seeing. What has ended stays as it is.
func (b *Broker) Cancel(ctx context.Context, u UserID, id JobID) (Record, error) {
	j, err := b.cancel(ctx, u, id, false)
	if err != nil {
		return Record{}, err
	}
	load := func() (Record, error) { return b.Store.Record(ctx, u, id) }
	return b.await(ctx, j.ID, readWithin, load, func(j Job) bool {
		return j.Phase == Ended || j.Attention == CancelUnsupported
	})
}

func (b *Broker) cancel(ctx context.Context, u UserID, id JobID, hide bool) (Job, error) {
	j, err := b.Store.Cancel(ctx, u, id, hide)
	if err == nil && j.Phase != Ended {
		b.wake(j.Account)
	}
	if err == nil {
		b.audit(ctx, "cancel", u, j, 1)
		b.showJob(u, id)
	}
	return j, err
}

// audit tells the operator who asked for what, in one line that is always of the same form.
func (b *Broker) audit(ctx context.Context, action string, u UserID, first Job, jobs int) {
	b.Log.InfoContext(ctx, "audit", "action", action, "user", string(u), "account", string(first.Account), "job", int64(first.ID),
		"task", int64(first.Task), "jobs", jobs)
}

// agendaOf is what is due for an account.
func (b *Broker) agendaOf(ctx context.Context, a Account, n int) (Agenda, error) {
	var stalled time.Duration
	if backend := b.named(a.Platform()); backend != nil {
		stalled = b.freesAfter(backend)
	}
	return b.Store.Agenda(ctx, a, n, stalled)
}

// freesAfter is how long a job of a backend must be stalled until its slot is free; 0: it never is.
func (b *Broker) freesAfter(backend *Backend) time.Duration {
	if !backend.Limits.FreeStalled {
		return 0
	}
	return cmp.Or(b.StalledAfter, stalledAfter)
}

// named is the backend of that name, nil if there is none.
func (b *Broker) named(platform string) *Backend {
	for _, backend := range b.Backends {
		if backend.Name == platform {
			return backend
		}
	}
	return nil
}

// wake follows the commit that changed an account's row.
func (b *Broker) wake(a Account) {
	b.woken.signal(a)
	b.Engine.Wake(a)
}

// log tells each change of state once.
func (b *Broker) log(ctx context.Context, was, j Job, err error) {
	if was.Phase == j.Phase && was.Status == j.Status && was.Attention == j.Attention {
		return
	}
	attrs := []slog.Attr{slog.Int64("job", int64(j.ID)), slog.String("account", string(j.Account)), slog.String("ref", j.Ref.ID),
		slog.String("phase", string(j.Phase)), slog.String("status", string(j.Status)), slog.String("attention", string(j.Attention))}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	b.Log.LogAttrs(ctx, slog.LevelInfo, "job", attrs...)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
