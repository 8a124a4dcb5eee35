package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
)

// Beyond the rate, a user's requests get 429 with a correct Retry-After; other users are not affected.
func TestRates_OfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.config()
		c.Limits.UserPace = 5 * time.Second
		h := New(c)
		defer h.Close()
		for i, want := range []int{200, 200, 429} {
			if a := ask(h, "GET", "/usage", ""); a.Code != want ||
				(a.Header().Get("Retry-After") == "5") != (want == 429) {
				t.Errorf("request %d: %d, Retry-After %q", i, a.Code, a.Header().Get("Retry-After"))
			}
		}
		if a := ask(h, "GET", "/usage", "", "Authorization", "Bearer token-bert"); a.Code != 200 {
			t.Errorf("another user: %d", a.Code)
		}
		time.Sleep(5 * time.Second)
		if a := ask(h, "GET", "/usage", ""); a.Code != 200 {
			t.Errorf("after the pause: %d", a.Code)
		}
	})
}

// Requests without a token count too; health checks do not.
func TestRates_OfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.config()
		// httptest's is 192.0.2.1
		c.Limits.AddressPace, c.Proxies = 5*time.Second, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		h := New(c)
		defer h.Close()
		for i, want := range []int{401, 401, 429} {
			if a := ask(h, "GET", "/usage", "", "Authorization", "", "X-Forwarded-For",
				"198.51.100.1"); a.Code != want {
				t.Errorf("request %d: %d, want %d", i, a.Code, want)
			}
		}
		if a := ask(h, "GET", "/usage", "", "X-Forwarded-For", "198.51.100.2"); a.Code != 200 {
			t.Errorf("another address: %d", a.Code)
		}
		if a := ask(h, "GET", "/health", "", "X-Forwarded-For", "198.51.100.1"); a.Code != 200 {
			t.Errorf("health: %d", a.Code)
		}
	})
}

// Memory is bounded whatever addresses send requests.
func TestRates_AreBoundedInMemory(t *testing.T) {
	r := limits.Rates[int]{Pace: time.Second}
	for client := range 5 * limits.MaxRated {
		r.Wait(client)
	}
	if n := len(r.Newer) + len(r.Older); n > 2*limits.MaxRated {
		t.Errorf("%d clients are kept", n)
	}
}

func TestClientAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, row := range []struct {
		remote string
		said   []string
		want   string
	}{
		{"203.0.113.9:1", []string{"198.51.100.1"}, "203.0.113.9"}, // a stranger is not believed
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		// what the client itself wrote is not believed
		{"10.0.0.1:1", []string{"192.0.2.66, 198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"192.0.2.66", "198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"198.51.100.1, nonsense"}, "10.0.0.1"},
		{"[::ffff:10.0.0.1]:1", []string{"2001:db8::1"}, "2001:db8::1"},
		{"[fd00::1]:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
	} {
		r := &http.Request{RemoteAddr: row.remote, Header: http.Header{"X-Forwarded-For": row.said}}
		if got := limits.ClientAddress(r, trusted).String(); got != row.want {
			t.Errorf("%s %q: %s, want %s", row.remote, row.said, got, row.want)
		}
	}
	if limits.Network(netip.MustParseAddr("2001:db8::1")) != limits.Network(netip.MustParseAddr("2001:db8::2")) {
		t.Error("one client's addresses count apart")
	}
}

// Audit lines have the client's address; other lines do not.
func TestAudit_HasTheClientsAddress(t *testing.T) {
	var out strings.Builder
	log := slog.New(call.LogHandler(slog.NewTextHandler(&out, nil)))
	a := &api{Config: Config{Log: log}.withDefaults()}
	a.track(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		log.InfoContext(r.Context(), "audit", "action", "submit")
		log.InfoContext(r.Context(), "other")
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "address=192.0.2.1") != strings.Contains(line, "msg=audit") {
			t.Error(line)
		}
	}
}
