package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// source responds to a cache as the test says, after a while.
type source struct {
	value string
	err   error
	takes time.Duration
	asked atomic.Int32
}

func (s *source) ask(_ context.Context, _ string) (string, error) {
	s.asked.Add(1)
	time.Sleep(s.takes)
	return s.value, s.err
}

func kind(k dispatch.Kind) error { return &dispatch.Error{Kind: k, Op: "test", Text: "because"} }

func inMemory(t *testing.T, c upstream.CacheConfig[string], test func(*testing.T, *upstream.Cache[string])) {
	synctest.Test(t, func(t *testing.T) {
		c.Fresh = time.Minute
		test(t, upstream.NewCache(c))
	})
}

// All callers that miss the same key at once share one request, which outlives each of them.
func TestCache_SharesRequests(t *testing.T) {
	inMemory(t, upstream.CacheConfig[string]{}, func(t *testing.T, c *upstream.Cache[string]) {
		s := &source{value: "v", takes: time.Second}
		gone, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		if _, err := c.Get(gone, "k", s.ask); !dispatch.Is(err, dispatch.Unavailable) {
			t.Error(err)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if v, err := c.Get(t.Context(), "k", s.ask); v != "v" || err != nil {
					t.Error(v, err)
				}
			})
		}
		all.Wait()
		if n := s.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// A source that fails is asked after 5, 10, 20 s, up to the maximum pause. A faulty response is requested again within
// a minute. After a success the pauses start again.
func TestCache_PausesGrow(t *testing.T) {
	for _, c := range []struct {
		err     error
		longest time.Duration
		want    []time.Duration
	}{
		{kind(dispatch.Unavailable), 10 * time.Minute, []time.Duration{5, 10, 20, 40, 80, 160, 320, 600, 600}},
		{kind(dispatch.DocumentInvalid), 10 * time.Minute, []time.Duration{5, 10, 20, 40, 60, 60}},
		{kind(dispatch.Unavailable), 0, []time.Duration{5, 5, 5}},
		{&dispatch.Error{Kind: dispatch.Busy, RetryAfter: 30 * time.Second}, 10 * time.Minute,
			[]time.Duration{30, 30, 30, 40}},
	} {
		inMemory(t, upstream.CacheConfig[string]{MaxPause: c.longest},
			func(t *testing.T, cache *upstream.Cache[string]) {
				s := &source{err: c.err}
				get := func() { _, _ = cache.Get(t.Context(), "k", s.ask) }
				for i, want := range c.want {
					get()
					if e := cache.Peek("k"); e.Err == nil || time.Until(e.Until) != want*time.Second {
						t.Errorf("pause %d after %v is %v, not %vs", i, c.err, time.Until(e.Until), int(want))
					}
					time.Sleep(time.Until(cache.Peek("k").Until) - time.Millisecond)
					get()
					if n := s.asked.Load(); n != int32(i+1) {
						t.Errorf("asked %d times before the end of pause %d", n, i)
					}
					time.Sleep(time.Millisecond)
				}
				s.err, s.value = nil, "v"
				get()
				time.Sleep(time.Minute)
				s.err = kind(dispatch.DocumentInvalid)
				get()
				if e := cache.Peek("k"); time.Until(e.Until) != 5*time.Second || e.Value != "" {
					t.Errorf("after a success: %+v", e)
				}
			})
	}
}

// An old value is returned while its source does not respond or takes long, for a day at most, and never after its
// source has withdrawn it.
func TestCache_ReturnsOldValues(t *testing.T) {
	inMemory(t, upstream.CacheConfig[string]{}, func(t *testing.T, c *upstream.Cache[string]) {
		s := &source{value: "old"}
		get := func() (string, error) { return c.Get(t.Context(), "k", s.ask) }
		want := func(value string, k dispatch.Kind, within time.Duration) {
			t.Helper()
			begin := time.Now()
			v, err := get()
			if v != value || value != "" && err != nil || value == "" && !dispatch.Is(err, k) ||
				time.Since(begin) > within {
				t.Errorf("%q, %v after %v", v, err, time.Since(begin))
			}
		}
		want("old", 0, 0)
		time.Sleep(time.Minute)
		s.value, s.takes = "new", 10*time.Second
		want("old", 0, time.Second)
		asked := s.asked.Load()
		time.Sleep(5 * time.Second)
		want("old", 0, 0) // still under way
		if v, err := c.Refresh(t.Context(), "k", s.ask); v != "old" || err != nil || s.asked.Load() != asked {
			t.Errorf("%q, %v, asked %d times", v, err, s.asked.Load())
		}
		time.Sleep(5 * time.Second)
		want("new", 0, 0)
		s.takes, s.err = 0, kind(dispatch.Unavailable)
		time.Sleep(23 * time.Hour)
		want("new", 0, 0)
		time.Sleep(2 * time.Hour)
		want("", dispatch.Unavailable, 0)
		s.err = nil
		time.Sleep(time.Hour)
		want("new", 0, 0)
		time.Sleep(time.Hour)
		s.err = kind(dispatch.NotFound)
		want("", dispatch.NotFound, 0)
	})
}

// A value that is used is renewed before its end, and nobody waits for that; one that is not used is not. A source that
// does not respond then is asked again as after the end.
func TestCache_RenewsWhatIsUsed(t *testing.T) {
	inMemory(t, upstream.CacheConfig[string]{}, func(t *testing.T, c *upstream.Cache[string]) {
		s := &source{value: "v", takes: time.Second}
		get := func() {
			t.Helper()
			begin := time.Now()
			if v, err := c.Get(t.Context(), "k", s.ask); v != "v" || err != nil || time.Since(begin) > 0 {
				t.Errorf("%q, %v after %v", v, err, time.Since(begin))
			}
		}
		during := func(seconds int) int32 {
			before := s.asked.Load()
			for range seconds {
				time.Sleep(time.Second)
				get()
			}
			synctest.Wait()
			return s.asked.Load() - before
		}
		if _, err := c.Get(t.Context(), "k", s.ask); err != nil {
			t.Fatal(err)
		}
		if n := during(44); n != 0 {
			t.Errorf("asked %d times in the first three quarters", n)
		}
		if n := during(460); n != 10 { // the renewal takes a second
			t.Errorf("asked %d times in ten lives", n)
		}
		s.takes, s.err = 0, kind(dispatch.Unavailable)
		if n := during(150); n < 3 || n > 5 {
			t.Errorf("asked %d times while the source does not respond", n)
		}
		s.err = nil
		if n := during(30); n != 1 {
			t.Errorf("asked %d times when it responds again", n)
		}
		before := s.asked.Load()
		time.Sleep(time.Hour)
		if s.asked.Load() != before {
			t.Error("asked although nobody uses the value")
		}
	})
}

// A panic in the request's own goroutine would end the process.
func TestCache_SurvivesAPanic(t *testing.T) {
	inMemory(t, upstream.CacheConfig[string]{}, func(t *testing.T, c *upstream.Cache[string]) {
		_, err := c.Get(t.Context(), "k", func(context.Context, string) (string, error) { panic("bad document") })
		if !dispatch.Is(err, dispatch.Internal) || errors.Unwrap(err) == nil {
			t.Error(err)
		}
	})
}

// However many addresses users name, few entries are kept, and those that are used.
func TestCache_IsBounded(t *testing.T) {
	inMemory(t, upstream.CacheConfig[string]{}, func(t *testing.T, c *upstream.Cache[string]) {
		good, bad := &source{value: "good"}, &source{err: kind(dispatch.Invalid)}
		const entries = 4096
		for i := range entries + 100 {
			_, _ = c.Get(t.Context(), fmt.Sprint("bad", i), bad.ask)
			if v, err := c.Get(t.Context(), "good", good.ask); v != "good" || err != nil || good.asked.Load() != 1 {
				t.Fatalf("got %q, %v after %d requests", v, err, good.asked.Load())
			}
		}
		kept := 0
		for i := range entries + 100 {
			if c.Peek(fmt.Sprint("bad", i)).Err != nil {
				kept++
			}
		}
		if kept != entries-1 {
			t.Errorf("%d failures are kept", kept)
		}
	})
}

// The most recently used values are kept, and always the one that was just requested.
func TestCache_BoundsBytes(t *testing.T) {
	const heavy = 20 << 20 // three of them fit into 64 MiB
	inMemory(t, upstream.CacheConfig[string]{Size: func(string) int { return heavy }},
		func(t *testing.T, c *upstream.Cache[string]) {
			s := &source{value: "v"}
			for _, key := range []string{"a", "b", "c", "a", "d"} {
				if v, err := c.Get(t.Context(), key, s.ask); v != "v" || err != nil {
					t.Fatal(v, err)
				}
			}
			for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
				if kept := c.Peek(key).Value != ""; kept != want {
					t.Errorf("%s is kept: %v", key, kept)
				}
			}
		})
}
