package crashes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// atWork starts a program, and returns when its platform has received a create. The platform responds when answer is
// called.
func atWork(t *testing.T) (p *program, s scene, dsn string, environ []string, answer func()) {
	s, dsn = crash{}.scene(t), "sqlite:"+filepath.Join(t.TempDir(), "fire.db")
	release := make(chan struct{})
	answer = sync.OnceFunc(func() { close(release) })
	s.behind(t, &holder{route: "/jobs", release: release, Handler: s.handler})
	t.Cleanup(answer) // runs before the server is closed, which waits for requests
	environ = environment(t, dsn, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url,
		"access": "open"}})
	p = launch(t, released, environ)
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		_ = p.ask(t.Context(), http.MethodPost, "/unit_jobs", "", s.job, nil) // the program may end before it responds
	}()
	t.Cleanup(func() { <-posted })
	if !until(time.Minute, func() bool { return s.oracle.Requests(create) > 0 }) {
		t.Fatal("the program sends no create")
	}
	return p, s, dsn, environ, answer
}

// TestShutdown_FirstSignalLetsRequestsFinish stops a program during a request to a platform. The request must finish
// and its result be saved, without another request. The next process must continue the job.
func TestShutdown_FirstSignalLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	p, s, dsn, environ, answer := atWork(t)
	p.Send(t, syscall.SIGTERM)
	if !until(time.Minute, p.stopping) {
		t.Fatal("the program does not react to the signal")
	}
	answer()
	if p.dies(t, 2*time.Minute) || p.ProcessState.ExitCode() != 0 {
		t.Errorf("the program ended with %v", p.ProcessState)
	}
	db := database(t, dsn)
	rows := rowsOf(t, db)
	if len(rows) != 1 || rows[0].phase != dispatch.Created || rows[0].ref == "" {
		t.Errorf("the platform's response is not saved: %+v", rows)
	}
	if s.oracle.Requests(begin) > 0 {
		t.Error("the program sent a start after the signal")
	}
	began := time.Now()
	next := launch(t, released, environ)
	if !until(3*time.Minute, func() bool { return rowsOf(t, db)[0].phase == dispatch.Ended }) {
		t.Errorf("the next process does not finish the job: %+v", rowsOf(t, db))
	}
	if n := s.oracle.Sum(); n.Creates != 1 || n.Runs != 1 {
		t.Errorf("at the platform: %+v", n)
	}
	t.Logf("ended %v after the restart", time.Since(began).Round(time.Millisecond))
	next.stop(t)
}

// TestShutdown_WaitingClientsAreAnsweredAtOnce stops a program while a hundred requests wait for a change of one job or
// of a list. All must be answered at once with the current state, and the exit code must be 0.
func TestShutdown_WaitingClientsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	s, dsn := crash{}.scene(t), "sqlite:"+filepath.Join(t.TempDir(), "fire.db")
	p := launch(t, released, environment(t, dsn, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url,
		"access": "open"}}))
	var job struct{ ID int }
	if err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "", s.job, &job); err != nil {
		t.Fatal(err)
	}
	db := database(t, dsn)
	if !until(3*time.Minute, func() bool { return rowsOf(t, db)[0].phase == dispatch.Ended }) {
		t.Fatal("the job does not end")
	}
	paths := []string{fmt.Sprintf("/unit_jobs/%d", job.ID), "/jobs_status", "/jobs_status?limit=10",
		"/jobs_status?filter=processing"}
	type reply struct {
		path   string
		status int
		err    error
	}
	replies := make(chan reply, 100)
	var sent sync.WaitGroup
	sent.Add(cap(replies))
	for n := range cap(replies) {
		path := paths[n%len(paths)]
		tag := ""
		if n%3 > 0 || path == paths[0] { // without it, a job that has ended is returned at once
			tag = p.tag(t, path)
		}
		go func() {
			written := sync.OnceFunc(sent.Done)
			defer written()
			status, err := p.wait(httptrace.WithClientTrace(t.Context(),
				&httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written() }}), path, tag)
			if want := map[bool]int{true: http.StatusOK, false: http.StatusNotModified}[tag == ""]; err == nil &&
				status != want {
				err = fmt.Errorf("want status %d", want)
			}
			replies <- reply{path, status, err}
		}()
	}
	sent.Wait()
	// also gives the program time to accept the last connections
	if until(3*time.Second, func() bool { return len(replies) > 0 }) {
		t.Fatalf("a waiting request was answered too early: %+v", <-replies)
	}
	began := time.Now()
	p.Send(t, syscall.SIGTERM)
	p.dies(t, 2*time.Minute)
	// without an early answer the requests would wait for a minute, longer than shutdown_grace
	if took := time.Since(began); took > 30*time.Second || p.ProcessState.ExitCode() != 0 {
		t.Errorf("the program ended with %v after %v", p.ProcessState, took)
	} else {
		t.Logf("ended after %v", took.Round(time.Millisecond))
	}
	for range cap(replies) {
		if r := <-replies; r.err != nil {
			t.Errorf("%s: %d, %v", r.path, r.status, r.err)
		}
	}
}

// tag returns the current ETag of a path.
func (p *program) tag(t *testing.T, path string) string {
	t.Helper()
	r, err := p.get(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.Header.Get("ETag")
}

// wait requests a path with wait=60, for a state that differs from that of the ETag or, without one, from the current
// state. It returns the HTTP status.
func (p *program) wait(ctx context.Context, path, tag string) (int, error) {
	wait := "?wait=60"
	if strings.Contains(path, "?") {
		wait = "&wait=60"
	}
	r, err := p.get(ctx, path+wait, tag)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

func (p *program) get(ctx context.Context, path, tag string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Address+path, nil)
	if err != nil {
		return nil, err
	}
	token, err := token("alice")
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	return http.DefaultClient.Do(r)
}

// TestShutdown_SecondSignalEndsAtOnce checks that a second signal ends the program while a platform does not respond.
func TestShutdown_SecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p, _, dsn, _, _ := atWork(t)
	p.Send(t, syscall.SIGTERM)
	if !until(time.Minute, p.stopping) {
		t.Fatal("the program does not react to the first signal")
	}
	p.Send(t, syscall.SIGTERM)
	if !p.dies(t, 2*time.Minute) { // after shutdown_grace it would exit without a signal
		t.Errorf("the program ended with %v", p.ProcessState)
	}
	if rows := rowsOf(t, database(t, dsn)); len(rows) != 1 || rows[0].phase != dispatch.Creating {
		t.Errorf("the intent to create the job is not saved: %+v", rows)
	}
}
