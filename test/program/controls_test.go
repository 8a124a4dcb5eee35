package program

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	controlled    = 6  // tasks, the last three of which are canceled or deleted
	controlledBy  = 8  // clients at once
	controlsEach  = 30 // requests of a client
	jobsUnderFire = 10 // jobs of a task
)

const (
	canceledTask = iota + controlled - 3 // nobody retries its jobs
	canceledWhileRetried
	deletedTask
)

// controlTest is a test in which clients change the same tasks at once, by all replicas of a broker.
type controlTest struct {
	*testing.T
	w       *simulator.World
	db      *sql.DB
	clients []Client // of each replica
	stop    []func() int
	tasks   []Job
	deleted [controlled]atomic.Bool // set before the deletion is requested
	lost    sync.Map                // ids of the jobs whose deletion was requested
}

// TestControls_AllAtOnce: clients cancel, pause, resume, retry and delete tasks, chosen jobs and single jobs at once.
// Each request is answered, no job is started twice, nothing of a canceled or deleted task is left to run or submitted
// afterwards, all jobs end, and the counts agree with them.
func TestControls_AllAtOnce(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]int{"SQLite": 1, "PostgreSQL": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := databases[name](t)
			c := newControls(t, dsn, replicas)
			var all sync.WaitGroup
			for i := range controlledBy {
				all.Go(func() { c.change(rand.New(rand.NewPCG(1, uint64(i))), c.clients[i%len(c.clients)], i) })
			}
			all.Wait()
			c.finish()
			c.check()
			for _, stop := range c.stop {
				if code := stop(); code != exitDone {
					t.Errorf("exit %d", code)
				}
			}
			s, err := store.Open(t.Context(), dsn, conformance.WallClock{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			conformance.CheckCounts(t, s)
		})
	}
}

func newControls(t *testing.T, dsn string, replicas int) *controlTest {
	c := &controlTest{T: t, w: startWorld(t)}
	c.w.OpenEO.SetLife(simulator.Life{Run: 60 * time.Millisecond, Spread: 0.9, Fail: 0.3})
	known := c.w.Credentials
	platform := fmt.Sprintf(
		`[{"name": "eo", "protocol": "openeo", "endpoint": %q, "access": "shared", "limits": {"jobs": 4, "min_poll": "100ms"},
		"service_account": {"token_url": "%s/protocol/openid-connect/token", "client_id": %q, "client_secret": %q}}]`,
		c.w.OpenEOURL, known.Platform, known.ServiceID, known.ServiceSecret)
	for range replicas {
		p := Start(t, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+known.Issuer,
			"EODISPATCH_IDENTITY_AUDIENCE="+known.BrokerID,
			"EODISPATCH_DATABASE="+dsn, "EODISPATCH_FRESHNESS=500ms", "EODISPATCH_PLATFORMS="+platform)
		c.stop = append(c.stop, func() int { return p.Stop(t) })
		c.clients = append(c.clients, As(c.w, p.Address, "alice", nil))
	}
	driver := "pgx"
	if file, lite := strings.CutPrefix(dsn, "sqlite:"); lite {
		driver, dsn = "sqlite", "file:"+file+"?_pragma=busy_timeout(5000)"
	}
	var err error
	if c.db, err = sql.Open(driver, dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.db.Close() })
	r := OpenEO(c.w)
	r.Parameters = json.RawMessage(`{"spatial_extent": ` + Area + `}`)
	values := make([]json.RawMessage, jobsUnderFire)
	for i := range values {
		values[i] = json.RawMessage(Span)
	}
	for range controlled {
		task, err := c.clients[0].Upscale(t.Context(), r, dispatch.Dimension{Name: "temporal_extent", Values: values})
		if err == nil {
			task, err = c.clients[0].Task(t.Context(), task.ID)
		}
		if err != nil || len(task.Jobs) != jobsUnderFire {
			t.Fatal(task, err)
		}
		c.tasks = append(c.tasks, task)
	}
	return c
}

// change sends the requests of one client. Clients 0 to 2 cancel and delete the last three tasks meanwhile, the first
// of them before all of its jobs are canceled one by one.
func (c *controlTest) change(r *rand.Rand, at Client, client int) {
	for i := range controlsEach {
		if i == 2+6*client && client < 3 {
			c.end(at, controlled-3+client)
		}
		n := r.IntN(controlled)
		task := c.tasks[n]
		one := task.Jobs[r.IntN(jobsUnderFire)].ID
		path := fmt.Sprintf("/upscale_tasks/%d/", task.ID)
		some := fmt.Sprintf(`{"jobs": [%d, %d, %d]}`, task.Jobs[r.IntN(jobsUnderFire)].ID,
			task.Jobs[r.IntN(jobsUnderFire)].ID, one)
		switch kind := r.IntN(20); {
		case kind < 4:
			c.send(at, n, http.MethodPost, path+"pause", "")
		case kind < 9:
			c.send(at, n, http.MethodPost, path+"resume", "")
		case kind < 16 && n != canceledTask:
			c.send(at, n, http.MethodPost, path+"retry", []string{"", some, `{"status": ["failed"]}`}[r.IntN(3)])
		case kind < 17:
			c.send(at, n, http.MethodPost, path+"cancel",
				[]string{some, `{"status": ["queued", "running"]}`}[r.IntN(2)])
		case kind < 19:
			c.send(at, n, http.MethodPost, fmt.Sprintf("/unit_jobs/%d/cancel", one), "")
		default:
			c.lost.Store(one, true)
			c.send(at, n, http.MethodDelete, fmt.Sprintf("/unit_jobs/%d", one), "")
		}
	}
}

// end cancels or deletes a task as a whole, and arranges the check that nothing of it is submitted afterwards.
func (c *controlTest) end(at Client, n int) {
	path := fmt.Sprintf("/upscale_tasks/%d", c.tasks[n].ID)
	if n == deletedTask {
		c.deleted[n].Store(true)
		c.send(at, n, http.MethodDelete, path, "")
	} else {
		c.send(at, n, http.MethodPost, path+"/cancel", "")
	}
	was, starts := c.rows(), c.starts()
	for id, is := range was {
		if is.task == c.tasks[n].ID && n != canceledWhileRetried && is.desired == dispatch.WantRun &&
			!is.status.Final() {
			c.Errorf("job %d of the ended task %d is left: %+v", id, n, is)
		}
	}
	c.Cleanup(func() {
		for id, is := range c.rows() {
			before := was[id]
			if before.task != c.tasks[n].ID || n != canceledTask && before.status != dispatch.Canceled &&
				n != deletedTask {
				continue
			}
			if is.attempt != before.attempt || before.phase != dispatch.Starting && c.starts()[id] != starts[id] {
				c.Errorf("job %d of the ended task %d was submitted again: %+v, and had been %+v", id, n, is, before)
			}
		}
	})
}

// send sends a request that must succeed, unless what it is about was deleted.
func (c *controlTest) send(at Client, task int, method, path, body string) {
	request, err := http.NewRequestWithContext(c.Context(), method, at.Broker+path, strings.NewReader(body))
	if err != nil {
		c.Error(err)
		return
	}
	request.Header = http.Header{"Authorization": {"Bearer " + at.Token}, "Content-Type": {"application/json"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.Error(err)
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	gone := c.deleted[task].Load()
	c.lost.Range(func(id, _ any) bool { // a choice of jobs with a deleted one, or that job itself
		gone = gone || strings.Contains(path+" "+body, strconv.FormatInt(id.(int64), 10))
		return !gone
	})
	if response.StatusCode == http.StatusConflict && strings.HasSuffix(path, "/pause") {
		return // all jobs of the task have ended
	}
	if err != nil || response.StatusCode >= 300 && !(gone && (response.StatusCode == http.StatusNotFound ||
		response.StatusCode == http.StatusUnprocessableEntity)) {
		c.Errorf("%s %s %s: %s %s, %v", method, path, body, response.Status, text, err)
	}
}

// finish resumes the tasks and waits until all jobs have ended, also those that were deleted.
func (c *controlTest) finish() {
	for n, task := range c.tasks {
		c.send(c.clients[0], n, http.MethodPost, fmt.Sprintf("/upscale_tasks/%d/resume", task.ID), "")
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-again.C {
		live := 0
		for _, r := range c.rows() {
			if r.phase != dispatch.Ended || r.orphans != "" {
				live++
			}
		}
		if live == 0 {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("%d jobs do not end: %+v", live, c.rows())
		}
		for _, task := range c.tasks[:canceledTask] { // statuses of tasks that somebody watches are read at once
			_, _ = c.clients[0].Task(c.Context(), task.ID)
		}
	}
}

// check compares the jobs with what the platform did, and with what each replica tells.
func (c *controlTest) check() {
	rows, attempts := c.rows(), map[int64]int{}
	for tag, n := range c.w.OpenEO.Oracle.Tally().Tags {
		id := jobOfTag(tag)
		if attempts[id]++; n.Creates != 1 || n.Starts > 1 || n.Runs > 1 {
			c.Errorf("tag %s: %+v", tag, n)
		}
	}
	shown := make([]Counts, controlled)
	for id, r := range rows {
		if !r.status.Final() || attempts[id] > r.attempt {
			c.Errorf("job %d: %+v, and %d were created at the platform", id, r, attempts[id])
		}
		for n, task := range c.tasks {
			if task.ID == r.task && !r.hidden {
				if shown[n] == nil {
					shown[n] = Counts{}
				}
				shown[n][string(r.status)]++
			}
		}
		if _, lost := c.lost.Load(id); lost && !r.hidden {
			c.Errorf("the deleted job %d is shown", id)
		}
	}
	if len(rows) != controlled*jobsUnderFire || len(attempts) < jobsUnderFire {
		c.Errorf("%d jobs, of which %d were submitted", len(rows), len(attempts))
	}
	for _, at := range c.clients {
		for n, task := range c.tasks {
			is, err := at.Task(c.Context(), task.ID)
			if n == deletedTask {
				if err == nil || !strings.Contains(err.Error(), "404") || shown[n] != nil {
					c.Errorf("the deleted task: %+v, %v; %v", is, err, shown[n])
				}
			} else if err != nil || fmt.Sprint(is.Counts) != fmt.Sprint(shown[n]) {
				c.Errorf("task %d: %v, want %v; %v", n, is.Counts, shown[n], err)
			}
		}
	}
}

// controlledJob is the part of a job's row that the test needs.
type controlledJob struct {
	task    int64
	desired dispatch.Desired
	phase   dispatch.Phase
	status  dispatch.Status
	hidden  bool
	attempt int
	orphans string
}

// rows returns all jobs by id.
func (c *controlTest) rows() map[int64]controlledJob {
	found, err := c.db.Query(`SELECT id, task, desired, phase, status, hidden, attempt, orphans FROM jobs`)
	if err != nil {
		c.Fatal(err)
	}
	defer found.Close()
	rows := map[int64]controlledJob{}
	for found.Next() {
		var id int64
		var r controlledJob
		if err := found.Scan(&id, &r.task, &r.desired, &r.phase, &r.status, &r.hidden, &r.attempt,
			&r.orphans); err != nil {
			c.Fatal(err)
		}
		rows[id] = r
	}
	if err := found.Err(); err != nil {
		c.Fatal(err)
	}
	return rows
}

// starts returns the number of starts that the platform accepted, by job.
func (c *controlTest) starts() map[int64]int {
	starts := map[int64]int{}
	for tag, n := range c.w.OpenEO.Oracle.Tally().Tags {
		starts[jobOfTag(tag)] += n.Starts
	}
	return starts
}

// jobOfTag returns the id of the job that a tag marks, see dispatch.Job.Tag.
func jobOfTag(tag string) int64 {
	_, rest, _ := strings.Cut(tag, ".")
	id, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.ParseInt(id, 10, 64)
	return n
}
