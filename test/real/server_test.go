package real

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
)

// ready is the maximum time from the start of a server to its first response.
const ready = 5 * time.Minute

// environment returns the folder of a Python environment or of other files that install.sh installs. Without the
// folder, the test is skipped; in CI it fails.
func environment(t testing.TB, name string) string {
	t.Helper()
	cache := os.Getenv("EODISPATCH_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(home, ".cache", "eodispatch")
	}
	folder := filepath.Join(cache, name+madeOf(t, name))
	if _, err := os.Stat(filepath.Join(folder, "installed.txt")); err != nil {
		installed.Missing(t, name, "test/real/install.sh "+name)
	}
	return folder
}

// madeOf returns the suffix of the folder name of a Python environment: a hash of its requirements, computed as in
// install.sh. It is empty for a folder that is not a Python environment.
func madeOf(t testing.TB, name string) string {
	t.Helper()
	build, err := os.ReadFile("requirements/build.txt")
	if err != nil {
		t.Fatal(err)
	}
	locked, err := os.ReadFile("requirements/" + name + ".txt")
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append(build, locked...))
	return "-" + hex.EncodeToString(sum[:])[:12]
}

// server describes a program to start.
type server struct {
	name   string
	args   []string
	env    []string
	folder string // working directory, which also receives its log
	probe  string // a URL that responds with 200 once the server is ready
}

// start starts a server, waits until it is ready, and kills it when the test ends, or earlier by the function that it
// returns.
func start(t *testing.T, s server) (kill func()) {
	t.Helper()
	log := filepath.Join(s.folder, s.name+".log")
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.folder, output, output
	cmd.Env = append(os.Environ(), append(s.env, "PYTHONDONTWRITEBYTECODE=1")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its workers can be killed with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the test kills it; its log says why it ended earlier
	}()
	kill = sync.OnceFunc(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only if it has already ended
		<-ended
	})
	t.Cleanup(kill)
	if err := answers(t.Context(), s.probe, ended); err != nil {
		said, _ := os.ReadFile(log)
		t.Fatalf("%s: %v\n%s", s.name, err, tail(said, 2000))
	}
	return kill
}

// answers waits until a URL responds with 200. It returns an error if the program ends before that.
func answers(ctx context.Context, url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("the program ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %w", ready, err)
		case <-again.C:
		}
	}
}

func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }

// freePort returns a TCP port on which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(executable.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// servers returns the folder of this project's server programs and configurations.
func servers(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("servers")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startPygeoapi starts a pygeoapi server of a version and returns its address.
func startPygeoapi(t *testing.T, version string) string {
	base, _ := startMortalPygeoapi(t, version)
	return base
}

// startMortalPygeoapi also returns what kills the server.
func startMortalPygeoapi(t *testing.T, version string) (base string, kill func()) {
	return startPygeoapiIn(t, t.TempDir(), version, "")
}

// startPygeoapiIn starts the server in a folder, without the line of its configuration that begins with a text. Without
// its manager, processes only run synchronously.
func startPygeoapiIn(t *testing.T, folder, version, without string) (base string, kill func()) {
	venv, port := environment(t, "pygeoapi-"+version), freePort(t)
	template, err := os.ReadFile(filepath.Join(servers(t), "pygeoapi.yml"))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(folder, "config.yml")
	text := strings.NewReplacer("PORT", port, "FOLDER", folder).Replace(string(template))
	if without != "" {
		text = regexp.MustCompile(`(?m)^ *`+without+`.*$`).ReplaceAllString(text, "")
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PYTHONPATH=" + servers(t), "PYGEOAPI_CONFIG=" + config, "PYGEOAPI_OPENAPI=" + filepath.Join(folder,
		"openapi.yml")}
	generate := exec.CommandContext(t.Context(), venv+"/bin/pygeoapi", "openapi", "generate", config, "--output-file",
		filepath.Join(folder, "openapi.yml"))
	generate.Dir, generate.Env = folder, append(os.Environ(), append(env, "PYTHONDONTWRITEBYTECODE=1")...)
	var said bytes.Buffer
	generate.Stdout, generate.Stderr = &said, &said
	if err := generate.Run(); err != nil {
		t.Fatalf("pygeoapi openapi generate: %v\n%s", err, tail(said.Bytes(), 2000))
	}
	base = "http://127.0.0.1:" + port
	return base, start(t, server{name: "pygeoapi", folder: folder, env: env, probe: base + "/conformance?f=json",
		args: gunicorn(venv, port, "pygeoapi.flask_app:APP")})
}

// startOpenEO starts an openeo_driver server and returns its address.
func startOpenEO(t *testing.T) string {
	venv, folder, port := environment(t, "openeo-driver"), t.TempDir(), freePort(t)
	base := "http://127.0.0.1:" + port
	start(t, server{name: "openeo_driver", folder: folder, probe: base + "/.well-known/openeo",
		args: gunicorn(venv, port, "openeo_server:app"),
		env: []string{"PYTHONPATH=" + servers(t), "EODISPATCH_BASE=" + base, "EODISPATCH_FOLDER=" + folder,
			"OPENEO_BACKEND_CONFIG=" + filepath.Join(servers(t), "openeo_config.py")}})
	return base
}

// gunicorn returns the command line that runs an application in one process, in which its jobs also live.
func gunicorn(venv, port, app string) []string {
	return []string{venv + "/bin/gunicorn", "--no-control-socket", "--threads", "16", "--bind", "127.0.0.1:" + port,
		app}
}

// startTitiler starts a titiler-openeo server that reads from the small STAC API in servers/, and returns its address.
func startTitiler(t *testing.T) string {
	venv, folder := environment(t, "titiler-openeo"), t.TempDir()
	stac, port := freePort(t), freePort(t)
	start(t, server{name: "stac", folder: folder, probe: "http://127.0.0.1:" + stac + "/",
		args: []string{venv + "/bin/python", filepath.Join(servers(t), "stac.py"), stac, folder}})
	services := filepath.Join(folder, "services.json")
	if err := os.WriteFile(services, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + port
	start(t, server{name: "titiler-openeo", folder: folder, probe: base + "/",
		args: []string{venv + "/bin/uvicorn", "titiler.openeo.main:app", "--host", "127.0.0.1", "--port", port},
		env:  []string{"TITILER_OPENEO_STAC_API_URL=http://127.0.0.1:" + stac, "TITILER_OPENEO_STORE_URL=" + services}})
	return base
}
