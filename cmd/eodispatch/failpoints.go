//go:build failpoints

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/notify/events"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/store"
)

// EODISPATCH_DIE names the point at which the process kills itself as kill -9 does: "start sent", or for the third time
// that it gets there "start sent 3".
//
// Points at a platform: create, start, execute, status, list and cancel, each with before, sent (the request is
// written, no response was read) and after (the response arrived and was not yet processed). Points at the store, each
// with before and after (committed): accept, want (an owner's cancel), "want task", pause, resume, "intend create",
// "intend start", "save PHASE", move, release, and range before (each transaction but the first of a change of a task,
// of which each changes one job). Points of messages to hooks: claim and settle, with before and after, and deliver,
// with before, sent and after, for receivers at a path /notified.
func init() {
	d := &killPoint{at: os.Getenv("EODISPATCH_DIE"), times: 1}
	if i := strings.LastIndexByte(d.at, ' '); i >= 0 {
		if n, err := strconv.Atoi(d.at[i+1:]); err == nil {
			d.at, d.times = d.at[:i], n
		}
	}
	seams.store = func(s jobStore) jobStore {
		if db, ok := s.(*store.Store); ok {
			store.ChangeInRanges(db, 1, func(context.Context) { d.pass("range", "before") })
		}
		return failpointStore{s, d}
	}
	seams.hooks = func(h events.Outbox) events.Outbox { return failpointHooks{h, d} }
	seams.network = d.network
	seams.timing = quick
}

// quick has the program wait a second where it waits a minute, so that tests see in seconds what comes of a request in
// doubt. What a request and a lease take stays as it is.
var quick = dispatch.Timing{
	Poll: time.Second, Pause: 10 * time.Second, RetryPause: time.Second, Check: time.Second, UnknownCheck: time.Minute,
	Recheck:    10 * time.Second,
	SignInHold: time.Minute, OperatorHold: 5 * time.Second, TokenRetry: time.Second,
	PromptSettle: 2 * time.Second, FirstStatus: 5 * time.Second, LongestLag: 15 * time.Second,
}

// killPoint is the point at which the process kills itself, and how many passes are left before it does.
type killPoint struct {
	at string

	mu    sync.Mutex
	times int
}

// pass kills the process if this is the configured point, and returns otherwise.
func (d *killPoint) pass(point, when string) {
	if d.at == "" || d.at != point+" "+when {
		return
	}
	d.mu.Lock()
	if d.times--; d.times > 0 {
		d.mu.Unlock()
		return
	}
	fmt.Fprintf(os.Stderr, "dying at %s\n", d.at)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// around runs f between the points "before" and "after".
func (d *killPoint) around(point string, f func()) {
	d.pass(point, "before")
	f()
	d.pass(point, "after")
}

// network puts the points around the requests of a client.
func (d *killPoint) network(c upstream.Config) upstream.Config {
	trace := c.Trace
	c.Trace = func(ctx context.Context, op string, r *http.Request) (context.Context, func(*http.Response, error)) {
		point, end := pointOf(r.Method, r.URL.Path), func(*http.Response, error) {}
		if trace != nil {
			ctx, end = trace(ctx, op, r)
		}
		d.pass(point, "before")
		return ctx, func(answer *http.Response, err error) {
			d.pass(point, "after")
			end(answer, err)
		}
	}
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := new(net.Dialer).DialContext(ctx, network, address)
		return failpointConn{connection, d}, err
	}
	return c
}

// failpointConn detects when a request was written to the connection. The requests of the tests fit into one Write.
type failpointConn struct {
	net.Conn
	*killPoint
}

func (c failpointConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	line, _, _ := bytes.Cut(p, []byte("\r\n"))
	if words := strings.Fields(string(line)); len(words) == 3 {
		path, _, _ := strings.Cut(words[1], "?")
		c.pass(pointOf(words[0], path), "sent")
	}
	return n, err
}

// pointOf returns the point of a request to a platform by its method and path.
func pointOf(method, path string) string {
	path = strings.TrimRight(path, "/")
	jobs := strings.HasSuffix(path, "/jobs")
	switch {
	case method == http.MethodPost && jobs:
		return "create"
	case method == http.MethodPost && strings.HasSuffix(path, "/results"):
		return "start"
	case method == http.MethodPost && strings.HasSuffix(path, "/execution"):
		return "execute"
	case method == http.MethodPost && strings.HasSuffix(path, "/notified"):
		return "deliver"
	case method == http.MethodDelete:
		return "cancel"
	case method == http.MethodGet && jobs:
		return "list"
	case method == http.MethodGet && strings.Contains(path, "/jobs/"):
		return "status"
	}
	return "other"
}

// outbox has another name than its method Hooks.
type outbox = events.Outbox

type failpointHooks struct {
	outbox
	*killPoint
}

func (h failpointHooks) ClaimDeliveries(ctx context.Context, hook string, lease time.Duration,
	n int) (all []dispatch.Delivery, err error) {
	h.pass("claim", "before")
	if all, err = h.outbox.ClaimDeliveries(ctx, hook, lease, n); len(all) > 0 {
		h.pass("claim", "after")
	}
	return all, err
}

func (h failpointHooks) SettleDeliveries(ctx context.Context, hook dispatch.Hook, all []dispatch.Delivery) (err error) {
	h.around("settle", func() { err = h.outbox.SettleDeliveries(ctx, hook, all) })
	return err
}

type failpointStore struct {
	jobStore
	*killPoint
}

func (s failpointStore) Accept(ctx context.Context, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft,
	within ...dispatch.Quota) (r dispatch.KeyTarget, err error) {
	s.around("accept", func() { r, err = s.jobStore.Accept(ctx, k, t, jobs, within...) })
	return r, err
}

func (s failpointStore) Cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID, hide bool) (j dispatch.Job,
	err error) {
	s.around("want", func() { j, err = s.jobStore.Cancel(ctx, u, id, hide) })
	return j, err
}

func (s failpointStore) Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (j dispatch.Job, err error) {
	s.around("want", func() { j, err = s.jobStore.Discard(ctx, u, id) })
	return j, err
}

func (s failpointStore) DiscardTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (a dispatch.Account,
	err error) {
	s.around("want task", func() { a, err = s.jobStore.DiscardTask(ctx, u, id) })
	return a, err
}

func (s failpointStore) CancelTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	hide bool) (a dispatch.Account, err error) {
	s.around("want task", func() { a, err = s.jobStore.CancelTask(ctx, u, id, hide) })
	return a, err
}

func (s failpointStore) PauseTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (a dispatch.Account,
	err error) {
	s.around("pause", func() { a, err = s.jobStore.PauseTask(ctx, u, id) })
	return a, err
}

func (s failpointStore) ResumeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	budget *dispatch.Budget) (a dispatch.Account, err error) {
	s.around("resume", func() { a, err = s.jobStore.ResumeTask(ctx, u, id, budget) })
	return a, err
}

func (s failpointStore) Intend(ctx context.Context, l dispatch.Lease, limits dispatch.Limits,
	jobs []dispatch.Job, outcomes ...dispatch.Job) (kept []dispatch.Job, err error) {
	point := "intend create"
	if jobs[0].Phase == dispatch.Created {
		point = "intend start"
	}
	s.around(point, func() { kept, err = s.jobStore.Intend(ctx, l, limits, jobs, outcomes...) })
	return kept, err
}

func (s failpointStore) Save(ctx context.Context, jobs []dispatch.Job, wake ...dispatch.Account) (saved []dispatch.Job,
	err error) {
	point := "save nothing"
	if len(jobs) > 0 {
		point = "save " + string(jobs[0].Phase)
	}
	s.around(point, func() { saved, err = s.jobStore.Save(ctx, jobs, wake...) })
	return saved, err
}

func (s failpointStore) MoveJobs(ctx context.Context, m dispatch.JobMove, within ...dispatch.Quota) (n int, seen int64,
	err error) {
	s.around("move", func() { n, seen, err = s.jobStore.MoveJobs(ctx, m, within...) })
	return n, seen, err
}

func (s failpointStore) Release(ctx context.Context, l dispatch.Lease, wakes int64, due time.Time) (err error) {
	s.around("release", func() { err = s.jobStore.Release(ctx, l, wakes, due) })
	return err
}
