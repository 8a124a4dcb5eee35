package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestReplicas_ExchangeOnce: a hundred requests that need the same user's platform token reach two processes of the
// real program at once, which share only PostgreSQL and have no token yet. There is one exchange.
func TestReplicas_ExchangeOnce(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	tables, key := postgres.Database(t), named("k")
	var clients []Client
	for range 2 {
		p := Start(t, append(acting(t, w, executable.FreeAddress(t), tables, key),
			"EODISPATCH_LIMITS_USER_REQUESTS=100")...)
		t.Cleanup(func() { p.Stop(t) })
		clients = append(clients, Client{p.Address, w.IdP.Mint(simulator.BrokerRealm, "alice", w.Credentials.Client,
			simulator.TokenFaults{})})
	}
	w.IdP.SetLinkBehavior(simulator.LinkBehavior{Rotates: true, Slow: 500 * time.Millisecond})
	body, err := json.Marshal(OpenEO(w))
	if err != nil {
		t.Fatal(err)
	}
	const exchanges = "POST /realms/{realm}/broker/{alias}/token"
	var all sync.WaitGroup
	var mu sync.Mutex
	well := 0
	for i := range 100 {
		all.Go(func() {
			err := clients[i%2].Call(t.Context(), http.MethodPost, "/sync_jobs", body, new(any))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil || strings.Contains(err.Error(), "invalid character"): // the result is no JSON
				well++
			case !strings.Contains(err.Error(), "PLATFORM_BUSY"):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := w.IdP.Oracle.Requests(exchanges); n != 1 || well < 20 {
		t.Errorf("%d exchanges for %d runs", n, well)
	}
	if n := w.IdP.Linked(); n != 2 {
		t.Errorf("%d users are linked", n)
	}
}

// TestReplicas_ReplaceARefusedTokenOnce: if a platform refuses an unexpired token, the program obtains another once. If
// that is a different token, it is tried once; then the job waits and shows why. A refusal with 403 is not retried.
func TestReplicas_ReplaceARefusedTokenOnce(t *testing.T) {
	t.Parallel()
	const (
		exchange = "POST /realms/{realm}/broker/{alias}/token"
		tokens   = "POST /realms/{realm}/protocol/openid-connect/token"
		create   = "POST /jobs"
		execute  = "POST /processes/{id}/execution"
	)
	for name, row := range map[string]struct {
		ogc          bool
		status       int
		asks, tokens int    // of the platform, and of the provider
		attention    string // "": refused permanently
	}{
		"the provider has the same only": {false, 401, 1, 2,
			"The platform refuses the token that the identity provider issues for you."},
		"the provider has another": {true, 401, 2, 2,
			"The platform rejected the broker's service-account token. The operator must check its configuration."},
		"forbidden":        {false, 403, 1, 1, ""},
		"forbidden to all": {true, 403, 1, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWorld(t)
			p := Start(t, acting(t, w, executable.FreeAddress(t), databases["SQLite"](t), named("k"))...)
			defer p.Stop(t)
			request, at, route, from := OpenEO(w), &w.OpenEO.Oracle, create, exchange
			w.OpenEO.Faults.Add(simulator.Fault{Route: create, Status: row.status,
				Code:    map[int]string{401: "AuthenticationRequired", 403: "PermissionsInsufficient"}[row.status],
				Message: "Not you."})
			if row.ogc {
				request, at, route, from = OGC(w), &w.OGC.Oracle, execute, tokens
				w.OGC.Faults.Add(simulator.Fault{Route: execute, Status: row.status, Message: "Not you."})
			}
			alice := As(w, p.Address, "alice", nil)
			made, err := alice.Submit(t.Context(), request)
			if err == nil {
				made = alice.attended(t, made.ID)
			}
			switch {
			case row.attention == "" && (err == nil || !strings.Contains(err.Error(), "FORBIDDEN")):
				t.Errorf("%+v, %v", made, err)
			case row.attention != "" && (err != nil || made.Ended() || made.Attention == nil ||
				!strings.Contains(made.Attention.Message, row.attention)):
				t.Errorf("%+v %+v, %v", made, made.Attention, err)
			}
			if asked, got := at.Requests(route), w.IdP.Oracle.Requests(from); asked != row.asks || got != row.tokens {
				t.Errorf("the platform was asked %d times, the provider %d times", asked, got)
			}
		})
	}
}

// TestReplicas_FirstJobsOfUsersAreNotHeld: each user sends one request, to one of two replicas, and either may visit
// the user's account. With and without permissions from sessions no user is asked to sign in, and all jobs run. A user
// without any valid token is, and the next request with one continues the job, whichever replica gets it.
func TestReplicas_FirstJobsOfUsersAreNotHeld(t *testing.T) {
	t.Parallel()
	const users = 30
	for _, grants := range []string{"false", "true"} {
		t.Run("session grants "+grants, func(t *testing.T) {
			w := startWorld(t)
			tables, key := postgres.Database(t), named("k")
			var replicas []*executable.Program
			for range 2 {
				p := Start(t, append(acting(t, w, executable.FreeAddress(t), tables, key),
					"EODISPATCH_IDENTITY_SESSION_GRANTS="+grants)...)
				t.Cleanup(func() { p.Stop(t) })
				replicas = append(replicas, p)
			}
			var all sync.WaitGroup
			for i := range users {
				user := fmt.Sprint("user", i)
				w.IdP.Link(user, user+"-p")
				all.Go(func() {
					if _, err := As(w, replicas[i%2].Address, user, nil).Submit(t.Context(), OpenEO(w)); err != nil {
						t.Errorf("%s: %v", user, err)
					}
				})
			}
			all.Wait()
			started(t, w, users)
			for i, p := range replicas {
				if strings.Contains(p.Log.String(), `"msg":"account held"`) {
					t.Errorf("replica %d held an account:\n%s", i, p.Log)
				}
			}
			expired := map[string]any{"exp": time.Now().Add(-10 * time.Second).Unix()} // clocks may differ by that much
			late, err := As(w, replicas[0].Address, "alice", expired).Submit(t.Context(), OpenEO(w))
			if err != nil || late.Attention == nil || !strings.Contains(late.Attention.Message, "Sign in again") {
				t.Fatalf("without a token: %+v, %v", late, err)
			}
			if _, err := As(w, replicas[1].Address, "alice", nil).Job(t.Context(), late.ID); err != nil {
				t.Fatal(err)
			}
			started(t, w, users+1)
		})
	}
}

// attended waits until a job shows an attention, which may be later than the response to its submission.
func (c Client) attended(t *testing.T, id int64) Job {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-again.C {
		j, err := c.Job(t.Context(), id)
		if err != nil || j.Attention != nil || j.Ended() || time.Now().After(end) {
			if err != nil {
				t.Error(err)
			}
			return j
		}
	}
}

// openReplicas starts two processes of the real program that share a database, and no secret in their configuration.
func openReplicas(t *testing.T, w *simulator.World, more ...string) (clients []Client) {
	t.Helper()
	tables := postgres.Database(t)
	for range 2 {
		p := Start(t, append(more, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+w.Credentials.Issuer,
			"EODISPATCH_IDENTITY_AUDIENCE="+w.Credentials.BrokerID, "EODISPATCH_DATABASE="+tables,
			fmt.Sprintf(`EODISPATCH_PLATFORMS=[{"name": "eo", "protocol": "openeo", "endpoint": %q, "access": "open"}]`,
				w.OpenEOURL))...)
		t.Cleanup(func() { p.Stop(t) })
		clients = append(clients, As(w, p.Address, "alice", nil))
	}
	return clients
}

// TestReplicas_AcceptEachOthersTickets, each once, however many requests bring it to both at once. With tokens in URLs
// disabled only a ticket opens a stream.
func TestReplicas_AcceptEachOthersTickets(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	clients := openReplicas(t, w, "EODISPATCH_STREAMS_QUERY_TOKEN=false")
	open := func(c Client, query string) int {
		s, r, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(c.Broker, "http")+"/job_status"+query, nil)
		if err == nil {
			t.Cleanup(func() { s.CloseNow() })
		}
		if r == nil {
			t.Error(err)
			return 0
		}
		return r.StatusCode
	}
	for from := range clients {
		var ticket struct{ Ticket string }
		if err := clients[from].Call(t.Context(), http.MethodPost, "/tickets", nil, &ticket); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		answers := map[int]int{}
		for i := range 20 {
			all.Go(func() {
				status := open(clients[i%2], "?ticket="+ticket.Ticket)
				mu.Lock()
				defer mu.Unlock()
				answers[status]++
			})
		}
		all.Wait()
		if answers[http.StatusSwitchingProtocols] != 1 || answers[http.StatusUnauthorized] != 19 {
			t.Errorf("a ticket of replica %d: %v", from, answers)
		}
		if status := open(clients[from], "?token="+clients[from].Token); status != http.StatusUnauthorized {
			t.Errorf("a token in the address: %d", status)
		}
	}
}

// TestReplicas_AcceptEachOthersCursors, even if no secret is configured from which a key could be derived.
func TestReplicas_AcceptEachOthersCursors(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	clients := openReplicas(t, w)
	for range 3 {
		if _, err := clients[0].Submit(t.Context(), OpenEO(w)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, clients[0].Broker+"/jobs_status?limit=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+clients[0].Token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, cursor, found := strings.Cut(response.Header.Get("Link"), "cursor=")
	cursor, _, _ = strings.Cut(cursor, ">")
	cursor, _, _ = strings.Cut(cursor, "&")
	if !found {
		t.Fatalf("%s: %v", response.Status, response.Header)
	}
	if err := clients[1].Call(t.Context(), http.MethodGet, "/jobs_status?limit=2&cursor="+cursor, nil,
		new(any)); err != nil {
		t.Error(err)
	}
}
