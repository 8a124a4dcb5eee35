// Package crashes kills, freezes and restarts the real program while it works, and asks the simulator what really happened.
package crashes

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/simulator"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

var full = flag.Bool("full", false, "play everything, not only what fits into a minute and a half")

// Programs mostly wait, so many can share a core.
const atOnce = "64"

var folder string // of what was built

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", atOnce)
	code := postgres.Run(m)
	if folder != "" {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

// The program as it is delivered, and one that dies on demand and in which a minute is a second.
var (
	released = sync.OnceValues(func() (string, error) { return build("eodispatch") })
	mortal   = sync.OnceValues(func() (string, error) { return build("mortal", "-tags", "failpoints") })
)

var making sync.Mutex

func build(name string, flags ...string) (path string, err error) {
	making.Lock()
	defer making.Unlock()
	if err := prepareFolder(); err != nil {
		return "", err
	}
	return compile("../..", filepath.Join(folder, name), flags...)
}

// prepareFolder makes the folder of what is built. The caller holds making.
func prepareFolder() (err error) {
	if folder == "" {
		folder, err = os.MkdirTemp("", "eodispatch-fire-")
	}
	return err
}

// compile builds the program whose source is in a folder.
func compile(source, path string, flags ...string) (string, error) {
	build := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", path}, flags...), "./cmd/eodispatch")...)
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}

// program is a broker that was started.
type program struct {
	cmd     *exec.Cmd
	said    lines
	address string // "" if it ended before it served
	ended   chan struct{}
}

// launch starts `serve` with an environment and returns when it serves or has ended.
func launch(t testing.TB, binary func() (string, error), environ []string, more ...string) *program {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: exec.Command(path, "serve"), ended: make(chan struct{})}
	p.said.heard = make(chan struct{}, 1)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = &p.said, &p.said, t.TempDir()
	p.cmd.Env = append(append([]string{"EODISPATCH_LISTEN=127.0.0.1:0"}, environ...), more...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its state says it
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error: it has ended already
		<-p.ended
		if t.Failed() {
			t.Logf("%v said:\n%s", p.cmd.Env[1:], p.said.String())
		}
	})
	for {
		select {
		case <-p.said.heard:
		case <-p.ended:
			return p
		case <-time.After(time.Minute):
			t.Fatal("it does not serve")
		}
		if _, after, ok := strings.Cut(p.said.String(), `"msg":"serving","address":"`); ok {
			host, _, _ := strings.Cut(after, `"`)
			p.address = "http://" + host
			return p
		}
	}
}

// lines is what a program printed.
type lines struct {
	mu    sync.Mutex
	text  bytes.Buffer
	heard chan struct{} // there is more
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.heard <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// dies waits until the program has ended, and reports whether a signal killed it.
func (p *program) dies(t testing.TB, within time.Duration) bool {
	t.Helper()
	if !p.hasEnded(within) {
		t.Fatalf("it did not end within %v", within)
	}
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
}

func (p *program) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// stop tells it to end, which it must do well and soon.
func (p *program) stop(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if p.dies(t, time.Minute); p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it ended with %v", p.cmd.ProcessState)
	}
}

// world is the identity provider of all tests of this package.
var world = sync.OnceValues(func() (*simulator.World, error) { return simulator.Start(simulator.Options{}) })

// environment is what every broker is started with. Its platforms may have a private address.
func environment(t testing.TB, dsn string, platforms []map[string]any) []string {
	t.Helper()
	w, err := world()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(platforms)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"EODISPATCH_DATABASE=" + dsn, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER=" + w.Credentials.Issuer,
		"EODISPATCH_IDENTITY_AUDIENCE=" + w.Credentials.BrokerID, "EODISPATCH_PLATFORMS=" + string(text)}
}

// token lets a user in. Any name will do.
func token(user string) (string, error) {
	w, err := world()
	if err != nil {
		return "", err
	}
	return w.IdP.Mint(simulator.BrokerRealm, user, w.Credentials.Client, simulator.Odd{}), nil
}

// ask calls a broker as a user does. What is refused, or not answered, is an error. into nil: the answer does not matter.
func (p *program) ask(ctx context.Context, method, path, key string, body, into any) error {
	token, err := token("alice")
	if err != nil {
		return err
	}
	return p.askAs(ctx, token, method, path, key, body, into)
}

func (p *program) askAs(ctx context.Context, token, method, path, key string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, p.address+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return answer(r, into)
}

func answer(r *http.Request, into any) error {
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", r.Method, r.URL, response.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// until looks ten times a second whether ok, and reports false when the time is over.
func until(within time.Duration, ok func() bool) bool {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(within); time.Now().Before(end); <-again.C {
		if ok() {
			return true
		}
	}
	return false
}

// hasEnded reports whether the process ends within a time.
func (p *program) hasEnded(within time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// stopping reports whether the program has said that it heeds a signal.
func (p *program) stopping() bool { return strings.Contains(p.said.String(), `"msg":"stopping"`) }
