package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const simulated = "https://sign-in.test"

// network routes requests to the simulated identity provider and counts its exchanges.
type network struct {
	idp *simulator.IdP
	mu  sync.Mutex
	// strike answers an exchange instead of the provider; nil: the provider answers.
	strike    func() *http.Response
	exchanges int
}

func (n *network) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	defer func() {
		switch cut := recover(); cut {
		case nil:
		case http.ErrAbortHandler:
			err = errors.New("the connection was cut")
		default:
			panic(cut)
		}
	}()
	if exchange := r.Method == http.MethodPost &&
		r.URL.Path != "/realms/platform/protocol/openid-connect/token"; exchange {
		n.mu.Lock()
		n.exchanges++
		strike := n.strike
		n.mu.Unlock()
		if strike != nil {
			return strike(), nil
		}
	}
	if r.Body == nil {
		r.Body = http.NoBody // as a server has it
	}
	w := httptest.NewRecorder()
	n.idp.ServeHTTP(w, r)
	return w.Result(), context.Cause(r.Context())
}

func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exchanges
}

func (n *network) strikeBy(strike func() *http.Response) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.strike = strike
}

// world returns Tokens over the simulator, for users who are linked and have signed in for a day.
func world(t *testing.T, driver string, users int, change func(*TokensConfig)) (*network, *Tokens) {
	t.Helper()
	n := &network{idp: &simulator.IdP{URL: simulated, TokenLife: 24 * time.Hour}}
	tokens := replica(t, n, driver, change)
	for i := range users {
		user := fmt.Sprint("user", i)
		n.idp.Link(user, user+"-p")
		tokens.StoreUserToken(t.Context(), dispatch.UserID(user), dispatch.Secret(n.idp.Mint("apex", user, "portal",
			simulator.TokenFaults{})), time.Now().Add(24*time.Hour))
	}
	return n, tokens
}

func replica(t *testing.T, n *network, driver string, change func(*TokensConfig)) *Tokens {
	t.Helper()
	c := TokensConfig{Issuer: simulated + "/realms/apex", ClientID: "eodispatch-api",
		ClientSecret: "eodispatch-api-secret",
		Client:       upstream.New(upstream.Config{Transport: n, Development: true}),
		Platforms: []Platform{{Name: "P", Access: dispatch.AccessUser,
			Issuer: simulated + "/realms/platform", Exchange: Exchange{Driver: driver, Alias: "platform"}}}}
	if change != nil {
		change(&c)
	}
	tokens, err := NewTokens(c)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// outcome is the result of the users' work.
type outcome struct {
	mu         sync.Mutex
	well, lost int
	other      []error
}

// work lets each user request a token, again whenever the error may pass, until there is one or the user must act.
func work(t *testing.T, tokens *Tokens, users int) *outcome {
	var all sync.WaitGroup
	o := &outcome{}
	for i := range users {
		all.Go(func() {
			for {
				_, err := tokens.Token(t.Context(), dispatch.Account(fmt.Sprint("P/user", i)))
				if dispatch.Is(err, dispatch.Unavailable) && t.Context().Err() == nil {
					time.Sleep(max(retryAfter(err), time.Second))
					continue
				}
				o.note(err)
				return
			}
		})
	}
	all.Wait()
	return o
}

func (o *outcome) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.well++
	case dispatch.Is(err, dispatch.SignInRequired):
		o.lost++
	default:
		o.other = append(o.other, err)
	}
}

// The stored tokens of 50 linked users must be renewed while the platform's token endpoint responds 503 for a minute:
// at most two links are lost, and all others continue without help.
func TestGate_OutageCostsNoLinks(t *testing.T) {
	const users = 50
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer"} {
		// where its provider can be asked, and where it is not known
		for _, issuer := range []string{simulated + "/realms/platform", ""} {
			for _, conduct := range []simulator.LinkBehavior{{Status: 503}, {Status: 429}, {Down: true}} {
				if issuer == "" && conduct.Status != 503 {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					n, tokens := world(t, driver, users, func(c *TokensConfig) { c.Platforms[0].Issuer = issuer })
					linked := n.idp.Linked()
					n.idp.SetLinkBehavior(conduct)
					begin := time.Now()
					time.AfterFunc(time.Minute, func() { n.idp.SetLinkBehavior(simulator.LinkBehavior{}) })
					o := work(t, tokens, users)
					if o.lost > 2 || o.well+o.lost != users || linked-n.idp.Linked() != o.lost ||
						conduct.Down && o.lost > 0 {
						t.Errorf("%s, %+v: %d lost of which %d were notified, %d go on, %v", driver, conduct,
							linked-n.idp.Linked(), o.lost, o.well, o.other)
					}
					if took := time.Since(begin); took > 3*time.Minute {
						t.Errorf("%s, %+v: they go on after %v", driver, conduct, took)
					}
				})
			}
		}
	}
}

// What one replica learns from the end of a link is known to all.
func TestGate_OutageOfReplicas(t *testing.T) {
	for _, issuer := range []string{simulated + "/realms/platform", ""} {
		synctest.Test(t, func(t *testing.T) {
			const users = 50
			shared := &memory{locks: map[string]chan struct{}{}, held: map[string]SharedToken{}}
			share := func(c *TokensConfig) {
				c.Locker, c.SharedTokens, c.Platforms[0].Issuer = shared, shared, issuer
			}
			n, first := world(t, "keycloak-broker", users, share)
			replicas := []*Tokens{first}
			for range 4 {
				more := replica(t, n, "keycloak-broker", share)
				for i := range users {
					user := dispatch.UserID(fmt.Sprint("user", i))
					more.StoreUserToken(t.Context(), user, first.subjects.of(user), time.Now().Add(24*time.Hour))
				}
				replicas = append(replicas, more)
			}
			linked := n.idp.Linked()
			n.idp.SetLinkBehavior(simulator.LinkBehavior{Status: 503, Slow: 100 * time.Millisecond})
			time.AfterFunc(time.Minute, func() { n.idp.SetLinkBehavior(simulator.LinkBehavior{}) })
			var all sync.WaitGroup
			for _, tokens := range replicas {
				all.Go(func() {
					if o := work(t, tokens, users); o.well+o.lost != users || o.lost > 2 {
						t.Errorf("%d lost, %d go on, %v", o.lost, o.well, o.other)
					}
				})
			}
			all.Wait()
			if lost := linked - n.idp.Linked(); lost == 0 || lost > 2 {
				t.Errorf("issuer %q: %d links lost", issuer, lost)
			}
			if n := n.count(); n > users+20 { // each token is exchanged for once, by any
				t.Errorf("%d exchanges", n)
			}
		})
	}
}

// While one exchange checks whether the provider works again, all others fail at once.
func TestGate_NobodyWaitsForAHangingProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, tokens := world(t, "keycloak-broker", 3, nil)
		n.idp.SetLinkBehavior(simulator.LinkBehavior{Status: 503})
		if _, err := tokens.Token(t.Context(), "P/user0"); !dispatch.Is(err, dispatch.SignInRequired) {
			t.Fatal(err)
		}
		n.idp.Faults.Set(simulator.Fault{Latency: time.Hour})
		first := make(chan error)
		go func() {
			_, err := tokens.Token(t.Context(), "P/user1")
			first <- err
		}()
		synctest.Wait()
		begin := time.Now()
		if _, err := tokens.Token(t.Context(), "P/user2"); !dispatch.Is(err, dispatch.Unavailable) ||
			time.Since(begin) != 0 {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if err := <-first; !dispatch.Is(err, dispatch.Unavailable) || n.idp.Linked() != 4 {
			t.Errorf("%v, %d are linked", err, n.idp.Linked())
		}
	})
}

// A provider that ends links although it seems to work is not trusted for long.
func TestGate_LinksEndThoughTheProviderWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 50
		n, tokens := world(t, "keycloak-broker", users, nil)
		for i := range users {
			n.idp.Spoil(fmt.Sprint("user", i))
		}
		var lost int
		for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(time.Second) {
			for i := range users {
				_, err := tokens.Token(t.Context(), dispatch.Account(fmt.Sprint("P/user", i)))
				if dispatch.Is(err, dispatch.SignInRequired) {
					lost++
				}
			}
			if lost > 0 && n.idp.Linked() == users {
				t.Fatal("they were notified for nothing")
			}
		}
		if n := n.count(); n > 62 { // one user learns it at once, one soon; those two ask again every other second
			t.Errorf("%d exchanges", n)
		}
		if o := work(t, tokens, users); o.lost != users {
			t.Errorf("%d of %d users learn it in the end", o.lost, users)
		}
	})
}

// Case 95. The broker's provider responds 500 for five minutes while 1,000 users have jobs.
func TestGate_ProviderFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 1000
		n, tokens := world(t, "keycloak-broker", users, nil)
		n.strikeBy(func() *http.Response { return reply(500, "Internal Server Error") })
		var tried int
		time.AfterFunc(5*time.Minute, func() {
			tried = n.count()
			n.strikeBy(nil)
		})
		begin := time.Now()
		if o := work(t, tokens, users); o.well != users {
			t.Errorf("%d lost, %d go on, %v", o.lost, o.well, o.other)
		}
		if tried > 12 {
			t.Errorf("%d exchanges in the outage", tried)
		}
		if took := time.Since(begin); took > 7*time.Minute {
			t.Errorf("they go on after %v", took)
		}
	})
}

// memory is a Locker and a TokenStore for several Tokens in one process.
type memory struct {
	mu    sync.Mutex
	locks map[string]chan struct{}
	held  map[string]SharedToken
	fault error
}

func (m *memory) Lock(ctx context.Context, name string) (func(), error) {
	m.mu.Lock()
	if m.locks[name] == nil {
		m.locks[name] = make(chan struct{}, 1)
	}
	lock, fault := m.locks[name], m.fault
	m.mu.Unlock()
	if fault != nil {
		return nil, fault
	}
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memory) Find(_ context.Context, name string) (dispatch.Secret, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[name].Token, m.held[name].Expires, m.fault
}

func (m *memory) Put(_ context.Context, t SharedToken) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !t.Longest || !m.held[t.Name].Expires.After(t.Expires) {
		m.held[t.Name] = t
	}
	return m.fault
}

func (m *memory) Erase(_ context.Context, name string, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[name].Expires.Equal(expires) {
		delete(m.held, name)
	}
	return m.fault
}

// Case 93. Two replicas make one exchange for a user: with a cold cache, at each renewal, and after a refusal, even if
// the provider's refresh tokens can be used only once (case 94).
func TestExchange_ReplicasShareTokens(t *testing.T) {
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer"} {
		synctest.Test(t, func(t *testing.T) {
			shared := &memory{locks: map[string]chan struct{}{}, held: map[string]SharedToken{}}
			share := func(c *TokensConfig) { c.Locker, c.SharedTokens = shared, shared }
			n, first := world(t, driver, 1, share)
			n.idp.TokenLife = time.Minute
			n.idp.SetLinkBehavior(simulator.LinkBehavior{Rotates: true, Slow: time.Second})
			replicas := []*Tokens{first, replica(t, n, driver, share)}
			subject := n.idp.Mint("apex", "user0", "portal",
				simulator.TokenFaults{Claims: map[string]any{"exp": time.Now().Add(time.Hour).Unix()}})
			for _, r := range replicas {
				r.subjects = newSubjects(time.Now)
				r.platforms["P"].source.subjects = r.subjects
				r.StoreUserToken(t.Context(), "user0", dispatch.Secret(subject), time.Now().Add(time.Hour))
			}
			ask := func() {
				var workers sync.WaitGroup
				for i := range 100 {
					workers.Go(func() {
						if _, err := replicas[i%2].Token(t.Context(), "P/user0"); err != nil {
							t.Error(err)
						}
					})
				}
				workers.Wait()
			}
			ask()
			if n := n.count(); n != 1 {
				t.Fatalf("%s: %d exchanges for a cold cache", driver, n)
			}
			for begin := time.Now(); time.Since(begin) < 20*time.Minute; time.Sleep(500 * time.Millisecond) {
				ask()
			}
			if got := n.idp.Linked(); got != 3 {
				t.Errorf("%s: a link was lost: %d are left", driver, got)
			}
			if n := n.count(); n > 120 { // the same token comes until it has less than 5 s left
				t.Errorf("%s: %d exchanges in 20 minutes", driver, n)
			}
		})
	}
}

// A token that was refused to one replica is not taken from the store again.
func TestTokenStore_RefusedTokenIsNotReused(t *testing.T) {
	shared := &memory{locks: map[string]chan struct{}{}, held: map[string]SharedToken{}}
	n, tokens := world(t, "keycloak-broker", 1, func(c *TokensConfig) { c.Locker, c.SharedTokens = shared, shared })
	first, err := tokens.Token(t.Context(), "P/user0")
	if err != nil {
		t.Fatal(err)
	}
	tokens.Invalidate("P/user0", first)
	n.idp.Expire()
	second, err := tokens.Token(t.Context(), "P/user0")
	if err != nil || second == first || n.count() != 2 {
		t.Errorf("%v after %d exchanges", err, n.count())
	}
}

// Without the lock nothing is exchanged, because that could cost the link; it is tried again.
func TestExchange_DatabaseUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &memory{locks: map[string]chan struct{}{}, held: map[string]SharedToken{},
			fault: context.DeadlineExceeded}
		n, tokens := world(t, "keycloak-broker", 1, func(c *TokensConfig) { c.Locker, c.SharedTokens = shared, shared })
		if _, err := tokens.Token(t.Context(), "P/user0"); !dispatch.Is(err, dispatch.Unavailable) || n.count() != 0 {
			t.Errorf("%v after %d exchanges", err, n.count())
		}
		shared.mu.Lock()
		shared.fault = nil
		shared.mu.Unlock()
		time.Sleep(failurePause)
		if _, err := tokens.Token(t.Context(), "P/user0"); err != nil {
			t.Error(err)
		}
	})
}

// Case 61 on the simulator: a token of another provider is refused as the operator's fault.
func TestToken_RefusesMixedIssuers(t *testing.T) {
	n, tokens := world(t, "keycloak-requested-issuer", 1, nil)
	n.idp.SetLinkBehavior(simulator.LinkBehavior{Mixed: true})
	if got, err := tokens.Token(t.Context(), "P/user0"); !dispatch.Is(err, dispatch.Misconfigured) || got.Secret != "" {
		t.Error(err)
	}
}

// Case 96 on the simulator, whose tokens contain their expiry.
func TestToken_WrongLifetimes(t *testing.T) {
	for _, said := range []any{0, -1, "300", json.RawMessage("null"), 1795250000, "soon"} {
		synctest.Test(t, func(t *testing.T) {
			n, tokens := world(t, "keycloak-broker", 1, nil)
			n.idp.SetLinkBehavior(simulator.LinkBehavior{ExpiresIn: said})
			for begin := time.Now(); time.Since(begin) < 10*time.Minute; time.Sleep(time.Second) {
				if _, err := tokens.Token(t.Context(), "P/user0"); err != nil {
					t.Fatalf("expires_in %v: %v", said, err)
				}
			}
			if n := n.count(); n != 1 {
				t.Errorf("expires_in %v: %d exchanges", said, n)
			}
		})
	}
}

// A user who has linked their account again learns that it is linked, whatever became of exchanges that began before:
// one of theirs that still runs and fails, another user's that checks whether links can be renewed, or a token that
// another process still has.
func TestGate_LinkedAgain(t *testing.T) {
	lost := func() *http.Response {
		time.Sleep(2 * time.Second)
		return reply(400, `{"error":"token_expired","error_description":"linked token is expired"}`)
	}
	shared := &memory{locks: map[string]chan struct{}{}, held: map[string]SharedToken{}}
	share := func(c *TokensConfig) { c.Locker, c.SharedTokens = shared, shared }
	for name, c := range map[string]struct {
		change func(*TokensConfig)
		before func(*testing.T, *network, *Tokens)
	}{
		"their own exchange runs": {nil, func(t *testing.T, n *network, tokens *Tokens) {
			n.strikeBy(lost)
			go func() { _, _ = tokens.Token(t.Context(), "P/user0") }()
			time.Sleep(time.Second)
			n.strikeBy(nil)
		}},
		"another user's is the one that is tried": {nil, func(t *testing.T, n *network, tokens *Tokens) {
			n.idp.Spoil("user0")
			_, _ = tokens.Token(t.Context(), "P/user0")
			n.idp.SetLinkBehavior(simulator.LinkBehavior{Slow: 2 * time.Second})
			go func() { _, _ = tokens.Token(t.Context(), "P/user1") }()
			time.Sleep(time.Second)
			n.idp.SetLinkBehavior(simulator.LinkBehavior{})
		}},
		"several links have ended": {nil, func(t *testing.T, n *network, tokens *Tokens) {
			for _, user := range []string{"user0", "user1"} {
				n.idp.Spoil(user)
				_, _ = tokens.Token(t.Context(), dispatch.Account("P/"+user))
			}
		}},
		"another process has an earlier token": {share, func(t *testing.T, n *network, tokens *Tokens) {
			other := replica(t, n, "keycloak-broker", share)
			other.StoreUserToken(t.Context(), "user0", tokens.subjects.of("user0"), time.Now().Add(time.Hour))
			if _, err := other.Token(t.Context(), "P/user0"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, tokens := world(t, "keycloak-broker", 2, c.change)
				c.before(t, n, tokens)
				n.idp.Link("user0", "user0-p")
				before := n.count()
				if err := tokens.tryLink(t.Context(), "P", "user0"); err != nil {
					t.Error(err)
				}
				if n.count() == before {
					t.Error("nothing was exchanged")
				}
				if _, err := tokens.Token(t.Context(), "P/user0"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute) // until what began before has ended
			})
		})
	}
}
