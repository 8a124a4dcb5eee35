// Package keycloak provides tests with a real Keycloak with two realms: apex, the broker's identity provider, and platform,
// that of an external platform. The folder realms holds them as an operator would set them up, see docs/identity.md. install.sh
// installs the server.
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
)

// URL is the address of the server. It is stored in the server's database, so only one server runs at a time on a machine; a
// second one waits.
const URL = "http://127.0.0.1:28380"

// Issuers of the realms.
const (
	Apex     = URL + "/realms/apex"
	Platform = URL + "/realms/platform"
)

const ready = 5 * time.Minute // from the start to the first response

// Run runs a package's tests. The first call of Start starts the server, and Run stops it after the last test.
func Run(m *testing.M) int {
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// stop stops the server, if it was started.
var stop = func() error { return nil }

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

// Start returns the server for this package's tests. Without an installation the test is skipped; in CI it fails.
func Start(t testing.TB) *Server {
	t.Helper()
	if _, err := os.Stat(filepath.Join(home(), "installed.txt")); err != nil {
		if text := "Keycloak is not installed: run test/real/keycloak/install.sh"; os.Getenv("CI") == "true" {
			t.Fatal(text)
		} else {
			t.Skip(text)
		}
	}
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func home() string {
	if cache := os.Getenv("EODISPATCH_CACHE"); cache != "" {
		return filepath.Join(cache, "keycloak")
	}
	home, _ := os.UserHomeDir() // without a home folder there is no installation
	return filepath.Join(home, ".cache", "eodispatch", "keycloak")
}

// launch starts the server in its own folder, with a copy of the database, and waits until it responds.
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
	cmd := exec.Command(filepath.Join(folder, "bin", "kc.sh"), "start", "--optimized", "--http-enabled=true", "--http-host=127.0.0.1",
		"--http-port="+URL[len("http://127.0.0.1:"):], "--hostname="+URL, "--cache=local")
	cmd.Env = append(os.Environ(), "JAVA_OPTS_KC_HEAP=-Xms64m -Xmx512m", "JAVA_OPTS_APPEND=-XX:TieredStopAtLevel=1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dyingWithUs()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed in the end; its log says why it ended earlier
	}()
	stop = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only if it has already ended
		<-ended
		return errors.Join(lock.Close(), os.RemoveAll(folder))
	}
	if err := awaitAnswer(ended); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("keycloak: %w\n%s", err, said[max(0, len(said)-3000):])
	}
	return nil
}

// prepareFolder copies into a folder what one run of the server changes, and links the rest.
func prepareFolder(folder string) error {
	for _, name := range []string{"lib", "conf", "providers", "themes"} {
		if err := os.Symlink(filepath.Join(home(), name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return errors.Join(
		os.CopyFS(filepath.Join(folder, "bin"), os.DirFS(filepath.Join(home(), "bin"))),
		os.CopyFS(filepath.Join(folder, "data", "h2"), os.DirFS(filepath.Join(home(), "data", "h2"))))
}

// awaitAnswer waits until the server responds or has ended.
func awaitAnswer(ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), ready)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, Platform+"/.well-known/openid-configuration", nil)
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
			return errors.New("it ended before it answered")
		case <-ctx.Done():
			return fmt.Errorf("no answer in %v", ready)
		case <-again.C:
		}
	}
}
