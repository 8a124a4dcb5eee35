package program

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/executable"
)

// operators runs a command for operators against a program with the given environment.
func operators(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	code, said := try(t, environ, append([]string{"operator"}, args...)...)
	if code != exitDone {
		t.Fatalf("operator %q: exit %d: %s", args, code, said)
	}
	return said
}

// TestOperator_TellsTheBrokerFromOthers: what listens in place of the broker learns no key, and is not believed,
// whatever it answers.
func TestOperator_TellsTheBrokerFromOthers(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	var status atomic.Int32
	heard := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard <- fmt.Sprint(r.Header)
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `[{"scope": "all", "error": "\u001b[2J"}]`+"\x1b[2J")
	}))
	defer other.Close()
	database := "sqlite:" + filepath.Join(t.TempDir(), "d.db")
	environ := acting(t, w, executable.FreeAddress(t), database, named("k"))
	Start(t, append(environ, "EODISPATCH_TELEMETRY_LISTEN=off")...).Stop(t) // makes the database
	environ = append(environ, "EODISPATCH_TELEMETRY_LISTEN="+strings.TrimPrefix(other.URL, "http://"))
	key, err := store.ReadOperatorKey(t.Context(), database, conformance.WallClock{})
	if err != nil || key == "" {
		t.Fatal(err)
	}
	for _, answer := range []int{http.StatusOK, http.StatusForbidden} {
		status.Store(int32(answer))
		code, said := try(t, environ, "operator", "holds")
		if code != exitFailed || !strings.Contains(said,
			"is not the broker of this database, or has another version") || strings.Contains(said, "\x1b") {
			t.Errorf("%d: exit %d: %q", answer, code, said)
		}
		if got := <-heard; strings.Contains(got, key.Reveal()) || !strings.Contains(got, "HMAC") {
			t.Errorf("it hears %s", got)
		}
	}
}

// TestOperator_HoldsReleasesAndEnds is an operator's day: a platform is held and released, a job's history read, and a
// job ended.
func TestOperator_HoldsReleasesAndEnds(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	environ := append(acting(t, w, executable.FreeAddress(t), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), named("k")),
		"EODISPATCH_TELEMETRY_LISTEN="+executable.FreeAddress(t))
	p := Start(t, environ...)
	c := As(w, p.Address, "alice", nil)

	operators(t, environ, "hold", "ogc", "The platform is being updated.")
	if said := operators(t, environ, "holds"); !strings.Contains(said, "ogc") ||
		!strings.Contains(said, "being updated") {
		t.Errorf("held: %s", said)
	}
	if _, said := try(t, environ, "doctor"); !strings.Contains(said, "has held ogc since") ||
		!strings.Contains(said, "ok      broker at ") {
		t.Errorf("doctor: %s", said)
	}
	if code, said := try(t, environ, "operator", "hold", "ogc/shard", "A typing error."); code != exitFailed ||
		!strings.Contains(said, "No job was ever submitted") {
		t.Errorf("exit %d: %s", code, said)
	}
	held, err := c.Submit(t.Context(), OGC(w))
	if err != nil {
		t.Fatal(err)
	}
	gone, err := c.Submit(t.Context(), OGC(w))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{held.ID, gone.ID} {
		if j := c.attended(t, id); j.Attention == nil ||
			!strings.Contains(j.Attention.Message, "The operator says: The platform is being updated.") {
			t.Errorf("the owner sees %+v", j.Attention)
		}
	}
	operators(t, environ, "end", fmt.Sprint("job-", gone.ID), "not needed")
	operators(t, environ, "release", "ogc")
	if code, said := try(t, environ, "operator", "release", "ogc"); code != exitFailed ||
		!strings.Contains(said, "No operator holds ogc.") {
		t.Errorf("exit %d: %s", code, said)
	}
	for j, end := range map[*Job]string{&held: "finished", &gone: "failed"} {
		for err == nil && !j.Ended() {
			err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d?wait=5", j.ID), nil, j)
		}
		if err != nil || j.Status != end {
			t.Errorf("%+v, %v, want %s", j, err, end)
		}
	}
	if n := w.OGC.Oracle.Requests("POST /processes/{id}/execution"); n != 1 {
		t.Errorf("%d jobs ran", n)
	}
	if code := p.Stop(t); code != exitDone { // what happened is written by then
		t.Fatalf("exit %d", code)
	}
	for _, line := range []string{`"action":"hold"`, `"action":"end job"`, `"action":"release"`} {
		if !strings.Contains(p.Log.String(), `"msg":"audit",`+line) {
			t.Errorf("%s is not audited:\n%s", line, p.Log)
		}
	}
	p = Start(t, environ...)
	past := operators(t, environ, "history", fmt.Sprint("job-", held.ID))
	for _, want := range []string{"submit", "create", "ok", "started", "finished"} {
		if !strings.Contains(past, want) {
			t.Errorf("%q is missing in:\n%s", want, past)
		}
	}
	if empty := operators(t, environ, "history", "777"); !strings.Contains(empty, "no entry of job 777") {
		t.Errorf("of a job that does not exist: %s", empty)
	}
	if all := operators(t, environ, "jobs", "--json"); all != "[]\n" {
		t.Errorf("in need: %s", all)
	}
	p.Stop(t)
}
