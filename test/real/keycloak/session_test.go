package keycloak

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// sessionBroker starts a broker at which browsers sign in, with a platform P and more settings. It returns the broker's
// base URL.
func sessionBroker(t *testing.T, s *Server, platform http.Handler, more ...string) string {
	t.Helper()
	address, at := executable.FreeAddress(t), httptest.NewServer(platform)
	t.Cleanup(at.Close)
	s.keepsSessions(t, "http://"+address)
	serve(t, append(onPlatforms(t, address, map[string]string{"P": at.URL}), more...)...)
	return "http://" + address
}

// keepsSessions sets Keycloak up for the sessions of the broker at an address, as docs/identity.md describes.
func (s *Server) keepsSessions(t *testing.T, home string) {
	t.Helper()
	must(t, s.Client("eodispatch-api", Object{"post.logout.redirect.uris": home + "/",
		"backchannel.logout.session.required": "true",
		"backchannel.logout.url":              home + "/session/back-channel-sign-out"}, nil))
	t.Cleanup(func() {
		must(t, s.Client("eodispatch-api", Object{"post.logout.redirect.uris": "",
			"backchannel.logout.session.required": "", "backchannel.logout.url": ""}, nil))
	})
}

// fetches returns the status of a request of the page that the browser shows, with the cookies of its target; 0 if the
// page may not know.
func (c *chromium) fetches(method, address, more string) float64 {
	c.t.Helper()
	status, err := c.run(fmt.Sprintf(`fetch(%q, {method: %q, credentials: "include"%s}).then(r => r.status)`, address,
		method, more))
	must(c.t, err)
	return status.(float64)
}

// streams returns whether the page that the browser shows can open a stream.
func (c *chromium) streams(broker string) any {
	c.t.Helper()
	outcome, err := c.run(fmt.Sprintf(`new Promise(done => {
		const s = new WebSocket(%q + "/job_status");
		s.onopen = () => { s.close(); done("open"); };
		s.onerror = () => done("refused");
	})`, "ws"+broker[len("http"):]))
	must(c.t, err)
	return outcome
}

const inJSON = `, headers: {"Content-Type": "application/json"}`

// TestSession_InABrowser signs a real browser in by the real Keycloak. Its session is of use to the broker's pages, not
// to a page of another port of the same host. A sign-out ends Keycloak's session, too, and Keycloak's sign-out ends the
// session.
func TestSession_InABrowser(t *testing.T) {
	s, c := Start(t), openChromium(t)
	broker := sessionBroker(t, s, &simulator.OpenEO{})
	must(t, s.AddUser("apex", "nora"))
	signIn := func() {
		c.open(broker + "/session/sign-in?return=/docs%3Fhere")
		c.signsIn("apex", "nora")
		c.waitFor(`location.pathname + location.search === "/docs?here" && document.readyState === "complete"`)
	}
	signIn()
	who, err := c.run(`fetch("/session").then(r => r.json()).then(s => s.user.name + " " + s.user.email)`)
	if must(t, err); who != "nora X nora@example.test" {
		t.Errorf("signed in as %v", who)
	}
	if visible, err := c.run(
		`document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`); err != nil ||
		visible != "{}{}" {
		t.Errorf("scripts see %v, %v", visible, err)
	}
	if status := c.fetches("POST", "/tickets", inJSON); status != http.StatusCreated {
		t.Errorf("a request that changes something: %v", status)
	}
	if outcome := c.streams(broker); outcome != "open" {
		t.Errorf("a stream: %v", outcome)
	}

	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w,
			`<!doctype html><title>evil</title><form method="post" enctype="text/plain" action="%s/session/sign-out"><button>win</button></form>`, broker)
	}))
	t.Cleanup(evil.Close)
	c.open(evil.URL)
	c.waitFor(`document.title === "evil"`)
	if status := c.fetches("POST", broker+"/session/sign-out", `, mode: "no-cors"`); status != 0 {
		t.Errorf("another page sees %v", status)
	}
	if outcome := c.streams(broker); outcome != "refused" {
		t.Errorf("a stream of another page: %v", outcome)
	}
	c.presses("button")
	c.waitFor(`document.body.innerText.includes("A session is used from the page of this service only")`)

	c.open(broker + "/docs")
	c.waitFor(`location.pathname === "/docs" && document.readyState === "complete"`)
	if status := c.fetches("GET", "/session", ""); status != http.StatusOK {
		t.Fatalf("another page ended the session: %v", status)
	}
	_, err = c.run(`fetch("/session/sign-out", {method: "POST"` + inJSON +
		`}).then(r => r.json()).then(left => { setTimeout(() => location.assign(left.location)); })`)
	must(t, err)
	c.waitFor(fmt.Sprintf(`location.href === %q && document.readyState === "complete"`, broker+"/"))

	signIn() // Keycloak asks for the password again
	must(t, s.LogOut("apex", "nora"))
	eventually(t, ready, func() error {
		if status := c.fetches("GET", "/session", ""); status != http.StatusUnauthorized {
			return errors.New(fmt.Sprint("after Keycloak's sign-out: ", status))
		}
		return nil
	})
}
