package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// Of a hundred operations that read large responses, a few hold one at once, also those that read two. Small responses
// do not wait.
func TestShare_LargeResponsesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &simulator.Hostile{Answer: func(r *http.Request) simulator.Reply {
			if r.URL.Path == "/large" {
				return simulator.JSONReply(200, "", `"`+strings.Repeat("x", 1<<20)+`"`)
			}
			return simulator.JSONReply(200, "", `"x"`)
		}}
		c, share := upstream.New(upstream.Config{Development: true, Dial: h.Dial}), upstream.NewShare()
		read := func(ctx context.Context, path string) error {
			_, err := c.Do(ctx, upstream.Call{Method: http.MethodGet, URL: "http://hostile.example" + path})
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var all sync.WaitGroup
		var held, most atomic.Int64
		for range 100 {
			all.Go(func() {
				ctx, end := share.Begin(ctx)
				defer end()
				for range 2 {
					if err := read(ctx, "/large"); err != nil {
						t.Error(err)
					}
				}
				most.Store(max(most.Load(), held.Add(1)))
				time.Sleep(time.Second) // what is done with it
				held.Add(-1)
			})
		}
		time.Sleep(time.Second / 2)
		small, end := share.Begin(ctx)
		begin := time.Now()
		if err := read(small, "/small"); err != nil || time.Since(begin) > 0 {
			t.Errorf("a small answer came after %v, %v", time.Since(begin), err)
		}
		end()
		soon, stop := context.WithTimeout(ctx, time.Second)
		soon, end = share.Begin(soon)
		if err := read(soon, "/large"); !dispatch.Is(err, dispatch.Busy) {
			t.Errorf("a large one without a place: %v", err)
		}
		end()
		stop()
		all.Wait()
		if most.Load() != bounds.AnswersHeld.Most {
			t.Errorf("%d held large answers at once, want %d", most.Load(), bounds.AnswersHeld.Most)
		}
		if err := read(ctx, "/large"); err != nil {
			t.Error(fmt.Errorf("without an operation: %w", err))
		}
		time.Sleep(2 * time.Hour)
	})
}

// A request of a cache may outlive the operation that caused it. It keeps that operation's place until it ends, or
// takes one of its own, and gives it back.
func TestShare_RequestsThatOutliveTheirOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share, cache := upstream.NewShare(), upstream.NewCache(upstream.CacheConfig[string]{Fresh: time.Minute})
		h := &simulator.Hostile{Answer: func(*http.Request) simulator.Reply {
			return simulator.JSONReply(200, "", `"`+strings.Repeat("x", 1<<20)+`"`)
		}}
		c := upstream.New(upstream.Config{Development: true, Dial: h.Dial})
		read := func(ctx context.Context) error {
			_, err := c.Do(ctx, upstream.Call{Method: http.MethodGet, URL: "http://hostile.example/large"})
			return err
		}
		for i := range int(bounds.AnswersHeld.Most) * 3 {
			ctx, end := share.Begin(t.Context())
			ctx, leave := context.WithTimeout(ctx, time.Millisecond)
			_, err := cache.Get(ctx, fmt.Sprint(i), func(ctx context.Context, _ string) (string, error) {
				if i%2 == 0 {
					time.Sleep(time.Second) // the operation has ended
				}
				err := read(ctx)
				time.Sleep(time.Second)
				return "", err
			})
			if !dispatch.Is(err, dispatch.Unavailable) {
				t.Error(err)
			}
			leave()
			end()
			time.Sleep(time.Minute)
		}
		ctx, end := share.Begin(t.Context())
		defer end()
		if err := read(ctx); err != nil {
			t.Errorf("no place is left: %v", err)
		}
	})
}
