// Package keycloak starts a real Keycloak for tests. It has two realms: apex is the broker's identity provider,
// platform is the identity provider of an external platform. The folder realms contains both as an operator sets them
// up (docs/identity.md). install.sh installs the server.
package keycloak

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/installed"
)

// URL is the address of the server. The server's database contains it, so that only one server can run on a machine at
// a time: a second one waits for the first to end.
const URL = "http://127.0.0.1:28380"

// Issuers of the realms.
const (
	Apex     = URL + "/realms/apex"
	Platform = URL + "/realms/platform"
)

const ready = 5 * time.Minute // limit from the start of the server to its first response

// Run runs a package's tests and returns the exit code. The first call of Start starts the server; Run stops it after
// the last test.
func Run(m *testing.M) int {
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// stop stops the server if it was started, and removes its folder.
var stop = func() error { return nil }

// start starts the server once.
var start = sync.OnceValues(func() (*Server, error) {
	folder, err := os.MkdirTemp("", "keycloak")
	if err != nil {
		return nil, err
	}
	stop = func() error { return os.RemoveAll(folder) }
	if err := launch(folder); err != nil {
		return nil, err
	}
	return newServer()
})

// Start returns the running server, which all tests of the package share. If Keycloak is not installed, it skips the
// test, or fails it in CI.
func Start(t testing.TB) *Server {
	t.Helper()
	if _, err := os.Stat(filepath.Join(home(), "installed.txt")); err != nil {
		installed.Missing(t, "Keycloak", "test/real/keycloak/install.sh")
	}
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// home returns the folder of the installation.
func home() string {
	if cache := os.Getenv("EODISPATCH_CACHE"); cache != "" {
		return filepath.Join(cache, "keycloak")
	}
	home, _ := os.UserHomeDir() // without a home directory, no installation is found
	return filepath.Join(home, ".cache", "eodispatch", "keycloak")
}

// launch starts the server in a folder with a copy of the installed database, and waits until it responds. It first
// waits for the lock that other servers on this machine hold.
func launch(folder string) error {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "eodispatch-keycloak.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if err := prepareFolder(folder); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(folder, "bin", "kc.sh"), "start", "--optimized", "--http-enabled=true",
		"--http-host=127.0.0.1", "--http-port="+URL[len("http://127.0.0.1:"):], "--hostname="+URL, "--cache=local")
	cmd.Env = append(os.Environ(), "JAVA_OPTS_KC_HEAP=-Xms64m -Xmx512m", "JAVA_OPTS_APPEND=-XX:TieredStopAtLevel=1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dyingWithUs()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // stop kills it; if it ends earlier, its log contains the reason
	}()
	stop = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only if the process has ended
		<-ended
		return errors.Join(lock.Close(), os.RemoveAll(folder))
	}
	if err := awaitAnswer(ended); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("keycloak: %w\n%s", err, said[max(0, len(said)-3000):])
	}
	return nil
}

// prepareFolder prepares a folder to run the server in: it copies what the server changes, and links the rest of the
// installation.
func prepareFolder(folder string) error {
	for _, name := range []string{"lib", "conf", "providers", "themes"} {
		if err := os.Symlink(filepath.Join(home(), name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return errors.Join(os.CopyFS(filepath.Join(folder, "bin"), os.DirFS(filepath.Join(home(), "bin"))),
		os.CopyFS(filepath.Join(folder, "data", "h2"), os.DirFS(filepath.Join(home(), "data", "h2"))))
}

// awaitAnswer waits until the server responds. It fails if the server ends first or does not respond in time.
func awaitAnswer(ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), ready)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, Platform+"/.well-known/openid-configuration",
			nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("the server ended before it responded")
		case <-ctx.Done():
			return fmt.Errorf("no response within %v", ready)
		case <-again.C:
		}
	}
}
