package broker

import (
	"bytes"
	"context"
	"regexp"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Accept stores a job and waits up to 10 s for the platform's response, or a second if no slot is free. If the platform
// refuses the job permanently, the job is hidden and the reason returned. In every other case the job is accepted and
// returned in its present state. A request whose key was used before returns the result of the first request, and waits
// for it as well if it is not known yet.
func (b *Broker) Accept(ctx context.Context, u dispatch.UserID, r dispatch.Request, k dispatch.Key) (dispatch.Record,
	error) {
	h, err := b.draft(ctx, u, r, nil)
	if err != nil {
		return b.RepeatedJob(ctx, u, k, err)
	}
	drafts := []dispatch.Draft{h.Draft}
	first, err := b.storeSubmission(ctx, u, k, nil, drafts)
	switch {
	case err != nil:
		return dispatch.Record{}, err
	case first.Task != 0:
		return dispatch.Record{}, keyReused()
	case first.Job != 0:
		return b.repeatedJob(ctx, u, first.Job)
	}
	r = h.request
	r.Process, r.Annotations, r.Notify = nil, dispatch.Annotations{}, nil // which a store does not return
	return b.awaitDecision(ctx, u, drafts[0].ID, &dispatch.Record{Job: drafts[0].Job, Request: r,
		Read: drafts[0].Created})
}

// RepeatedJob returns the job that was stored under a key, for a request that is refused now; refused if there is none.
func (b *Broker) RepeatedJob(ctx context.Context, u dispatch.UserID, k dispatch.Key, refused error) (dispatch.Record,
	error) {
	if first := b.storedUnder(ctx, u, k); first.Job != 0 {
		return b.repeatedJob(ctx, u, first.Job)
	}
	return dispatch.Record{}, refused
}

// storedUnder returns what was stored when a key was first used. It serves a request that would be refused now, because
// its document, its owner's quota or the catalogue has changed since. Zero: the key is new, was used for another
// request, or the database does not answer.
func (b *Broker) storedUnder(ctx context.Context, u dispatch.UserID, k dispatch.Key) dispatch.KeyTarget {
	if k == (dispatch.Key{}) {
		return dispatch.KeyTarget{}
	}
	first, err := b.Store.FindKey(ctx, u, k)
	if err != nil {
		return dispatch.KeyTarget{}
	}
	return first
}

// repeatedJob returns the job that a key stands for. If its owner deleted the job, it returns Conflict, because a used
// key submits no other job.
func (b *Broker) repeatedJob(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	r, err := b.Records.RecordIncludingHidden(ctx, u, id)
	if dispatch.Is(err, dispatch.NotFound) || err == nil && r.Hidden && !r.IsRefused() {
		return dispatch.Record{}, &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.Accept",
			Text: "This key belongs to a deleted job. Use another key."}
	}
	if err != nil {
		return dispatch.Record{}, err
	}
	return b.awaitDecision(ctx, u, id, nil)
}

// storeSubmission stores a submission within its owner's quotas, and wakes the account. A key that was used before
// returns the first result, regardless of the quotas.
func (b *Broker) storeSubmission(ctx context.Context, u dispatch.UserID, k dispatch.Key, t *dispatch.Task,
	drafts []dispatch.Draft) (dispatch.KeyTarget, error) {
	first, err := b.Store.Accept(ctx, k, t, drafts, b.quotas(drafts[0].Account)...)
	if err == nil && first == (dispatch.KeyTarget{}) {
		b.announce(ctx, u, drafts)
	}
	if dispatch.Is(err, dispatch.Conflict) {
		err = keyReused()
	}
	return first, err
}

func (b *Broker) announce(ctx context.Context, u dispatch.UserID, drafts []dispatch.Draft) {
	b.counted.Delete(drafts[0].Account)
	b.Wake(drafts[0].Account)
	b.NotifyJob(u, drafts[0].ID)
	n := dispatch.CountJobs(drafts)
	b.audit(ctx, "submit", u, drafts[0].Job, n)
	b.Observing().JobsAccepted(drafts[0].Account.Platform(), n)
}

func keyReused() error {
	const text = "This key was used for another request."
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "dispatch.Accept", Text: text,
		Faults: []dispatch.Fault{{Loc: []any{"header", "Idempotency-Key"}, Msg: text, Type: "value_error"}}}
}

// admit returns where a request or, with a dimension, that of a task runs, and the request as it is to be run, if its
// user may run it there.
func (b *Broker) admit(ctx context.Context, r dispatch.Request, d *dispatch.Dimension) (backend *dispatch.Backend,
	admitted dispatch.Request, base string, err error) {
	if backend, err = b.Backend(r.Service, r.Label); err != nil {
		return nil, r, "", err
	}
	if err = backend.CheckEntitled(ctx); err != nil {
		return nil, r, "", err
	}
	if r, err = b.underPolicy(ctx, backend, r.Complete(), d); err != nil {
		return nil, r, "", err
	}
	if r, err = b.withFormat(r).Inline(); err != nil {
		return nil, r, "", err
	}
	if base, err = backend.Base(r); err != nil {
		return nil, r, "", err
	}
	return backend, r, base, backend.Permitted(r.OfJobs(d))
}

// draft returns the job for a request or, with a dimension, what the jobs of a task have in common.
func (b *Broker) draft(ctx context.Context, u dispatch.UserID, r dispatch.Request, d *dispatch.Dimension) (h taskDraft,
	err error) {
	h.request = r
	if err = r.Annotations.Check(); err != nil {
		return h, err
	}
	backend, r, base, err := b.admit(ctx, r, d)
	if h.request = r; err != nil {
		return h, err
	}
	asked, err := r.ParseOptions()
	if err != nil {
		return h, err
	}
	if h.Hooks, err = b.targets(u, r, d); err != nil {
		return h, err
	}
	if h.Document, h.request.Warning, err = b.checkRequest(ctx, u, backend, r, d); err != nil {
		return h, err
	}
	if h.request.Pin, err = b.pin(ctx, u, backend, h.request, d, h.Document); err != nil {
		return h, err
	}
	h.Job = dispatch.Job{
		Identity: dispatch.Identity{Owner: u, MaxDuration: asked.MaxDuration, Retries: asked.Retries,
			Budgeted: d != nil && asked.Budget != dispatch.Budget{}, Traceparent: b.Tracing().Traceparent(ctx)},
		Target:   dispatch.Target{Account: backend.Account(u), Base: base, Service: r.Service.Hash()},
		Wish:     dispatch.Wish{Desired: dispatch.WantRun, Annotations: r.Annotations},
		Handover: dispatch.Handover{Phase: dispatch.Waiting}, Condition: dispatch.Condition{Status: dispatch.Accepted},
	}
	h.Body, err = h.request.Encode()
	return h, err
}

// taskDraft is a job to be stored, or what the jobs of a task have in common, and the request as it is stored: with
// parameters, which may be an empty object, and with a warning if it was not checked in full.
type taskDraft struct {
	dispatch.Draft
	request dispatch.Request
}

func (h taskDraft) task(d *dispatch.Dimension) (*dispatch.Task, []dispatch.Draft) {
	t := &dispatch.Task{Owner: h.Owner, Account: h.Account, Request: h.request, Dimension: d.Name, Document: h.Document,
		Hooks: h.Hooks, Annotations: h.Annotations}
	h.Annotations = dispatch.Annotations{}
	return t, []dispatch.Draft{t.Draft(h.Draft, d)}
}

// checkRequest checks a request against its service's document. It returns that document, and a warning that states
// what could not be checked. If the document cannot be fetched within CheckWithin, the request is checked when it is
// submitted.
func (b *Broker) checkRequest(ctx context.Context, u dispatch.UserID, backend *dispatch.Backend, r dispatch.Request,
	d *dispatch.Dimension) (doc *dispatch.Document, warning string, err error) {
	if r.Process != nil {
		return &dispatch.Document{Origin: dispatch.Origin{Platform: backend.Name, Service: r.Service},
			Body: r.Process}, "", backend.Platform.(dispatch.GraphRunner).CheckGraph(ctx, r, d)
	}
	defer idleIfSlow(ctx)()
	ctx, cancel := context.WithTimeout(ctx, dispatch.CheckWithin)
	defer cancel()
	switch err := b.AwaitFetched(ctx, backend, u, r.Service); {
	case dispatch.Is(err, dispatch.DocumentInvalid):
		return nil, "", err
	case err != nil && backend.Checker(r) != nil:
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
	return backend.Document(ctx, r.Service), warning, nil
}

// awaitDecision waits for the platform's response to a job that was just accepted, or for the reason why there is none
// yet. stored is the record that was stored just now, nil if it was stored before. It is returned if the store stops
// answering, or answers from a server that lacks the commit: the job is accepted, and the response to its owner must
// show that.
func (b *Broker) awaitDecision(ctx context.Context, u dispatch.UserID, id dispatch.JobID,
	stored *dispatch.Record) (dispatch.Record, error) {
	lacking := false
	load := func() (dispatch.Record, error) {
		r, err := b.Records.RecordIncludingHidden(ctx, u, id)
		if lacking = stored != nil && (dispatch.Is(err, dispatch.NotFound) ||
			dispatch.Is(err, dispatch.Unavailable)); lacking {
			return *stored, nil
		}
		return r, err
	}
	began, asked := time.Now(), false
	r, err := b.await(ctx, id, decideWithin, load, func(j dispatch.Job) bool {
		if j.Ref != (dispatch.Ref{}) || j.Phase == dispatch.Ended || j.Status == dispatch.Running ||
			j.Attention != dispatch.None {
			return true
		}
		if asked || time.Since(began) < elsewhere {
			return false
		}
		asked = true // a job that had a slot then is submitted soon
		return b.lacksSlot(ctx, j)
	})
	if err != nil || lacking {
		return r, err
	}
	if ctx.Err() != nil || !r.IsRefused() {
		shown, err := b.setQueuePlace(ctx, r)
		if stored != nil && dispatch.Is(err, dispatch.Unavailable) {
			return r, nil
		}
		return shown, err
	}
	if _, err := b.Store.Cancel(ctx, u, id, true); err != nil && !dispatch.Is(err, dispatch.NotFound) {
		b.Log.WarnContext(ctx, "hiding a refused job failed", "job", id, "error", err)
	}
	return dispatch.Record{}, r.Refusal()
}

// lacksSlot reports whether a job waits while other jobs have all slots of its account. False if that cannot be read.
func (b *Broker) lacksSlot(ctx context.Context, j dispatch.Job) bool {
	backend := b.BackendNamed(j.Account.Platform())
	if j.Phase != dispatch.Waiting || backend == nil {
		return false
	}
	infos, err := b.Visits.Store.AccountInfo(ctx, j.Owner, []dispatch.Account{j.Account},
		map[dispatch.Account]time.Duration{j.Account: b.FreesAfter(backend)})
	return err == nil && backend.Limits.Free(infos[0].Held) <= 0
}

// untagged removes the tags of this installation's jobs from text that a platform returned, wherever they follow a
// title. An installation's name is random, so that no other text matches its tags.
func (b *Broker) untagged(text []byte) []byte {
	if b.Installation == "" || !bytes.Contains(text, []byte(" ["+b.Installation+".")) {
		return text
	}
	tag := regexp.MustCompile(` \[` + regexp.QuoteMeta(b.Installation) + `\.[0-9]+\.[0-9]+\.[0-9a-z]+\]`)
	return tag.ReplaceAll(text, nil)
}
