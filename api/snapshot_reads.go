package api

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// snapshotReads lets all callers that ask for the same topic share a read that began after they asked, so that nobody
// gets a state from before a change that they know of. At most two reads of a topic exist: one in progress and one that
// waits for it.
type snapshotReads struct {
	mu   sync.Mutex
	of   map[topic]*snapshotRead
	kept map[topic]*kept
}

type snapshotRead struct {
	done     chan struct{}
	snapshot *snapshot
	err      error
	panicked any
	next     *snapshotRead
}

func (s *snapshotReads) get(ctx context.Context, t topic, read func(context.Context) (*snapshot, error)) (*snapshot,
	error) {
	r := s.join(ctx, t, read)
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, &dispatch.Error{Kind: dispatch.Unavailable, Op: "api.readSnapshot", Err: ctx.Err()}
	}
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.snapshot, r.err
}

func (s *snapshotReads) join(ctx context.Context, t topic, read func(context.Context) (*snapshot,
	error)) *snapshotRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.valid(t); p != nil {
		r := &snapshotRead{done: make(chan struct{}), snapshot: p}
		close(r.done)
		return r
	}
	if now := s.of[t]; now != nil {
		if now.next == nil {
			now.next = &snapshotRead{done: make(chan struct{})}
		}
		return now.next
	}
	r := &snapshotRead{done: make(chan struct{})}
	if s.of == nil {
		s.of = map[topic]*snapshotRead{}
	}
	s.of[t] = r
	go s.run(context.WithoutCancel(ctx), t, r, read)
	return r
}

func (s *snapshotReads) run(ctx context.Context, t topic, r *snapshotRead, read func(context.Context) (*snapshot,
	error)) {
	for r != nil {
		r.read(ctx, read)
		s.mu.Lock()
		next := r.next
		if s.of[t] = next; next == nil {
			delete(s.of, t)
		}
		s.mu.Unlock()
		close(r.done)
		r = next
	}
}

func (r *snapshotRead) read(ctx context.Context, read func(context.Context) (*snapshot, error)) {
	defer func() { r.panicked = recover() }()
	r.snapshot, r.err = read(ctx)
}

const keepFor = 2 * time.Second // another process may save without this one being notified

// kept is a snapshot that is valid until something is saved.
type kept struct {
	snapshot *snapshot
	saved    <-chan struct{}
	stop     func()
}

// keep caches a snapshot for keepFor, unless something was saved since its read began.
func (s *snapshotReads) keep(t topic, k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(t, s.kept[t])
	if s.kept == nil {
		s.kept = map[topic]*kept{}
	}
	s.kept[t] = k
	time.AfterFunc(keepFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(t, k)
	})
}

// drop removes k from the cache if it is still there. s.mu is held.
func (s *snapshotReads) drop(t topic, k *kept) {
	if k != nil && s.kept[t] == k {
		k.stop()
		delete(s.kept, t)
	}
}

// valid returns the cached snapshot of a topic; nil if there is none. s.mu is held.
func (s *snapshotReads) valid(t topic) *snapshot {
	k := s.kept[t]
	if k == nil {
		return nil
	}
	select {
	case <-k.saved:
		s.drop(t, k)
		return nil
	default:
		return k.snapshot
	}
}
