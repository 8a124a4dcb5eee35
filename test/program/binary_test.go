package program

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// deployed is the environment of the service that this program replaces, for a simulated world. Its tables are in the
// file ./apex.db; the identity provider's address contains no realm, as in that service.
func deployed(w *simulator.World, openEO, ogc string) []string {
	known := w.Credentials
	return []string{
		"APP_NAME=APEx Dispatch API", "APP_DESCRIPTION=Runs services", "APP_ENV=production", "APP_VERSION=0.9.1",
		"EODISPATCH_DEVELOPMENT=true", "CORS_ALLOWED_ORIGINS=http://localhost:5173",
		"KEYCLOAK_HOST=" + w.IdPURL, "KEYCLOAK_REALM=" + simulator.BrokerRealm,
		"KEYCLOAK_CLIENT_ID=" + known.BrokerID, "KEYCLOAK_CLIENT_SECRET=" + known.BrokerSecret,
		"DATABASE_URL=sqlite:///./apex.db", fmt.Sprintf(`BACKENDS={%q: %s, %q: %s}`, w.OpenEOURL, openEO, w.OGCURL,
			ogc),
	}
}

const asUser = `{"auth_method": "USER_CREDENTIALS", "token_provider": "` + simulator.PlatformAlias +
	`", "token_prefix": "oidc/sim"}`

// TestServe_DeployedServicesEnvironmentIsEnough starts the real program with only the variables of the deployed service
// and runs a job of each label.
func TestServe_DeployedServicesEnvironmentIsEnough(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	p := Start(t, deployed(w, asUser, asUser)...)
	c := SignIn(t, w, p.Address)
	runBoth(t, w, c)
	var document struct {
		Info struct{ Title, Description string }
	}
	if err := c.Call(t.Context(), http.MethodGet, "/openapi.json", nil, &document); err != nil ||
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
		c.Token)
}

// TestServe_DeployedServicesSharedAccount uses an account whose provider only the platform knows.
func TestServe_DeployedServicesSharedAccount(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	shared := fmt.Sprintf(`{"auth_method": "CLIENT_CREDENTIALS", "client_credentials": "sim/%s/%s"}`,
		w.Credentials.ServiceID, w.Credentials.ServiceSecret)
	p := Start(t, deployed(w, shared, asUser)...)
	runBoth(t, w, SignIn(t, w, p.Address))
	p.Stop(t)
	keepsSecrets(t, p, "sqlite:"+filepath.Join(p.Dir, "apex.db"), w.Credentials.ServiceSecret,
		w.Credentials.BrokerSecret)
}

// TestServe_DeployedServicesEnvironmentWithPostgreSQL names the database in SQLAlchemy's spelling.
func TestServe_DeployedServicesEnvironmentWithPostgreSQL(t *testing.T) {
	t.Parallel()
	_, address, _ := strings.Cut(postgres.Database(t), ":")
	w := startWorld(t)
	p := Start(t, append(deployed(w, asUser, asUser), "DATABASE_URL=postgresql+psycopg2:"+address,
		"EODISPATCH_VAULT_KEYS="+identity.NewKey(time.Now()).Reveal())...)
	runBoth(t, w, SignIn(t, w, p.Address))
	if code := p.Stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, p.Log)
	}
}

// runBoth runs a job of each label to its end.
func runBoth(t *testing.T, w *simulator.World, c Client) {
	t.Helper()
	for _, r := range []dispatch.Request{OpenEO(w), OGC(w)} {
		j, err := c.Submit(t.Context(), r)
		for err == nil && !j.Ended() {
			err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d?wait=30", j.ID), nil, &j)
		}
		if err == nil && j.Status == string(dispatch.Finished) {
			err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d/results", j.ID), nil,
				new(json.RawMessage))
		}
		if err != nil || j.Status != string(dispatch.Finished) {
			t.Errorf("%s: job %d is %s: %s, %v", r.Label, j.ID, j.Status, j.Failure, err)
		}
	}
}

// TestServe_SecondSignalEndsAtOnce stops the program while a client holds a request open.
func TestServe_SecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	const execution = "POST /processes/{id}/execution"
	w.OGC.Faults.Add(simulator.Fault{Route: execution, Latency: time.Hour})
	p := Start(t, deployed(w, asUser, asUser)...)
	c := SignIn(t, w, p.Address)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body, err := json.Marshal(OGC(w))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- c.Call(ctx, http.MethodPost, "/sync_jobs", body, new(any)) }()
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
