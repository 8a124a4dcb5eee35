package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// batches runs the small transactions of several callers as one, so that they share a commit. Nobody waits for others
// to come: those are joined that arrived while the one before was under way. Each has a savepoint, so that one that is
// refused undoes nothing of the others.
//
// On SQLite these are all small transactions: it has one writer, which would wait for the disk for each of them. On
// PostgreSQL they are the acceptances of one user, whose jobs are counted under a lock that is kept until the commit.
type batches struct {
	store  *Store
	within time.Duration // no transaction joins those that have run for longer

	mu      sync.Mutex
	waiting map[string][]*joining // by what they have in common; there is an entry while some are under way
}

// joinAtMost is how many transactions are committed together.
const joinAtMost = 32

// joining is the transaction of a caller who waits for its end.
type joining struct {
	ctx   context.Context
	visit bool // of a visit. It comes first, because a platform's slots may be idle meanwhile
	f     func(q tx, now int64) error
	ended chan error // has room for one
}

// errAlone is the outcome of a transaction that is to be run again by itself: it panicked, or one that was joined with
// it has ended the transaction of all.
var errAlone = errors.New("the transaction must be run by itself")

// inVisit runs a transaction of a visit that writes some jobs like in.
func (s *Store) inVisit(ctx context.Context, op string, jobs int, f func(q tx, now int64) error) error {
	if s.remote || jobs > rowsAtOnce {
		return s.in(ctx, s.visit, op, f)
	}
	return s.inBatch(ctx, op, "", &joining{f: f, visit: true})
}

// inAcceptance runs a transaction that accepts some jobs of an owner like in.
func (s *Store) inAcceptance(ctx context.Context, u dispatch.UserID, jobs int, f func(q tx, now int64) error) error {
	switch {
	case jobs > rowsAtOnce:
		return s.in(ctx, s.write, "Accept", f)
	case s.remote:
		return s.inBatch(ctx, "Accept", string(u), &joining{f: f})
	}
	return s.inBatch(ctx, "Accept", "", &joining{f: f})
}

func (s *Store) inBatch(ctx context.Context, op, common string, t *joining) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	tracedCtx, end := s.begin(ctx, op)
	t.ctx, t.ended = tracedCtx, make(chan error, 1)
	err := s.batches.run(common, t)
	for n := 0; n < attempts && (errors.Is(err, errAlone) || retryable(err)); n++ {
		err = s.once(tracedCtx, s.write, nil, t.f)
	}
	end(err)
	return fail(op, err)
}

// run runs a transaction together with others. Once that has begun, its context does not end it. A caller who waits in
// any case runs the first ones itself, which spares a goroutine and the growth of its stack.
func (b *batches) run(common string, t *joining) error {
	switch first := b.add(common, t); {
	case first && t.ctx.Done() == nil:
		b.runNext(common)
		if !b.idle(common) {
			go b.runAll(common)
		}
	case first:
		go b.runAll(common)
	}
	select {
	case err := <-t.ended:
		return err
	case <-t.ctx.Done():
		if b.remove(common, t) {
			return t.ctx.Err()
		}
		return <-t.ended
	}
}

// add reports whether no other is under way.
func (b *batches) add(common string, t *joining) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting, underWay := b.waiting[common]
	place := slices.IndexFunc(waiting, func(w *joining) bool { return t.visit && !w.visit })
	if place < 0 {
		place = len(waiting)
	}
	if b.waiting == nil {
		b.waiting = map[string][]*joining{}
	}
	b.waiting[common] = slices.Insert(waiting, place, t)
	return !underWay
}

// remove removes a transaction that has not begun, and reports whether there was one.
func (b *batches) remove(common string, t *joining) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.waiting[common])
	left := slices.DeleteFunc(b.waiting[common], func(w *joining) bool { return w == t })
	if len(left) < before {
		b.waiting[common] = left
	}
	return len(left) < before
}

// next removes and returns the first transaction that waits, nil if there is none.
func (b *batches) next(common string) *joining {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := b.waiting[common]
	if len(waiting) == 0 {
		return nil
	}
	first := waiting[0]
	b.waiting[common] = slices.Delete(waiting, 0, 1)
	return first
}

// idle reports whether none waits. Then none is under way any more.
func (b *batches) idle(common string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle := len(b.waiting[common]) == 0
	if idle {
		delete(b.waiting, common)
	}
	return idle
}

// runAll runs transactions until none waits.
func (b *batches) runAll(common string) {
	for !b.idle(common) {
		b.runNext(common)
	}
}

func (b *batches) runNext(common string) {
	joined, err := b.runSome(common)
	for _, t := range joined {
		t.ended <- err
	}
}

// runSome runs the transactions that wait, and commits them. It returns those to whom the outcome belongs: all but
// those that were refused, who have theirs. Callers may give up until the transaction begins.
func (b *batches) runSome(common string) (joined []*joining, err error) {
	ctx, cancel := b.store.bounded(context.Background())
	defer cancel()
	b.store.ready(ctx, b.store.write)
	begun, now, err := b.store.beginTx(ctx, b.store.write, nil)
	first := b.next(common)
	switch {
	case first == nil && err == nil:
		return nil, begun.Rollback()
	case first == nil:
		return nil, err
	case err != nil:
		return []*joining{first}, err
	}
	defer begun.Rollback()
	since := time.Now()
	if err := first.runIn(b.store.tx(first.ctx, b.store.write, begun, now)); err != nil {
		return []*joining{first}, err
	}
	joined = []*joining{first}
	for len(joined) < joinAtMost && time.Since(since) < b.within {
		t := b.next(common)
		if t == nil {
			break
		}
		refused, err := t.runAfter(b.store.tx(t.ctx, b.store.write, begun, now), begun)
		if err != nil { // nothing of all is stored
			return append(joined, t), errAlone
		}
		if refused != nil {
			t.ended <- refused
			continue
		}
		joined = append(joined, t)
	}
	return joined, committed(begun.Commit())
}

// runAfter runs the statements of t after those of others, and undoes them if t is refused. An error concerns all.
func (t *joining) runAfter(q tx, begun transaction) (refused, err error) {
	ctx := context.WithoutCancel(t.ctx)
	if _, err := begun.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return nil, err
	}
	if refused = t.runIn(q); refused != nil {
		if _, err := begun.ExecContext(ctx, "ROLLBACK TO SAVEPOINT one"); err != nil {
			return nil, err
		}
	}
	_, err = begun.ExecContext(ctx, "RELEASE SAVEPOINT one")
	return refused, err
}

// runIn runs the statements of t. One that panics is run again by its caller, who panics then.
func (t *joining) runIn(q tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errAlone, p)
		}
	}()
	if err := t.f(q, q.now); err != nil {
		return err
	}
	return q.number(context.WithoutCancel(t.ctx))
}
