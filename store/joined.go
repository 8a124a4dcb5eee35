package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	joinWithin = time.Millisecond // no transaction joins one that has run for longer
	joinAtMost = 32               // transactions that are committed together
)

// inVisit runs a transaction of a visit like in, and inClient one of a client. On SQLite one that writes few jobs may be committed together with others, whose
// errors do not concern it.
func (s *Store) inVisit(ctx context.Context, op string, jobs int, f func(q tx, now int64) error) error {
	return s.small(ctx, s.visit, op, jobs, &joining{f: f, visit: true})
}

func (s *Store) inClient(ctx context.Context, op string, jobs int, f func(q tx, now int64) error) error {
	return s.small(ctx, s.write, op, jobs, &joining{f: f})
}

func (s *Store) small(ctx context.Context, db *sql.DB, op string, jobs int, t *joining) error {
	if s.joined == nil || jobs > rowsAtOnce {
		return s.in(ctx, db, op, t.f)
	}
	ctx, end := s.begin(ctx, op)
	t.ctx, t.ended = ctx, make(chan error, 1)
	err := s.joined.run(t)
	if errors.Is(err, errAlone) {
		err = s.once(ctx, db, nil, t.f)
	}
	end(err)
	return fail(op, err)
}

// joined runs the small transactions of several callers as one, because SQLite has one writer, which would wait for the disk for each of them.
// Nobody waits for others to come: those are joined that arrived while the writer was busy.
type joined struct {
	store *Store

	mu      sync.Mutex
	waiting []*joining
	running bool
}

// joining is the transaction of a caller who waits for its end.
type joining struct {
	ctx   context.Context
	visit bool // of a visit. It comes first, because a platform's slots may be idle meanwhile
	f     func(q tx, now int64) error
	ended chan error // has room for one
}

// errAlone is the outcome of a transaction that is to be run again by itself, because one that was joined with it failed, or it panicked.
var errAlone = errors.New("the transaction must be run by itself")

// run runs a transaction together with others. Once that has begun, ctx does not end it.
func (j *joined) run(t *joining) error {
	j.add(t)
	select {
	case err := <-t.ended:
		return err
	case <-t.ctx.Done():
		if j.remove(t) {
			return t.ctx.Err()
		}
		return <-t.ended
	}
}

func (j *joined) add(t *joining) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.IndexFunc(j.waiting, func(w *joining) bool { return t.visit && !w.visit })
	if at < 0 {
		at = len(j.waiting)
	}
	j.waiting = slices.Insert(j.waiting, at, t)
	if !j.running {
		j.running = true
		go j.runAll()
	}
}

// remove removes a transaction that has not begun, and reports whether there was one.
func (j *joined) remove(t *joining) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := len(j.waiting)
	j.waiting = slices.DeleteFunc(j.waiting, func(w *joining) bool { return w == t })
	return len(j.waiting) < before
}

// next removes and returns the first transaction that waits, nil if there is none.
func (j *joined) next() *joining {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) == 0 {
		return nil
	}
	t := j.waiting[0]
	j.waiting = slices.Delete(j.waiting, 0, 1)
	return t
}

// runAll runs transactions until none waits.
func (j *joined) runAll() {
	for {
		j.mu.Lock()
		j.running = len(j.waiting) > 0
		running := j.running
		j.mu.Unlock()
		if !running {
			return
		}
		j.runSome()
	}
}

// runSome runs the transactions that wait as one, as many as begin within joinWithin.
func (j *joined) runSome() {
	ctx, s := context.Background(), j.store
	s.ready(ctx, s.write)
	begun, now, err := s.beginTx(ctx, s.write, nil)
	if err != nil {
		if t := j.next(); t != nil {
			t.ended <- err
		}
		return
	}
	defer begun.Rollback()
	var some []*joining
	for since := time.Now(); err == nil && len(some) < joinAtMost && (len(some) == 0 || time.Since(since) < joinWithin); {
		t := j.next()
		if t == nil {
			break
		}
		some = append(some, t)
		err = t.runIn(s.tx(t.ctx, s.write, begun), now)
	}
	switch {
	case len(some) == 0: // their callers gave up
		return
	case err == nil:
		err = committed(begun.Commit())
	case len(some) > 1:
		err = errAlone
	}
	if err != nil {
		_ = begun.Rollback() // before the first of them is run again
	}
	for _, t := range some {
		t.ended <- err
	}
}

// runIn runs the statements of t. One that panics is run again by its caller, who panics then.
func (t *joining) runIn(q tx, now int64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errAlone, p)
		}
	}()
	return t.f(q, now)
}
