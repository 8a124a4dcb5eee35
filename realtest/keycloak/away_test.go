package keycloak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/engine"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/openeo"
	"github.com/eodispatch/eodispatch/simulator"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/upstream"
)

// brief is how long a platform token lasts in these tests.
const brief = 10 * time.Second

// station is a broker whose users are those of the real Keycloak, and whose platform is a simulated openEO back-end that takes
// the tokens of the platform's realm while they last.
type station struct {
	*dispatch.Broker
	tokens  *identity.Tokens
	signIns *identity.SignIns
	log     *diary
	stop    func() // ends its process

	mu   sync.Mutex
	seen map[string]bool // platform tokens
}

// diary is a log that many write.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// check takes a platform token as a back-end does that trusts what its own provider signed.
func (st *station) check(v *identity.Verifier) func(string) (string, error) {
	return func(token string) (string, error) {
		c, err := v.Verify(context.Background(), dispatch.Secret(token))
		if err == nil && !time.Now().Before(c.Expires) { // the verifier lets clocks differ, a strict platform does not
			err = fmt.Errorf("it has expired")
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		st.seen[token] = true
		return c.Subject, err
	}
}

// newStation starts a broker over a database, as a process does.
func newStation(t *testing.T, kept *store.Store, ring *identity.Keyring, backend *simulator.OpenEO, address string) *station {
	t.Helper()
	st := &station{log: &diary{}, seen: map[string]bool{}}
	log := slog.New(slog.NewTextHandler(st.log, nil))
	platform, err := identity.NewVerifier(identity.Config{Issuer: Platform, Audience: []string{"platform-api", "account"}, Client: http.DefaultClient, Development: true})
	must(t, err)
	backend.Check = st.check(platform)
	c := settings("keycloak-broker")
	c.Log, c.Locker, c.Vault, c.Keys = log, kept, kept, ring
	st.tokens, err = identity.NewTokens(c)
	must(t, err)
	st.signIns = st.tokens.SignIns(Callback, ring)
	client := upstream.New(upstream.Config{UserAgent: "test", Development: true, Trust: []string{address}})
	installation, err := kept.Installation(t.Context())
	must(t, err)
	st.Broker = &dispatch.Broker{Store: kept, Tokens: st.tokens, Installation: installation, Log: log, Backends: []*dispatch.Backend{{
		Name: "P", Label: dispatch.OpenEO, Endpoint: address, Access: dispatch.AccessUser,
		Platform: openeo.New(openeo.Config{Name: "P", Endpoint: address, TokenPrefix: "oidc/sim", Client: client}),
		Limits:   dispatch.Limits{Jobs: 4, Requests: 4, Send: 20 * time.Second}}}}
	work := engine.New(engine.Config{Store: kept, Visit: st.Visit, Log: log, Woken: st.Woken, Heard: st.Heard})
	st.Engine = work
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); work.Run(ctx) }()
	st.stop = func() { cancel(); <-done }
	t.Cleanup(st.stop)
	return st
}

// comes walks a real browser through a sign-in at the real pages of Keycloak.
func (st *station) comes(t *testing.T, p identity.Purpose, b *Browser) (identity.Arrival, error) {
	t.Helper()
	address, remember, err := st.signIns.Begin(t.Context(), p)
	must(t, err)
	query, err := b.Visit(address)
	must(t, err)
	return st.signIns.Finish(t.Context(), query, remember)
}

// ends waits until the jobs stand as wanted, and gives up after a while.
func (st *station) ends(t *testing.T, u dispatch.UserID, what string, want func([]dispatch.Record) bool) []dispatch.Record {
	t.Helper()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(75 * time.Second); ; <-again.C {
		records, err := st.Store.Records(t.Context(), u, dispatch.Page{})
		must(t, err)
		if want(records) {
			return records
		}
		if time.Now().After(until) {
			counts := map[string]int{}
			for _, r := range records {
				counts[string(r.Status)+" "+string(r.Attention)]++
			}
			t.Fatalf("%s did not come: %v\n%s", what, counts, st.log)
		}
	}
}

func all(status dispatch.Status) func([]dispatch.Record) bool {
	return func(records []dispatch.Record) bool {
		for _, r := range records {
			if r.Status != status {
				return false
			}
		}
		return len(records) > 0
	}
}

// TestWorkWhileTheUserIsAway runs jobs to their ends with platform tokens of ten seconds: their user gave leave, posted
// them, and was signed out; the process was restarted; in the middle the user's link was lost, and made again.
func TestWorkWhileTheUserIsAway(t *testing.T) {
	s := Start(t)
	must(t, s.AddUser("apex", "dora"))
	must(t, s.AddUser("platform", "dora-p"))
	must(t, s.Realm("platform", Object{"accessTokenLifespan": int(brief.Seconds())}))
	t.Cleanup(func() { must(t, s.Realm("platform", Object{"accessTokenLifespan": 300})) })

	backend := &simulator.OpenEO{Life: simulator.Life{Run: 3 * time.Second}}
	server := httptest.NewServer(backend)
	t.Cleanup(server.Close)
	kept, err := store.Open(t.Context(), "sqlite::memory:", wallClock{})
	must(t, err)
	t.Cleanup(func() { must(t, kept.Close()) })
	ring, err := identity.ParseKeyring(identity.NewKey(time.Now()))
	must(t, err)

	first := newStation(t, kept, ring, backend, server.URL)
	browser := &Browser{Logins: map[string]string{"apex": "dora", "platform": "dora-p"}}
	arrived, err := first.comes(t, identity.Purpose{Platform: "P"}, browser)
	if err != nil || arrived.User == "" {
		t.Fatalf("linked: %+v %v", arrived, err)
	}
	u := arrived.User
	if got, err := first.comes(t, identity.Purpose{Away: true, User: u}, browser); err != nil || got.User != u {
		t.Fatalf("leave: %+v %v", got, err)
	}
	const jobs = 24
	parameters := json.RawMessage(`{"x": 1, "y": 2}`)
	accepted := make(chan error, jobs)
	for i := range jobs {
		r := dispatch.Request{Title: fmt.Sprint("job ", i), Label: dispatch.OpenEO, Format: "gtiff", Parameters: parameters,
			Service: dispatch.Service{Endpoint: server.URL, Application: "add"}, Options: json.RawMessage(`{"validate": false}`)}
		go func() {
			ctx, leave := context.WithTimeout(t.Context(), 3*time.Second) // who posts does not wait long for the platform's word
			defer leave()
			_, err := first.Accept(ctx, u, r, dispatch.Key{})
			accepted <- err
		}()
	}
	for range jobs {
		must(t, <-accepted)
	}
	must(t, endSessions(s, "dora"))
	first.stop()

	// Another process, which knows nothing but the database and the key.
	began := time.Now()
	st := newStation(t, kept, ring, backend, server.URL)
	finished := func(n int) func([]dispatch.Record) bool {
		return func(records []dispatch.Record) bool {
			for _, r := range records {
				if r.Status == dispatch.Finished {
					n--
				}
			}
			return n <= 0
		}
	}
	st.ends(t, u, "half of the jobs", finished(jobs/2))
	must(t, s.Unlink("apex", "dora", "platform"))
	waiting := st.ends(t, u, "the wait for the user", func(records []dispatch.Record) bool {
		for _, r := range records {
			if r.Phase == dispatch.Waiting && r.Attention == dispatch.NeedsSignIn {
				return true
			}
		}
		return false
	})
	for _, r := range waiting {
		if r.Status == dispatch.Failed || r.Phase == dispatch.Waiting && (r.Attention != dispatch.NeedsSignIn || !strings.HasPrefix(r.Notice, linkIt)) {
			t.Errorf("while the link is lost a job is %s %s %q", r.Status, r.Attention, r.Notice)
		}
	}
	if arrived, err = st.comes(t, identity.Purpose{Platform: "P", User: u}, browser); err != nil {
		t.Fatalf("linked again: %+v %v", arrived, err)
	}
	st.Mended(t.Context(), u)
	st.ends(t, u, "the end of all jobs", all(dispatch.Finished))

	st.mu.Lock()
	seen := len(st.seen)
	st.mu.Unlock()
	t.Logf("%d jobs in %v with %d platform tokens", jobs, time.Since(began).Round(time.Second), seen)
	if seen < 3 {
		t.Errorf("%d platform tokens: they were not as brief as wanted", seen)
	}
	grants, err := st.tokens.Grants(t.Context(), u)
	must(t, err)
	if len(grants) != 1 || grants[0].Kind != dispatch.OfflineGrant {
		t.Fatalf("grants %+v", grants)
	}
	for _, secret := range []string{"eyJ", "eodispatch-api-secret", "dora-password"} {
		if strings.Contains(first.log.String(), secret) || strings.Contains(st.log.String(), secret) {
			t.Errorf("the log shows %s", secret)
		}
	}

	// Taken back, the leave is good for nothing, here and at the provider.
	must(t, st.tokens.Revoke(t.Context(), u, grants[0].ID))
	_, err = st.tokens.Token(t.Context(), dispatch.Account("P/"+string(u)))
	wants(t, err, dispatch.SignInRequired, again)
}

// endSessions ends the sessions of a user of apex as time does. A logout by an administrator would also make all tokens
// stale that were issued before, offline ones too.
func endSessions(s *Server, user string) error {
	id, err := s.id("apex", "users", "username", user)
	if err != nil {
		return err
	}
	var sessions []Object
	if err := s.Admin("GET", "apex/users/"+id+"/sessions", nil, &sessions); err != nil {
		return err
	}
	for _, session := range sessions {
		if err := s.Admin("DELETE", "apex/sessions/"+session["id"].(string), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// TestLinksAreRefused: what the user sees who does not agree, and who comes as another.
func TestLinksAreRefused(t *testing.T) {
	s := Start(t)
	must(t, s.AddUser("apex", "edda"))
	ring, err := identity.ParseKeyring(identity.NewKey(time.Now()))
	must(t, err)
	kept, err := store.Open(t.Context(), "sqlite::memory:", wallClock{})
	must(t, err)
	t.Cleanup(func() { must(t, kept.Close()) })
	c := settings("keycloak-broker")
	c.Vault, c.Keys = kept, ring
	tokens, err := identity.NewTokens(c)
	must(t, err)
	st := &station{tokens: tokens, signIns: tokens.SignIns(Callback, ring)}
	_, err = st.comes(t, identity.Purpose{Platform: "P"}, &Browser{Logins: map[string]string{"apex": "edda"}, Refuse: true})
	wants(t, err, dispatch.Forbidden, "You did not agree. Nothing was changed.")
	_, err = st.comes(t, identity.Purpose{Away: true, User: dispatch.UserID(Apex + " another")}, &Browser{Logins: map[string]string{"apex": "edda"}})
	wants(t, err, dispatch.Forbidden, "You signed in as another user")
}

// TestSessionGrant acts on in a user's session after their token has ended, and no longer than that.
func TestSessionGrant(t *testing.T) {
	s := Start(t)
	must(t, s.AddUser("apex", "finn"))
	must(t, s.AddUser("platform", "finn-p"))
	must(t, s.Link("finn"))
	ring, err := identity.ParseKeyring(identity.NewKey(time.Now()))
	must(t, err)
	kept, err := store.Open(t.Context(), "sqlite::memory:", wallClock{})
	must(t, err)
	t.Cleanup(func() { must(t, kept.Close()) })
	c := settings("keycloak-broker")
	c.Vault, c.Keys, c.SessionGrants = kept, ring, true
	tokens, err := identity.NewTokens(c)
	must(t, err)
	verifier, err := identity.NewVerifier(identity.Config{Issuer: Apex, Audience: []string{"eodispatch-api"}, Client: http.DefaultClient, Development: true})
	must(t, err)
	caller, err := verifier.Verify(t.Context(), signIn(t, s, "finn", "portal"))
	must(t, err)
	account := dispatch.Account("P/" + string(caller.User))
	tokens.Offer(caller.User, caller.Token, caller.Expires)
	_, err = tokens.Token(t.Context(), account)
	must(t, err)
	grants, err := tokens.Grants(t.Context(), caller.User)
	must(t, err)
	if len(grants) != 1 || grants[0].Kind != dispatch.SessionGrant || grants[0].Expires.IsZero() {
		t.Fatalf("grants %+v", grants)
	}
	later, err := identity.NewTokens(c) // a process that never saw the user
	must(t, err)
	_, err = later.Token(t.Context(), account)
	must(t, err)
	must(t, s.LogOut("apex", "finn"))
	last, err := identity.NewTokens(c)
	must(t, err)
	_, err = last.Token(t.Context(), account)
	wants(t, err, dispatch.SignInRequired, again)
	if grants, err = last.Grants(t.Context(), caller.User); err != nil || len(grants) != 0 {
		t.Errorf("grants %+v %v", grants, err)
	}
}
