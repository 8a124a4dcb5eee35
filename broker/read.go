package broker

import (
	"context"
	"math"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Read returns a job whose status is no older than fresh, or the last known one if the platform does not answer within
// 5 s.
func (b *Broker) Read(ctx context.Context, u dispatch.UserID, id dispatch.JobID, fresh time.Duration) (dispatch.Record,
	error) {
	load := func() (dispatch.Record, error) { return b.Records.Record(ctx, u, id) }
	r, err := load()
	if err != nil {
		return r, err
	}
	if r.Phase != dispatch.Started || fresh == AsKnown {
		return b.setQueuePlace(ctx, r)
	}
	asked, err := b.refresh(ctx, u, dispatch.Scope{Job: id}, fresh, b.minReadInterval(r.Account.Platform()))
	switch {
	case refusedWrite(err):
		return b.setQueuePlace(ctx, r)
	case err != nil:
		return r, err
	}
	r, err = b.await(ctx, id, dispatch.ReadWithin, load, func(j dispatch.Job) bool { return !j.IsAwaited() })
	if err == nil && r.IsAwaited() {
		if err = b.noteSilence(ctx, asked); err == nil {
			r, err = load()
		}
	}
	if err != nil {
		return r, err
	}
	return b.setQueuePlace(ctx, r)
}

// Deleted reports whether a user had a job with this id and deleted it. A deleted job is forgotten some days after its
// end.
func (b *Broker) Deleted(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (bool, error) {
	r, err := b.Records.RecordIncludingHidden(ctx, u, id)
	if dispatch.Is(err, dispatch.NotFound) {
		return false, nil
	}
	return r.Hidden, err
}

// AsKnown is a freshness that every stored status has, so no request is sent to a platform.
const AsKnown = time.Duration(math.MaxInt64)

// Freshen waits until statuses are no older than fresh, at most 5 s. However many clients wait, each status is read
// once. If the database refuses to write, statuses stay as they are stored.
func (b *Broker) Freshen(ctx context.Context, u dispatch.UserID, s dispatch.Scope, fresh time.Duration) error {
	if fresh == AsKnown {
		return nil
	}
	changed, stop := b.Changed.Watch(u)
	defer stop()
	asked, err := b.refresh(ctx, u, s, fresh, b.largestReadInterval())
	if refusedWrite(err) {
		return nil
	}
	for end := time.Now().Add(dispatch.ReadWithin); err == nil; {
		var awaited bool
		if awaited, err = b.Records.AnyAwaited(ctx, u, s); err != nil || !awaited {
			return err
		}
		if !awaitChange(ctx, changed, end) {
			return b.noteSilence(ctx, asked)
		}
	}
	return err
}

// refresh wakes the accounts with statuses older than fresh, and returns them.
func (b *Broker) refresh(ctx context.Context, u dispatch.UserID, s dispatch.Scope, fresh,
	gap time.Duration) ([]dispatch.Account, error) {
	accounts, err := b.Store.MarkAwaited(ctx, u, s, fresh, gap)
	for _, a := range accounts {
		b.Wake(a)
	}
	return accounts, err
}

// noteSilence notes of accounts from which statuses did not come within ReadWithin that their platforms do not respond,
// unless they have responded to other requests lately.
func (b *Broker) noteSilence(ctx context.Context, asked []dispatch.Account) error {
	for _, a := range asked {
		if ctx.Err() != nil || !b.overdue.MustStore(a.Platform(), true) {
			continue
		}
		err := b.Visits.Store.NoteResponse(ctx, a.Platform(), "It did not respond within 5 seconds.",
			dispatch.SilentAfter)
		if err != nil && !refusedWrite(err) {
			return err
		}
	}
	return nil
}

// refusedWrite reports whether the database answered and refused to write.
func refusedWrite(err error) bool {
	e := dispatch.DatabaseError(err)
	return e != nil && e.Answered
}

// minReadInterval returns the least time between two reads of the same status.
func (b *Broker) minReadInterval(platform string) time.Duration {
	if backend := b.BackendNamed(platform); backend != nil && backend.Limits.MinPoll > 0 {
		return backend.Limits.MinPoll
	}
	return minPoll
}

// largestReadInterval returns the largest minReadInterval of all platforms.
func (b *Broker) largestReadInterval() time.Duration {
	var most time.Duration
	for _, backend := range b.Backends {
		most = max(most, b.minReadInterval(backend.Name))
	}
	return most
}

// await returns a job as soon as done holds, or as it is after d.
func (b *Broker) await(ctx context.Context, id dispatch.JobID, d time.Duration,
	load func() (dispatch.Record, error), done func(dispatch.Job) bool) (dispatch.Record, error) {
	changed, stop := b.Saved.Watch(id)
	defer stop()
	for end := time.Now().Add(d); ; {
		r, err := load()
		if err != nil || done(r.Job) || !awaitChange(ctx, changed, end) {
			return r, err
		}
	}
}

// awaitChange waits for a change, one second at most. It reports whether to read again: false once end has passed or
// ctx is done.
func awaitChange(ctx context.Context, changed <-chan struct{}, end time.Time) (again bool) {
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
