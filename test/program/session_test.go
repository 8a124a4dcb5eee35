package program

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// browser is a person's browser, which has cookies and no token.
type browser struct {
	*testing.T
	http.Client
	home string // address of the broker
}

func newBrowser(t *testing.T, home, user string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, http.Client{Jar: jar, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if q := next.URL.Query(); q.Has("code_challenge") {
			q.Set("as", user)
			next.URL.RawQuery = q.Encode()
		}
		return nil
	}}, home}
}

// visits opens an address and returns where the browser ended.
func (b *browser) visits(address string) (at *url.URL, status int) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	response, err := b.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	bodyOf(b.T, response)
	return response.Request.URL, response.StatusCode
}

// asks sends a request of the broker's page, and decodes the response into v.
func (b *browser) asks(method, address string, body []byte, v any) int {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("Content-Type", "application/json")
	response, err := b.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	text := bodyOf(b.T, response)
	withoutSecrets(b.T, method+" "+address, text)
	if v != nil && json.Unmarshal([]byte(text), v) != nil {
		b.Errorf("%s %s: %d %s", method, address, response.StatusCode, text)
	}
	return response.StatusCode
}

// signsIn signs in, at the broker's own address, and checks who is signed in.
func (b *browser) signsIn(name string) {
	b.Helper()
	if at, status := b.visits(b.home + "/session/sign-in?return=/%23/tasks"); status != http.StatusOK ||
		at.String() != b.home+"/#/tasks" {
		b.Fatalf("signed in at %s: %d", at, status)
	}
	var got struct {
		User struct{ Name, Email string }
	}
	if status := b.asks(http.MethodGet, b.home+"/session", nil, &got); status != http.StatusOK ||
		got.User.Name != name || got.User.Email != name+"@example.org" {
		b.Fatalf("%d %+v", status, got)
	}
}

// Every replica serves the sessions that another began, acts for their users at platforms, and refuses them once
// another has ended them, for the user or for the provider.
func TestReplicas_ServeEachOthersSessions(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	tables, key := postgres.Database(t), named("k")
	var addresses []string
	for range 2 {
		at := executable.FreeAddress(t)
		environ := acting(t, w, at, tables, key)
		if len(addresses) > 0 {
			environ = append(environ, "EODISPATCH_PUBLIC_URL="+addresses[0])
		}
		p := Start(t, environ...)
		t.Cleanup(func() { p.Stop(t) })
		addresses = append(addresses, p.Address)
	}
	w.IdP.TellLogouts(addresses[1] + "/session/back-channel-sign-out")
	alice := newBrowser(t, addresses[0], "alice")
	alice.signsIn("alice")
	body, err := json.Marshal(OpenEO(w))
	if err != nil {
		t.Fatal(err)
	}
	var made Job
	if status := alice.asks(http.MethodPost, addresses[1]+"/unit_jobs", body, &made); status != http.StatusCreated ||
		made.ID == 0 {
		t.Fatalf("%d %+v", status, made)
	}
	if status := alice.asks(http.MethodGet, addresses[0]+"/unit_jobs/1", nil, nil); status != http.StatusOK {
		t.Errorf("the job that the other replica accepted: %d", status)
	}
	stolen := newBrowser(t, addresses[0], "alice")
	home, err := url.Parse(addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	stolen.Jar.SetCookies(home, alice.Jar.Cookies(home))
	if status := stolen.asks(http.MethodGet, addresses[1]+"/jobs_status", nil, nil); status != http.StatusOK {
		t.Fatalf("the cookie in another browser: %d", status)
	}

	var left struct{ Location string }
	if status := alice.asks(http.MethodPost, addresses[1]+"/session/sign-out", nil, &left); status != http.StatusOK {
		t.Fatal(status)
	}
	for _, at := range addresses {
		if status := stolen.asks(http.MethodGet, at+"/jobs_status", nil, nil); status != http.StatusUnauthorized {
			t.Errorf("a stolen cookie after the sign-out, at %s: %d", at, status)
		}
	}
	if at, status := alice.visits(addresses[0] + left.Location); status != http.StatusOK || at.String() != addresses[0]+
		"/" {
		t.Errorf("after the sign-out at %s: %d", at, status)
	}
	if n := w.IdP.Oracle.Requests("GET /realms/{realm}/protocol/openid-connect/logout"); n != 1 {
		t.Errorf("the provider's session was ended %d times", n)
	}

	alice.signsIn("alice")
	w.IdP.Logout(simulator.BrokerRealm, "alice")
	for _, at := range addresses {
		if status := alice.asks(http.MethodGet, at+"/jobs_status", nil, nil); status != http.StatusUnauthorized {
			t.Errorf("after the provider's sign-out, at %s: %d", at, status)
		}
	}
}

// The demonstration's broker keeps browsers signed in, also without a key in its configuration, and is notified of
// sign-outs at its provider.
func TestDemo_KeepsBrowsersSignedIn(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	alice := newBrowser(t, s.broker, "alice")
	alice.signsIn("alice")
	s.world.IdP.Logout(simulator.BrokerRealm, "alice")
	if status := alice.asks(http.MethodGet, s.broker+"/session", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("after the provider's sign-out: %d", status)
	}
}
