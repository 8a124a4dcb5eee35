package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

// probe is a façade that signs in whoever sends a token, and then does what the test wants.
type probe struct {
	serve func(facade.Server, http.ResponseWriter, *http.Request) error
}

func (probe) Paths() []string { return []string{"/probe"} }

func (p probe) Serve(s facade.Server, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := facade.WithDeadline(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	var err error
	if token, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); sent {
		_, err = s.SignIn(r, dispatch.Secret(token))
	}
	if err == nil {
		err = p.serve(s, w, r)
	}
	if err != nil {
		p.Refuse(w, r, s.Problem(r.Context(), err))
	}
}

func (probe) Refuse(w http.ResponseWriter, _ *http.Request, p facade.Problem) {
	w.WriteHeader(p.Status)
	_, _ = w.Write([]byte(p.Message))
}

func withProbe(w *world, serve func(facade.Server, http.ResponseWriter, *http.Request) error) Config {
	c := w.config()
	c.Facades = []facade.Facade{probe{serve}}
	return c
}

// A request that waits does not count among those of its user that are served at once.
func TestFacade_WaitingRequestsLeaveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withProbe(newWorld(), func(s facade.Server, _ http.ResponseWriter, r *http.Request) error {
			ctx, end, err := s.BeginWait(r.Context())
			if err != nil {
				return err
			}
			defer end()
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
			}
			return nil
		})
		c.Limits.UserRequests, c.Limits.Sockets = 1, 2
		h := New(c)
		done := make(chan int, 3)
		wait := func() { done <- ask(h, "GET", "/probe", "").Code }
		go wait()
		go wait()
		synctest.Wait()
		begun := time.Now()
		if got := ask(h, "GET", "/usage", ""); got.Code != 200 || time.Since(begun) > 0 {
			t.Errorf("%d after %v", got.Code, time.Since(begun))
		}
		if got := ask(h, "GET", "/probe", ""); got.Code != 429 {
			t.Errorf("more wait than limits.sockets: %d", got.Code)
		}
		if a, b := <-done, <-done; a != 200 || b != 200 || time.Since(begun) != 30*time.Second {
			t.Errorf("%d and %d after %v", a, b, time.Since(begun))
		}
		go wait()
		synctest.Wait()
		begun = time.Now()
		h.Close() // ends what waits
		if code := <-done; code != 200 || time.Since(begun) > 0 {
			t.Errorf("%d after %v", code, time.Since(begun))
		}
	})
}

// A request that takes too long is refused with that reason, and the log says what it was doing.
func TestFacade_ARequestThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := New(withProbe(w, func(_ facade.Server, _ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return &dispatch.Error{Kind: dispatch.Internal, Op: "probe.reading", Err: r.Context().Err()}
		}))
		defer h.Close()
		got := ask(h, "GET", "/probe", "")
		if got.Code != 503 || !strings.Contains(got.Body.String(), "110 seconds") ||
			!strings.Contains(w.log.String(), "probe.reading") {
			t.Errorf("%d %s; %s", got.Code, got.Body, w.log.String())
		}
	})
}

// Bodies of requests are bounded together until the requests end: those of one user, and those of all strangers.
func TestFacade_BodiesAreBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := withProbe(newWorld(), func(s facade.Server, w http.ResponseWriter, r *http.Request) error {
			if _, err := s.ReadBody(w, r); err != nil {
				return err
			}
			_, end, err := s.BeginWait(r.Context()) // as while a platform is asked
			if err != nil {
				return err
			}
			defer end()
			<-release
			return nil
		})
		c.Limits.Body = 4 << 20
		h := New(c)
		defer h.Close()
		body := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
		if got := ask(h, "POST", "/probe", body(1<<20+1), "Authorization", ""); got.Code != 413 ||
			!strings.Contains(got.Body.String(), "open_body") {
			t.Errorf("a large body without a token: %d %s", got.Code, got.Body)
		}
		for _, of := range []struct {
			size, most int
			token      string
		}{{1 << 20, limits.BodiesOfAddress, ""}, {4 << 20, limits.BodiesOfUser, "Bearer token-anna"}} {
			answers := make(chan *httptest.ResponseRecorder, of.most)
			for range of.most {
				go func() { answers <- ask(h, "POST", "/probe", body(of.size), "Authorization", of.token) }()
			}
			synctest.Wait()
			if got := ask(h, "POST", "/probe", body(of.size), "Authorization", of.token); got.Code != 429 {
				t.Errorf("%q: one more than %d is answered with %d", of.token, of.most, got.Code)
			}
			another := make(chan int)
			go func() { another <- ask(h, "POST", "/probe", "{}", "Authorization", "Bearer token-bert").Code }()
			go func() { // somebody who has not signed in, at another address
				r := httptest.NewRequest("POST", "/probe", strings.NewReader(body(1<<20)))
				r.RemoteAddr = "198.51.100.7:1"
				got := httptest.NewRecorder()
				h.ServeHTTP(got, r)
				another <- got.Code
			}()
			synctest.Wait()
			for range of.most + 2 {
				release <- struct{}{}
			}
			for range of.most {
				if got := <-answers; got.Code != 200 {
					t.Errorf("%q: %d %s", of.token, got.Code, got.Body)
				}
			}
			for range 2 {
				if code := <-another; code != 200 {
					t.Errorf("%q: others get %d", of.token, code)
				}
			}
		}
		if a := h.(*api); a.Bodies.Clients()+a.OpenBodies.Clients() != 0 {
			t.Error("what was read is still counted")
		}
	})
}

// A run that a façade has begun is passed on to its end while the service stops, and no other begins.
func TestFacade_RunsOutlastTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.sync = func(context.Context, dispatch.Request) (*dispatch.SyncResult, error) {
			time.Sleep(time.Minute) // longer than the write deadline
			return &dispatch.SyncResult{Body: io.NopCloser(strings.NewReader("result"))}, nil
		}
		h := New(withProbe(w, func(s facade.Server, w http.ResponseWriter, r *http.Request) error {
			result, err := s.RunSync(w, r, dispatch.Request{})
			if err != nil {
				return err
			}
			defer result.Body.Close()
			return s.Stream(w, r, http.StatusOK, result.Body)
		}))
		ask := func() *httptest.ResponseRecorder {
			r := httptest.NewRequest("POST", "/probe", nil)
			r.Header.Set("Authorization", "Bearer token-anna")
			return send(h, r)
		}
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- ask() }()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { h.Close(); close(closed) }()
		synctest.Wait()
		if got := ask(); got.Code != http.StatusServiceUnavailable {
			t.Errorf("a run that is asked for while the service stops: %d %s", got.Code, got.Body)
		}
		if got := <-first; got.Code != http.StatusOK || got.Body.String() != "result" {
			t.Errorf("a run that had begun: %d %s", got.Code, got.Body)
		}
		<-closed
	})
}

// Areas of one user are split one after the other, and another user's between them.
func TestFacade_UsersSplitAreasInTurn(t *testing.T) {
	h := New(withProbe(newWorld(), func(s facade.Server, w http.ResponseWriter, r *http.Request) error {
		g, _ := grid.Named("20x20km")
		pieces, isBox, err := s.Split(r.Context(), g, json.RawMessage(r.URL.Query().Get("area")), 100)
		_ = json.NewEncoder(w).Encode(map[string]any{"tiles": len(pieces), "box": isBox})
		return err
	}))
	defer h.Close()
	for area, want := range map[string]string{
		`{"west":4,"south":50,"east":4.5,"north":50.5}`:                          `{"box":true,"tiles":`,
		`{"type":"Polygon","coordinates":[[[4,50],[4.5,50],[4.5,50.5],[4,50]]]}`: `{"box":false,"tiles":`,
		`{"west":4,"south":50,"east":40,"north":60}`:                             "at most 100 are allowed",
		`{"west":4,"south":89,"east":5,"north":95}`:                              "between -90 and 90",
		`{"type":"Point","coordinates":[4,50]}`:                                  "area cannot be split",
	} {
		r := httptest.NewRequest("GET", "/probe", nil)
		r.URL.RawQuery = "area=" + strings.NewReplacer(`"`, "%22", "{", "%7B", "}", "%7D", "[", "%5B", "]",
			"%5D").Replace(area)
		if got := send(h, r); !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: %s", area, got.Body)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		a := New(newWorld().config()).(*api)
		defer a.Close()
		leave, err := a.Cores.Acquire(t.Context(), "user anna", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx := call.With(t.Context(), &call.Call{})
		call.In(ctx).Caller.User = "anna"
		begun := time.Now()
		if err := a.splitInTurn(ctx, nil); err == nil || time.Since(begun) != splitTurn {
			t.Errorf("a second area of one user: %v after %v", err, time.Since(begun))
		}
		leave()
		if a.Cores.Clients() != 0 {
			t.Error("a request that was refused keeps its place")
		}
	})
}

// A key that is sent twice, and a missing token, are refused as in the interface itself.
func TestFacade_HeadersOfRequests(t *testing.T) {
	var failure error
	h := New(withProbe(newWorld(), func(s facade.Server, _ http.ResponseWriter, r *http.Request) error {
		_, failure = s.Key(r, nil)
		if failure == nil {
			_, failure = s.SignIn(r, "")
		}
		return failure
	}))
	defer h.Close()
	r := httptest.NewRequest("POST", "/probe", nil)
	r.Header["Idempotency-Key"] = []string{"a", "b"}
	if got := send(h, r); got.Code != 422 {
		t.Errorf("two keys: %d", got.Code)
	}
	send(h, httptest.NewRequest("POST", "/probe", nil))
	// RFC 6750, section 3.1: no error without a token
	if is, _ := failure.(call.Refusal); is.Header["WWW-Authenticate"] != "Bearer" {
		t.Errorf("without a token: %+v", failure)
	}
}
