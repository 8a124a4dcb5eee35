package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	// after a failure; a thousand jobs with one bad address cause one request in this time
	firstPause   = 5 * time.Second
	refusalPause = time.Minute            // maximum pause after a faulty response, whose author may correct it soon
	staleLife    = 24 * time.Hour         // how long a value is used while its source does not respond
	staleRetry   = 30 * time.Second       // before a source that did not respond is asked again
	staleAfter   = 750 * time.Millisecond // how long callers wait for a newer value if there is an older one
	cacheEntries = 4096
	cacheBytes   = 64 << 20
	entryBytes   = 512 // overhead of an entry
)

// CacheConfig configures how long and how much a [Cache] stores.
type CacheConfig[T any] struct {
	Now      func() time.Time // default time.Now
	Fresh    time.Duration    // how long a value is used without a new request
	MaxPause time.Duration    // maximum pause after consecutive failures; default 5 s
	Size     func(T) int      // size of a value in bytes; nil: not counted
}

// Cache stores the responses of servers by key. Callers that miss the same key at once share one request. In the last
// quarter of its life a value that is used is renewed, for which no caller waits. After a failure there is a pause,
// which doubles with each further failure. A value that is no longer fresh is used while its source does not respond,
// for a day at most. The number of entries and their bytes are bounded.
type Cache[T any] struct {
	CacheConfig[T]
	requests singleflight.Group

	mu    sync.Mutex
	items *simplelru.LRU[string, cached[T]]
	bytes int
}

type cached[T any] struct {
	value    T
	fetched  time.Time // when the source returned value; zero: never
	err      error
	until    time.Time // the source is not asked before
	failures int       // in a row
}

// Entry is the content of a [Cache] under a key.
type Entry[T any] struct {
	Value T
	Err   error     // error of the last request; nil if there is a value that may be used instead
	Until time.Time // the source is not asked before
}

// NewCache returns an empty cache.
func NewCache[T any](c CacheConfig[T]) *Cache[T] {
	if c.Now == nil {
		c.Now = time.Now
	}
	cache := &Cache[T]{CacheConfig: c}
	cache.items, _ = simplelru.NewLRU(cacheEntries, func(key string, item cached[T]) { // fails for a size of 0 only
		cache.bytes -= cache.size(key, item)
	})
	return cache
}

// Get returns the value under a key, or while its pause lasts the error of the last request. Otherwise it calls ask
// with the last value, or the zero value. The request outlives ctx, because others may wait for it, or nobody. If there
// is an older value and the request takes longer than 0.75 s, Get returns the older value.
func (c *Cache[T]) Get(ctx context.Context, key string, ask func(ctx context.Context, last T) (T, error)) (T, error) {
	return c.get(ctx, key, ask, false)
}

// Refresh is Get, but waits for the request even if there is an older value.
func (c *Cache[T]) Refresh(ctx context.Context, key string,
	ask func(ctx context.Context, last T) (T, error)) (T, error) {
	return c.get(ctx, key, ask, true)
}

func (c *Cache[T]) get(ctx context.Context, key string, ask func(context.Context, T) (T, error),
	patient bool) (T, error) {
	item := c.item(key)
	if c.Now().Before(item.until) {
		if c.ages(item) {
			c.begin(ctx, key, ask)
		}
		return item.value, item.err
	}
	answer := c.begin(ctx, key, ask)
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
		return item.value, &dispatch.Error{Kind: dispatch.Unavailable, Op: "upstream.Cache",
			Text: "The server did not respond in time.", Err: ctx.Err()}
	}
}

// Want requests a value that will soon be needed, as Get does, but does not wait for it.
func (c *Cache[T]) Want(ctx context.Context, key string, ask func(ctx context.Context, last T) (T, error)) {
	if item := c.item(key); !c.Now().Before(item.until) || c.ages(item) {
		c.begin(ctx, key, ask)
	}
}

// begin begins a request, or joins the one that is under way.
func (c *Cache[T]) begin(ctx context.Context, key string,
	ask func(context.Context, T) (T, error)) <-chan singleflight.Result {
	return c.requests.DoChan(key, func() (any, error) { return c.request(context.WithoutCancel(ctx), key, ask), nil })
}

// request asks the source, unless another request has just ended, and stores the result.
func (c *Cache[T]) request(ctx context.Context, key string, ask func(context.Context, T) (T, error)) cached[T] {
	ctx, end := outlive(ctx)
	defer end()
	item := c.item(key)
	if c.Now().Before(item.until) && !c.ages(item) {
		return item
	}
	if c.usable(item) {
		timer := time.AfterFunc(staleAfter, func() { c.extend(key, item) })
		defer timer.Stop()
	}
	value, err := recoverAsError(ctx, item.value, ask)
	return c.put(key, item, value, err)
}

// recoverAsError turns a panic into an error, because a panic in the request's own goroutine would end the process.
func recoverAsError[T any](ctx context.Context, last T, ask func(context.Context, T) (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &dispatch.Error{Kind: dispatch.Internal, Op: "upstream.Cache",
				Err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
		}
	}()
	return ask(ctx, last)
}

// Peek returns the content under a key without a request; the zero Entry if there is none.
func (c *Cache[T]) Peek(key string) Entry[T] {
	item := c.item(key)
	return Entry[T]{item.value, item.err, item.until}
}

func (c *Cache[T]) item(key string) cached[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, _ := c.items.Get(key)
	return item
}

// ages reports whether a value is in the last quarter of its life. One that is used because its source did not respond
// has none.
func (c *Cache[T]) ages(item cached[T]) bool {
	return item.err == nil && item.until.Equal(item.fetched.Add(c.Fresh)) && !c.Now().Before(item.until.Add(-c.Fresh/4))
}

// usable reports whether there is a value that may be used although it is not fresh.
func (c *Cache[T]) usable(item cached[T]) bool {
	return !item.fetched.IsZero() && c.Now().Sub(item.fetched) < staleLife
}

// extend prolongs the use of an older value while the request for a newer one runs.
func (c *Cache[T]) extend(key string, before cached[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.Now().Add(staleRetry)
	item, _ := c.items.Peek(key)
	if item.fetched.Equal(before.fetched) && item.until.Equal(before.until) && until.After(item.until) {
		item.until = until
		c.items.Add(key, item)
	}
}

// put stores a result. If the source did not respond, the last value remains in use.
func (c *Cache[T]) put(key string, last cached[T], value T, err error) cached[T] {
	now := c.Now()
	item := cached[T]{value: value, fetched: now, until: now.Add(c.Fresh)}
	if err != nil {
		item = cached[T]{err: err, failures: 1}
		if now.Sub(last.until) < max(c.MaxPause, time.Minute) { // otherwise the failures are not consecutive
			item.failures += last.failures
		}
		pause := c.pause(item.failures, err)
		if NotAnswered(err) && c.usable(last) {
			item.value, item.fetched, item.err = last.value, last.fetched, nil
			pause = max(pause, staleRetry)
		}
		item.until = now.Add(pause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items.Remove(key)
	c.items.Add(key, item)
	c.bytes += c.size(key, item)
	for c.items.Len() > 1 && c.bytes > cacheBytes {
		c.items.RemoveOldest()
	}
	return item
}

// pause returns how long a source is not asked after consecutive failures.
func (c *Cache[T]) pause(failures int, err error) time.Duration {
	longest := cmp.Or(c.MaxPause, firstPause)
	if !NotAnswered(err) {
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
	if c.Size != nil && !item.fetched.IsZero() {
		n += c.Size(item.value)
	}
	return n
}

// KeyFor returns the key of what a server shows at an address to the holder of a token; the address for what it shows
// to everybody.
func KeyFor(token dispatch.Secret, address string) string {
	if token == "" {
		return address
	}
	return fmt.Sprintf("%x %s", sha256.Sum256([]byte(token.Reveal())), address)
}

// NotAnswered reports whether an error means that a source did not respond, which says nothing about what it would
// respond.
func NotAnswered(err error) bool {
	return dispatch.Is(err, dispatch.Unavailable) || dispatch.Is(err, dispatch.Busy) ||
		dispatch.Is(err, dispatch.DocumentUnreachable)
}
