// Package crashes kills, freezes and restarts the real program while it works, and compares its state with the events
// that the simulator recorded.
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

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

var full = flag.Bool("full", false, "run all tests in full, not only what fits into two minutes")

// atOnce is the number of parallel tests. The programs mostly wait, so many of them can share a core.
const atOnce = "64"

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", atOnce)
	code := postgres.Run(m)
	executable.CleanUp()
	os.Exit(code)
}

// released builds the program as it is released, and mortal one that kills itself at a given crash point and in which a
// minute lasts a second.
var released, mortal = executable.Released, executable.Mortal

// program is a running broker process.
type program struct{ *executable.Program }

// launch runs the command serve with an environment, and returns once the program serves or has ended.
func launch(t testing.TB, binary executable.Binary, environ []string, more ...string) *program {
	t.Helper()
	p := &program{executable.Start(t, binary, slices.Concat(environ, more)...)}
	if p.Address != "" {
		p.verifies(t)
	}
	return p
}

// verifies waits until the program has the keys of the identity provider, so that a test's first request is not
// answered with 503 where the provider, which shares the machine with all tests, is slow. Other answers are the test's
// to judge.
func (p *program) verifies(t testing.TB) {
	t.Helper()
	var err error
	if !until(3*time.Minute, func() bool {
		err = p.ask(t.Context(), http.MethodGet, "/unit_jobs/0", "", nil, nil)
		return err == nil || !strings.Contains(err.Error(), "token cannot be verified")
	}) {
		t.Fatal(err)
	}
}

// dies waits until the program has ended, and reports whether a signal killed it.
func (p *program) dies(t testing.TB, within time.Duration) bool {
	t.Helper()
	p.AwaitEnd(t, within)
	return p.ProcessState.Sys().(syscall.WaitStatus).Signaled()
}

// stop stops the program and expects exit code 0.
func (p *program) stop(t testing.TB) {
	t.Helper()
	if p.Stop(t) != 0 {
		t.Errorf("the program ended with %v", p.ProcessState)
	}
}

// world starts the identity provider that all tests of this package share.
var world = sync.OnceValues(func() (*simulator.World, error) { return simulator.Start(simulator.Options{}) })

// environment returns the environment of a broker. In development mode, its platforms may have private addresses.
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
	return []string{"EODISPATCH_DATABASE=" + dsn, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER=" +
		w.Credentials.Issuer,
		"EODISPATCH_IDENTITY_AUDIENCE=" + w.Credentials.BrokerID, "EODISPATCH_PLATFORMS=" + string(text)}
}

// token returns an access token for a user of any name.
func token(user string) (string, error) {
	w, err := world()
	if err != nil {
		return "", err
	}
	return w.IdP.Mint(simulator.BrokerRealm, user, w.Credentials.Client, simulator.TokenFaults{}), nil
}

// ask sends a request to a broker as the user alice. A missing response, or one with a status from 300, is an error.
// The response is decoded into into, unless that is nil.
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

// until calls ok ten times a second until it returns true or the time is over, and returns its last result.
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

// stopping reports whether the program has logged that it is stopping.
func (p *program) stopping() bool { return strings.Contains(p.Log.String(), `"msg":"stopping"`) }
