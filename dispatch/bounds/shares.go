package bounds

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Shares bounds what each of many clients has at once, such as requests or bytes. Further ones wait in the order of
// their arrival. Most must be set before use, except of AcquireOf; the zero value admits nothing.
type Shares[K comparable] struct {
	Most int64

	mu      sync.Mutex
	clients map[K]*share
}

// share is the share of one client. It exists while somebody holds a part of it or waits for one.
type share struct {
	*semaphore.Weighted
	members int
}

// Acquire waits for n units of a client's share. It never succeeds for n above Most.
func (s *Shares[K]) Acquire(ctx context.Context, client K, n int64) (release func(), err error) {
	return s.AcquireOf(ctx, client, n, s.Most)
}

// AcquireOf is Acquire with most in place of Most. It must be the same for all acquisitions of one client.
func (s *Shares[K]) AcquireOf(ctx context.Context, client K, n, most int64) (release func(), err error) {
	own := s.join(client, most)
	if err := own.Acquire(ctx, n); err != nil {
		s.part(client, own)
		return nil, err
	}
	return s.releaser(client, own, n), nil
}

// TryAcquire is Acquire without waiting. It returns nil if there is no room.
func (s *Shares[K]) TryAcquire(client K, n int64) (release func()) {
	own := s.join(client, s.Most)
	if !own.TryAcquire(n) {
		s.part(client, own)
		return nil
	}
	return s.releaser(client, own, n)
}

// Clients returns how many clients hold a part of their share, or wait for one.
func (s *Shares[K]) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

func (s *Shares[K]) releaser(client K, own *share, n int64) func() {
	return func() {
		own.Release(n)
		s.part(client, own)
	}
}

func (s *Shares[K]) join(client K, most int64) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		s.clients = map[K]*share{}
	}
	if s.clients[client] == nil {
		s.clients[client] = &share{Weighted: semaphore.NewWeighted(most)}
	}
	s.clients[client].members++
	return s.clients[client]
}

func (s *Shares[K]) part(client K, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.members--; own.members == 0 {
		delete(s.clients, client)
	}
}

// Places bounds what all clients have together at once, and each of them.
type Places[K comparable] struct {
	own Shares[K]
	all *semaphore.Weighted
}

// NewPlaces returns places for the given number of units, of which a client has at most own.
func NewPlaces[K comparable](all, own int64) *Places[K] {
	return &Places[K]{own: Shares[K]{Most: min(own, all)}, all: semaphore.NewWeighted(all)}
}

// Own returns how many units one client has at most.
func (p *Places[K]) Own() int64 { return p.own.Most }

// Clients returns how many clients are inside, or wait.
func (p *Places[K]) Clients() int { return p.own.Clients() }

// Acquire waits for n units, Own at most. It takes them from the client's share first, so that a client who waits for
// its own requests keeps no other client waiting.
func (p *Places[K]) Acquire(ctx context.Context, client K, n int64) (release func(), err error) {
	own, err := p.own.Acquire(ctx, client, n)
	if err != nil {
		return nil, err
	}
	if err := p.all.Acquire(ctx, n); err != nil {
		own()
		return nil, err
	}
	return p.releaser(own, n), nil
}

// TryAcquire is Acquire without waiting. It returns nil if there is no room.
func (p *Places[K]) TryAcquire(client K, n int64) (release func()) {
	own := p.own.TryAcquire(client, n)
	if own == nil {
		return nil
	}
	if !p.all.TryAcquire(n) {
		own()
		return nil
	}
	return p.releaser(own, n)
}

func (p *Places[K]) releaser(own func(), n int64) func() {
	return func() {
		p.all.Release(n)
		own()
	}
}
