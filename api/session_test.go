package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/pages"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

const ourOrigin = "https://dispatch.example.org"

// fakeSessions holds the sessions of users by their cookies.
type fakeSessions struct {
	mu      sync.Mutex
	users   map[dispatch.Secret]identity.Caller
	fail    error
	logouts []dispatch.Secret // logout tokens
}

var errNoSession = &dispatch.Error{Kind: dispatch.SignInRequired, Op: "fake", Err: identity.ErrSignedOut}

func (f *fakeSessions) Open(_ context.Context, cookie dispatch.Secret) (identity.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.users[cookie]
	switch {
	case f.fail != nil:
		return identity.Session{}, f.fail
	case !ok:
		return identity.Session{}, errNoSession
	}
	return identity.Session{Caller: c, Cookie: cookie, Ends: moment}, nil
}

func (f *fakeSessions) Check(ctx context.Context, cookie dispatch.Secret) error {
	_, err := f.Open(ctx, cookie)
	return err
}

func (f *fakeSessions) End(_ context.Context, cookie dispatch.Secret) (string, dispatch.Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.users[cookie]; !ok {
		return "", "", f.fail
	}
	delete(f.users, cookie)
	return "leave+&?", "canary-leaver", f.fail
}

func (f *fakeSessions) Leave(_ context.Context, leave string, remembered dispatch.Secret) (string, error) {
	if leave != "leave+&?" || remembered != "canary-leaver" {
		return "", &dispatch.Error{Kind: dispatch.Invalid, Op: "fake", Text: "This address ends a sign-in."}
	}
	return "https://idp.example.org/logout?id_token_hint=canary-hint", nil
}

func (f *fakeSessions) EndByProvider(_ context.Context, token dispatch.Secret) error {
	f.logouts = append(f.logouts, token)
	if token != "good" {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "fake", Text: "The logout token is not valid."}
	}
	return f.fail
}

// signedIn returns an API at which anna and bert are signed in by the cookies "anna" and "bert".
func signedIn(publicURL string, change ...func(*Config)) (*world, *fakeSessions, *fakeSignIns, API) {
	w, d := newWorld(), &fakeSignIns{}
	f := &fakeSessions{users: map[dispatch.Secret]identity.Caller{"anna": {User: anna, Subject: "anna", Name: "Anna",
		Token: "token-anna"}, "bert": {User: bert, Subject: "bert", Name: "Bert", Token: "token-bert"}}}
	c := w.config()
	c.PublicURL, c.SignIns, c.Sessions = publicURL, d, f
	for _, set := range change {
		set(&c)
	}
	return w, f, d, New(c)
}

// page sends a request of our page, without a token and with the cookie of anna's session; headers are name, value, ….
func fromPage(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	return ask(h, method, target, body, append([]string{"Authorization", "", "Cookie", "__Host-eodispatch=anna",
		"Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"}, headers...)...)
}

// What bearer users may do works with the session as the same user, who is reported like them.
func TestSession_ActsAsItsUser(t *testing.T) {
	w, _, _, h := signedIn(ourOrigin)
	if a := fromPage(h, "POST", "/unit_jobs", goodBody); a.Code != 201 || w.jobs[1].Owner != anna {
		t.Fatalf("%d %s", a.Code, a.Body)
	}
	if a := fromPage(h, "GET", "/unit_jobs/1", ""); a.Code != 200 {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	failed(t, fromPage(h, "GET", "/unit_jobs/1", "", "Cookie", "__Host-eodispatch=bert"), 404, "JOB_NOT_FOUND")
	if len(w.signed) != 3 || w.signed[0].User != anna || w.signed[0].Token != "token-anna" || w.signed[2].User != bert {
		t.Errorf("reported: %+v", w.signed)
	}
	if a := ask(h, "GET", "/unit_jobs/1", "", "Cookie", "__Host-eodispatch=bert", "Sec-Fetch-Site",
		"cross-site"); a.Code != 200 {
		t.Errorf("with a bearer token too: %d %s", a.Code, a.Body)
	}
	if strings.Contains(w.log.String(), "token-anna") || strings.Contains(w.log.String(), "=anna") {
		t.Errorf("a secret is in the log: %s", w.log.String())
	}
}

func TestSession_TellsWhoIsSignedIn(t *testing.T) {
	_, f, _, h := signedIn(ourOrigin)
	got := decode[wire.SignedIn](t, fromPage(h, "GET", "/session", ""), 200)
	if got.User != (wire.SignedInUser{ID: "anna", Name: "Anna"}) || !got.Expires.Equal(moment) {
		t.Errorf("%+v", got)
	}
	for _, cookie := range []string{"", "__Host-eodispatch=", "__Host-eodispatch=x", "eodispatch=anna",
		"__Host-eodispatch=anna; __Host-eodispatch=anna"} {
		failed(t, fromPage(h, "GET", "/session", "", "Cookie", cookie), 401, "AUTHENTICATION_FAILED")
	}
	f.fail = &dispatch.Error{Kind: dispatch.Unavailable, Op: "fake"}
	if a := fromPage(h, "GET", "/session", ""); a.Header().Get("Retry-After") == "" {
		t.Errorf("%v", a.Header())
	} else {
		failed(t, a, 503, "SERVICE_UNAVAILABLE")
	}
}

// A session is used by our page only: other sites cannot read or change anything with it, a sub-domain neither.
func TestSession_OtherPagesAreRefused(t *testing.T) {
	w, _, _, h := signedIn(ourOrigin, func(c *Config) { c.CORSOrigins = []string{"https://portal.example.org"} })
	for _, row := range []struct {
		name    string
		read    int // status of a request that changes nothing
		change  int
		headers []string
	}{
		{"our page", 200, 201, []string{"Sec-Fetch-Site", "same-origin", "Origin", ourOrigin}},
		{"our page in an older browser", 200, 201, []string{"Sec-Fetch-Site", "", "Origin", ourOrigin}},
		{"a typed address", 200, 403, []string{"Sec-Fetch-Site", "none"}},
		{"a client that is no browser", 200, 403, []string{"Sec-Fetch-Site", ""}},
		{"another site", 403, 403, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}},
		{"another site in an older browser", 403, 403,
			[]string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}},
		{"a frame without an origin", 403, 403, []string{"Sec-Fetch-Site", "", "Origin", "null"}},
		{"a sub-domain", 403, 403, []string{"Sec-Fetch-Site", "same-site", "Origin",
			"https://evil.dispatch.example.org"}},
		{"a sub-domain in an older browser", 403, 403, []string{"Sec-Fetch-Site", "", "Origin",
			"https://evil.dispatch.example.org"}},
		{"another port", 403, 403, []string{"Sec-Fetch-Site", "same-site", "Origin", ourOrigin + ":8443"}},
		{"without TLS", 403, 403, []string{"Sec-Fetch-Site", "", "Origin", "http://dispatch.example.org"}},
		{"a page that may use tokens", 403, 403, []string{"Sec-Fetch-Site", "cross-site", "Origin",
			"https://portal.example.org"}},
		{"a form", 200, 403, []string{"Content-Type", "text/plain"}},
		{"another form", 200, 403, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"a form that looks like JSON", 200, 403, []string{"Content-Type", "text/plain; application/json"}},
		{"no type", 200, 403, []string{"Content-Type", ""}},
	} {
		jobs := len(w.jobs)
		if a := fromPage(h, "GET", "/jobs_status", "", row.headers...); a.Code != row.read {
			t.Errorf("%s: reads: %d %s", row.name, a.Code, a.Body)
		}
		if a := fromPage(h, "POST", "/unit_jobs", goodBody, row.headers...); a.Code != row.change ||
			(len(w.jobs) > jobs) != (row.change == 201) {
			t.Errorf("%s: submits: %d %s", row.name, a.Code, a.Body)
		}
		if a := fromPage(h, "DELETE", "/unit_jobs/99", "", row.headers...); (a.Code == 403) != (row.change == 403) {
			t.Errorf("%s: deletes: %d %s", row.name, a.Code, a.Body)
		}
	}
}

// Other sites cannot sign a user out either.
func TestSession_SignOut(t *testing.T) {
	_, f, _, h := signedIn(ourOrigin + "/broker")
	failed(t, fromPage(h, "POST", "/session/sign-out", "", "Sec-Fetch-Site", "cross-site"), 403, "FORBIDDEN")
	if len(f.users) != 2 {
		t.Fatal("a foreign page signed anna out")
	}
	a := fromPage(h, "POST", "/session/sign-out", "")
	if got := decode[wire.SignedOut](t, a,
		200); got.Location != "/broker/session/leave?with="+url.QueryEscape("leave+&?") ||
		strings.Contains(a.Body.String(), "canary") {
		t.Errorf("%+v", got)
	}
	set := a.Result().Cookies()
	if len(set) != 2 || set[0].Name != "__Host-eodispatch" || set[0].MaxAge != -1 {
		t.Fatalf("cookies %v", set)
	}
	if c := set[1]; c.Name != "__Host-eodispatch-sign-out" || c.MaxAge != 300 || !c.HttpOnly || !c.Secure ||
		c.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie %v", c)
	}
	failed(t, fromPage(h, "GET", "/jobs_status", ""), 401, "AUTHENTICATION_FAILED") // as who has stolen the cookie
	if got := decode[wire.SignedOut](t, fromPage(h, "POST", "/session/sign-out", ""), 200); got.Location != "/broker/" {
		t.Errorf("again: %+v", got)
	}
	// in another browser
	shows(t, browse(h, "/session/leave?with="+url.QueryEscape("leave+&?")), 422, "This address ends a sign-in.")
	left := browse(h, "/session/leave?with="+url.QueryEscape("leave+&?"), set[1])
	if c := left.Result().Cookies(); len(c) != 1 || c[0].Name != set[1].Name || c[0].MaxAge != -1 {
		t.Errorf("cookies %v", c)
	}
	if left.Code != 303 || left.Header().Get("Location") !=
		"https://idp.example.org/logout?id_token_hint=canary-hint" ||
		left.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%d %v", left.Code, left.Header())
	}
	shows(t, browse(h, "/session/leave?with=https://evil.example", set[1]), 422, "This address ends a sign-in.")
}

func TestSession_SignIn(t *testing.T) {
	long := "/#/" + strings.Repeat("x", pages.MaxReturn)
	for back, want := range map[string]string{
		"": "/", "/": "/", "/#/tasks/7?status=failed": "/#/tasks/7?status=failed", "/#/a//b/../c": "/#/a//b/../c",
		long:                   "/",
		"https://evil.example": "/", "//evil.example": "/", "///evil.example": "/", `/\evil.example`: "/",
		`\\evil.example`: "/", "/\t/evil.example": "/",
		"\t//evil.example": "/", "javascript:alert(1)": "/", "evil": "/", "/\n//evil.example": "/",
		"http:/evil.example": "/", "%2f%2fevil.example": "/", "?x": "/", "#x": "/",
	} {
		_, _, d, h := signedIn(ourOrigin)
		a := browse(h, "/session/sign-in?return="+url.QueryEscape(back))
		if a.Code != 303 || a.Header().Get("Location") != provider ||
			d.purpose != (identity.Purpose{Session: true, Return: want}) {
			t.Errorf("%q: %d %v %+v", back, a.Code, a.Header(), d.purpose)
		}
	}
}

// After a sign-in the browser has a new session, whatever it had before, and is where it was.
func TestSession_Begins(t *testing.T) {
	for address, name := range map[string]string{ourOrigin: "__Host-eodispatch",
		"http://127.0.0.1:8080": "eodispatch"} {
		_, f, d, h := signedIn(address)
		begun := browse(h, "/session/sign-in?return=/%23/tasks//7")
		d.arrived = identity.Arrival{Purpose: d.purpose, User: anna, Name: "Anna", Cookie: "fresh"}
		cookies := append(begun.Result().Cookies(), &http.Cookie{Name: name, Value: "bert"})
		a := browse(h, "/signed-in?state=s&code=c", cookies...)
		if a.Code != 303 || a.Header().Get("Location") != "/#/tasks//7" ||
			a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v %s", a.Code, a.Header(), a.Body)
		}
		var got *http.Cookie
		for _, c := range a.Result().Cookies() {
			if c.Name == name {
				got = c
			}
		}
		if got == nil || got.Value != "fresh" || !got.HttpOnly || got.Secure != (address == ourOrigin) ||
			got.SameSite != http.SameSiteLaxMode || got.Path != "/" || got.Domain != "" || got.MaxAge != 0 {
			t.Errorf("cookie %+v", got)
		}
		if _, lasts := f.users["bert"]; lasts {
			t.Error("the session that the browser had lasts on")
		}
	}
}

func TestSession_SignInFails(t *testing.T) {
	_, _, d, h := signedIn(ourOrigin)
	begun := browse(h, "/session/sign-in?return=/%23/tasks")
	d.arrived, d.fail = identity.Arrival{Purpose: d.purpose}, &dispatch.Error{Kind: dispatch.Forbidden, Op: "fake",
		Text: "You did not give permission. Nothing was changed."}
	a := browse(h, "/signed-in?state=s&error=access_denied", begun.Result().Cookies()...)
	shows(t, a, 403, "Sign-in failed", "You did not give permission.", `href="/session/sign-in?return=%2F%23%2Ftasks"`)
	for _, c := range a.Result().Cookies() {
		if c.Name == "__Host-eodispatch" {
			t.Errorf("a session: %v", c)
		}
	}
}

func TestSession_WithoutSessions(t *testing.T) {
	h := New(newWorld().config())
	shows(t, browse(h, "/session/sign-in?return=/"), 501, "must set public_url")
	failed(t, fromPage(h, "GET", "/session", "", "Cookie", "eodispatch=anna"), 401, "AUTHENTICATION_FAILED")
}

// The provider's logout token counts, without a cookie or a page of ours.
func TestSession_EndedByTheProvider(t *testing.T) {
	w, f, _, h := signedIn(ourOrigin)
	tell := func(form string) *httptest.ResponseRecorder {
		return navigate(h, "POST", "/session/back-channel-sign-out", form, nil)
	}
	if a := tell("logout_token=good"); a.Code != 200 || a.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", a.Code, a.Header())
	}
	for _, bad := range []string{"logout_token=canary-bad", "x=y", "logout_token=" +
		strings.Repeat("x", 2*pages.MaxLogout)} {
		failed(t, tell(bad), 400, "VALIDATION_ERROR")
	}
	if strings.Contains(w.log.String(), "canary") ||
		strings.Contains(strings.Join(strings.Fields(fmt.Sprint(f.logouts)), " "), "canary") {
		t.Error("a logout token is in the log")
	}
	f.fail = &dispatch.Error{Kind: dispatch.Unavailable, Op: "fake"}
	if a := tell("logout_token=good"); a.Code != 503 {
		t.Errorf("%d", a.Code)
	}
}

func TestSession_OpensStreamsOfOurPageOnly(t *testing.T) {
	_, f, d, _ := signedIn(ourOrigin)
	s := serveWorld(t, newWorld(), func(c *Config) {
		c.PublicURL, c.SignIns, c.Sessions, c.CORSOrigins = ourOrigin, d, f, []string{"https://portal.example.org"}
	})
	const cookie = "__Host-eodispatch=anna"
	s.try([]handshake{
		{"our page", "/job_status", []string{"Authorization", "", "Cookie", cookie, "Origin", ourOrigin}, 101},
		{"a listed page", "/job_status", []string{"Authorization", "", "Cookie", cookie, "Origin",
			"https://portal.example.org"}, 403},
		{"a sub-domain", "/job_status", []string{"Authorization", "", "Cookie", cookie, "Origin",
			"https://evil.dispatch.example.org"}, 403},
		{"the address that the server sees", "/job_status", []string{"Authorization", "", "Cookie", cookie, "Origin",
			s.server.URL}, 403},
		{"no page", "/job_status", []string{"Authorization", "", "Cookie", cookie}, 403},
		{"signed out", "/job_status", []string{"Authorization", "", "Cookie", "__Host-eodispatch=x", "Origin",
			ourOrigin}, 401},
		{"with a token", "/job_status", []string{"Cookie", cookie, "Origin", "https://portal.example.org"}, 101},
	})
}

// A stream of a session ends with it, within the interval of the pings.
func TestSession_StreamsEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(loopback)
		w, f, _, handler := signedIn(ourOrigin)
		server := Server(handler, w.config().Log)
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		here, there := net.Pipe()
		l <- there
		fmt.Fprint(here, "GET /job_status?interval=3600 HTTP/1.1\r\nHost: dispatch\r\nCookie: "+
			"__Host-eodispatch=anna\r\nOrigin: "+ourOrigin+"\r\nConnection: Upgrade\r\n"+
			"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if r, err := http.ReadResponse(bufio.NewReader(here), nil); err != nil ||
			r.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(r, err)
		}
		ended := make(chan string)
		go func() {
			all, _ := io.ReadAll(here)
			ended <- string(all)
		}()
		time.Sleep(time.Second)
		if _, _, err := f.End(t.Context(), "anna"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(live.PingEvery + 10*time.Second) // the client does not answer the close
		if n := handler.Streams(); n != 0 {
			t.Errorf("%d streams after the sign-out", n)
		}
		here.Close()
		if said := <-ended; !strings.Contains(said, "You are signed out.") {
			t.Errorf("%q", said)
		}
		handler.Close()
		server.Close()
		<-served
	})
}

// An open catalogue can be read by a browser that still has the cookie of an ended session. Another page cannot read it
// as the user.
func TestSession_EndedSessionsReadTheOpenCatalogue(t *testing.T) {
	w, _, _, h := signedIn(ourOrigin, func(c *Config) { c.Services, c.OpenCatalogue = shelved, true })
	for cookie, want := range map[string]int{"__Host-eodispatch=anna": 200, "__Host-eodispatch=ended": 200} {
		if a := fromPage(h, "GET", "/services", "", "Cookie", cookie); a.Code != want {
			t.Errorf("%s: %d %s", cookie, a.Code, a.Body)
		}
	}
	reported := len(w.signed)
	if a := fromPage(h, "GET", "/services", "", "Sec-Fetch-Site", "cross-site"); a.Code != 200 ||
		len(w.signed) != reported {
		t.Errorf("by a link of another site, which gets what a stranger gets: %d %s, as %v", a.Code, a.Body,
			w.signed[reported:])
	}
	failed(t, fromPage(h, "GET", "/jobs_status", "", "Sec-Fetch-Site", "cross-site"), 403, "FORBIDDEN")
	failed(t, fromPage(h, "GET", "/jobs_status", "", "Cookie", "__Host-eodispatch=ended"), 401, "AUTHENTICATION_FAILED")
}
