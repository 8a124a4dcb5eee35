package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	togetherAtMost = 16      // jobs that are accepted in one transaction. Each number of rows is a statement of its own
	togetherBytes  = 1 << 16 // a job whose request is larger is accepted by itself
)

// together accepts single jobs of one user at one account that are submitted at the same time in one transaction. On PostgreSQL the jobs of a user are counted under
// a lock that is kept until the commit, so that each would wait for the commits of all before it. Nobody waits for others to come: those are
// accepted together that came while one was being accepted. If that fails, each is accepted again by itself, so that errors concern only their
// caller.
type together struct {
	mu      sync.Mutex
	waiting map[acceptedAt][]*accepting // there is an entry while a transaction is under way
}

type acceptedAt struct {
	dispatch.UserID
	dispatch.Account
}

// accepting is a job whose caller waits for its acceptance.
type accepting struct {
	ctx    context.Context
	key    dispatch.Key
	job    *dispatch.Draft
	within []dispatch.Quota
	ended  chan accepted // has room for one
}

// accepted is what came of an acceptance.
type accepted struct {
	first dispatch.KeyTarget
	err   error
}

// acceptOne accepts a job, perhaps together with others. Once that has begun, ctx does not end it.
func (s *Store) acceptOne(ctx context.Context, k dispatch.Key, jobs []dispatch.Draft, within []dispatch.Quota) (dispatch.KeyTarget, error) {
	alone := acceptance{keys: []dispatch.Key{k}, jobs: jobs}
	t, at := &accepting{ctx, k, &jobs[0], within, make(chan accepted, 1)}, acceptedAt{jobs[0].Owner, jobs[0].Account}
	if s.together.begin(at, t) {
		defer s.acceptNext(at)
		return s.acceptAll(ctx, alone, within)
	}
	ctx, end := s.begin(ctx, "Accept")
	got := s.together.await(at, t)
	if errors.Is(got.err, errAlone) {
		got.first, got.err = s.acceptAll(ctx, alone, within)
	}
	end(got.err)
	return got.first, fail("Accept", got.err)
}

// begin reports whether t may be accepted at once; otherwise it waits for what is under way.
func (w *together) begin(at acceptedAt, t *accepting) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if waiting, underWay := w.waiting[at]; underWay {
		w.waiting[at] = append(waiting, t)
		return false
	}
	if w.waiting == nil {
		w.waiting = map[acceptedAt][]*accepting{}
	}
	w.waiting[at] = nil
	return true
}

// await returns what came of t, or the error of its context if that ends before t was begun.
func (w *together) await(at acceptedAt, t *accepting) accepted {
	select {
	case got := <-t.ended:
		return got
	case <-t.ctx.Done():
	}
	if w.remove(at, t) {
		return accepted{err: t.ctx.Err()}
	}
	return <-t.ended
}

// remove removes t unless it was begun, and reports whether it did.
func (w *together) remove(at acceptedAt, t *accepting) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited := len(w.waiting[at])
	left := slices.DeleteFunc(w.waiting[at], func(o *accepting) bool { return o == t })
	if len(left) == waited {
		return false
	}
	w.waiting[at] = left
	return true
}

// next removes and returns those that are accepted next. If none waits, nothing is under way any more.
func (w *together) next(at acceptedAt) []*accepting {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.waiting[at]
	if len(waiting) == 0 {
		delete(w.waiting, at)
		return nil
	}
	n := 1
	for n < min(len(waiting), togetherAtMost) && slices.Equal(waiting[n].within, waiting[0].within) {
		n++
	}
	w.waiting[at] = slices.Clone(waiting[n:])
	return waiting[:n]
}

// acceptNext begins to accept those that wait, until none does.
func (s *Store) acceptNext(at acceptedAt) {
	some := s.together.next(at)
	if some == nil {
		return
	}
	go func() {
		for ; some != nil; some = s.together.next(at) {
			got := s.acceptSome(some)
			for _, t := range some {
				t.ended <- got
			}
		}
	}()
}

// acceptSome accepts jobs in one transaction. errAlone: nothing was stored, and each is to be accepted by itself.
func (s *Store) acceptSome(some []*accepting) (got accepted) {
	defer func() {
		if p := recover(); p != nil {
			got = accepted{err: fmt.Errorf("%w: %v", errAlone, p)}
		}
	}()
	var a acceptance
	for _, t := range some {
		a.keys, a.jobs = append(a.keys, t.key), append(a.jobs, *t.job)
	}
	got.first, got.err = s.acceptAll(context.WithoutCancel(some[0].ctx), a, some[0].within)
	concernsAll := len(some) == 1 || dispatch.DatabaseError(got.err) != nil // what was not confirmed may be stored
	if !concernsAll && got.err != nil {
		return accepted{err: errAlone}
	}
	for i, t := range some {
		*t.job = a.jobs[i]
	}
	return got
}
