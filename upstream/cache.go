package upstream

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	firstPause   = 5 * time.Second        // after a failure, so that a thousand jobs of one bad address ask once in that time
	refusalPause = time.Minute            // longest pause after an answer that is wrong: its author may be mending it
	staleLife    = 24 * time.Hour         // how long a value is used while its source does not answer
	staleRetry   = 30 * time.Second       // until such a source is asked again
	staleAfter   = 750 * time.Millisecond // how long callers wait for a newer value while there is an older one
	cacheEntries = 4096
	cacheBytes   = 64 << 20
	entryBytes   = 512 // of bookkeeping
)

// CacheConfig says how long a [Cache] keeps what, and how much.
type CacheConfig[T any] struct {
	Now      func() time.Time // default time.Now
	Fresh    time.Duration    // how long a value is used without asking again
	MaxPause time.Duration    // longest pause after failures in a row; default 5 s
	Size     func(T) int      // bytes that a value takes; nil: nothing worth counting
}

// Cache keeps what servers answered, by key. Callers that miss the same key at once share one request. After a failure
// the source is left alone for a pause, which doubles with each further failure. A value that is not fresh any more is
// used while its source does not answer, for a day at most. The number of entries and their bytes are bounded.
type Cache[T any] struct {
	CacheConfig[T]
	requests singleflight.Group

	mu    sync.Mutex
	items map[string]cached[T]
	bytes int
	uses  int // counts calls, to tell what was used last
}

type cached[T any] struct {
	value    T
	told     time.Time // when the source gave value; zero: never
	err      error
	until    time.Time // until then nobody asks again
	failures int       // in a row
	used     int
}

// Entry is what a [Cache] has under a key.
type Entry[T any] struct {
	Value T
	Err   error     // of the last request, if there is no value that may be used instead
	Until time.Time // until when the source is not asked again
}

// NewCache makes an empty cache.
func NewCache[T any](c CacheConfig[T]) *Cache[T] {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Cache[T]{CacheConfig: c, items: map[string]cached[T]{}}
}

// Get gives the value under a key, or the error of the last request for it while its pause lasts. Otherwise it asks; ask is
// given the last value, or the zero value, and outlives ctx, since others may wait for it. If there is an older value and
// the answer takes longer than 0.75 s, Get gives the older one.
func (c *Cache[T]) Get(ctx context.Context, key string, ask func(ctx context.Context, last T) (T, error)) (T, error) {
	return c.get(ctx, key, ask, false)
}

// Refresh is Get, but waits for the request to end even if there is an older value.
func (c *Cache[T]) Refresh(ctx context.Context, key string, ask func(ctx context.Context, last T) (T, error)) (T, error) {
	return c.get(ctx, key, ask, true)
}

func (c *Cache[T]) get(ctx context.Context, key string, ask func(context.Context, T) (T, error), patient bool) (T, error) {
	item := c.item(key)
	if c.Now().Before(item.until) {
		return item.value, item.err
	}
	answer := c.requests.DoChan(key, func() (any, error) { return c.request(context.WithoutCancel(ctx), key, ask), nil })
	var late <-chan time.Time
	if !patient && c.usable(item) {
		timer := time.NewTimer(staleAfter)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case r := <-answer:
		item = r.Val.(cached[T])
		return item.value, item.err
	case <-late:
		return item.value, nil
	case <-ctx.Done():
		return item.value, &dispatch.Error{Kind: dispatch.Unavailable, Op: "upstream.Cache", Text: "The server did not answer in time.", Err: ctx.Err()}
	}
}

// request asks the source, unless another request has just ended, and keeps the answer.
func (c *Cache[T]) request(ctx context.Context, key string, ask func(context.Context, T) (T, error)) cached[T] {
	item := c.item(key)
	if c.Now().Before(item.until) {
		return item
	}
	if c.usable(item) {
		timer := time.AfterFunc(staleAfter, func() { c.extend(key, item) })
		defer timer.Stop()
	}
	value, err := guarded(ctx, item.value, ask)
	return c.put(key, item, value, err)
}

// guarded turns a panic into an error: the request runs in a goroutine of its own, where it would end the process.
func guarded[T any](ctx context.Context, last T, ask func(context.Context, T) (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &dispatch.Error{Kind: dispatch.Internal, Op: "upstream.Cache", Err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
		}
	}()
	return ask(ctx, last)
}

// Peek gives what is kept under a key without asking; the zero Entry if that is nothing.
func (c *Cache[T]) Peek(key string) Entry[T] {
	item := c.item(key)
	return Entry[T]{item.value, item.err, item.until}
}

func (c *Cache[T]) item(key string) cached[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, known := c.items[key]
	if known {
		c.uses++
		item.used = c.uses
		c.items[key] = item
	}
	return item
}

// usable reports whether there is a value that may be used although it is not fresh.
func (c *Cache[T]) usable(item cached[T]) bool {
	return !item.told.IsZero() && c.Now().Sub(item.told) < staleLife
}

// extend lets an older value be used for a while longer, because the request for a newer one takes long.
func (c *Cache[T]) extend(key string, was cached[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if item, known := c.items[key]; known && item.told.Equal(was.told) && item.until.Equal(was.until) {
		item.until = c.Now().Add(staleRetry)
		c.items[key] = item
	}
}

// put keeps an answer. A source that does not answer leaves the value before it in use.
func (c *Cache[T]) put(key string, last cached[T], value T, err error) cached[T] {
	now := c.Now()
	item := cached[T]{value: value, told: now, until: now.Add(c.Fresh)}
	if err != nil {
		item = cached[T]{err: err, failures: 1}
		if now.Sub(last.until) < max(c.MaxPause, time.Minute) { // else they are not in a row
			item.failures += last.failures
		}
		pause := c.pause(item.failures, err)
		if Silent(err) && c.usable(last) {
			item.value, item.told, item.err = last.value, last.told, nil
			pause = max(pause, staleRetry)
		}
		item.until = now.Add(pause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	c.uses++
	item.used = c.uses
	c.items[key] = item
	c.bytes += c.size(key, item)
	for len(c.items) > 1 && (len(c.items) > cacheEntries || c.bytes > cacheBytes) {
		c.evict(key)
	}
	return item
}

// pause is how long a source is left alone after so many failures in a row.
func (c *Cache[T]) pause(failures int, err error) time.Duration {
	longest := cmp.Or(c.MaxPause, firstPause)
	if !Silent(err) {
		return min(firstPause<<min(failures-1, 10), longest, refusalPause)
	}
	var asked time.Duration
	if e, ok := err.(*dispatch.Error); ok {
		asked = e.RetryAfter
	}
	return min(max(firstPause<<min(failures-1, 10), asked), longest)
}

func (c *Cache[T]) size(key string, item cached[T]) int {
	n := entryBytes + len(key)
	if c.Size != nil && !item.told.IsZero() {
		n += c.Size(item.value)
	}
	return n
}

func (c *Cache[T]) remove(key string) {
	if item, known := c.items[key]; known {
		c.bytes -= c.size(key, item)
		delete(c.items, key)
	}
}

// evict forgets one entry, but not the one under key: failures before values, then what was not used for longest.
func (c *Cache[T]) evict(key string) {
	victim, found := "", false
	for k, item := range c.items {
		if k != key && (!found || c.items[victim].outranks(item)) {
			victim, found = k, true
		}
	}
	c.remove(victim)
}

// outranks reports whether i is worth more than other.
func (i cached[T]) outranks(other cached[T]) bool {
	if (i.err == nil) != (other.err == nil) {
		return i.err == nil
	}
	return i.used > other.used
}

// Silent reports whether an error means that a source did not answer, and says nothing about what it would answer.
func Silent(err error) bool {
	return dispatch.Is(err, dispatch.Unavailable) || dispatch.Is(err, dispatch.Busy) || dispatch.Is(err, dispatch.DocumentUnreachable)
}
