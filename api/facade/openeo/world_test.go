package openeo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/facade/files"
	facadeopeneo "github.com/eodispatch/eodispatch/api/facade/openeo"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	publicURL  = "https://broker.example.org/dispatch"
	signInPage = "https://broker.example.org/access/"
)

// world is the façade in the server of the API, with a broker and simulated platforms.
type world struct {
	http.Handler
	t    *testing.T
	sims map[string]*simulator.OpenEO
	urls map[string]string
	down map[string]*httptest.Server
	now  time.Time

	tokens   userTokens
	backends []*dispatch.Backend
	broker   *broker.Broker
	ogc      *simulator.OGC
	front    func(http.ResponseWriter, *http.Request) (answered bool) // in front of the simulators; nil: nothing
}

// newWorld returns a world with openEO platforms of the given names. configure may change the simulators before they
// are used.
func newWorld(t *testing.T, names []string, configure func(name string, s *simulator.OpenEO)) *world {
	t.Helper()
	return newWorldWith(t, names, configure, nil)
}

// newWorldWith returns a world that also has an OGC platform, "ogc", and a catalogue, if services returns any.
func newWorldWith(t *testing.T, names []string, configure func(name string, s *simulator.OpenEO),
	services func(*world) []catalogue.Service) *world {
	t.Helper()
	w := &world{t: t, sims: map[string]*simulator.OpenEO{}, urls: map[string]string{},
		down: map[string]*httptest.Server{}, now: time.Now()}
	var backends []*dispatch.Backend
	for _, name := range names {
		sim := &simulator.OpenEO{Open: true}
		if configure != nil {
			configure(name, sim)
		}
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if w.front == nil || !w.front(rw, r) {
				sim.ServeHTTP(rw, r)
			}
		}))
		t.Cleanup(server.Close)
		w.sims[name], w.urls[name], w.down[name] = sim, server.URL, server
		backends = append(backends, &dispatch.Backend{Name: name, Label: dispatch.OpenEO, Endpoint: server.URL,
			Access: dispatch.AccessOpen,
			Platform: openeo.New(openeo.Config{Name: name, Endpoint: server.URL, Now: func() time.Time { return w.now },
				Client: upstream.New(upstream.Config{Development: true, Trust: []string{server.URL}})})})
	}
	if services != nil {
		backends = append(backends, w.ogcPlatform())
	}
	store := conformance.NewMemStore(conformance.WallClock{})
	b := conformance.NewBroker(store, &w.tokens, backends...)
	w.backends, w.broker = backends, b
	var offered *catalogue.Catalogue
	if services != nil {
		offered = catalogue.New(catalogue.Config{Services: services(w), Platforms: b})
	}
	passed := &files.Facade{Broker: b, Backends: backends, Secret: "secret", Now: func() time.Time { return w.now }}
	h := api.New(api.Config{Broker: b, Verifier: verifier{}, Health: func(context.Context) error { return nil },
		Log: slog.New(slog.DiscardHandler), PublicURL: publicURL,
		SignInLink: func(a dispatch.Account) string { return signInPage + a.Platform() },
		Facades: []facade.Facade{passed, facadeopeneo.New(
			facadeopeneo.Config{Broker: b, Backends: backends, Processes: store, Files: passed,
				Services: offered, Title: "Test", Version: "1.2.3", Secret: "secret",
				Now: func() time.Time { return w.now },
				SignIn: facadeopeneo.SignIn{Issuer: "https://idp.example.org/realms/eo", ClientID: "programs",
					Pages: []string{"https://editor.example.org"}}})}})
	t.Cleanup(h.Close)
	w.Handler = h
	return w
}

// ogcPlatform starts a server of OGC API - Processes.
func (w *world) ogcPlatform() *dispatch.Backend {
	w.ogc = &simulator.OGC{}
	server := httptest.NewServer(w.ogc)
	w.t.Cleanup(server.Close)
	w.urls["ogc"] = server.URL
	return &dispatch.Backend{Name: "ogc", Label: dispatch.OGCProcess, Endpoint: server.URL, Access: dispatch.AccessOpen,
		Platform: ogcapi.New(ogcapi.Config{Name: "ogc", Endpoint: server.URL,
			Client: upstream.New(upstream.Config{Development: true, Trust: []string{server.URL}})})}
}

// share makes the users of a platform share an account there, without permissions.
func (w *world) share(name string) {
	for _, b := range w.backends {
		if b.Name == name {
			b.Access = dispatch.AccessShared
			b.Platform = openeo.New(openeo.Config{Name: name, Endpoint: w.urls[name], Permits: dispatch.NewPermits(nil),
				Now:    func() time.Time { return w.now },
				Client: upstream.New(upstream.Config{Development: true, Trust: []string{w.urls[name]}})})
		}
	}
}

// userTokens gives each account of a user a token of its own.
type userTokens struct{ err error }

func (u *userTokens) Token(_ context.Context, a dispatch.Account) (dispatch.Token, error) {
	if u.err != nil {
		return dispatch.Token{}, u.err
	}
	return dispatch.Token{Secret: dispatch.Secret("of-" + string(a)), Issuer: "https://idp.invalid/realms/platform"},
		nil
}
func (*userTokens) Invalidate(dispatch.Account, dispatch.Token) {}

// verifier accepts the tokens "token-NAME".
type verifier struct{}

func (verifier) Verify(_ context.Context, token dispatch.Secret) (identity.Caller, error) {
	name, ok := strings.CutPrefix(token.Reveal(), "token-")
	switch {
	case token.Reveal() == "old":
		return identity.Caller{}, identity.ErrExpired
	case !ok:
		return identity.Caller{}, errors.New("not valid")
	}
	return identity.Caller{User: dispatch.UserID("https://idp.example.org " + name), Subject: name,
		Name: "User " + name}, nil
}

// ask sends a request; headers are name, value, ….
func (w *world) ask(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, target, nil)
	if body != "" {
		r = httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got := httptest.NewRecorder()
	w.ServeHTTP(got, r)
	if strings.HasPrefix(strings.TrimLeft(target, "/"), "openeo") &&
		got.Header().Get("Access-Control-Allow-Origin") != "*" {
		w.t.Errorf("%s %s: no CORS header in the response %d", method, target, got.Code)
	}
	checkContract(w.t, r, got)
	return got
}

// get returns the JSON object at a path below the façade, which must be answered with 200.
func (w *world) get(target string, headers ...string) map[string]any {
	w.t.Helper()
	got := w.ask("GET", target, "", headers...)
	return object(w.t, got, http.StatusOK)
}

func object(t *testing.T, got *httptest.ResponseRecorder, status int) (v map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(got.Body.Bytes()))
	d.UseNumber()
	if got.Code != status {
		t.Fatalf("status %d, want %d: %s", got.Code, status, got.Body)
	}
	if err := d.Decode(&v); err != nil || d.More() {
		t.Fatalf("%v: %s", err, got.Body)
	}
	return v
}

// refusedWith checks that a response is an error of the standard.
func refusedWith(t *testing.T, got *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	v := object(t, got, status)
	if v["code"] != code || v["message"] == "" || v["id"] == "" || v["links"] == nil {
		t.Errorf("want code %s: %s", code, got.Body)
	}
}

const anna, bert = "Bearer oidc/eodispatch/token-anna", "Bearer token-bert"
