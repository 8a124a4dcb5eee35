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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/simulator"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
)

var full = flag.Bool("full", false, "play everything, not only what fits into two minutes")

// Programs mostly wait, so many can share a core.
const atOnce = "64"

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", atOnce)
	code := postgres.Run(m)
	executable.CleanUp()
	os.Exit(code)
}

// The program as it is released, and one that kills itself on demand and in which a minute lasts a second.
var released, mortal = executable.Released, executable.Mortal

// program is a broker that was started.
type program struct{ *executable.Program }

// launch starts the command serve with an environment and returns when it serves or has ended.
func launch(t testing.TB, binary executable.Binary, environ []string, more ...string) *program {
	t.Helper()
	return &program{executable.Start(t, binary, slices.Concat(environ, more)...)}
}

// dies waits until the program has ended, and reports whether a signal killed it.
func (p *program) dies(t testing.TB, within time.Duration) bool {
	t.Helper()
	p.AwaitEnd(t, within)
	return p.ProcessState.Sys().(syscall.WaitStatus).Signaled()
}

// stop stops the program, which must end with exit code 0 and soon.
func (p *program) stop(t testing.TB) {
	t.Helper()
	if p.Stop(t) != 0 {
		t.Errorf("it ended with %v", p.ProcessState)
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
	return w.IdP.Mint(simulator.BrokerRealm, user, w.Credentials.Client, simulator.TokenFaults{}), nil
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
	r, err := http.NewRequestWithContext(ctx, method, p.Address+path, bytes.NewReader(text))
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

// until looks ten times a second whether ok, and reports whether it is, at the latest when the time is over.
func until(within time.Duration, ok func() bool) bool {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(within); time.Now().Before(end); <-again.C {
		if ok() {
			return true
		}
	}
	return ok()
}

// stopping reports whether the program has said that it heeds a signal.
func (p *program) stopping() bool { return strings.Contains(p.Log.String(), `"msg":"stopping"`) }
