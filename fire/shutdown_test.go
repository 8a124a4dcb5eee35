package fire

import (
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/simulator"
)

// atWork starts a program whose platform takes its time to answer a create, and returns when that was asked.
func atWork(t *testing.T, answers time.Duration) (p *program, s scene, dsn string, environ []string) {
	c := crash{faults: []simulator.Fault{{Route: create, Latency: answers}}}
	s, dsn = c.scene(t), "sqlite:"+filepath.Join(t.TempDir(), "fire.db")
	environ = environment(t, dsn, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url, "access": "open"}})
	p = launch(t, released, environ)
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		_ = p.ask(t.Context(), http.MethodPost, "/unit_jobs", "", s.job, nil) // it may not be answered
	}()
	t.Cleanup(func() { <-posted })
	if !until(10*time.Second, func() bool { return s.oracle.Requests(create) > 0 }) {
		t.Fatal("nothing is sent")
	}
	return p, s, dsn, environ
}

// TestTheFirstSignalLetsRequestsEnd stops a program while a request is under way: that one ends and is kept, and no other
// is sent. The next process carries on at once.
func TestTheFirstSignalLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	p, s, dsn, environ := atWork(t, 3*time.Second)
	p.stop(t)
	db := database(t, dsn)
	rows := rowsOf(t, db)
	if len(rows) != 1 || rows[0].phase != dispatch.Created || rows[0].ref == "" {
		t.Errorf("what was answered is not kept: %+v", rows)
	}
	if s.oracle.Requests(begin) > 0 {
		t.Error("a step was begun after the signal")
	}
	began := time.Now()
	next := launch(t, released, environ)
	if !until(30*time.Second, func() bool { return rowsOf(t, db)[0].phase == dispatch.Ended }) {
		t.Errorf("the next process leaves it: %+v", rowsOf(t, db))
	}
	if n := s.oracle.Sum(); n.Creates != 1 || n.Runs != 1 {
		t.Errorf("at the platform: %+v", n)
	}
	t.Logf("ended %v after the restart", time.Since(began).Round(time.Millisecond))
	next.stop(t)
}

// TestTheSecondSignalEndsAtOnce does not wait for a platform that does not answer.
func TestTheSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p, _, dsn, _ := atWork(t, time.Hour)
	p.signal(t, syscall.SIGTERM)
	if !until(10*time.Second, p.stopping) {
		t.Fatal("it does not heed the first signal")
	}
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	if !p.dies(t, 10*time.Second) || time.Since(began) > 5*time.Second {
		t.Errorf("it ended with %v after %v", p.cmd.ProcessState, time.Since(began))
	}
	if rows := rowsOf(t, database(t, dsn)); len(rows) != 1 || rows[0].phase != dispatch.Creating {
		t.Errorf("what may be at the platform is forgotten: %+v", rows)
	}
}
