package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/identity"
)

// busy is a broker whose reads take their time, and which counts them.
type busy struct {
	*world
	takes time.Duration
	idles bool // it waits for a platform

	mu        sync.Mutex
	now, most int
}

func (b *busy) Usage(ctx context.Context, u dispatch.UserID) ([]dispatch.Usage, error) {
	b.count(1)
	if b.idles {
		b.count(-1)
		idling(ctx, b.takes)
		b.count(1)
	} else {
		time.Sleep(b.takes)
	}
	b.count(-1)
	return b.world.Usage(ctx, u)
}

// idling simulates the domain when it waits for a platform.
func idling(ctx context.Context, d time.Duration) {
	resume := call.In(ctx).PauseTurn()
	time.Sleep(d)
	resume(ctx)
}

func (b *busy) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now += n
	b.most = max(b.most, b.now)
}

// many sends concurrent requests and returns their responses in any order.
func many(n int, send func() *httptest.ResponseRecorder) []*httptest.ResponseRecorder {
	answers := make(chan *httptest.ResponseRecorder, n)
	for range n {
		go func() { answers <- send() }()
	}
	var all []*httptest.ResponseRecorder
	for range n {
		all = append(all, <-answers)
	}
	return all
}

func codes(all []*httptest.ResponseRecorder) map[int]int {
	n := map[int]int{}
	for _, a := range all {
		n[a.Code]++
	}
	return n
}

// A limited number of requests is served at once. More wait for ten seconds at most and are then refused with the name
// of the limit. Other users are not delayed, and nothing is kept of finished requests.
func TestUnderWay_OfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{world: newWorld(), takes: time.Second}
		c := b.config()
		c.Broker, c.Limits.UserRequests, c.Limits.AddressRequests = b, 4, 8
		h := New(c)
		defer h.Close()
		annas := func() *httptest.ResponseRecorder { return ask(h, "GET", "/usage", "") }
		begun := time.Now()
		if n := codes(many(40, annas)); n[200] != 40 || b.most != 4 || time.Since(begun) != 10*time.Second {
			t.Errorf("40 requests: %v, %d at once, after %v", n, b.most, time.Since(begun))
		}
		var all []*httptest.ResponseRecorder
		done := make(chan struct{})
		go func() { all = many(60, annas); close(done) }()
		synctest.Wait()
		begun = time.Now()
		if a := ask(h, "GET", "/usage", "", "Authorization", "Bearer token-bert"); a.Code != 200 ||
			time.Since(begun) != time.Second {
			t.Errorf("another user at the same address: %d after %v", a.Code, time.Since(begun))
		}
		<-done
		if n := codes(all); n[429] < 16 || n[200] < 40 || n[200]+n[429] != 60 {
			t.Errorf("60 requests: %v", n)
		}
		for _, a := range all {
			if a.Code == 429 && (a.Header().Get("Retry-After") != "10" ||
				!strings.Contains(a.Body.String(), "limits.user_requests is 4")) {
				t.Errorf("%q %s", a.Header().Get("Retry-After"), a.Body)
			}
		}
		if a := h.(*api); a.OfUser.Clients()+a.OfAddress.Clients() != 0 {
			t.Errorf("%d, %d are kept", a.OfUser.Clients(), a.OfAddress.Clients())
		}
	})
}

// Requests are served in the order of arrival, and canceled ones stop waiting.
func TestUnderWay_InTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := limits.RequestsAtOnce[int]{Shares: bounds.Shares[int]{Most: 1}}
		release, err := u.AcquireInTime(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		left, cancelFirst := context.WithCancel(t.Context())
		order := make(chan int, 3)
		for i, ctx := range []context.Context{t.Context(), left, t.Context()} {
			go func() {
				release, err := u.AcquireInTime(ctx, 1)
				if err == nil {
					order <- i
					release()
				}
			}()
			synctest.Wait()
		}
		cancelFirst()
		synctest.Wait()
		release()
		synctest.Wait()
		if first, second := <-order, <-order; first != 0 || second != 2 || len(order) != 0 || u.Clients() != 0 {
			t.Errorf("%d before %d, %d more, %d kept", first, second, len(order), u.Clients())
		}
	})
}

// Requests without a known user count for their address, also while a token is verified; health checks do not.
func TestUnderWay_OfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.config()
		c.Verifier, c.Limits.AddressRequests = slowVerifier{w}, 2
		h := New(c)
		defer h.Close()
		var all []*httptest.ResponseRecorder
		done := make(chan struct{})
		go func() {
			all = many(3, func() *httptest.ResponseRecorder { return ask(h, "GET", "/usage", "") })
			close(done)
		}()
		synctest.Wait()
		begun := time.Now()
		if a := ask(h, "GET", "/health", ""); a.Code != 200 || time.Since(begun) != 0 {
			t.Errorf("health: %d after %v", a.Code, time.Since(begun))
		}
		if a := ask(h, "GET", "/grids", ""); a.Code != http.StatusTooManyRequests ||
			!strings.Contains(a.Body.String(), "limits.address_requests is 2") {
			t.Errorf("an open operation: %d %s", a.Code, a.Body)
		}
		<-done
		if n := codes(all); n[200] != 2 || n[429] != 1 {
			t.Errorf("3 requests: %v", n)
		}
	})
}

// slowVerifier takes a minute.
type slowVerifier struct{ *world }

func (s slowVerifier) Verify(ctx context.Context, token dispatch.Secret) (identity.Caller, error) {
	time.Sleep(time.Minute)
	return s.world.Verify(ctx, token)
}

// Requests that wait for a platform, for a change or for a synchronous run do not count. When they continue, they count
// again.
func TestUnderWay_IdleRequestsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{world: newWorld(), takes: 8 * time.Second, idles: true}
		b.sync = func(context.Context, dispatch.Request) (*dispatch.SyncResult, error) {
			time.Sleep(20 * time.Second)
			return nil, &dispatch.Error{Kind: dispatch.Unavailable}
		}
		c := b.config()
		c.Broker, c.Limits.UserRequests = b, 2
		h := New(c)
		defer h.Close()
		begun := time.Now()
		if n := codes(many(100, func() *httptest.ResponseRecorder { return ask(h, "GET", "/usage", "") })); n[200] !=
			100 || time.Since(begun) != 8*time.Second || b.most > 2 {
			t.Errorf("100 that wait for a platform: %v after %v, %d at once", n, time.Since(begun), b.most)
		}
		for _, send := range []func(){
			func() { ask(h, "GET", "/jobs_status?wait=30", "") },
			func() { ask(h, "POST", "/sync_jobs", goodBody) },
		} {
			var sent sync.WaitGroup
			for range 10 {
				sent.Go(send)
			}
			time.Sleep(time.Second)
			begun = time.Now()
			if a := ask(h, "GET", "/grants", ""); a.Code != 200 || time.Since(begun) != 0 {
				t.Errorf("beside those that are idle: %d after %v", a.Code, time.Since(begun))
			}
			sent.Wait()
		}
		if n := h.(*api).OfUser.Clients(); n != 0 {
			t.Errorf("%d users are kept", n)
		}
	})
}
