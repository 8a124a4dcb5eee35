//go:build unix

package program

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
)

// reloadTest is a program whose file of settings is changed while it serves.
type reloadTest struct {
	*testing.T
	p    *executable.Program
	file string
}

// hangUp writes the file and waits until the log says what becomes of it.
func (t *reloadTest) hangUp(text, said string) {
	t.Helper()
	if err := os.WriteFile(t.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := t.p.Log.Shows(said)
	t.p.Send(t.T, syscall.SIGHUP)
	select {
	case <-shown:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%q is not in the log:\n%s", said, t.p.Log)
	}
}

// serveThroughout asks the program for its health until the returned function is called, which reports whether every
// request was answered.
func (t *reloadTest) serveThroughout() (end func()) {
	stop, asked := make(chan struct{}), 0
	var asking sync.WaitGroup
	asking.Go(func() {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-stop:
				return
			case <-again.C:
			}
			response, err := http.Get(t.p.Address + "/health")
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			if asked++; response.StatusCode != http.StatusOK {
				t.Errorf("request %d: %s", asked, response.Status)
			}
		}
	})
	return func() { close(stop); asking.Wait() }
}

// TestReload_ByHangup: settings take effect while the port stays open; those that need a restart are named; a file with
// faults changes nothing. Neither does one that lacks a platform whose jobs have not ended, and these go on with the
// new settings.
func TestReload_ByHangup(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	r := &reloadTest{T: t, file: configuration(t, w)}
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	environ := []string{"EODISPATCH_CONFIG=" + r.file, "EODISPATCH_TELEMETRY_LISTEN=" + executable.FreeAddress(t)}
	r.p = Start(t, environ...)
	end := r.serveThroughout()
	r.hangUp(good+"\nlog: {level: debug}\nfreshness: 3s\nshutdown_grace: 41s\n",
		`"msg":"settings reloaded","log.level":"DEBUG","changed":["freshness"],"need a restart":["shutdown_grace"]`)
	r.hangUp(good+"\nlog: {level: loud}\n", `"msg":"the settings were not reloaded; the old ones stay in use"`)
	r.hangUp(good, `"changed":["freshness"],"need a restart":[]`)

	operators(t, environ, "hold", "ogc", "Wait.")
	c := As(w, r.p.Address, "alice", nil)
	held, err := c.Submit(t.Context(), OGC(w))
	if err != nil {
		t.Fatal(err)
	}
	without := good[:strings.Index(good, "- name: ogc")]
	r.hangUp(without, `platforms with unfinished jobs are missing or changed","platforms":["ogc"]`)
	r.hangUp(good+"  limits: {jobs: 1}\n  aliases: [https://former.example.org]\n",
		`"changed":["platforms"],"need a restart":[]`)
	operators(t, environ, "release", "ogc")
	for err == nil && !held.Ended() {
		err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d?wait=5", held.ID), nil, &held)
	}
	if err != nil || held.Status != "finished" {
		t.Errorf("%+v, %v", held, err)
	}
	r.hangUp(without+"\nfreshness: 4s\n", `"changed":["freshness","platforms"],"need a restart":[]`)
	if _, err := c.Submit(t.Context(), OGC(w)); err == nil {
		t.Error("a platform that is not configured any more takes jobs")
	}
	end()
	if code := r.p.Stop(t); code != exitDone {
		t.Errorf("exit %d", code)
	}
}
