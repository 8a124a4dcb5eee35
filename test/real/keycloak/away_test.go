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
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	brief = 10 * time.Second // lifetime of the platform's access tokens in the test of tasks
	jobs  = 500              // jobs of each task
	slots = 80               // limit of a user's jobs at a platform at once
)

// job is a job as clients read it.
type job struct {
	ID        int64  `json:"id"`
	Status    string `json:"status"`
	Attention struct {
		Code string `json:"code"`
		Link string `json:"link"`
	} `json:"attention"`
	PlatformJobID string `json:"platform_job_id"`
}

// waits reports whether the job has not been submitted to a platform.
func (j job) waits() bool { return j.PlatformJobID == "" && j.Status == "created" }

// needsUser reports whether the job asks the user to sign in.
func (j job) needsUser() bool { return j.Attention.Code == "sign_in_required" }

// task is a task as clients read it.
type task struct {
	ID     int64          `json:"id"`
	Status string         `json:"status"`
	Counts map[string]int `json:"counts"`
	Jobs   []job          `json:"jobs"`
}

// submitTask submits a task of 500 jobs to a platform.
func (p *person) submitTask(t *testing.T, endpoint string) task {
	t.Helper()
	values := make([]any, jobs)
	for i := range values {
		values[i] = i
	}
	var accepted task
	a, err := ask(t.Context(), "POST", p.broker+"/upscale_tasks", p.token, Object{"title": p.name, "label": "openeo",
		"format": "gtiff", "service": Object{"endpoint": endpoint, "application": "add"}, "parameters": Object{"x": 1},
		"dimension": Object{"name": "y", "values": values}, "options": Object{"validate": false}})
	must(t, errors.Join(err, a.into(http.StatusCreated, &accepted)))
	return accepted
}

// watchTask receives the changes of a task's jobs over a WebSocket until the test ends. The function it returns lists
// the ids of the jobs that were reported for the first time as waiting for the user to sign in, grouped by message.
func (p *person) watchTask(t *testing.T, id int64) (reported func() [][]int64) {
	t.Helper()
	address := fmt.Sprintf("ws%s/ws/upscale_tasks/%d?changes=true&interval=3600", strings.TrimPrefix(p.broker, "http"),
		id)
	socket, _, err := websocket.Dial(t.Context(), address,
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + p.token.Reveal()}}})
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

// onPlatforms returns the environment of a broker that listens at an address and uses the given openEO platforms (name
// to endpoint). The platforms accept the tokens of the realm platform.
func onPlatforms(t *testing.T, address string, endpoints map[string]string) []string {
	t.Helper()
	var platforms []Object
	for name, endpoint := range endpoints {
		platforms = append(platforms, Object{"name": name, "protocol": "openeo", "endpoint": endpoint, "access": "user",
			"issuer":       Platform,
			"token_prefix": "oidc/sim", "exchange": Object{"driver": "keycloak-broker", "alias": "platform"},
			"limits": Object{"jobs": slots}})
	}
	text, err := json.Marshal(platforms)
	must(t, err)
	return []string{"EODISPATCH_LISTEN=" + address, "EODISPATCH_PUBLIC_URL=http://" + address,
		"EODISPATCH_DEVELOPMENT=true",
		"EODISPATCH_DATABASE=sqlite:" + filepath.Join(t.TempDir(), "eo.db"), "EODISPATCH_VAULT_KEYS=" +
			identity.NewKey(time.Now()).Reveal(),
		"EODISPATCH_IDENTITY_ISSUER=" + Apex, "EODISPATCH_IDENTITY_CLIENT_ID=eodispatch-api",
		"EODISPATCH_IDENTITY_CLIENT_SECRET=eodispatch-api-secret", "EODISPATCH_PLATFORMS=" + string(text)}
}

// TestAway_TasksOfUsersWhoAreSignedOut runs two tasks of 500 jobs to completion, while platform tokens expire after 10
// s and refresh tokens can be used only once. Dora gives permission, submits her task and is signed out. The process is
// then replaced by another with the same database and vault key. Emil watches his task and loses his link after a
// quarter of the jobs: all waiting jobs report that with a link, and in one message apart from the few that are just
// being submitted; no job fails; and the task continues once he has linked his account again.
func TestAway_TasksOfUsersWhoAreSignedOut(t *testing.T) {
	s := Start(t)
	must(t, s.Realm("platform", Object{"accessTokenLifespan": int(brief.Seconds()), "revokeRefreshToken": true,
		"refreshTokenMaxReuse": 0}))
	t.Cleanup(func() { must(t, s.Realm("platform", Object{"accessTokenLifespan": 300, "revokeRefreshToken": false})) })
	turn, keeper := newTokenProxy(t, s), newTokenChecker(t)
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
	doras, emils := dora.submitTask(t, hers.URL), emil.submitTask(t, his.URL)
	dora.endsSession(t, s)
	mustStop(t, first)

	second := serve(t, environ...)
	reported := emil.watchTask(t, emils.ID)
	emil.waits(t, emils.ID, func(now task) error { return now.finished(jobs / 4) })
	must(t, s.LogOut("platform", "emil-p"))
	var stopped task
	emil.waits(t, emils.ID, func(now task) error {
		stopped = now
		return now.stopped(emil.broker + "/link/Q")
	})
	eventually(t, time.Minute, func() error {
		if len(reported()) == 0 {
			return errors.New("no message reports jobs that wait for the user")
		}
		return nil
	})
	t.Logf("emil's link is lost after %v: %v", time.Since(began).Round(time.Second), stopped.Counts)
	emil.opens(t, "/link/Q", "Your account at Q is linked")
	emil.waits(t, emils.ID, func(now task) error { return now.finished(jobs) })
	// jobs that may be submitted between two reads of the agenda, twice limits.requests; later messages may report them
	const underWay = 16
	if parts := reported(); len(parts[0]) < len(stopped.waiting())-underWay ||
		len(slices.Concat(parts[1:]...)) > underWay {
		t.Errorf("%d waiting jobs were reported in %d messages, the first with %d jobs", len(stopped.waiting()),
			len(parts), len(parts[0]))
	}

	// As many of her jobs run at once as there are slots. The last ones could start only after the broker, without her,
	// had seen that others had ended.
	eventually(t, 8*time.Minute, func() error {
		if runs := one.Oracle.Sum().Runs; runs < jobs {
			return fmt.Errorf("%d of dora's jobs have run", runs)
		}
		return nil
	})
	worked := time.Since(began)
	without, refused := keeper.tokens("dora-p")
	dora.waits(t, doras.ID, func(now task) error { return now.finished(jobs) })
	with, _ := keeper.tokens("emil-p")
	t.Logf("%d jobs took %v, with %d and %d tokens that last %v, and %d renewals", 2*jobs, worked.Round(time.Second),
		without, with, brief, turn.renewals)
	if least := int(worked / brief); without < min(3, least) || with < 3 {
		t.Errorf("the platforms received %d and %d different tokens, too few for their lifetime", without, with)
	}
	if len(refused) > 0 {
		t.Errorf("a platform received %d invalid tokens, the first: %v", len(refused), refused[0])
	}
	if late := keeper.expired(); late > (without+with)/2 {
		t.Errorf("%d of %d tokens were still sent after they had expired", late, without+with)
	}
	if most := 2*int(time.Since(began)/(brief/2)) + 4; turn.renewals > most || turn.top > 1 {
		t.Errorf("%d renewals, want at most %d; %d at once, want at most 1", turn.renewals, most, turn.top)
	}
	for _, runs := range []int{one.Oracle.Sum().Runs, other.Oracle.Sum().Runs} {
		if runs != jobs {
			t.Errorf("%d jobs ran %d times in total", jobs, runs)
		}
	}
	dora.withdrawsPermission(t, s)
	mustStop(t, second)
	keepsSecrets(t, first.Log.String()+second.Log.String(), "eodispatch-api-secret", "-password")
}

// finished returns nil if at least n jobs have finished, and no job has failed, is unknown or was canceled.
func (now task) finished(n int) error {
	if bad := now.Counts["failed"] + now.Counts["unknown"] + now.Counts["canceled"]; now.Counts["finished"] < n ||
		bad > 0 {
		return fmt.Errorf("want %d finished jobs and no failed ones: %v", n, now.Counts)
	}
	return nil
}

// waiting returns the jobs that have not been submitted to a platform.
func (now task) waiting() (waiting []job) {
	for _, j := range now.Jobs {
		if j.waits() {
			waiting = append(waiting, j)
		}
	}
	return waiting
}

// stopped returns nil if jobs of a running task wait, each of them asks the user to sign in with the given link, and no
// other job has failed, is unknown or was canceled.
func (now task) stopped(link string) error {
	waiting := now.waiting()
	for _, j := range waiting {
		if !j.needsUser() || j.Attention.Link != link {
			return fmt.Errorf("of %d waiting jobs one has the attention %+v", len(waiting), j.Attention)
		}
	}
	if len(waiting) == 0 || now.Status != "running" {
		return fmt.Errorf("status %s, %d jobs wait", now.Status, len(waiting))
	}
	return now.finished(1)
}

// waits reads a task until wanted returns nil, for up to 8 minutes.
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

// withdrawsPermission withdraws the user's only permission at the broker, and checks that this ends the offline session
// at the provider.
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
		t.Fatalf("grants %+v and %d offline sessions, want one of each", grants, len(offline()))
	}
	a, err = ask(t.Context(), "DELETE", p.broker+"/grants/"+grants[0].ID, p.token, nil)
	must(t, err)
	if left := offline(); a.status != http.StatusOK || len(left) > 0 {
		t.Errorf("withdrawing the permission: status %d: %s; %d offline sessions are left", a.status, a.body, len(left))
	}
}

// vaulted returns c with a vault in memory and new keys.
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

// TestAway_LinksAreRefused checks what users read when they do not consent, when they sign in as another user, and when
// the redirect URI is not registered.
func TestAway_LinksAreRefused(t *testing.T) {
	s := Start(t)
	must(t, s.AddUser("apex", "edda"))
	c := vaulted(t, settings("keycloak-broker"))
	tokens, err := identity.NewTokens(c)
	must(t, err)
	signIns := tokens.SignIns(Callback, c.Keys, c.Vault)
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
	query.Del("iss") // Keycloak announces that it sends iss (RFC 9207), so a response without it is refused
	_, err = signIns.Finish(t.Context(), query, remember)
	wants(t, err, dispatch.Invalid, "This page completes a sign-in")
	elsewhere, _, err := tokens.SignIns(Callback+"/elsewhere", c.Keys, c.Vault).Begin(t.Context(),
		identity.Purpose{Platform: "P"})
	must(t, err)
	if at, err := (&Browser{}).Open(elsewhere); err != nil || at.Status != http.StatusBadRequest ||
		!strings.Contains(at.Text, "redirect_uri") {
		t.Errorf("redirect URI that is not registered: %+v %v", at, err)
	}
	wants(t, comes(identity.Purpose{Platform: "P"}, &Browser{Refuse: true}), dispatch.Forbidden,
		"You did not give permission. Nothing was changed.")
	wants(t, comes(identity.Purpose{Away: true, User: dispatch.UserID(Apex + " another")}, &Browser{}),
		dispatch.Forbidden, "You signed in as a different user")
}

// TestGrants_OfASession acts for a user as long as their session lasts, in processes that never received their token,
// and no longer.
func TestGrants_OfASession(t *testing.T) {
	s := Start(t)
	must(t, s.AddUser("apex", "finn"))
	must(t, s.AddUser("platform", "finn-p"))
	must(t, s.Link("finn"))
	c := vaulted(t, settings("keycloak-broker"))
	c.SessionGrants = true
	tokens, err := identity.NewTokens(c)
	must(t, err)
	verifier, err := identity.NewVerifier(identity.Config{Issuer: Apex, Audience: []string{"eodispatch-api"},
		Client: upstream.New(upstream.Config{Development: true}), Development: true})
	must(t, err)
	caller, err := verifier.Verify(t.Context(), signIn(t, s, "finn", "portal"))
	must(t, err)
	account := dispatch.Account("P/" + string(caller.User))
	tokens.StoreUserToken(t.Context(), caller.User, caller.Token, caller.Expires)
	_, err = tokens.Token(t.Context(), account)
	must(t, err)
	grants, err := tokens.Grants(t.Context(), caller.User)
	must(t, err)
	if len(grants) != 1 || grants[0].Kind != dispatch.SessionGrant || grants[0].Expires.IsZero() {
		t.Fatalf("grants %+v, want one of the session with its end", grants)
	}
	later, err := identity.NewTokens(c) // a process that never received the user's token
	must(t, err)
	_, err = later.Token(t.Context(), account)
	must(t, err)
	must(t, s.LogOut("apex", "finn"))
	last, err := identity.NewTokens(c)
	must(t, err)
	_, err = last.Token(t.Context(), account)
	wants(t, err, dispatch.SignInRequired, again)
	if grants, err = last.Grants(t.Context(), caller.User); err != nil || len(grants) != 0 {
		t.Errorf("grants after the session has ended: %+v %v", grants, err)
	}
}
