//go:build linux

package program

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// realm is an identity provider and an openEO back-end behind TLS, with a server of documents, for a program in
// production mode.
type realm struct {
	idp       *simulator.IdP
	platform  *httptest.Server
	documents map[string]string
	environ   []string
}

// newRealm serves documents by path. The back-end reads no definitions by URL, so the broker builds the graphs.
func newRealm(t *testing.T, documents map[string]string) *realm {
	t.Helper()
	r := &realm{idp: &simulator.IdP{}, documents: documents}
	openEO := &simulator.OpenEO{Open: true, Life: simulator.Life{Run: time.Hour}}
	idp := httptest.NewTLSServer(r.idp)
	r.platform = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if text, ok := documents[request.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text) // fails when the client has left
			return
		}
		got := httptest.NewRecorder()
		openEO.ServeHTTP(got, request)
		w.Header().Set("Content-Type", got.Header().Get("Content-Type"))
		w.Header().Set("OpenEO-Identifier", got.Header().Get("OpenEO-Identifier"))
		w.WriteHeader(got.Code)
		// fails when the client has left
		_, _ = w.Write(bytes.ReplaceAll(got.Body.Bytes(), []byte("extensions/remote-process-definition"),
			[]byte("extensions/none")))
	}))
	t.Cleanup(func() { idp.Close(); r.platform.Close() })
	r.idp.URL = idp.URL
	authority := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: idp.Certificate().Raw})
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.environ = []string{"SSL_CERT_FILE=" + authority,
		"EODISPATCH_IDENTITY_ISSUER=" + r.idp.Issuer(simulator.BrokerRealm),
		"EODISPATCH_IDENTITY_AUDIENCE=eodispatch-api",
		"EODISPATCH_DATABASE=sqlite:" + filepath.Join(t.TempDir(), "d.db"),
		"EODISPATCH_APPLICATIONS_ALLOW_HOSTS=" + strings.TrimPrefix(r.platform.URL, "https://"),
		fmt.Sprintf(`EODISPATCH_PLATFORMS=[{"name": "eo", "protocol": "openeo", "endpoint": %q, "access": "open"}]`,
			r.platform.URL)}
	return r
}

func (r *realm) token(user string) string {
	return r.idp.Mint(simulator.BrokerRealm, user, "portal", simulator.TokenFaults{})
}

// start starts the program in production mode and sends it a first request, which fetches keys.
func (r *realm) start(t *testing.T, more ...string) *attacked {
	t.Helper()
	a := &attacked{Program: Start(t, append(r.environ, more...)...), token: r.token("mallory")}
	if code, text := a.ask(t, http.MethodGet, "/jobs_status", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	return a
}

// owner returns a user's name in the database.
func (r *realm) owner(t *testing.T, user string) dispatch.UserID {
	t.Helper()
	subject, err := Subject(r.token(user))
	if err != nil {
		t.Fatal(err)
	}
	return dispatch.UserID(r.idp.Issuer(simulator.BrokerRealm) + " " + subject)
}

// attacked is a running program whose costs are measured.
type attacked struct {
	*executable.Program
	token string
}

// ask returns the status and the beginning of a response.
func (a *attacked) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	code, text, err := a.send(method, path, a.token, strings.NewReader(body))
	if err != nil {
		t.Error(err)
	}
	return code, text
}

// send returns the status and the beginning of a response, which it reads completely.
func (a *attacked) send(method, path, token string, body io.Reader) (int, string, error) {
	request, err := http.NewRequest(method, a.Address+path, body)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := Pooled.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	begin, err := io.ReadAll(io.LimitReader(response.Body, 2000))
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
	}
	return response.StatusCode, string(begin), err
}

// cpu returns the CPU time of the program.
func (a *attacked) cpu(t *testing.T) time.Duration { t.Helper(); return CPUTime(t, a.Process.Pid) }

// resident returns the program's memory in bytes or, with VmHWM, its maximum.
func (a *attacked) resident(t *testing.T, what string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var kilobytes int64
	if _, err := fmt.Sscan(Between(string(text), what+":", "kB"), &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// costs runs f, and fails the test if that took more CPU or memory than allowed.
func (a *attacked) costs(t *testing.T, cpu time.Duration, memory int64, f func()) {
	t.Helper()
	before, began := a.cpu(t), time.Now()
	f()
	spent, most := a.cpu(t)-before, a.resident(t, "VmHWM")
	t.Logf("%v of CPU, %d MiB at most, after %v", spent, most>>20, time.Since(began))
	if spent > cpu || most > memory {
		t.Errorf("%v of CPU and %d MiB, more than %v or %d MiB", spent, most>>20, cpu, memory>>20)
	}
}

// wants fails the test unless a response has the status and contains the text.
func wants(t *testing.T, code, want int, text, part string) {
	t.Helper()
	if code != want || !strings.Contains(text, part) {
		t.Errorf("%d, want %d with %q in %.500s", code, want, part, text)
	}
}

const (
	mib     = 1 << 20
	noBound = 1 << 62
)

// The bounds of CPU time in these tests are about ten times what a quiet machine takes, and less than it took without
// the limits that they test: 5 s for the exponents, 16 s to 24 s for the comb.

// TestHostile_Documents: the cost of documents and requests of a few KB in production mode.
func TestHostile_Documents(t *testing.T) {
	schema := strings.Repeat(`{"required":1,"items":`, 41) + "{}" + strings.Repeat("}", 41)
	document := func(parameter, graph string) string {
		return `{"id":"own","parameters":[` + parameter +
			`],"process_graph":{"n":{"process_id":"array_create","result":true,"arguments":{"data":[` + graph + `]}}}}`
	}
	r := newRealm(t, map[string]string{
		"/plain.json":   document(`{"name":"p","schema":{"type":"string"}}`, "1"),
		"/schema.json":  document(`{"name":"p","schema":`+schema+`}`, "1"),
		"/numbers.json": document(`{"name":"p","schema":{"type":"array","items":{"type":"number","maximum":5}}}`, "1"),
		"/amplify.json": document(`{"name":"p","schema":{"type":"string"}}`,
			strings.TrimSuffix(strings.Repeat(`{"from_parameter":"p"},`, 15_000), ",")),
	})
	a := r.start(t)
	body := func(document, parameters string) string {
		return fmt.Sprintf(
			`{"title":"t","label":"openeo","format":"gtiff","service":{"endpoint":%q,"application":%q},"parameters":%s}`,
			r.platform.URL, r.platform.URL+document, parameters)
	}
	code, text := a.ask(t, http.MethodPost, "/params", body("/plain.json", `{}`))
	wants(t, code, http.StatusOK, text, `"p"`)
	t.Run("a schema of 1 KB", func(t *testing.T) {
		a.costs(t, 3*time.Second, 150*mib, func() {
			code, text := a.ask(t, http.MethodPost, "/params", body("/schema.json", `{}`))
			wants(t, code, http.StatusOK, text, `"warning"`)
		})
	})
	t.Run("200 huge exponents", func(t *testing.T) {
		numbers := `{"p":[` + strings.TrimSuffix(strings.Repeat("1e999999,", 200), ",") + `]}`
		a.costs(t, 2*time.Second, 150*mib, func() {
			code, text := a.ask(t, http.MethodPost, "/unit_jobs", body("/numbers.json", numbers))
			wants(t, code, http.StatusUnprocessableEntity, text, "number_exponent")
		})
	})
	t.Run("an amplifying document", func(t *testing.T) {
		a.costs(t, 10*time.Second, 200*mib, func() {
			code, text := a.ask(t, http.MethodPost, "/unit_jobs",
				body("/amplify.json", `{"p":"`+strings.Repeat("x", 100_000)+`"}`))
			wants(t, code, http.StatusUnprocessableEntity, text, "graph_bytes")
		})
	})
	if code := a.Stop(t); code != exitDone {
		t.Errorf("exit %d", code)
	}
}

// TestHostile_Tiles: the cost of anonymous requests to /tiles. Half of the large ones do not declare their size.
func TestHostile_Tiles(t *testing.T) {
	r := newRealm(t, nil)
	a := r.start(t)
	t.Run("40 x 10 MiB", func(t *testing.T) {
		large := bytes.Repeat([]byte("x"), 10*mib)
		a.costs(t, noBound, 300*mib, func() {
			var all sync.WaitGroup
			for i := range 40 {
				all.Go(func() {
					var body io.Reader = bytes.NewReader(large)
					if i%2 == 1 {
						body = io.MultiReader(body)
					}
					code, text, err := a.send(http.MethodPost, "/tiles", "", body)
					// an error means that the rest was not read
					if err == nil && code != http.StatusRequestEntityTooLarge && code != http.StatusServiceUnavailable {
						t.Errorf("%d %s", code, text)
					}
				})
			}
			all.Wait()
		})
	})
	t.Run("a comb of 593 KB", func(t *testing.T) {
		a.costs(t, 10*time.Second, 400*mib, func() {
			code, text := a.ask(t, http.MethodPost, "/tiles", comb(9_000))
			wants(t, code, http.StatusUnprocessableEntity, text, "(bound tiles_")
		})
	})
	a.Stop(t)
}

// comb returns an area with so many teeth, each of which spans 120 degrees of latitude.
func comb(teeth int) string {
	var b strings.Builder
	b.WriteString(`{"grid":"20x20km","aoi":{"type":"Polygon","coordinates":[[[-20,-61],[20,-61]`)
	step := 20 / float64(teeth)
	for i := range teeth {
		x := 20 - float64(2*i)*step
		fmt.Fprintf(&b, ",[%.5f,60],[%.5f,60]", x, x-step)
		if i < teeth-1 {
			fmt.Fprintf(&b, ",[%.5f,-60],[%.5f,-60]", x-step, x-2*step)
		}
	}
	return b.String() + `,[-20,-61]]]}}`
}

var full = flag.Bool("full", false, "play everything, not only what fits into a minute")

// TestHostile_Lists: four concurrent clients read lists of large requests; with -full of 300 and 400 MiB.
func TestHostile_Lists(t *testing.T) {
	lists := [][2]int{{4, 10 * mib}, {12, 2 * mib}}
	if *full {
		lists = [][2]int{{30, 10 * mib}, {200, 2 * mib}}
	}
	for _, l := range lists {
		jobs, size := l[0], l[1]
		t.Run(fmt.Sprintf("%d jobs of %d MiB", jobs, size/mib), func(t *testing.T) {
			r := newRealm(t, nil)
			r.keep(t, "mallory", jobs, size)
			a := r.start(t)
			a.costs(t, noBound, 500*mib, func() { a.readLists(t, int64(jobs*size)) })
			a.Stop(t)
		})
	}
}

// readLists reads the complete list with four concurrent clients.
func (a *attacked) readLists(t *testing.T, least int64) {
	t.Helper()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			request, err := http.NewRequest(http.MethodGet, a.Address+"/jobs_status", nil)
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+a.token)
			response, err := Pooled.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if n, err := io.Copy(io.Discard, response.Body); err != nil || n < least {
				t.Errorf("read %d bytes of %d, %v", n, least, err)
			}
		})
	}
	all.Wait()
}

// keep stores so many ended jobs with large parameters in the database.
func (r *realm) keep(t *testing.T, user string, jobs, bytes int) {
	t.Helper()
	database := ""
	for _, e := range r.environ {
		if address, ok := strings.CutPrefix(e, "EODISPATCH_DATABASE="); ok {
			database = address
		}
	}
	s, err := store.Open(t.Context(), database, conformance.WallClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	body, err := json.Marshal(dispatch.Request{Title: "large", Label: dispatch.OpenEO, Format: "json",
		Parameters: json.RawMessage(`{"x":"` + strings.Repeat("x", bytes) + `"}`),
		Service:    dispatch.Service{Endpoint: r.platform.URL, Application: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	ended := dispatch.Job{Identity: dispatch.Identity{Owner: r.owner(t, user)},
		Target: dispatch.Target{Account: "eo/open"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
		Handover: dispatch.Handover{Phase: dispatch.Ended}, Condition: dispatch.Condition{Status: dispatch.Finished}}
	for range jobs {
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil,
			[]dispatch.Draft{{Job: ended, Body: body}}); err != nil {
			t.Fatal(err)
		}
	}
}
