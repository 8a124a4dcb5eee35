package keycloak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/simulator"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/upstream"
)

const (
	brief = 10 * time.Second // how long a platform token lasts in the test of tasks
	jobs  = 500              // of a task
	slots = 80               // jobs of a user at a platform at once
)

// job is what clients see of one.
type job struct {
	ID        int64  `json:"id"`
	Status    string `json:"status"`
	Attention struct {
		Code string `json:"code"`
		Link string `json:"link"`
	} `json:"attention"`
	PlatformJobID string `json:"platform_job_id"`
}

func (j job) waits() bool { return j.PlatformJobID == "" && j.Status == "created" }

func (j job) needsUser() bool { return j.Attention.Code == "sign_in_required" }

// task is what clients see of one.
type task struct {
	ID     int64          `json:"id"`
	Status string         `json:"status"`
	Counts map[string]int `json:"counts"`
	Jobs   []job          `json:"jobs"`
}

// posts submits a task.
func (p *person) posts(t *testing.T, endpoint string) task {
	t.Helper()
	values := make([]any, jobs)
	for i := range values {
		values[i] = i
	}
	var accepted task
	a, err := ask(t.Context(), "POST", p.broker+"/upscale_tasks", p.token, Object{"title": p.name, "label": "openeo", "format": "gtiff",
		"service": Object{"endpoint": endpoint, "application": "add"}, "parameters": Object{"x": 1},
		"dimension": Object{"name": "y", "values": values}, "options": Object{"validate": false}})
	must(t, errors.Join(err, a.into(http.StatusCreated, &accepted)))
	return accepted
}

// watches is told the changes of a task's jobs until the test ends. What it gives is the ids of the jobs that were said to wait
// for the user, in a part for each message that said so of any.
func (p *person) watches(t *testing.T, id int64) (told func() [][]int64) {
	t.Helper()
	address := fmt.Sprintf("ws%s/ws/upscale_tasks/%d?changes=true&interval=3600", strings.TrimPrefix(p.broker, "http"), id)
	socket, _, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + p.token.Reveal()}}})
	must(t, err)
	socket.SetReadLimit(64 << 20)
	var mu sync.Mutex
	var parts [][]int64
	said := map[int64]bool{}
	done := make(chan struct{})
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for {
			_, text, err := socket.Read(ctx)
			if err != nil {
				return
			}
			var message struct {
				Type string `json:"type"`
				Data struct {
					Jobs []job `json:"processing_jobs"`
				} `json:"data"`
			}
			if json.Unmarshal(text, &message) != nil || message.Type != "changes" {
				continue
			}
			var part []int64
			for _, j := range message.Data.Jobs {
				if j.waits() && j.needsUser() && !said[j.ID] {
					said[j.ID] = true
					part = append(part, j.ID)
				}
			}
			if len(part) > 0 {
				mu.Lock()
				parts = append(parts, part)
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		leave()
		<-done
	})
	return func() [][]int64 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(parts)
	}
}

// onPlatforms is the environment of a broker of two openEO back-ends that take the tokens of the platform's realm.
func onPlatforms(t *testing.T, address string, endpoints map[string]string) []string {
	t.Helper()
	var platforms []Object
	for name, endpoint := range endpoints {
		platforms = append(platforms, Object{"name": name, "protocol": "openeo", "endpoint": endpoint, "access": "user", "issuer": Platform,
			"token_prefix": "oidc/sim", "exchange": Object{"driver": "keycloak-broker", "alias": "platform"}, "limits": Object{"jobs": slots}})
	}
	text, err := json.Marshal(platforms)
	must(t, err)
	return []string{"EODISPATCH_LISTEN=" + address, "EODISPATCH_PUBLIC_URL=http://" + address, "EODISPATCH_DEVELOPMENT=true",
		"EODISPATCH_DATABASE=sqlite:" + filepath.Join(t.TempDir(), "eo.db"), "EODISPATCH_VAULT_KEYS=" + identity.NewKey(time.Now()).Reveal(),
		"EODISPATCH_IDENTITY_ISSUER=" + Apex, "EODISPATCH_IDENTITY_CLIENT_ID=eodispatch-api",
		"EODISPATCH_IDENTITY_CLIENT_SECRET=eodispatch-api-secret", "EODISPATCH_PLATFORMS=" + string(text)}
}

// TestAway_TasksOfUsersWhoAreSignedOut runs two tasks of 500 jobs to their ends with platform tokens of ten seconds and refresh tokens that
// are good for one use. Dora gave permission, submitted hers and was signed out. Emil watches his; in its middle his link is lost: what
// waits says so, at once and with a link, nothing fails, and when he has linked his account again all goes on. Meanwhile the
// process was replaced by another, which knows the database and the vault's key.
func TestAway_TasksOfUsersWhoAreSignedOut(t *testing.T) {
	s := Start(t)
	must(t, s.Realm("platform", Object{"accessTokenLifespan": int(brief.Seconds()), "revokeRefreshToken": true, "refreshTokenMaxReuse": 0}))
	t.Cleanup(func() { must(t, s.Realm("platform", Object{"accessTokenLifespan": 300, "revokeRefreshToken": false})) })
	turn, keeper := newTurnstile(t, s), newGatekeeper(t)
	life := simulator.Life{Run: 3 * time.Second}
	one, other := &simulator.OpenEO{Life: life, Check: keeper.check}, &simulator.OpenEO{Life: life, Check: keeper.check}
	hers, his := httptest.NewServer(one), httptest.NewServer(other)
	t.Cleanup(hers.Close)
	t.Cleanup(his.Close)
	address := executable.FreeAddress(t)
	environ := onPlatforms(t, address, map[string]string{"P": hers.URL, "Q": his.URL})

	first := serve(t, environ...)
	dora, emil := newPerson(t, s, "dora", "http://"+address), newPerson(t, s, "emil", "http://"+address)
	dora.opens(t, "/link/P", "Your account at P is linked")
	emil.opens(t, "/link/Q", "Your account at Q is linked")
	dora.givesPermission(t)
	began := time.Now()
	doras, emils := dora.posts(t, hers.URL), emil.posts(t, his.URL)
	dora.endsSession(t, s)
	mustStop(t, first)

	second := serve(t, environ...)
	told := emil.watches(t, emils.ID)
	emil.waits(t, emils.ID, func(now task) error { return now.finished(jobs / 4) })
	must(t, s.LogOut("platform", "emil-p"))
	var stopped task
	emil.waits(t, emils.ID, func(now task) error {
		stopped = now
		return now.stopped(emil.broker + "/link/Q")
	})
	eventually(t, time.Minute, func() error {
		if len(told()) == 0 {
			return errors.New("nobody is told")
		}
		return nil
	})
	t.Logf("after %v his link is lost: %v", time.Since(began).Round(time.Second), stopped.Counts)
	emil.opens(t, "/link/Q", "Your account at Q is linked")
	emil.waits(t, emils.ID, func(now task) error { return now.finished(jobs) })
	const underWay = 16 // jobs that one look at the agenda may submit, twice limits.requests; they may be told of later
	if parts := told(); len(parts[0]) < len(stopped.waiting())-underWay || len(slices.Concat(parts[1:]...)) > underWay {
		t.Errorf("that %d jobs wait was told in %d messages, the first of %d jobs", len(stopped.waiting()), len(parts), len(parts[0]))
	}

	// Of hers as many run at once as there are slots: the last began when the others were known to have ended.
	eventually(t, 8*time.Minute, func() error {
		if runs := one.Oracle.Sum().Runs; runs < jobs {
			return fmt.Errorf("%d of her jobs have run", runs)
		}
		return nil
	})
	worked := time.Since(began)
	without, refused := keeper.tokens("dora-p")
	dora.waits(t, doras.ID, func(now task) error { return now.finished(jobs) })
	with, _ := keeper.tokens("emil-p")
	t.Logf("%d jobs in %v, with %d and %d tokens of %v, renewed %d times", 2*jobs, worked.Round(time.Second), without, with, brief, turn.renewals)
	if least := int(worked / brief); without < min(3, least) || with < 3 {
		t.Errorf("%d and %d tokens: they were not as brief as wanted", without, with)
	}
	if len(refused) > 0 {
		t.Errorf("the platform was shown %d tokens that were not good: %v", len(refused), refused[0])
	}
	if most := 2*int(time.Since(began)/(brief/2)) + 4; turn.renewals > most || turn.top > 1 {
		t.Errorf("%d renewals, more than %d, or %d at once", turn.renewals, most, turn.top)
	}
	for _, runs := range []int{one.Oracle.Sum().Runs, other.Oracle.Sum().Runs} {
		if runs != jobs {
			t.Errorf("%d runs of %d jobs", runs, jobs)
		}
	}
	dora.withdrawsPermission(t, s)
	mustStop(t, second)
	for _, secret := range []string{"eyJ", "eodispatch-api-secret", "-password"} {
		if strings.Contains(first.Log.String()+second.Log.String(), secret) {
			t.Errorf("the log shows %s", secret)
		}
	}
}

// finished is nil when so many jobs have.
func (now task) finished(n int) error {
	if bad := now.Counts["failed"] + now.Counts["unknown"] + now.Counts["canceled"]; now.Counts["finished"] < n || bad > 0 {
		return fmt.Errorf("of %d: %v", n, now.Counts)
	}
	return nil
}

// waiting are the jobs that are not at the platform.
func (now task) waiting() (waiting []job) {
	for _, j := range now.Jobs {
		if j.waits() {
			waiting = append(waiting, j)
		}
	}
	return waiting
}

// stopped is nil when all jobs that wait say that they need the user, with a link, and no other fares worse than it did.
func (now task) stopped(link string) error {
	waiting := now.waiting()
	for _, j := range waiting {
		if !j.needsUser() || j.Attention.Link != link {
			return fmt.Errorf("of %d that wait one says %+v", len(waiting), j.Attention)
		}
	}
	if len(waiting) == 0 || now.Status != "running" {
		return fmt.Errorf("%s, %d wait", now.Status, len(waiting))
	}
	return now.finished(1)
}

// waits looks at a task until it is as wanted.
func (p *person) waits(t *testing.T, id int64, wanted func(task) error) {
	t.Helper()
	eventually(t, 8*time.Minute, func() error {
		var now task
		a, err := ask(t.Context(), "GET", fmt.Sprint(p.broker, "/upscale_tasks/", id), p.token, nil)
		if err := errors.Join(err, a.into(http.StatusOK, &now)); err != nil {
			return err
		}
		return wanted(now)
	})
}

// withdrawsPermission withdraws the permission here, and the offline session at the provider.
func (p *person) withdrawsPermission(t *testing.T, s *Server) {
	t.Helper()
	offline := func() (sessions []Object) {
		user, err := s.id("apex", "users", "username", p.name)
		must(t, err)
		client, err := s.id("apex", "clients", "clientId", "eodispatch-api")
		must(t, err)
		must(t, s.Admin("GET", "apex/users/"+user+"/offline-sessions/"+client, nil, &sessions))
		return sessions
	}
	var grants []struct{ ID, Kind string }
	a, err := ask(t.Context(), "GET", p.broker+"/grants", p.token, nil)
	must(t, errors.Join(err, a.into(http.StatusOK, &grants)))
	if len(grants) != 1 || grants[0].Kind != "offline" || len(offline()) != 1 {
		t.Fatalf("grants %+v, %d sessions", grants, len(offline()))
	}
	a, err = ask(t.Context(), "DELETE", p.broker+"/grants/"+grants[0].ID, p.token, nil)
	must(t, err)
	if left := offline(); a.status != http.StatusOK || len(left) > 0 {
		t.Errorf("%d %s, %d sessions are left", a.status, a.body, len(left))
	}
}

// vaulted is c with a vault in memory and new keys.
func vaulted(t *testing.T, c identity.TokensConfig) identity.TokensConfig {
	t.Helper()
	ring, err := identity.ParseKeyring(identity.NewKey(time.Now()))
	must(t, err)
	kept, err := store.Open(t.Context(), "sqlite::memory:", conformance.WallClock{})
	must(t, err)
	t.Cleanup(func() { must(t, kept.Close()) })
	c.Vault, c.Keys = kept, ring
	return c
}

// TestAway_LinksAreRefused: what the user sees who does not agree, and who comes as another.
func TestAway_LinksAreRefused(t *testing.T) {
	s := Start(t)
	must(t, s.AddUser("apex", "edda"))
	c := vaulted(t, settings("keycloak-broker"))
	tokens, err := identity.NewTokens(c)
	must(t, err)
	signIns := tokens.SignIns(Callback, c.Keys)
	comes := func(p identity.Purpose, b *Browser) error {
		b.Logins = map[string]string{"apex": "edda"}
		address, remember, err := signIns.Begin(t.Context(), p)
		must(t, err)
		query, err := b.Visit(address)
		must(t, err)
		_, err = signIns.Finish(t.Context(), query, remember)
		return err
	}
	address, remember, err := signIns.Begin(t.Context(), identity.Purpose{Platform: "P"})
	must(t, err)
	query, err := (&Browser{Logins: map[string]string{"apex": "edda"}, Refuse: true}).Visit(address)
	must(t, err)
	query.Del("iss") // Keycloak says that it names itself (RFC 9207)
	_, err = signIns.Finish(t.Context(), query, remember)
	wants(t, err, dispatch.Invalid, "This page completes a sign-in")
	elsewhere, _, err := tokens.SignIns(Callback+"/elsewhere", c.Keys).Begin(t.Context(), identity.Purpose{Platform: "P"})
	must(t, err)
	if at, err := (&Browser{}).Open(elsewhere); err != nil || at.Status != http.StatusBadRequest || !strings.Contains(at.Text, "redirect_uri") {
		t.Errorf("an address that is not registered: %+v %v", at, err)
	}
	wants(t, comes(identity.Purpose{Platform: "P"}, &Browser{Refuse: true}), dispatch.Forbidden, "You did not give permission. Nothing was changed.")
	wants(t, comes(identity.Purpose{Away: true, User: dispatch.UserID(Apex + " another")}, &Browser{}), dispatch.Forbidden, "You signed in as another user")
}

// TestGrants_OfASession acts on in a user's session after their token has ended, and no longer than that.
func TestGrants_OfASession(t *testing.T) {
	s := Start(t)
	must(t, s.AddUser("apex", "finn"))
	must(t, s.AddUser("platform", "finn-p"))
	must(t, s.Link("finn"))
	c := vaulted(t, settings("keycloak-broker"))
	c.SessionGrants = true
	tokens, err := identity.NewTokens(c)
	must(t, err)
	verifier, err := identity.NewVerifier(identity.Config{Issuer: Apex, Audience: []string{"eodispatch-api"}, Client: upstream.New(upstream.Config{Development: true}), Development: true})
	must(t, err)
	caller, err := verifier.Verify(t.Context(), signIn(t, s, "finn", "portal"))
	must(t, err)
	account := dispatch.Account("P/" + string(caller.User))
	tokens.StoreUserToken(caller.User, caller.Token, caller.Expires)
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
