package keycloak

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// openEOClient returns the interpreter of the environment with the openEO Python client. Without it the test is
// skipped; in CI it fails.
func openEOClient(t *testing.T) string {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "bash", "../install.sh", "--bin", "openeo-0.53").Output()
	must(t, err)
	python := filepath.Join(strings.TrimSpace(string(folder)), "python")
	if _, err := os.Stat(python); err != nil {
		installed.Missing(t, "the openEO Python client", "test/real/install.sh openeo-0.53")
	}
	return python
}

// signInAtOpenEO signs in as a new user of the openEO Python client does, who names neither a provider nor a client.
const signInAtOpenEO = `
import contextlib, json, sys, openeo
with contextlib.redirect_stdout(sys.stderr):
    connection = openeo.connect(sys.argv[1] + "/openeo/1.2").authenticate_oidc(store_refresh_token=False)
print(json.dumps({"name": connection.describe_account().get("name", ""), "jobs": len(connection.list_jobs())}))
`

// The openEO Python client signs a user in by the device flow of the real Keycloak, with the client that the broker
// proposes.
func TestOpenEO_DeviceFlowOnTheRealKeycloak(t *testing.T) {
	python := openEOClient(t)
	s := Start(t)
	programClient(t, s)
	platform := httptest.NewServer(&simulator.OpenEO{})
	t.Cleanup(platform.Close)
	address := executable.FreeAddress(t)
	serve(t, append(onPlatforms(t, address, map[string]string{"P": platform.URL}),
		"EODISPATCH_IDENTITY_OPENEO_CLIENT=eodispatch-cli")...)

	client, said, printed := exec.CommandContext(t.Context(), python, "-u", "-c", signInAtOpenEO, "http://"+address),
		&executable.Log{}, &executable.Log{}
	home := t.TempDir()
	client.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home}
	client.Stderr, client.Stdout = said, printed
	must(t, client.Start())
	stop := time.AfterFunc(5*time.Minute, func() { _ = client.Process.Kill() }) // it may have ended
	defer stop.Stop()
	page := regexp.MustCompile(`(http\S+user_code=[A-Z-]+)`)
	eventually(t, ready, func() error {
		if !page.MatchString(said.String()) {
			return errors.New("no page is shown: " + said.String())
		}
		return nil
	})
	at, err := (&Browser{Logins: map[string]string{"apex": "alice"}}).Open(page.FindString(said.String()))
	if err != nil || at.Status != 200 {
		t.Fatalf("%+v, %v", at, err)
	}
	if err := client.Wait(); err != nil {
		t.Fatalf("%v\n%s\nthe browser stopped at: %s", err, said, at.Text)
	}
	var found struct{ Name string }
	if err := json.Unmarshal([]byte(printed.String()), &found); err != nil || found.Name == "" {
		t.Errorf("signed in as %s, %v\n%s", printed, err, said)
	}
}
