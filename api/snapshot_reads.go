package api

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// readings lets all who ask for the same topic share a reading that began after they asked. So nobody is given what was
// read before a change that they know of, and there are two readings of a topic at most, one under way and one next.
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

func (s *snapshotReads) get(ctx context.Context, t topic, read func(context.Context) (*snapshot, error)) (*snapshot, error) {
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

func (s *snapshotReads) join(ctx context.Context, t topic, read func(context.Context) (*snapshot, error)) *snapshotRead {
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

func (s *snapshotReads) run(ctx context.Context, t topic, r *snapshotRead, read func(context.Context) (*snapshot, error)) {
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

const keepFor = 2 * time.Second // what another process saved may not be heard of

// kept is a snapshot that is true until something is saved.
type kept struct {
	snapshot *snapshot
	saved    <-chan struct{}
	stop     func()
}

// keep gives a snapshot to whoever asks for a moment, unless something was saved since it was begun.
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

// drop ends the keeping of k, if it is still kept. s.mu is held.
func (s *snapshotReads) drop(t topic, k *kept) {
	if k != nil && s.kept[t] == k {
		k.stop()
		delete(s.kept, t)
	}
}

// valid is the snapshot that is kept, nil if there is none. s.mu is held.
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
