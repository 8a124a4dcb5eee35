package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"
)

// servers are a broker and its identity provider, whose token endpoint is token.
func servers(t *testing.T, token http.HandlerFunc) (broker, issuer string) {
	t.Helper()
	var mux http.ServeMux
	server := httptest.NewServer(&mux)
	t.Cleanup(server.Close)
	respond := func(path string, v any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // fails if the test is over
		})
	}
	broker, issuer = server.URL, server.URL+"/idp"
	respond("/.well-known/oauth-protected-resource", map[string]any{"resource": broker,
		"authorization_servers": []string{issuer}, "eodispatch_client_id": "programs"})
	respond("/idp/.well-known/openid-configuration", map[string]any{"issuer": issuer, "authorization_endpoint": issuer +
		"/auth", "token_endpoint": issuer + "/token", "jwks_uri": issuer + "/keys"})
	respond("/usage", []any{})
	mux.HandleFunc("POST /idp/token", token)
	return broker, issuer
}

// command runs a command and returns its error and what it prints.
func command(t *testing.T, ctx context.Context, home string, environ []string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := Console{Out: &out, Err: &out, Environ: append(environ, "HOME="+home),
		Signals: func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }}
	for _, one := range Commands(c, "test") {
		if one.Name() == args[0] {
			one.SetArgs(args[1:])
			one.SilenceErrors, one.SilenceUsage = true, true
			err := one.ExecuteContext(ctx)
			return out.String(), err
		}
	}
	t.Fatalf("there is no command %s", args[0])
	return "", nil
}

func stored(t *testing.T, home string, one session) sessions {
	t.Helper()
	s := sessions{filepath.Join(home, ".local", "state", "eodispatch")}
	if err := s.write(one); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClientCredentials_GoOnlyToTheIssuerThatTheUserNames(t *testing.T) {
	var asked atomic.Int32
	broker, issuer := servers(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token": "t", "token_type": "Bearer"}`))
	})
	environ := []string{"EODISPATCH_CLIENT_ID=robot", "EODISPATCH_CLIENT_SECRET=s3cret"}
	if _, err := command(t, t.Context(), t.TempDir(), environ, "usage", "--broker",
		broker); ExitCode(err) != ExitUsage ||
		!strings.Contains(Explain(err), "EODISPATCH_ISSUER") || asked.Load() != 0 {
		t.Errorf("without an issuer: %v, after %d requests to the one of the broker", err, asked.Load())
	}
	if _, err := command(t, t.Context(), t.TempDir(), append(environ, "EODISPATCH_ISSUER="+issuer), "usage", "--broker",
		broker); err != nil || asked.Load() != 1 {
		t.Errorf("with an issuer: %v, %d requests", err, asked.Load())
	}
}

func TestLogin_RefusesTheProviderAndClientOfAnotherBroker(t *testing.T) {
	broker, issuer := servers(t, http.NotFound)
	home := t.TempDir()
	stored(t, home, session{Name: "other", URL: "https://other.example", Issuer: issuer, ClientID: "programs"})
	_, err := command(t, t.Context(), home, nil, "login", broker)
	if ExitCode(err) != ExitSignIn || !strings.Contains(Explain(err), "https://other.example") ||
		!strings.Contains(Explain(err), "--issuer "+issuer) {
		t.Error(err)
	}
	if _, err = command(t, t.Context(), home, nil, "login", broker, "--issuer", issuer); err == nil ||
		strings.Contains(Explain(err), "https://other.example") {
		t.Error(err)
	}
}

func TestLogin_RefusesABrokerOfAnotherAddress(t *testing.T) {
	broker, _ := servers(t, http.NotFound)
	_, err := command(t, t.Context(), t.TempDir(), nil, "login", strings.Replace(broker, "127.0.0.1", "localhost", 1))
	if err == nil || !strings.Contains(Explain(err), `says that its address is "`+broker+`"`) {
		t.Error(err)
	}
}

// The identity provider has used up the refresh token when the interrupt comes.
func TestRenewal_KeepsTheNewTokenAfterAnInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	broker, issuer := servers(t, func(w http.ResponseWriter, _ *http.Request) {
		interrupt()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(
			[]byte(`{"access_token": "t2", "token_type": "Bearer", "refresh_token": "r2", "expires_in": 3600}`))
	})
	home := t.TempDir()
	s := stored(t, home, session{Name: "b", URL: broker, Issuer: issuer, ClientID: "programs",
		Endpoint: issuer + "/token",
		Grant:    &oauth2.Token{AccessToken: "t1", RefreshToken: "r1", Expiry: time.Unix(1, 0)}})
	_, _ = command(t, ctx, home, nil, "usage", "--broker", "b") // interrupted
	if one, err := s.read("b"); err != nil || one.Grant.RefreshToken != "r2" {
		t.Errorf("%+v, %v", one.Grant, err)
	}
}

func TestRenewal_TellsAnEndedSignInFromABusyProvider(t *testing.T) {
	for status, row := range map[int]struct {
		code  string
		ended bool
	}{http.StatusBadRequest: {"invalid_grant", true}, http.StatusTooManyRequests: {"slow_down", false}} {
		broker, issuer := servers(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error": "` + row.code + `"}`))
		})
		home := t.TempDir()
		stored(t, home, session{Name: "b", URL: broker, Issuer: issuer, ClientID: "programs",
			Endpoint: issuer + "/token",
			Grant:    &oauth2.Token{AccessToken: "t1", RefreshToken: "r1", Expiry: time.Unix(1, 0)}})
		if _, err := command(t, t.Context(), home, nil, "usage", "--broker", "b"); err == nil ||
			strings.Contains(Explain(err), "has expired") != row.ended {
			t.Errorf("%s: %v", row.code, err)
		}
	}
}

func TestSignIn_NeedsHTTPSToOtherMachines(t *testing.T) {
	home := t.TempDir()
	stored(t, home, session{Name: "b", URL: "https://broker.invalid", Endpoint: "http://idp.invalid/token",
		Grant: &oauth2.Token{AccessToken: "t1", RefreshToken: "r1", Expiry: time.Unix(1, 0)}})
	if _, err := command(t, t.Context(), home, nil, "usage", "--broker", "b"); err == nil ||
		!strings.Contains(Explain(err), "--insecure") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(home, ".local", "state", "eodispatch", "b.json")); err != nil {
		t.Error(err)
	}
	if _, err := command(t, t.Context(), home, nil, "usage", "--broker",
		"http://broker.invalid"); ExitCode(err) != ExitUsage || !strings.Contains(Explain(err), "https") {
		t.Error(err)
	}
}

// A sign-out during a renewal waits for it, and revokes the token that it brought.
func TestLogout_WaitsForARenewal(t *testing.T) {
	home, begun, revoked := t.TempDir(), make(chan struct{}), make(chan string, 1)
	goOn := make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/revoke" {
			revoked <- r.FormValue("token")
			return
		}
		close(begun)
		<-goOn
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(
			[]byte(`{"access_token": "t2", "token_type": "Bearer", "refresh_token": "r2", "expires_in": 3600}`))
	}))
	t.Cleanup(provider.Close)
	broker, _ := servers(t, http.NotFound)
	s := stored(t, home, session{Name: "b", URL: broker, Endpoint: provider.URL + "/token", Revocation: provider.URL +
		"/revoke", Grant: &oauth2.Token{AccessToken: "t1", RefreshToken: "r1", Expiry: time.Unix(1, 0)}})
	ends := make(chan error, 2)
	go func() { _, err := command(t, t.Context(), home, nil, "usage", "--broker", "b"); ends <- err }()
	<-begun
	go func() { _, err := command(t, t.Context(), home, nil, "logout", "--broker", "b"); ends <- err }()
	select {
	case token := <-revoked:
		t.Error("signed out during the renewal")
		close(goOn)
		revoked <- token
	case goOn <- struct{}{}:
	}
	for range cap(ends) {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if got := <-revoked; got != "r2" {
		t.Errorf("%s is revoked, not the token that the renewal brought", got)
	}
	if _, err := s.read("b"); !os.IsNotExist(err) {
		t.Errorf("the sign-in is still there: %v", err)
	}
}

// TestSignIn_RefusesAnotherProtocol: a read of the body of such a response would never end.
func TestSignIn_RefusesAnotherProtocol(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		// fails if the test is over
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		<-over
		conn.Close()
	}))
	defer server.Close()
	defer close(over)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := (&app{}).noRedirects().Do(r); err == nil {
		t.Errorf("the response has status %d", response.StatusCode)
	}
}

// TestLogin_WaitsForARenewal: a process that renews a sign-in stores the result; a sign-in as somebody else meanwhile
// must come after it.
func TestLogin_WaitsForARenewal(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	broker, issuer := servers(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-answer
		w.Header().Set("Content-Type", "application/json")
		// fails if the test is over
		_, _ = io.WriteString(w, `{"access_token": "renewed", "token_type": "Bearer", "expires_in": 3600}`)
	})
	home := t.TempDir()
	former := session{Name: "b", URL: broker, Issuer: issuer, ClientID: "programs", Endpoint: issuer + "/token",
		Grant: &oauth2.Token{RefreshToken: "r"}}
	s := stored(t, home, former)
	renewed := make(chan error, 1)
	go func() {
		_, err := (&renewer{app: &app{}, sessions: s, name: "b"}).accessToken(t.Context())
		renewed <- err
	}()
	<-arrived
	within, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	other := former
	other.Grant = &oauth2.Token{AccessToken: "another user's"}
	if err := s.replace(within, other); err == nil {
		t.Error("a sign-in is stored while another process renews the former one")
	}
	close(answer)
	if err := <-renewed; err != nil {
		t.Fatal(err)
	}
	if err := s.replace(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if one, err := s.read("b"); err != nil || one.Grant.AccessToken != "another user's" {
		t.Errorf("%+v, %v", one, err)
	}
}

// silentAt stands for a broker and its identity provider, whose response at one path never comes.
type silentAt string

func (s silentAt) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case string(s):
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "/.well-known/oauth-protected-resource":
		_, _ = w.WriteString(`{"resource":"https://b","authorization_servers":["https://i"],` +
			`"eodispatch_client_id":"programs"}`)
	case "/.well-known/openid-configuration":
		_, _ = w.WriteString(`{"issuer":"https://i","token_endpoint":"https://i/token"}`)
	}
	return w.Result(), nil
}

func TestTokens_AreNotWaitedForWithoutEnd(t *testing.T) {
	robot := []string{"EODISPATCH_CLIENT_ID=robot", "EODISPATCH_CLIENT_SECRET=s3cret", "EODISPATCH_ISSUER=https://i"}
	for _, row := range []struct {
		silent  silentAt
		environ []string
	}{
		{"/.well-known/openid-configuration", nil},
		{"/.well-known/openid-configuration", robot},
		{"/token", robot},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &app{Console: Console{Out: io.Discard, Err: io.Discard, Transport: row.silent,
				Environ: append(row.environ, "HOME="+t.TempDir())}}
			ended := make(chan error, 1)
			go func() {
				if row.environ == nil {
					ended <- (&login{app: a, device: true}).run(t.Context(), []string{"https://b"})
					return
				}
				_, err := a.asClient()(t.Context())
				ended <- err
			}()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s, %v: no error", row.silent, row.environ)
				}
			case <-time.After(time.Minute):
				t.Errorf("%s, %v: it waits for more than a minute", row.silent, row.environ)
			}
		})
	}
}
