package program

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestSecrets_StayInside runs the real program on each database, at its most talkative, through all that has to do with
// secrets, and looks for them in every answer, message and page, in what it said, in what doctor and failing starts
// say, and in what is kept. It also finds a line for each thing that an operator may be asked about.
func TestSecrets_StayInside(t *testing.T) {
	t.Parallel()
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			w := startWorld(t)
			tables, password := withPassword(t, database(t))
			key := named("canary")
			environ := acting(t, w, executable.FreeAddress(t), tables, key)
			secrets := []string{w.Credentials.BrokerSecret, w.Credentials.ServiceSecret, w.Credentials.Password,
				key.Reveal()[len("canary:"):], password}
			p := Start(t, environ...)
			heard := listenTo(t, p.Address)
			live(t, w, p, heard)
			p.Stop(t)
			texts := heard.all()
			for where, text := range map[string]string{"a page": "is linked", "a stream": `"type":"status"`,
				"the answer to POST /sync_jobs":  "200 OK",
				"the answer to GET /jobs_status": "401 Unauthorized", "the answer to GET /nothing": "404 Not Found"} {
				if !strings.Contains(texts[where], text) {
					t.Errorf("%s was not heard: %q", where, texts[where])
				}
			}
			for where, text := range texts {
				withoutSecrets(t, where, text, secrets...)
			}
			keepsSecrets(t, p, tables, secrets...)
			for _, line := range []string{`"submit"`, `"cancel"`, `"link"`, `"grant"`, `"revoke"`, `"retry"`,
				`"session"`, `"sign_out"`} {
				if !strings.Contains(p.Log.String(), `"msg":"audit","action":`+line) {
					t.Errorf("no audit line of %s", line)
				}
			}
			for _, outcome := range []string{"true", "false"} {
				if !regexp.MustCompile(`"msg":"audit","action":"exchange",.*"ok":` +
					outcome).MatchString(p.Log.String()) {
					t.Errorf("no audit line of an exchange with ok %s", outcome)
				}
			}
			for what, change := range map[string]string{"all is well": "X=",
				"a wrong secret":           "EODISPATCH_IDENTITY_CLIENT_SECRET=canary-wrong",
				"no database":              "EODISPATCH_DATABASE=postgres://eo:canary-wrong@127.0.0.1:1/none",
				"a wrong key":              "EODISPATCH_VAULT_KEYS=canary-wrong",
				"an address that is taken": "EODISPATCH_LISTEN=" + strings.TrimPrefix(w.IdPURL, "http://")} {
				for _, command := range []string{"doctor", "serve"} {
					if command == "serve" && what == "all is well" || command == "serve" && what == "a wrong secret" {
						continue // it would serve
					}
					printed := tryUntilItWaits(t, append(slices.Clone(environ), change), command)
					withoutSecrets(t, command+" with "+what, printed, append(secrets, "canary-wrong")...)
				}
			}
		})
	}
}

// tryUntilItWaits runs the program until it ends, or waits for its database, and returns its output.
func tryUntilItWaits(t *testing.T, environ []string, command string) string {
	t.Helper()
	p := executable.Launch(t, executable.Released, append(environ, "EODISPATCH_TELEMETRY_LISTEN=off"), command)
	select {
	case <-p.Ended:
	case <-p.Log.Shows("waiting for it"):
		p.Stop(t)
	}
	return p.Log.String()
}

// TestSecrets_DatabaseErrorsShowNoDetails: clients learn that there is a failure, and its id in the log; not the name
// or address of the database, nor the query.
func TestSecrets_DatabaseErrorsShowNoDetails(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	tables := databases["PostgreSQL"](t)
	p := Start(t, acting(t, w, executable.FreeAddress(t), tables, named("k"))...)
	c := SignIn(t, w, p.Address)
	u, err := url.Parse(tables)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	postgres.Exec(t, u.String(), "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS false")
	postgres.Exec(t, u.String(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	body, err := json.Marshal(OpenEO(w))
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []struct{ method, path, body string }{{"GET", "/health", ""}, {"GET", "/jobs_status", ""},
		{"GET", "/unit_jobs/1", ""}, {"GET", "/usage", ""},
		{"GET", "/grants", ""}, {"POST", "/unit_jobs", string(body)}, {"DELETE", "/unit_jobs/1", ""}} {
		var none any
		err := c.Call(t.Context(), ask.method, ask.path, []byte(ask.body), &none)
		if err == nil {
			t.Fatalf("%s %s: %v without a database", ask.method, ask.path, none)
		}
		_, said, _ := strings.Cut(err.Error(), ": 5")
		if !strings.Contains(said, `"request_id":"`) {
			t.Errorf("%s %s: %v", ask.method, ask.path, err)
		}
		for _, detail := range []string{name, cmp.Or(u.Host, u.Query().Get("host")), "SQLSTATE", "3D000", "pgx",
			"SELECT", "INSERT", "relation", "goroutine", ".go:", "dial"} {
			if strings.Contains(said, detail) {
				t.Errorf("%s %s tells of %s: %s", ask.method, ask.path, detail, said)
			}
		}
	}
	_ = p.Process.Kill() // it would wait for its database
	<-p.Ended
}

// withPassword puts a password into the URL of a server that asks for none.
func withPassword(t *testing.T, database string) (address, password string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "sqlite" {
		return database, "canary-no-password"
	}
	if given, ok := u.User.Password(); ok {
		return database, given
	}
	u.User = url.UserPassword(u.User.Username(), "canary-database-password")
	return u.String(), "canary-database-password"
}

// live makes users do everything that users can do.
func live(t *testing.T, w *simulator.World, p *executable.Program, heard *witness) {
	t.Helper()
	alice, carol := SignIn(t, w, heard.address()), Client{heard.address(), w.IdP.Mint(simulator.BrokerRealm, "carol",
		w.Credentials.Client, simulator.TokenFaults{})}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	newBrowser(t, p.Address, "alice").signsIn("alice") // this session stays in the database
	leaver := newBrowser(t, p.Address, "alice")
	leaver.signsIn("alice")
	if status := leaver.asks(http.MethodPost, p.Address+"/session/sign-out", nil, nil); status != http.StatusOK {
		t.Errorf("sign-out: %d", status)
	}
	heard.add("a page", agree(t, alice, "alice"))
	w.IdP.Unlink("carol")
	waits, err := carol.Submit(t.Context(), OpenEO(w))
	must(err)
	if waits = carol.attended(t, waits.ID); waits.Attention == nil {
		t.Errorf("without a link: %+v", waits)
	}
	heard.add("a page", browse(t, p.Address+"/link/eo", "carol"))
	heard.add("a page", browse(t, p.Address+"/signed-in?code=code-00000000&state=x", "carol"))

	heard.stream(t, p, alice)
	runBoth(t, w, alice)
	job, err := json.Marshal(OGC(w))
	must(err)
	must(alice.Call(t.Context(), http.MethodPost, "/sync_jobs", job, new(any)))
	w.OpenEO.SetLife(simulator.Life{Run: time.Hour})
	running, err := alice.Submit(t.Context(), OpenEO(w))
	must(err)
	path := fmt.Sprintf("/unit_jobs/%d", running.ID)
	w.OpenEO.SetLife(simulator.Life{Fail: 1})
	tiles := OpenEO(w)
	tiles.Parameters = json.RawMessage(`{"spatial_extent": ` + Area + `}`)
	task, err := alice.Upscale(t.Context(), tiles, dispatch.Dimension{Name: "temporal_extent",
		Values: []json.RawMessage{json.RawMessage(Span)}})
	for must(err); task.Status != "failed"; {
		task, err = alice.Task(t.Context(), task.ID)
		must(err)
	}
	must(alice.Call(t.Context(), http.MethodPost, fmt.Sprintf("/upscale_tasks/%d/retry", task.ID), nil, new(any)))
	var grants []struct{ ID string }
	must(alice.Call(t.Context(), http.MethodGet, "/grants", nil, &grants))
	for _, get := range []string{path, path + "/results", path + "/logs", path + "/document", path + "/provenance",
		"/jobs_status", "/usage", "/openapi.json", "/health", "/nothing"} {
		_ = alice.Call(t.Context(), http.MethodGet, get, nil, new(any)) // the response is recorded, whatever its status
	}
	must(alice.Call(t.Context(), http.MethodPost, path+"/cancel", nil, new(any)))
	must(alice.Call(t.Context(), http.MethodDelete, path, nil, new(any)))
	must(alice.Call(t.Context(), http.MethodDelete, "/grants/"+grants[0].ID, nil, new(any)))
	for _, bad := range []Client{{heard.address(), alice.Token[:len(alice.Token)-9] + "AAAAAAAAA"},
		{heard.address(), alice.Token + "\"<b>"}} {
		if err := bad.Call(t.Context(), http.MethodGet, "/jobs_status?token="+alice.Token, nil, new(any)); err == nil {
			t.Error("a bad token is taken")
		}
	}
}

// witness is a proxy between clients and a broker that records all responses.
type witness struct {
	server *httptest.Server
	mu     sync.Mutex
	heard  map[string]string
}

func listenTo(t *testing.T, broker string) *witness {
	t.Helper()
	target, err := url.Parse(broker)
	if err != nil {
		t.Fatal(err)
	}
	h := &witness{heard: map[string]string{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		text, err := httputil.DumpResponse(r, true)
		h.add("the answer to "+r.Request.Method+" "+r.Request.URL.Path, string(text))
		return err
	}
	h.server = httptest.NewServer(proxy)
	t.Cleanup(h.server.Close)
	return h
}

func (h *witness) address() string { return h.server.URL }

func (h *witness) add(where, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[where] += text + "\n"
}

func (h *witness) all() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.heard)
}

// stream records what a stream sends until the test ends.
func (h *witness) stream(t *testing.T, p *executable.Program, c Client) {
	t.Helper()
	s, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.Address, "http")+"/job_status?interval=1&token="+
		c.Token, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, text, err := s.Read(context.Background())
			if err != nil {
				h.add("a stream", err.Error())
				return
			}
			h.add("a stream", string(text))
		}
	}()
	t.Cleanup(func() { s.CloseNow(); <-done })
}

// anybodys matches what only its owner may have: signed tokens, and the simulator's refresh tokens and codes.
var anybodys = regexp.MustCompile(`eyJ[\w-]+\.eyJ[\w-]*|refresh-\d{8}|code-\d{8}`)

// keepsSecrets searches for secrets, and for anybody's tokens, in what a program that has ended logged and left: its
// log, its folder, and its database.
func keepsSecrets(t *testing.T, p *executable.Program, database string, secrets ...string) {
	t.Helper()
	left := dump(t, database)
	if all := fmt.Sprint(left); !strings.Contains(all, "spatial_extent") && !strings.Contains(all, "bbox") {
		t.Error("the database was not looked into")
	}
	left["the log"] = p.Log.String()
	files, err := filepath.Glob(filepath.Join(p.Dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		left[f] = read(t, f)
	}
	for where, text := range left {
		withoutSecrets(t, where, text, secrets...)
	}
}

func withoutSecrets(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	if found := anybodys.FindString(text); found != "" {
		t.Errorf("%s has a token in it: %.20s…", where, found)
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s has a secret in it: %.12s…", where, secret)
		}
	}
}

// dump returns the contents of a database: the files of SQLite, or the rows of all PostgreSQL tables.
func dump(t *testing.T, database string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if file, ok := strings.CutPrefix(database, "sqlite:"); ok {
		files, err := filepath.Glob(file + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			all[f] = read(t, f)
		}
		return all
	}
	c, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for _, table := range column(t, c,
		`SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'public'`) {
		all["table "+table] = strings.Join(column(t, c, "SELECT CAST(r AS TEXT) FROM "+table+" r"), "\n")
	}
	return all
}

// column returns the texts of a query's result.
func column(t *testing.T, c *pgx.Conn, query string) []string {
	t.Helper()
	rows, err := c.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
