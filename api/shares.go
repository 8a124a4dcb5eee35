package api

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// shares bounds what each of many clients has at once, such as requests or bytes. Further ones wait in the order of
// their arrival. most must be set before use; the zero value admits nothing.
type shares[K comparable] struct {
	most int64

	mu sync.Mutex
	of map[K]*share
}

// share is the share of one client. It exists while somebody holds a part of it or waits for one.
type share struct {
	*semaphore.Weighted
	members int
}

// acquire waits for n units of a client's share. It never succeeds for n above most.
func (s *shares[K]) acquire(ctx context.Context, client K, n int64) (release func(), err error) {
	own := s.join(client)
	if err := own.Acquire(ctx, n); err != nil {
		s.part(client, own)
		return nil, err
	}
	return s.releaser(client, own, n), nil
}

// tryAcquire is acquire without waiting. It returns nil if there is no room.
func (s *shares[K]) tryAcquire(client K, n int64) (release func()) {
	own := s.join(client)
	if !own.TryAcquire(n) {
		s.part(client, own)
		return nil
	}
	return s.releaser(client, own, n)
}

// awaited reports whether more than one request holds a part of a client's share, or waits for one.
func (s *shares[K]) awaited(client K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[client]
	return own != nil && own.members > 1
}

func (s *shares[K]) releaser(client K, own *share, n int64) func() {
	return func() {
		own.Release(n)
		s.part(client, own)
	}
}

func (s *shares[K]) join(client K) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[K]*share{}
	}
	if s.of[client] == nil {
		s.of[client] = &share{Weighted: semaphore.NewWeighted(s.most)}
	}
	s.of[client].members++
	return s.of[client]
}

func (s *shares[K]) part(client K, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.members--; own.members == 0 {
		delete(s.of, client)
	}
}
