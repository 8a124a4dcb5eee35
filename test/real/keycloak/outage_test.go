package keycloak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// tokenProxy is a proxy in front of the platform's token endpoint. It counts requests and renewals, and can respond in
// the endpoint's place.
type tokenProxy struct {
	address  string
	passed   atomic.Int32 // number of requests
	answered atomic.Int32 // status to respond with in the endpoint's place; 0: pass the requests on

	mu            sync.Mutex
	renewals      int // number of renewals of stored tokens
	renewing, top int // renewals under way: now and at most
}

// newTokenProxy starts a tokenProxy, and configures Keycloak to request and renew stored tokens through it until the
// test ends.
func newTokenProxy(t *testing.T, s *Server) *tokenProxy {
	to, err := url.Parse(URL)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	turn := &tokenProxy{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn.passed.Add(1)
		if status := turn.answered.Load(); status != 0 {
			http.Error(w, http.StatusText(int(status)), int(status))
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the client has disconnected
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("grant_type") == "refresh_token" {
			defer turn.beginRenewal()()
		}
		r.Host = to.Host
		proxy.ServeHTTP(w, r)
	}))
	turn.address = server.URL
	path := "/realms/platform/protocol/openid-connect/token"
	must(t, s.Provider("platform", Object{"tokenUrl": server.URL + path}))
	t.Cleanup(func() {
		must(t, s.Provider("platform", Object{"tokenUrl": URL + path}))
		server.Close()
	})
	return turn
}

// beginRenewal counts a renewal that begins. The caller calls done at its end.
func (turn *tokenProxy) beginRenewal() (done func()) {
	turn.mu.Lock()
	defer turn.mu.Unlock()
	turn.renewals++
	turn.renewing++
	turn.top = max(turn.top, turn.renewing)
	return func() {
		turn.mu.Lock()
		defer turn.mu.Unlock()
		turn.renewing--
	}
}

// tokenStore is an identity.TokenStore in memory, which replicas share. It does not encrypt the tokens.
type tokenStore struct {
	mu   sync.Mutex
	held map[string]identity.SharedToken
}

func (s *tokenStore) Find(_ context.Context, name string) (dispatch.Secret, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[name].Token, s.held[name].Expires, nil
}

func (s *tokenStore) Put(_ context.Context, t identity.SharedToken) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[t.Name] = t
	return nil
}

func (s *tokenStore) Erase(_ context.Context, name string, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, name)
	return nil
}

// TestToken_OneExchangeForAllReplicas runs 100 workers on each of two replicas, which all request a token, while
// refresh tokens of the platform can be used only once and the stored token is renewed at every exchange. All workers
// of a round share one exchange, and the link stays (cases 93 and 94). Without a shared exchange, each such burst lost
// the link.
func TestToken_OneExchangeForAllReplicas(t *testing.T) {
	s := Start(t)
	database := postgres.Database(t)
	must(t, s.Link("alice"))
	must(t, s.Realm("platform", Object{"revokeRefreshToken": true, "refreshTokenMaxReuse": 0}))
	t.Cleanup(func() { must(t, s.Realm("platform", Object{"revokeRefreshToken": false})) })
	renewing(t, s)
	turn := newTokenProxy(t, s)
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer"} {
		shared := &tokenStore{held: map[string]identity.SharedToken{}}
		var replicas []*identity.Tokens
		for range 2 {
			kept, err := store.Open(t.Context(), database, nil)
			must(t, err)
			t.Cleanup(func() { _ = kept.Close() })
			c := settings(driver)
			c.Locker, c.SharedTokens = kept, shared
			replica, err := identity.NewTokens(c)
			must(t, err)
			replica.StoreUserToken(t.Context(), "u", signIn(t, s, "alice", "portal"), time.Now().Add(time.Hour))
			replicas = append(replicas, replica)
		}
		before := turn.passed.Load()
		for round := range int32(3) {
			var workers sync.WaitGroup
			for i := range 200 {
				workers.Go(func() {
					if got, err := replicas[i%2].Token(t.Context(), "P/u"); err != nil ||
						claims(t, got.Secret).User != "alice-p" {
						t.Error(err)
					}
				})
			}
			workers.Wait()
			if n := turn.passed.Load() - before; n != round+1 {
				t.Errorf("%s, round %d: %d exchanges so far, want one for each round", driver, round, n)
			}
			for _, replica := range replicas { // as if the platform refused it from now on
				got, err := replica.Token(t.Context(), "P/u")
				must(t, err)
				replica.Invalidate("P/u", got)
			}
		}
	}
}

// TestToken_DeadOneIsNotUsedAgain ends a session at the platform, after which Keycloak still returns the stored token.
// Token does not return that token again, and reports that the link has ended once the token has expired.
func TestToken_DeadOneIsNotUsedAgain(t *testing.T) {
	s := Start(t)
	must(t, s.Realm("platform", Object{"accessTokenLifespan": 40}))
	t.Cleanup(func() { must(t, s.Realm("platform", Object{"accessTokenLifespan": 300})) })
	must(t, s.Link("carol"))
	tokens, err := identity.NewTokens(settings("keycloak-broker"))
	must(t, err)
	tokens.StoreUserToken(t.Context(), "u", signIn(t, s, "carol", "portal"), time.Now().Add(time.Hour))
	dead, err := tokens.Token(t.Context(), "P/u")
	must(t, err)
	must(t, s.LogOut("platform", "carol-p"))
	tokens.Invalidate("P/u", dead)
	_, err = tokens.Token(t.Context(), "P/u")
	wants(t, err, dispatch.Unavailable, "The platform refuses the token that the identity provider issues for you.")
	err = until(t, func() error {
		got, err := tokens.Token(t.Context(), "P/u")
		if err == nil {
			t.Fatalf("Token returned a token; it is the dead one: %v", got == dead)
		}
		return err
	})
	wants(t, err, dispatch.SignInRequired, linkLost)
}

// until calls ask, for up to 5 minutes, until it succeeds or fails with another kind than Unavailable, and returns that
// result.
func until(t *testing.T, ask func() error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		if err := ask(); !dispatch.Is(err, dispatch.Unavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			t.Fatal("still unavailable after 5 minutes")
		case <-again.C:
		}
	}
}

// TestOutage_OfTheTokenEndpoint makes the platform's token endpoint respond 503 for 8 s, while 50 linked users need it.
// Keycloak deletes the link of each user for whom it then tries an exchange. At most two links are lost, and all other
// users get tokens afterwards without linking again.
func TestOutage_OfTheTokenEndpoint(t *testing.T) {
	const users = 50
	s := Start(t)
	var linking sync.WaitGroup
	lane := make(chan struct{}, 4)
	subjects := make([]dispatch.Secret, users)
	for i := range users {
		linking.Go(func() {
			lane <- struct{}{}
			defer func() { <-lane }()
			name := fmt.Sprint("user", i)
			if err := firstOf(s.AddUser("apex", name), s.AddUser("platform", name+"-p"), s.Link(name)); err != nil {
				t.Error(err)
				return
			}
			token, err := s.SignIn(name, "portal")
			if err != nil {
				t.Error(err)
			}
			subjects[i] = dispatch.Secret(token)
		})
	}
	linking.Wait()
	if t.Failed() {
		return
	}
	renewing(t, s)
	turn := newTokenProxy(t, s)
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer"} {
		c := settings(driver)
		// The broker's own check of the endpoint must pass the tokenProxy, too.
		c.Client = upstream.New(upstream.Config{Transport: detour{"platform", turn.address, 10 * time.Second},
			Development: true})
		kept, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "eo.db"), conformance.WallClock{})
		must(t, err)
		t.Cleanup(func() { _ = kept.Close() })
		c.Locker = kept
		tokens, err := identity.NewTokens(c)
		must(t, err)
		turn.answered.Store(http.StatusServiceUnavailable)
		mended := time.AfterFunc(8*time.Second, func() { turn.answered.Store(0) })
		t.Cleanup(func() { mended.Stop() })
		begin := time.Now()
		var working sync.WaitGroup
		var lost, well atomic.Int32
		for i, subject := range subjects {
			user := fmt.Sprint("u", i)
			tokens.StoreUserToken(t.Context(), dispatch.UserID(user), subject, time.Now().Add(time.Hour))
			working.Go(func() {
				switch err := until(t, func() error {
					_, err := tokens.Token(t.Context(), dispatch.Account("P/"+user))
					return err
				}); {
				case err == nil:
					well.Add(1)
				case dispatch.Is(err, dispatch.SignInRequired):
					lost.Add(1)
					wants(t, err, dispatch.SignInRequired, linkLost)
				default:
					t.Error(err)
				}
			})
		}
		working.Wait()
		t.Logf("%s: %d links lost, %d users continue, after %v", driver, lost.Load(), well.Load(), time.Since(begin))
		if lost.Load() > 2 || lost.Load()+well.Load() != users {
			t.Errorf("%d links lost, want at most 2; %d users continue, want all others", lost.Load(), well.Load())
		}
		for i := range users { // restore lost links for the next driver
			if lost.Load() == 0 {
				break
			}
			if _, err := get(t, settings(driver), subjects[i]); dispatch.Is(err, dispatch.SignInRequired) {
				must(t, s.Link(fmt.Sprint("user", i)))
				lost.Add(-1)
			}
		}
	}
}

// firstOf returns the first of several errors that is not nil.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
