package dispatch

import (
	"context"
	"encoding/json"
)

// Accept stores a job and waits up to 10 s for the platform's response. If the platform refuses the job permanently,
// the job is hidden and the reason returned. In every other case the job is accepted and returned in its present state.
// A request whose key was used before returns the result of the first request, and waits for it as well if it is not
// known yet.
func (b *Broker) Accept(ctx context.Context, u UserID, r Request, k Key) (Record, error) {
	d, r, err := b.draft(ctx, u, r, nil)
	if err != nil {
		return b.RepeatedJob(ctx, u, k, err)
	}
	drafts, before := []Draft{d}, b.saved.now()
	first, err := b.storeSubmission(ctx, u, k, nil, drafts)
	switch {
	case err != nil:
		return Record{}, err
	case first.Task != 0:
		return Record{}, keyReused()
	case first.Job != 0:
		return b.repeatedJob(ctx, u, first.Job)
	}
	r.Process, r.Annotations, r.Notify = nil, Annotations{}, nil // which a store does not return
	return b.awaitDecision(ctx, u, drafts[0].ID, &committed{Record{Job: drafts[0].Job, Request: r,
		Read: drafts[0].Created}, before})
}

// RepeatedJob returns the job that was stored under a key, for a request that is refused now; refused if there is none.
func (b *Broker) RepeatedJob(ctx context.Context, u UserID, k Key, refused error) (Record, error) {
	if first := b.storedUnder(ctx, u, k); first.Job != 0 {
		return b.repeatedJob(ctx, u, first.Job)
	}
	return Record{}, refused
}

// storedUnder returns what was stored when a key was first used. It serves a request that would be refused now, because
// its document, its owner's quota or the catalogue has changed since. Zero: the key is new, was used for another
// request, or the database does not answer.
func (b *Broker) storedUnder(ctx context.Context, u UserID, k Key) KeyTarget {
	if k == (Key{}) {
		return KeyTarget{}
	}
	first, err := b.Store.FindKey(ctx, u, k)
	if err != nil {
		return KeyTarget{}
	}
	return first
}

// repeatedJob returns the job that a key stands for. If its owner deleted the job, it returns Conflict, because a used
// key submits no other job.
func (b *Broker) repeatedJob(ctx context.Context, u UserID, id JobID) (Record, error) {
	r, err := b.Store.RecordIncludingHidden(ctx, u, id)
	if Is(err, NotFound) || err == nil && r.Hidden && !r.refused() {
		return Record{}, &Error{Kind: Conflict, Op: "dispatch.Accept",
			Text: "This key stands for a job that was deleted. Use another."}
	}
	if err != nil {
		return Record{}, err
	}
	return b.awaitDecision(ctx, u, id, nil)
}

// storeSubmission stores a submission within its owner's quotas, and wakes the account. A key that was used before
// returns the first result, regardless of the quotas.
func (b *Broker) storeSubmission(ctx context.Context, u UserID, k Key, t *Task, drafts []Draft) (KeyTarget, error) {
	first, err := b.Store.Accept(ctx, k, t, drafts, b.quotas(drafts[0].Account)...)
	if err == nil && first == (KeyTarget{}) {
		b.announce(ctx, u, drafts)
	}
	if Is(err, Conflict) {
		err = keyReused()
	}
	return first, err
}

// announce logs jobs that were just stored, and notifies visits and their owner.
func (b *Broker) announce(ctx context.Context, u UserID, drafts []Draft) {
	b.queues.forget(drafts[0].Account)
	b.wake(drafts[0].Account)
	b.notifyJob(u, drafts[0].ID)
	b.audit(ctx, "submit", u, drafts[0].Job, len(drafts))
	b.observer().JobsAccepted(drafts[0].Account.Platform(), len(drafts))
}

func keyReused() error {
	const text = "This key was used for another request."
	return &Error{Kind: Invalid, Op: "dispatch.Accept", Text: text,
		Faults: []Fault{{Loc: []any{"header", "Idempotency-Key"}, Msg: text, Type: "value_error"}}}
}

// draft returns the job for a request or, with a dimension, what the jobs of a task have in common. It also returns the
// request as it is stored: with parameters, which may be an empty object, and with a warning if it was not checked in
// full.
func (b *Broker) draft(ctx context.Context, u UserID, r Request, d *Dimension) (Draft, Request, error) {
	r = r.complete()
	if err := r.Annotations.Check(); err != nil {
		return Draft{}, r, err
	}
	backend, err := b.Backend(r.Service, r.Label)
	if err != nil {
		return Draft{}, r, err
	}
	if err := backend.checkEntitled(ctx); err != nil {
		return Draft{}, r, err
	}
	if r, err = b.underPolicy(ctx, backend, r, d); err != nil {
		return Draft{}, r, err
	}
	r = b.withFormat(r)
	if r, err = r.inline(); err != nil {
		return Draft{}, r, err
	}
	base, err := backend.base(r)
	if err != nil {
		return Draft{}, r, err
	}
	if err := backend.permitted(r.ofJobs(d)); err != nil {
		return Draft{}, r, err
	}
	hooks, err := b.targets(u, r, d)
	if err != nil {
		return Draft{}, r, err
	}
	document, warning, err := b.checkRequest(ctx, u, backend, r, d)
	if err != nil {
		return Draft{}, r, err
	}
	r.Warning = warning
	if r.Pin, err = b.pin(ctx, u, backend, r, d, document); err != nil {
		return Draft{}, r, err
	}
	body, err := r.encode()
	return Draft{Body: body, Document: document, Hooks: hooks, Job: Job{
		Owner: u, Account: backend.Account(u), Base: base, Service: r.Service.hash(), Desired: WantRun,
		Annotations: r.Annotations, MaxDuration: r.MaxDuration(), Retries: r.Retries(), Budgeted: d != nil &&
			r.Budget() != Budget{}, Phase: Waiting, Status: Accepted,
		Traceparent: b.tracer().Traceparent(ctx),
	}}, r, err
}

// base returns the URL below which the platform lists the job of a request, see Platform.Base. A process that was sent
// with the request belongs to the endpoint itself.
func (b *Backend) base(r Request) (string, error) {
	if r.Process == nil {
		return b.Platform.Base(r.Service)
	}
	if _, can := b.Platform.(GraphRunner); !can {
		return "", &Error{Kind: Unsupported, Op: "dispatch.Accept",
			Text: "This platform runs services by their names only, and no process graphs."}
	}
	return "", nil
}

// checkRequest checks a request against its service's document. It returns that document, and a warning that states
// what could not be checked. If the document cannot be fetched within checkWithin, the request is checked when it is
// submitted.
func (b *Broker) checkRequest(ctx context.Context, u UserID, backend *Backend, r Request, d *Dimension) (doc *Document,
	warning string, err error) {
	if r.Process != nil {
		return &Document{Origin{backend.Name, r.Service}, r.Process}, "", backend.Platform.(GraphRunner).CheckGraph(ctx, r, d)
	}
	defer idleIfSlow(ctx)()
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	switch err := b.awaitFetched(ctx, backend, u, r.Service); {
	case Is(err, DocumentInvalid):
		return nil, "", err
	case err != nil && backend.checker(r) != nil:
		return nil, notChecked, nil
	case err != nil:
		return nil, "", nil
	}
	if warning, err = b.check(ctx, u, backend, r, d); err != nil {
		return nil, "", err
	}
	if err := b.checkFormat(ctx, u, r); err != nil {
		return nil, "", err
	}
	return backend.document(ctx, r.Service), warning, nil
}

// encode returns r in JSON, without escaping characters of parameters and options.
func (r Request) encode() ([]byte, error) {
	text, err := Encode(r)
	if err != nil {
		return nil, &Error{Kind: Invalid, Op: "dispatch.Accept", Text: "The request cannot be kept as JSON.", Err: err}
	}
	return text, nil
}

// complete returns r with an empty object in place of missing parameters.
func (r Request) complete() Request {
	if len(r.Parameters) == 0 {
		r.Parameters = json.RawMessage("{}")
	}
	return r
}

// committed is a job that was stored just now.
type committed struct {
	Record
	before int // jobs that were saved before it was stored, see savedJobs.now
}

// after returns the record after the job was saved; false: it must be read.
func (c *committed) after(saved Job) (Record, bool) {
	if saved.Version == 0 || saved.Phase.Inert() { // then a hold of the account would show
		return Record{}, false
	}
	r := c.Record
	r.Job, r.Read = saved, saved.Updated
	return r, true
}

// awaitDecision waits for the platform's response to a job that was just accepted, or for the reason why there is none
// yet. is the record that was stored just now, nil if it was stored before. It is returned if the store stops
// answering, or answers from a server that lacks the commit: the job is accepted, and the response to its owner must
// show that. The store is read only if neither this record nor a visit of this process shows the job as it is.
func (b *Broker) awaitDecision(ctx context.Context, u UserID, id JobID, is *committed) (Record, error) {
	lacking, first := false, is != nil
	load := func(saved Job) (Record, error) {
		unchanged := first && !b.saved.since(is.before, id)
		first = false
		if unchanged {
			return is.Record, nil
		}
		if is != nil {
			if r, shown := is.after(saved); shown {
				lacking = false
				return r, nil
			}
		}
		r, err := b.Store.RecordIncludingHidden(ctx, u, id)
		if lacking = is != nil && (Is(err, NotFound) || Is(err, Unavailable)); lacking {
			return is.Record, nil
		}
		return r, err
	}
	r, err := b.await(ctx, id, decideWithin, load, func(j Job) bool {
		return j.Ref != Ref{} || j.Phase == Ended ||
			j.Attention != None
	})
	if err != nil || lacking {
		return r, err
	}
	if ctx.Err() != nil || !r.refused() {
		shown, err := b.setQueuePlace(ctx, r)
		if is != nil && Is(err, Unavailable) {
			return r, nil
		}
		return shown, err
	}
	if _, err := b.Store.Cancel(ctx, u, id, true); err != nil && !Is(err, NotFound) {
		b.Log.WarnContext(ctx, "hiding a refused job failed", "job", id, "error", err)
	}
	return Record{}, r.refusal()
}

// refused reports whether the platform refused j permanently.
func (j Job) refused() bool {
	switch j.Attention {
	case None, RefusedForbidden, RefusedUnsupported, ApplicationInvalid:
		return j.Status == Failed && j.Ref == Ref{}
	}
	return false
}

// refusal returns the error of a refused job, from what is stored in its row.
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
