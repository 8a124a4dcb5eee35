package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/detector"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestMain(m *testing.M) {
	code := postgres.Run(m)
	executable.CleanUp()
	os.Exit(code)
}

// startProgram starts the command serve with only the given environment and waits until it serves. It ends tests that
// run under the race detector, without which the program is compiled.
func startProgram(t testing.TB, environ ...string) *executable.Program {
	t.Helper()
	detector.Skip(t)
	p := executable.Start(t, executable.Released, environ...)
	if p.Address == "" {
		t.Fatalf("it does not serve:\n%s", p.Log)
	}
	return p
}

// deployed is the environment of the service that this program replaces, for a simulated world. Its tables are in the
// file ./apex.db; the identity provider's address contains no realm, as in that service.
func deployed(w *simulator.World, openEO, ogc string) []string {
	known := w.Credentials
	return []string{
		"APP_NAME=APEx Dispatch API", "APP_DESCRIPTION=Runs services", "APP_ENV=production", "APP_VERSION=0.9.1",
		"EODISPATCH_DEVELOPMENT=true", "CORS_ALLOWED_ORIGINS=http://localhost:5173",
		"KEYCLOAK_HOST=" + w.IdPURL, "KEYCLOAK_REALM=" + simulator.BrokerRealm,
		"KEYCLOAK_CLIENT_ID=" + known.BrokerID, "KEYCLOAK_CLIENT_SECRET=" + known.BrokerSecret,
		"DATABASE_URL=sqlite:///./apex.db", fmt.Sprintf(`BACKENDS={%q: %s, %q: %s}`, w.OpenEOURL, openEO, w.OGCURL, ogc),
	}
}

const asUser = `{"auth_method": "USER_CREDENTIALS", "token_provider": "` + simulator.PlatformAlias +
	`", "token_prefix": "oidc/sim"}`

// TestServe_DeployedServicesEnvironmentIsEnough starts the real program with only the variables of the deployed service
// and runs a job of each label.
func TestServe_DeployedServicesEnvironmentIsEnough(t *testing.T) {
	w := startWorld(t)
	p := startProgram(t, deployed(w, asUser, asUser)...)
	c := signedIn(t, w, p.Address)
	runBoth(t, w, c)
	var document struct {
		Info struct{ Title, Description string }
	}
	if err := c.call(t.Context(), http.MethodGet, "/openapi.json", nil, &document); err != nil ||
		document.Info.Title != "APEx Dispatch API" {
		t.Errorf("the document is headed %+v, %v", document.Info, err)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "apex.db")); err != nil {
		t.Error(err)
	}
	if code := p.Stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, p.Log)
	}
	keepsSecrets(t, p, "sqlite:"+filepath.Join(p.Dir, "apex.db"), w.Credentials.BrokerSecret, w.Credentials.Password,
		c.token)
}

// TestServe_DeployedServicesSharedAccount uses an account whose provider only the platform knows.
func TestServe_DeployedServicesSharedAccount(t *testing.T) {
	w := startWorld(t)
	shared := fmt.Sprintf(`{"auth_method": "CLIENT_CREDENTIALS", "client_credentials": "sim/%s/%s"}`,
		w.Credentials.ServiceID, w.Credentials.ServiceSecret)
	p := startProgram(t, deployed(w, shared, asUser)...)
	runBoth(t, w, signedIn(t, w, p.Address))
	p.Stop(t)
	keepsSecrets(t, p, "sqlite:"+filepath.Join(p.Dir, "apex.db"), w.Credentials.ServiceSecret, w.Credentials.BrokerSecret)
}

// TestServe_DeployedServicesEnvironmentWithPostgreSQL names the database in SQLAlchemy's spelling.
func TestServe_DeployedServicesEnvironmentWithPostgreSQL(t *testing.T) {
	_, address, _ := strings.Cut(postgres.Database(t), ":")
	w := startWorld(t)
	p := startProgram(t, append(deployed(w, asUser, asUser), "DATABASE_URL=postgresql+psycopg2:"+address,
		"EODISPATCH_VAULT_KEYS="+identity.NewKey(time.Now()).Reveal())...)
	runBoth(t, w, signedIn(t, w, p.Address))
	if code := p.Stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, p.Log)
	}
}

func signedIn(t testing.TB, w *simulator.World, broker string) client {
	t.Helper()
	known := w.Credentials
	token, err := signIn(t.Context(), known.Issuer, known.Client, known.User, known.Password)
	if err != nil {
		t.Fatal(err)
	}
	return client{broker, token}
}

// runBoth runs a job of each label to its end.
func runBoth(t *testing.T, w *simulator.World, c client) {
	t.Helper()
	var out screen
	if err := runAll(t.Context(), c, []dispatch.Request{openEORequest(w), ogcRequest(w)}, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

// openEORequest returns a request for a process that the simulated back-end knows.
func openEORequest(w *simulator.World) dispatch.Request {
	return dispatch.Request{Title: "composite", Label: dispatch.OpenEO, Format: "gtiff",
		Service:    dispatch.Service{Endpoint: w.OpenEOURL, Application: "ndvi_composite"},
		Parameters: json.RawMessage(`{"spatial_extent": ` + demoArea + `, "temporal_extent": ` + demoSpan + `}`)}
}

func ogcRequest(w *simulator.World) dispatch.Request {
	return dispatch.Request{Title: "ndvi", Label: dispatch.OGCProcess, Format: "json",
		Service: dispatch.Service{Endpoint: w.OGCURL, Application: ogcProcess}, Parameters: json.RawMessage(`{"bbox": ` +
			demoBox + `}`)}
}

// TestServe_SecondSignalEndsAtOnce stops the program while a client holds a request open.
func TestServe_SecondSignalEndsAtOnce(t *testing.T) {
	w := startWorld(t)
	const execution = "POST /processes/{id}/execution"
	w.OGC.Faults.Add(simulator.Fault{Route: execution, Latency: time.Hour})
	p := startProgram(t, deployed(w, asUser, asUser)...)
	c := signedIn(t, w, p.Address)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body, err := json.Marshal(ogcRequest(w))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- c.call(ctx, http.MethodPost, "/sync_jobs", body, new(any)) }()
	arrived(t, w, execution)
	for range 2 {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-p.Log.Shows(`"msg":"stopping"`)
	}
	<-p.Ended
	if p.ProcessState.Success() {
		t.Error("it ended well")
	}
	<-answered
}

// arrived waits until the OGC server has received a request on a route.
func arrived(t *testing.T, w *simulator.World, route string) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for range again.C {
		if w.OGC.Oracle.Requests(route) > 0 || t.Context().Err() != nil {
			return
		}
	}
}

// TestDemo_RunsTheCatalogue runs every published algorithm of the catalogue with sample parameters.
func TestDemo_RunsTheCatalogue(t *testing.T) {
	files := fromCatalogue(t, "udp")
	requests, documents := make([]dispatch.Request, len(files)), map[string][]byte{}
	for i, file := range files {
		asked, served, err := (&demoCommand{Application: file}).jobs(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		requests[i] = asked[0]
		for name, text := range served {
			documents[url.PathEscape(name)] = text
		}
	}
	var out screen
	s, err := newDemoServers(t.Context(), testConsole(t.Context(), &out), documents, simulator.Life{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.signIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		requests[i] = s.withAddresses(requests[i])
	}
	if err := runAll(t.Context(), client{s.broker, token}, requests, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
