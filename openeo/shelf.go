package openeo

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	failureLife = 5 * time.Second  // so that a thousand jobs with one bad URL ask once in that time
	staleLife   = 24 * time.Hour   // how long what is known serves while its source does not answer
	staleRetry  = 30 * time.Second // until the source is asked again
	shelfSize   = 256
	shelfWeight = 64 << 20 // bytes
)

// shelf keeps what others told, for a while. Callers that miss the same thing at once share one question.
type shelf[T any] struct {
	now     func() time.Time
	life    time.Duration
	weigh   func(T) int // nil: nothing weighs anything
	flights singleflight.Group

	mu    sync.Mutex
	items map[string]shelved[T]
}

type shelved[T any] struct {
	value T
	err   error
	until time.Time // fresh until
	told  time.Time // when the source told value; zero: never
}

func newShelf[T any](now func() time.Time, life time.Duration) *shelf[T] {
	return &shelf[T]{now: now, life: life, items: map[string]shelved[T]{}}
}

// get gives what is kept under key, or asks for it: ask is given what was told last, or the zero value. It outlives ctx,
// since others may wait for it too.
func (s *shelf[T]) get(ctx context.Context, key string, ask func(ctx context.Context, last T) (T, error)) (T, error) {
	item := s.item(key)
	if s.now().Before(item.until) {
		return item.value, item.err
	}
	flight := s.flights.DoChan(key, func() (any, error) {
		if item := s.item(key); s.now().Before(item.until) { // another flight has just ended
			return item, nil
		}
		value, err := ask(context.WithoutCancel(ctx), item.value)
		return s.put(key, item, value, err), nil
	})
	select {
	case r := <-flight:
		item = r.Val.(shelved[T])
		return item.value, item.err
	case <-ctx.Done():
		return item.value, &dispatch.Error{Kind: dispatch.Unavailable, Op: "openeo.shelf", Text: "The platform did not answer in time.", Err: ctx.Err()}
	}
}

func (s *shelf[T]) item(key string) shelved[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[key]
}

// put keeps an answer. A source that is silent leaves what it told before in place.
func (s *shelf[T]) put(key string, last shelved[T], value T, err error) shelved[T] {
	now := s.now()
	item := shelved[T]{value: value, until: now.Add(s.life), told: now}
	switch {
	case err == nil:
	case silent(err) && !last.told.IsZero() && now.Sub(last.told) < staleLife:
		item = shelved[T]{value: last.value, until: now.Add(staleRetry), told: last.told}
	default:
		item = shelved[T]{err: err, until: now.Add(failureLife)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[key] = item
	for len(s.items) > 1 && (len(s.items) > shelfSize || s.weight() > shelfWeight) {
		s.drop(key)
	}
	return item
}

func (s *shelf[T]) weight() (sum int) {
	if s.weigh == nil {
		return 0
	}
	for _, item := range s.items {
		sum += s.weigh(item.value)
	}
	return sum
}

// drop forgets what expires first, but key.
func (s *shelf[T]) drop(key string) {
	oldest := ""
	for k, it := range s.items {
		if k != key && (oldest == "" || it.until.Before(s.items[oldest].until)) {
			oldest = k
		}
	}
	delete(s.items, oldest)
}

func silent(err error) bool {
	return dispatch.Is(err, dispatch.Unavailable) || dispatch.Is(err, dispatch.Busy)
}
