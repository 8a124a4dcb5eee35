package program

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// try runs the program with only the given environment, and returns its exit code and its output.
func try(t *testing.T, environ []string, args ...string) (int, string) {
	t.Helper()
	return tryIn(t, t.TempDir(), environ, args...)
}

// tryIn is try in a folder with files that the arguments name.
func tryIn(t *testing.T, folder string, environ []string, args ...string) (int, string) {
	t.Helper()
	path, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), path, args...)
	command.Dir, command.Env = folder, append([]string{}, environ...)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(out)
}

func TestRun_Arguments(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args string
		code int
		want string
	}{
		{"version", exitDone, "eodispatch "},
		{"--help", exitDone, "Check the configuration, the database, the identity provider and each platform"},
		{"serve --help", exitDone, "EODISPATCH_CONFIG"},
		{"", exitUsage, "a command is missing"},
		{"dance", exitUsage, `unknown command "dance"`},
		{"serve --loudly", exitUsage, "unknown flag: --loudly"},
		{"serve", exitUsage, "identity.issuer: is missing"},
		{"doctor --config /no/such.yaml", exitUsage, "/no/such.yaml: the configuration cannot be read"},
	} {
		code, printed := try(t, nil, strings.Fields(row.args)...)
		if code != row.code || !strings.Contains(printed, row.want) {
			t.Errorf("%q: exit %d, not %d, with %q in:\n%s", row.args, code, row.code, row.want, printed)
		}
	}
}

func TestConfiguration_AllFaultsAreListed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "eodispatch.yaml")
	text := "listn: a\nidentity: {issuer: x, client_id: a}\nplatforms:\n- {name: a/b, endpoint: " +
		"https://a.example.org, access: open}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, printed := try(t, nil, "serve", "--config", file)
	if code != exitUsage || strings.Count(printed, file+":") != 3 {
		t.Errorf("exit %d:\n%s", code, printed)
	}
}

// The demonstration runs the command line itself: a job for each protocol, and a task.
func TestDemo_RunsCommands(t *testing.T) {
	t.Parallel()
	code, printed := try(t, nil, "demo")
	if code != exitDone {
		t.Fatalf("exit %d:\n%s", code, printed)
	}
	for _, want := range []string{"$ eodispatch run ndvi_composite --area 5.05,51.2,5.15,51.25 ",
		`$ eodispatch run ndvi --platform simulated-ogc -p 'bbox={"bbox":[5.05,51.2,5.15,51.25]}' `,
		"--grid 20x20km", "job-1 finished\n", "job-2 finished\n", "task-1 finished: 14 finished\n",
		"1 file downloaded", "14 files downloaded"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in:\n%s", want, printed)
		}
	}
}

func TestDemo_KeepsUpUntilItIsStopped(t *testing.T) {
	t.Parallel()
	p := executable.Launch(t, executable.Released, nil, "demo", "--keep")
	p.Log.Await(t, "Ctrl-C")
	folder := Between(p.Log.String(), "database and log", "\n")
	if got := p.Stop(t); got != exitDone || !strings.HasSuffix(p.Log.String(), "stopped\n") {
		t.Errorf("exit %d:\n%s", got, p.Log)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Errorf("%s is left behind", folder)
	}
}

func TestDemo_IsStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	p := executable.Launch(t, executable.Released, nil, "demo")
	p.Log.Await(t, "job-1")
	if got := p.Stop(t); got != exitDone || !strings.HasSuffix(p.Log.String(), "stopped\n") {
		t.Errorf("exit %d:\n%s", got, p.Log)
	}
}

// configuration returns the configuration of a broker for a simulated world, with shared and open access.
func configuration(t *testing.T, w *simulator.World) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eodispatch.yaml")
	known := w.Credentials
	text := fmt.Sprintf(`
development: true
telemetry: {listen: off}
database: sqlite:%s/eodispatch.db
identity: {issuer: %s, client_id: %s}
platforms:
- name: openeo
  protocol: openeo
  endpoint: %s
  access: shared
  service_account: {provider: sim, issuer: %[8]s, client_id: %[5]s, client_secret: %[6]s}
- name: ogc
  protocol: ogc-api-processes
  endpoint: %s
  access: shared
  service_account: {issuer: %s, client_id: %[5]s, client_secret: %[6]s}
`, filepath.Dir(file), known.Issuer, known.BrokerID, w.OpenEOURL, known.ServiceID, known.ServiceSecret, w.OGCURL,
		known.Platform)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func startWorld(t *testing.T) *simulator.World {
	t.Helper()
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func TestDoctor_FindsNothing(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	code, printed := try(t, nil, "doctor", "--config", configuration(t, w))
	if code != exitDone || strings.Count(printed, "\nok ") != 10 || strings.Contains(printed, "FAIL") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
	if strings.Contains(printed, w.Credentials.ServiceSecret) {
		t.Errorf("a secret is shown:\n%s", printed)
	}
}

func TestDoctor_FindsEachFailure(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	for _, row := range []struct{ variable, want string }{
		{"EODISPATCH_DATABASE=sqlite:/no/such/folder/eo.db", "FAIL    database"},
		{"EODISPATCH_IDENTITY_ISSUER=" + deadURL, "FAIL    identity provider"},
		{"EODISPATCH_PLATFORMS_1_ENDPOINT=" + deadURL, "FAIL    platform ogc"},
		{"EODISPATCH_PLATFORMS_0_SERVICE_ACCOUNT_CLIENT_SECRET=wrong", "FAIL    platform openeo"},
		{"EODISPATCH_PLATFORMS_0_SERVICE_ACCOUNT_PROVIDER=other", "FAIL    platform openeo"},
	} {
		code, printed := try(t, []string{row.variable}, "doctor", "--config", file)
		line := Between(printed, row.want, "\n")
		if code != exitFailed || !strings.Contains(line, "; check ") && !strings.Contains(line, "folder is missing") {
			t.Errorf("%s: exit %d:\n%s", row.variable, code, printed)
		}
	}
}

// TestDoctor_TriesExchanges: faults of the operator are found without a user.
func TestDoctor_TriesExchanges(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := filepath.Join(t.TempDir(), "eodispatch.yaml")
	text := fmt.Sprintf(`
development: true
telemetry: {listen: off}
database: sqlite:%s/eodispatch.db
identity: {issuer: %s, client_id: %s, client_secret: %s}
platforms:
- {name: new, protocol: openeo, endpoint: %s, access: user, exchange: {driver: keycloak-broker, alias: platform}}
- {name: old, protocol: ogc-api-processes, endpoint: %s, access: user, exchange: {driver: keycloak-requested-issuer, alias: platform}}
`, filepath.Dir(file), w.Credentials.Issuer, w.Credentials.BrokerID, w.Credentials.BrokerSecret, w.OpenEOURL, w.OGCURL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, printed := try(t, nil, "doctor", "--config", file)
	if code != exitDone || !strings.Contains(printed, "ok      exchange for platform new (keycloak-broker)") ||
		strings.Contains(printed, "FAIL") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
	for variable, want := range map[string]string{
		"EODISPATCH_IDENTITY_CLIENT_SECRET=wrong": "FAIL    exchange for platform old " +
			"(keycloak-requested-issuer)",
		"EODISPATCH_PLATFORMS_0_EXCHANGE_ALIAS=elsewhere": "FAIL    exchange for platform new (keycloak-broker)",
		"EODISPATCH_PLATFORMS_1_EXCHANGE_ALIAS=elsewhere": "FAIL    exchange for platform old " +
			"(keycloak-requested-issuer)",
	} {
		code, printed := try(t, []string{variable}, "doctor", "--config", file)
		if line := Between(printed, want, "\n"); code != exitFailed || !strings.Contains(line, "docs/identity.md") ||
			strings.Contains(line, "ink your") {
			t.Errorf("%s: exit %d:\n%s", variable, code, printed)
		}
	}
}

// TestDoctor_TakesOneProtocolOfTwo: each entry of BACKENDS can be used with both labels, and no server speaks both.
func TestDoctor_TakesOneProtocolOfTwo(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	database := "DATABASE_URL=sqlite:///" + filepath.Join(t.TempDir(), "apex.db")
	environ := append(deployed(w, asUser, asUser), database, "EODISPATCH_TELEMETRY_LISTEN=off")
	code, printed := try(t, environ, "doctor")
	for _, want := range []string{"not checked: ogc_api_process, since the platform answers as openeo only",
		"not checked: openeo, since the platform answers as ogc_api_process only"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if code != exitDone || strings.Contains(printed, "FAIL") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
	w.OpenEOURL = deadURL
	dead := deployed(w, asUser, asUser)
	code, printed = try(t, append(environ, dead[len(dead)-1]), "doctor")
	if code != exitFailed || !strings.Contains(Between(printed, "FAIL    platform", "\n"), "; ogc_api_process: ") {
		t.Errorf("neither: exit %d:\n%s", code, printed)
	}
}

// TestDoctor_IsBoundedInTime checks a platform that accepts connections and never responds.
func TestDoctor_IsBoundedInTime(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	w := startWorld(t)
	code, printed := try(t, []string{"EODISPATCH_PLATFORMS_1_ENDPOINT=http://" + silent.Addr().String()},
		"doctor", "--timeout", "300ms", "--config", configuration(t, w))
	if code != exitFailed || !strings.Contains(printed, "FAIL    platform ogc") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
}

// deadURL is an address that nobody serves. A free port would not do: another test that runs beside may get it.
const deadURL = "http://127.0.0.1:1"

// TestBuild_NeedsNoForeignServer starts the broker while every other server is down.
func TestBuild_NeedsNoForeignServer(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	w.Close()
	p := Start(t, "EODISPATCH_CONFIG="+file)
	response, err := http.Get(p.Address + "/health")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("health: %s", response.Status)
	}
	if second, printed := try(t, nil, "serve", "--config", file); second != exitFailed ||
		!strings.Contains(printed, "in use by another process") {
		t.Errorf("a second process on the same file: exit %d:\n%s", second, printed)
	}
	if _, printed := try(t, nil, "doctor", "--config", file); !strings.Contains(printed, "ok      database ") {
		t.Errorf("a database that the broker has open:\n%s", printed)
	}
	if got := p.Stop(t); got != exitDone {
		t.Errorf("exit %d:\n%s", got, p.Log)
	}
}

// The exit codes of the program's own commands.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func TestMain(m *testing.M) {
	code := postgres.Run(m)
	executable.CleanUp()
	os.Exit(code)
}
