package deploy_test

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v3"

	"github.com/eodispatch/eodispatch/test/executable"
)

// unit returns the file of the service, with a program that exists.
func unit(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eodispatch.service")
	text := strings.Replace(string(read(t, "systemd/eodispatch.service")), "/usr/local/bin/eodispatch", "/bin/true", 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestService_ReloadsByHangup: systemctl reload sends the signal upon which the program reads its settings again.
func TestService_ReloadsByHangup(t *testing.T) {
	if text := string(read(t, "systemd/eodispatch.service")); !strings.Contains(text,
		"\nExecReload=kill -HUP $MAINPID\n") {
		t.Error(text)
	}
}

// TestService_CommandsHaveItsFolder: the shell of docs/installation.md reads the variables of the service, and is in
// its folder, where the default of database is.
func TestService_CommandsHaveItsFolder(t *testing.T) {
	text, page := string(read(t, "systemd/eodispatch.service")), string(read(t, "../docs/installation.md"))
	for line, command := range map[string]string{"\nWorkingDirectory=%S/eodispatch\n": "cd /var/lib/eodispatch && ",
		"\nEnvironmentFile=-/etc/eodispatch/secrets.env\n": "set -a && . /etc/eodispatch/secrets.env && set +a\n",
		" serve --config /etc/eodispatch/broker.yaml\n":    " jobs --config /etc/eodispatch/broker.yaml\n"} {
		if !strings.Contains(text, line) || !strings.Contains(page, command) {
			t.Errorf("%q, %q", line, command)
		}
	}
}

// TestService_IsValidAndHardened: systemd finds no fault, and what the service could do to the machine is 1.5 of 10 at
// most.
func TestService_IsValidAndHardened(t *testing.T) {
	analyze, file := tool(t, "systemd-analyze"), unit(t)
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--no-pager", "--offline=true", "--threshold=15",
		file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// systemCalls returns the system calls of a group of systemd's, with those of the groups in it.
func systemCalls(t *testing.T, analyze, group string) (names []string) {
	t.Helper()
	out, err := exec.Command(analyze, "syscall-filter", "--no-pager", group).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Scan() // the group itself
	for lines.Scan() {
		switch line := strings.TrimSpace(lines.Text()); {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "@"):
			names = append(names, systemCalls(t, analyze, line)...)
		default:
			names = append(names, line)
		}
	}
	return names
}

// filter matches a line of the service that permits groups of system calls, or forbids them.
var filter = regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.+)$`)

// TestService_PermitsWhatTheProgramCalls: the filter of the service kills a program for a system call that it does not
// list.
func TestService_PermitsWhatTheProgramCalls(t *testing.T) {
	analyze, strace := tool(t, "systemd-analyze"), tool(t, "strace")
	permitted, forbidden := systemCalls(t, analyze, "@default"), []string(nil)
	for _, m := range filter.FindAllStringSubmatch(string(read(t, "systemd/eodispatch.service")), -1) {
		for group := range strings.FieldsSeq(m[2]) {
			if m[1] == "~" {
				forbidden = append(forbidden, systemCalls(t, analyze, group)...)
			} else {
				permitted = append(permitted, systemCalls(t, analyze, group)...)
			}
		}
	}
	if len(permitted) < 200 || len(forbidden) < 20 {
		t.Fatalf("%d system calls are permitted, and %d forbidden", len(permitted), len(forbidden))
	}
	if os.Geteuid() == 0 { // SQLite gives files to the owner of their folder, as root only
		forbidden = slices.DeleteFunc(forbidden, func(name string) bool { return strings.Contains(name, "chown") })
	}
	called := callsOfAServe(t, strace)
	if len(called) < 30 {
		t.Fatalf("only %v", called)
	}
	for _, name := range called {
		if !slices.Contains(permitted, name) || slices.Contains(forbidden, name) {
			t.Errorf("the program calls %s", name)
		}
	}
}

// callsOfAServe returns the names of the system calls of a program that starts, answers and stops.
func callsOfAServe(t *testing.T, strace string) (names []string) {
	t.Helper()
	path, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	folder, address := t.TempDir(), executable.FreeAddress(t)
	counts := filepath.Join(folder, "calls")
	traced := exec.Command(strace, "-f", "-qq", "-c", "-o", counts, path, "serve")
	traced.Dir, traced.Env = folder, []string{"EODISPATCH_LISTEN=" + address, "EODISPATCH_TELEMETRY_LISTEN=off",
		"EODISPATCH_DATABASE=sqlite:e.db", "EODISPATCH_DEVELOPMENT=true",
		"EODISPATCH_IDENTITY_ISSUER=http://127.0.0.1:1/none", "EODISPATCH_IDENTITY_AUDIENCE=a",
		`EODISPATCH_PLATFORMS=[{"name": "a", "protocol": "openeo", "endpoint": "http://127.0.0.1:1", "access": "open"}]`}
	traced.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := &executable.Log{}
	traced.Stdout, traced.Stderr = log, log
	serving := log.Shows(`"msg":"serving"`)
	if err := traced.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- traced.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-traced.Process.Pid, syscall.SIGKILL) }) // fails if it has ended
	select {
	case <-serving:
	case err := <-ended:
		t.Fatalf("%v\n%s", err, log)
	case <-time.After(5 * time.Minute):
		t.Fatalf("it does not serve:\n%s", log)
	}
	answer, err := http.Get("http://" + address + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if err := syscall.Kill(-traced.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	for line := range strings.Lines(string(read(t, counts))) {
		if columns := strings.Fields(line); len(columns) >= 4 && columns[0] != "%" && columns[0][0] != '-' &&
			columns[len(columns)-1] != "total" {
			names = append(names, columns[len(columns)-1])
		}
	}
	return names
}

// TestCompose_FollowsTheSpecification checks the compose file by the specification's schema, and that what it refers to
// exists.
func TestCompose_FollowsTheSpecification(t *testing.T) {
	text := read(t, "compose/compose.yaml")
	var whole map[string]any
	if err := yaml.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(whole); err != nil {
		t.Error(err)
	}
	var file struct {
		Services map[string]struct {
			Secrets   []string
			Volumes   []string
			DependsOn map[string]any `yaml:"depends_on"`
		}
		Secrets, Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		for _, secret := range s.Secrets {
			if file.Secrets[secret] == nil {
				t.Errorf("%s: there is no secret %s", name, secret)
			}
		}
		for _, volume := range s.Volumes {
			of, _, _ := strings.Cut(volume, ":")
			if _, exists := file.Volumes[of]; !exists {
				t.Errorf("%s: there is no volume %s", name, of)
			}
		}
		for other := range s.DependsOn {
			if _, exists := file.Services[other]; !exists {
				t.Errorf("%s: there is no service %s", name, other)
			}
		}
	}
	if len(file.Services["eodispatch"].Secrets) < 3 {
		t.Errorf("%+v", file)
	}
}
