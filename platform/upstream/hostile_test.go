package upstream_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// Whatever a server sends, a call and a fetch end in time, read little more than their limit, take little memory, and
// return an error with a kind and a text.
func TestDo_BoundsHostileResponses(t *testing.T) {
	const limit, within = 1 << 20, 20 * time.Second
	for name, reply := range simulator.HostileReplies() {
		calls := map[string]func(context.Context, *upstream.Client) error{
			"read": func(ctx context.Context, c *upstream.Client) error {
				a, err := c.Do(ctx, upstream.Call{Method: http.MethodGet, URL: "http://hostile.example/x",
					Limit: limit})
				if err == nil {
					err = upstream.JSON(a, "test", &map[string]any{})
				}
				return err
			},
			"effect": func(ctx context.Context, c *upstream.Client) error {
				a, err := c.Do(ctx, upstream.Call{Method: http.MethodPost, URL: "http://hostile.example/x",
					Limit: limit, Effect: true})
				if err == nil {
					err = upstream.JSON(a, "test", &map[string]any{})
				}
				return err
			},
			"fetch": func(ctx context.Context, c *upstream.Client) error {
				a, err := c.Fetch(ctx, upstream.Fetch{URL: "http://hostile.example/x", Limit: limit})
				if err == nil {
					err = upstream.JSON(a, "test", &map[string]any{})
				}
				return err
			},
		}
		for kind, call := range calls {
			t.Run(kind+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &simulator.Hostile{Answer: func(*http.Request) simulator.Reply { return reply }}
					c := upstream.New(upstream.Config{Development: true, Dial: h.Dial})
					ctx, cancel := context.WithTimeout(t.Context(), within)
					defer cancel()
					begin, used := time.Now(), conformance.Allocated()
					err := call(ctx, c)
					if took := time.Since(begin); took > within {
						t.Errorf("it took %v", took)
					}
					if used = conformance.Allocated() - used; used > 12*limit {
						t.Errorf("%d KiB were allocated", used>>10)
					}
					time.Sleep(2 * time.Hour) // until all connections have ended
					if n := h.Wrote(); n > limit+128<<10 {
						t.Errorf("%d KiB were read", n>>10)
					}
					if n := len(h.Asked()); n > 4 {
						t.Errorf("%d requests", n)
					}
					if dispatch.KindOf(err) == dispatch.Internal || dispatch.TextFor(err) == "" {
						t.Errorf("got %v", err)
					}
				})
			})
		}
	}
}

// TestClient_RefusesAnotherProtocol: the body of a response that switches protocols is the connection, and no deadline
// ends a read of that.
func TestClient_RefusesAnotherProtocol(t *testing.T) {
	const url = "http://hostile.example/x"
	for name, row := range map[string]struct {
		ask  func(context.Context, *upstream.Client) error
		want dispatch.Kind
	}{
		"read": {func(ctx context.Context, c *upstream.Client) error {
			_, err := c.Do(ctx, upstream.Call{Method: http.MethodGet, URL: url})
			return err
		}, dispatch.BadUpstream},
		"effect": {func(ctx context.Context, c *upstream.Client) error {
			_, err := c.Do(ctx, upstream.Call{Method: http.MethodPost, URL: url, Effect: true})
			return err
		}, dispatch.Uncertain},
		"stream": {func(ctx context.Context, c *upstream.Client) error {
			a, err := c.Stream(ctx, upstream.Call{Method: http.MethodGet, URL: url})
			if err != nil {
				return err
			}
			return drained(a.Stream)
		}, dispatch.BadUpstream},
		"file": {func(ctx context.Context, c *upstream.Client) error {
			a, err := c.Relay(ctx, upstream.Relay{FileRequest: file(url)})
			if err != nil {
				return err
			}
			return drained(a.Body)
		}, dispatch.BadUpstream},
		"delivery": {func(ctx context.Context, c *upstream.Client) error {
			_, _, err := c.Deliver(ctx, upstream.Delivery{URL: url, Header: http.Header{}})
			return err
		}, dispatch.BadUpstream},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &simulator.Hostile{Answer: func(*http.Request) simulator.Reply {
					return simulator.HostileReplies()["another protocol"]
				}}
				begin := time.Now()
				err := row.ask(t.Context(), upstream.New(upstream.Config{Development: true, Dial: h.Dial}))
				if dispatch.KindOf(err) != row.want || dispatch.TextFor(err) == "" {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begin); took > time.Minute {
					t.Errorf("it took %v", took)
				}
				time.Sleep(2 * time.Hour) // until all connections have ended
			})
		})
	}
}

func drained(body io.ReadCloser) error {
	defer body.Close()
	_, err := io.Copy(io.Discard, body)
	return err
}
