package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// ticket requests a ticket as anna.
func ticket(t *testing.T, h http.Handler) wire.Ticket {
	t.Helper()
	return decode[wire.Ticket](t, ask(h, "POST", "/tickets", ""), 201)
}

// presented returns the status of a request with a ticket that is no stream: 426 for a valid ticket.
func presented(t *testing.T, h http.Handler, ticket string, status int) string {
	t.Helper()
	a := ask(h, "GET", "/job_status?ticket="+url.QueryEscape(ticket), "", "Authorization", "", "X-Correlation-ID",
		"same")
	if a.Code != status {
		t.Errorf("%d, want %d: %s", a.Code, status, a.Body)
	}
	return a.Body.String()
}

// A ticket opens a list or a task as the user who requested it, once.
func TestTickets_OpenAStream(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	without := []string{"Authorization", ""}
	id := fmt.Sprint(decode[wire.UpscalingTaskSummary](t, ask(s.api, "POST", "/upscale_tasks", goodTask), 201).ID)
	for _, path := range []string{"/job_status", "/ws/jobs_status", "/ws/upscale_tasks/" + id} {
		given := ticket(t, s.api)
		signed := len(s.w.signed)
		s.try([]handshake{
			{"first", path + "?ticket=" + given.Ticket, without, 101},
			{"again", path + "?ticket=" + given.Ticket, without, 401},
			{"with a token", path + "?ticket=" + ticket(t, s.api).Ticket, nil, 401},
			{"with a token in the query", path + "?token=token-anna&ticket=" + ticket(t, s.api).Ticket, without, 401},
			{"two", path + "?ticket=" + ticket(t, s.api).Ticket + "&ticket=" + ticket(t, s.api).Ticket, without, 401},
		})
		if more := len(s.w.signed) - signed; more != 4 { // tickets were asked for with a token; streams have none
			t.Errorf("%s: %d sign-ins", path, more)
		}
	}
	anothers := decode[wire.Ticket](t, ask(s.api, "POST", "/tickets", "", "Authorization", "Bearer token-bert"), 201)
	s.try([]handshake{{"another's task", "/ws/upscale_tasks/" + id + "?ticket=" + anothers.Ticket, without, 404}})
}

// No other request accepts a ticket.
func TestTickets_OpenStreamsAlone(t *testing.T) {
	h := New(newWorld().config())
	defer h.Close()
	for _, path := range []string{"/jobs_status", "/unit_jobs/1", "/usage"} {
		given := ticket(t, h).Ticket
		failed(t, ask(h, "GET", path+"?ticket="+given, "", "Authorization", ""), 401, "AUTHENTICATION_FAILED")
		failed(t, ask(h, "GET", path, "", "Authorization", "Bearer "+given), 401, "AUTHENTICATION_FAILED")
	}
}

// A ticket that was used, is too old, was changed, is another service's, or is none. A used ticket does not become
// valid by another encoding.
func TestTickets_AreRefusedWithOneText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, other := New(newWorld().config()), New(newWorld().config())
		defer h.Close()
		defer other.Close()
		old := ticket(t, h)
		if life := time.Until(old.Expires); life != limits.TicketLasts {
			t.Errorf("a ticket is good for %v", life)
		}
		time.Sleep(limits.TicketLasts)
		used := ticket(t, h).Ticket
		presented(t, h, used, 426)
		raw, err := base64.RawURLEncoding.DecodeString(used)
		if err != nil {
			t.Fatal(err)
		}
		bad := map[string]string{"used": used, "old": old.Ticket, "another service's": ticket(t, other).Ticket,
			"none": "x", "empty": "", "a token": "token-anna",
			"too long": strings.Repeat("A", 4096+4), "with line breaks": used[:9] + "\r\n" + used[9:],
			"short": used[:20]}
		for i := range raw {
			changed := append([]byte(nil), raw...)
			changed[i] ^= 1
			bad[fmt.Sprint("changed at ", i)] = base64.RawURLEncoding.EncodeToString(changed)
		}
		texts := map[string]bool{}
		for name, text := range bad {
			if body := presented(t, h, text, 401); !texts[body] && len(texts) > 0 {
				t.Errorf("%s: another text: %s", name, body)
			} else {
				texts[body] = true
			}
		}
	})
}

// Replicas that share a database accept each other's tickets, each once, even for concurrent requests.
func TestTickets_AreGoodOnceInAllProcesses(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.Secret = "of the database"
	replicas := []API{New(c), New(c)}
	for _, h := range replicas {
		defer h.Close()
	}
	for range 5 {
		given := ticket(t, replicas[0]).Ticket
		var taken atomic.Int64
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if ask(replicas[i%2], "GET", "/job_status?ticket="+given, "", "Authorization", "").Code == 426 {
					taken.Add(1)
				}
			})
		}
		all.Wait()
		if n := taken.Load(); n != 1 {
			t.Errorf("a ticket was taken %d times", n)
		}
	}
	presented(t, replicas[1], ticket(t, replicas[0]).Ticket, 426)
}

// A database whose clock is ahead does not forget a ticket that a replica would still accept.
func TestTickets_AreRememberedLongerThanTheyLast(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	defer h.Close()
	given := ticket(t, h)
	presented(t, h, given.Ticket, 426)
	if len(w.used) != 1 {
		t.Fatalf("%d names", len(w.used))
	}
	for name, until := range w.used {
		if until.Sub(given.Expires) < 5*time.Minute || until.Sub(given.Expires) > time.Hour ||
			!strings.HasPrefix(name, "ticket ") {
			t.Errorf("%s until %v, the ticket until %v", name, until, given.Expires)
		}
	}
}

// The stream ends with the token that the ticket was requested with, and no ticket is valid longer than that token.
func TestTickets_StreamsEndWithTheToken(t *testing.T) {
	w := newWorld()
	w.expires = time.Now().Add(4 * time.Second)
	s := serveWorld(t, w, nil)
	given := ticket(t, s.api)
	if !given.Expires.Equal(w.expires) {
		t.Errorf("the ticket is good until %v, its token until %v", given.Expires, w.expires)
	}
	c := s.open("/job_status?interval=3600&ticket="+given.Ticket, "Authorization", "")
	c.until("error")
	if code := c.closed(); code != websocket.StatusPolicyViolation || time.Now().Before(w.expires) {
		t.Errorf("closed with %d, %v before the end", code, time.Until(w.expires))
	}
}

// In 30 seconds a user gets as many tickets as streams; others are not affected.
func TestTickets_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWorld().config()
		c.Limits.Sockets = 3
		h := New(c)
		defer h.Close()
		for range 3 {
			ticket(t, h)
		}
		a := ask(h, "POST", "/tickets", "")
		failed(t, a, 429, "RATE_LIMITED")
		if again := a.Header().Get("Retry-After"); again != "10" {
			t.Errorf("Retry-After %q", again)
		}
		decode[wire.Ticket](t, ask(h, "POST", "/tickets", "", "Authorization", "Bearer token-bert"), 201)
		time.Sleep(10 * time.Second)
		ticket(t, h)
	})
}

// Neither the ticket nor the log names the user, and the log does not contain the ticket.
func TestTickets_TellNothing(t *testing.T) {
	w := newWorld()
	s := serveWorld(t, w, nil)
	without := []string{"Authorization", ""}
	given := ticket(t, s.api).Ticket
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil || strings.Contains(string(raw), "anna") || len(given) > 512 {
		t.Errorf("%q, %v", raw, err)
	}
	s.try([]handshake{
		{"filter", "/job_status?filter=all&ticket=" + given, without, 422},
		{"used", "/job_status?ticket=" + given, without, 401},
		{"good", "/job_status?ticket=" + ticket(t, s.api).Ticket, without, 101},
	})
	// the line of a stream comes with its end
	until(t, func() bool { return strings.Count(w.log.String(), "/job_status") == 3 })
	if log := w.log.String(); strings.Contains(log, given) || strings.Contains(log, "ticket=") {
		t.Errorf("log: %s", log)
	}
}

// Pages of allowed origins may request a ticket, and can read why they get none.
func TestTickets_OfPagesOfOtherOrigins(t *testing.T) {
	c := newWorld().config()
	c.CORSOrigins = []string{"https://portal.example.org"}
	h := New(c)
	defer h.Close()
	preflight := ask(h, "OPTIONS", "/tickets", "", "Authorization", "", "Origin", "https://portal.example.org",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if preflight.Code != 204 || !strings.Contains(preflight.Header().Get("Access-Control-Allow-Headers"),
		"authorization") || !strings.Contains(preflight.Header().Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("%d %v", preflight.Code, preflight.Header())
	}
	for token, status := range map[string]int{"Bearer token-anna": 201, "Bearer bad": 401} {
		a := ask(h, "POST", "/tickets", "", "Origin", "https://portal.example.org", "Authorization", token)
		if a.Code != status || a.Header().Get("Access-Control-Allow-Origin") != "https://portal.example.org" ||
			a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", token, a.Code, a.Header())
		}
	}
	if a := ask(h, "POST", "/tickets", "", "Origin", "https://evil.example.org"); a.Header().Get(
		"Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin: %v", a.Header())
	}
}

// Without the database no ticket is accepted, because its use cannot be checked.
func TestTickets_WithoutTheDatabase(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	defer h.Close()
	given := ticket(t, h).Ticket
	w.fail = &dispatch.Error{Kind: dispatch.Unavailable, Op: "fake", Database: true, Err: errors.New("it is gone")}
	failed(t, ask(h, "GET", "/job_status?ticket="+given, "", "Authorization", ""), 503, "SERVICE_UNAVAILABLE")
}

// Then streams accept tokens in headers and sub-protocols only, and tickets.
func TestTickets_ReplaceTokensInAddresses(t *testing.T) {
	w := newWorld()
	s := serveWorld(t, w, func(c *Config) { c.NoQueryToken = true })
	without := []string{"Authorization", ""}
	s.try([]handshake{
		{"query", "/job_status?token=token-anna", without, 401},
		{"query and header", "/job_status?token=token-anna", nil, 401},
		{"header", "/job_status", nil, 101},
		{"protocol", "/job_status", []string{"Authorization", "", "Sec-WebSocket-Protocol", "bearer.token-anna"}, 101},
		{"ticket", "/job_status?ticket=" + ticket(t, s.api).Ticket, without, 101},
	})
	if f := failed(t, ask(s.api, "GET", "/job_status?token=token-anna", "", without...), 401,
		"AUTHENTICATION_FAILED"); !strings.Contains(f.Message, "POST /tickets") {
		t.Error(f.Message)
	}
}
