package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// moody is a platform whose jobs change at random, which has outages, is full at times, and whose document changes.
type moody struct {
	platform
	rand    *rand.Rand
	of      map[string]dispatch.Report
	fails   error // what it answers to submissions and status reads
	version int   // of its document
}

func (p *moody) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	p.mu.Lock()
	fails := p.fails
	p.mu.Unlock()
	if fails != nil {
		return dispatch.SubmitResult{}, fails
	}
	return p.platform.Submit(ctx, t, s)
}

func (p *moody) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil {
		return dispatch.Report{}, p.fails
	}
	is, known := p.of[r.ID]
	if !known {
		is.Status = dispatch.Queued
	}
	return is, nil
}

func (p *moody) Document(context.Context, dispatch.Service) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Appendf(nil, `{"version":%d}`, p.version), nil
}

// move changes what the platform says of one of its jobs.
func (p *moody) move() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs == 0 {
		return
	}
	done, costs := float64(p.rand.IntN(100)), float64(p.rand.IntN(3))
	p.of[fmt.Sprintf("j-%d", 1+p.rand.IntN(p.jobs))] = dispatch.Report{Progress: &done, Costs: &costs,
		Status: []dispatch.Status{dispatch.Queued, dispatch.Running, dispatch.Running, dispatch.Finished,
			dispatch.Failed}[p.rand.IntN(5)]}
}

func (p *moody) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = err
}

// walk is one client of a broker whose state changes at random. It keeps the last response for each address, as a
// browser does.
type walk struct {
	*testing.T
	seed  uint64
	rand  *rand.Rand
	p     *moody
	b     *broker.Broker
	h     API
	blank *api // another process, which asks no platform
	kept  map[string]copied
	jobs  []int64
	tasks []int64
	same  int // responses 304
	other int // responses 200 to an If-None-Match
}

// copied is a response that a client keeps.
type copied struct{ tag, shown string }

// shownIn returns a body without what changes no ETag: when the platform was asked, and places in the queue.
func shownIn(body []byte) string {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return string(body)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "checked")
			delete(v, "queue_position")
			delete(v, "forecast")
			for _, below := range v {
				strip(below)
			}
		case []any:
			for _, below := range v {
				strip(below)
			}
		}
	}
	strip(v)
	text, _ := json.Marshal(v)
	return string(text)
}

func (w *walk) paths() []string {
	all := []string{"/jobs_status", "/jobs_status?filter=upscaling", "/jobs_status?filter=processing",
		"/jobs_status?parameters=false", "/jobs_status?limit=3",
		"/jobs_status?status=running&limit=2", "/jobs_status?filter=sync"}
	for _, id := range w.tasks[max(0, len(w.tasks)-2):] {
		at := fmt.Sprintf("/upscale_tasks/%d", id)
		all = append(all, at, at+"?parameters=false", at+"?limit=2", at+"?status=created")
	}
	for _, id := range w.jobs[max(0, len(w.jobs)-2):] {
		all = append(all, fmt.Sprintf("/unit_jobs/%d", id))
	}
	return all
}

// truth returns what a process shows that has read nothing before and asks no platform.
func (w *walk) truth(path string) (status int, c copied) {
	a := ask(w.blank, "GET", path, "")
	return a.Code, copied{a.Header().Get("ETag"), shownIn(a.Body.Bytes())}
}

// check reads every address with the ETag of the copy. 304 is right only if nothing shown has changed.
func (w *walk) check(after string) {
	w.Helper()
	for _, path := range w.paths() {
		var wrong string
		for range 2 { // a status that is read for the first request can come between it and the truth
			if wrong = w.read(path); wrong == "" {
				break
			}
		}
		if wrong != "" {
			w.Errorf("seed %d, after %s: %s: %s", w.seed, after, path, wrong)
		}
	}
}

func (w *walk) read(path string) (wrong string) {
	was := w.kept[path]
	a := ask(w.h, "GET", path, "", "If-None-Match", was.tag)
	synctest.Wait()
	status, is := w.truth(path)
	switch {
	case a.Code == http.StatusNotModified && (status != http.StatusOK || is.shown != was.shown):
		return fmt.Sprintf("304 to %s, but it showed\n%s\nand shows (%d)\n%s", was.tag, was.shown, status, is.shown)
	case a.Code == http.StatusNotModified:
		w.same++
	case a.Code != status:
		return fmt.Sprintf("%d, and to a new process %d", a.Code, status)
	case a.Code == http.StatusOK:
		now := copied{a.Header().Get("ETag"), shownIn(a.Body.Bytes())}
		w.kept[path] = now
		if w.other++; now != is || now.tag == was.tag {
			return fmt.Sprintf("%s %s\nand to a new process %s %s", now.tag, now.shown, is.tag, is.shown)
		}
	}
	return ""
}

// waiter is a request that waits for a change of what a client has.
type waiter struct {
	path   string
	was    copied
	answer <-chan int
	late   bool // it still waited when what it waits for had changed
}

func (w *walk) await() (waiters []*waiter) {
	for _, path := range w.paths() {
		was := w.kept[path]
		if was.tag == "" || w.rand.IntN(3) > 0 {
			continue
		}
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		c := make(chan int, 1)
		go func() { c <- ask(w.h, "GET", path+separator+"wait=60", "", "If-None-Match", was.tag).Code }()
		waiters = append(waiters, &waiter{path, was, c, false})
	}
	return waiters
}

// overdue notes requests that still wait although the response has changed, and reports those that were noted before.
// The caller lets more time pass in between than a change that nobody signals may take.
func (w *walk) overdue(waiters []*waiter, after string) {
	w.Helper()
	for _, waits := range waiters {
		_, is := w.truth(waits.path)
		if late := len(waits.answer) == 0 && is.shown != waits.was.shown; late && waits.late {
			w.Errorf("seed %d, after %s: %s still waits, but it showed\n%s\nand shows\n%s", w.seed, after, waits.path,
				waits.was.shown, is.shown)
		} else {
			waits.late = late
		}
	}
}

const walkersAccount = dispatch.Account("cdse/open")

// act changes something.
func (w *walk) act() (did string) {
	one := func(ids []int64) int64 { return ids[w.rand.IntN(len(ids))] }
	task := goodBody[:len(goodBody)-1] + `,"dimension":{"name":"tile","values":[1,2,3,4]}}`
	switch n := w.rand.IntN(23); {
	case n < 2 || len(w.jobs)+len(w.tasks) == 0:
		w.jobs = append(w.jobs, decode[wire.ProcessingJobSummary](w.T, ask(w.h, "POST", "/unit_jobs", goodBody),
			201).ID)
		return "a job"
	case n < 4:
		w.tasks = append(w.tasks, decode[wire.UpscalingTaskSummary](w.T, ask(w.h, "POST", "/upscale_tasks", task),
			201).ID)
		return "a task"
	case n == 4 && len(w.jobs) > 2:
		ask(w.h, "DELETE", fmt.Sprint("/unit_jobs/", one(w.jobs)), "")
		return "a deleted job"
	case n == 5 && len(w.tasks) > 2:
		ask(w.h, "DELETE", fmt.Sprint("/upscale_tasks/", one(w.tasks)), "")
		return "a deleted task"
	case n == 6 && len(w.tasks) > 0: // jobs of tasks are counted after those that belong to none
		ask(w.h, []string{"DELETE", "POST"}[w.rand.IntN(2)], fmt.Sprintf("/unit_jobs/%d%s", 1+w.rand.IntN(20),
			[]string{"", "/cancel"}[w.rand.IntN(2)]), "")
		return "the end of any job"
	case n == 7 && len(w.tasks) > 0:
		ask(w.h, "POST", fmt.Sprintf("/upscale_tasks/%d/retry", one(w.tasks)), "")
		return "a retry"
	case n == 8:
		w.p.fail(&dispatch.Error{Kind: dispatch.Unavailable, Op: "moody", Text: "It is down."})
		return "an outage"
	case n == 9:
		w.p.fail(&dispatch.Error{Kind: dispatch.Busy, Op: "moody", Text: "It is full."})
		return "a full platform"
	case n < 12:
		w.p.fail(nil)
		return "the end of an outage"
	case n == 12:
		w.must(w.b.Visits.Store.Hold(w.Context(), walkersAccount, time.Duration(1+w.rand.IntN(90))*time.Second,
			dispatch.NeedsOperator, fmt.Sprint("reason ", w.rand.IntN(3))))
		return "a hold"
	case n == 13:
		w.must(w.b.Visits.Store.Hold(w.Context(), walkersAccount, 0, dispatch.None, ""))
		return "the end of a hold"
	case n == 14:
		w.p.mu.Lock()
		w.p.version = w.rand.IntN(2)
		w.p.mu.Unlock()
		w.must(w.b.Revalidate(w.Context()))
		return "another document"
	case n == 16 && len(w.tasks) > 0:
		action := []string{"pause", "resume", "pause", "resume", "cancel"}[w.rand.IntN(5)]
		ask(w.h, "POST", fmt.Sprintf("/upscale_tasks/%d/%s", one(w.tasks), action), "")
		return "a pause"
	case n == 15:
		ask(w.h, "POST", "/sync_jobs", goodBody)
		return "a synchronous run"
	default:
		for range 1 + w.rand.IntN(4) {
			w.p.move()
		}
		return "changes at the platform"
	}
}

func (w *walk) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// A client that sends its ETags sees every change of every list, task and job, and one that waits gets it without
// asking again.
func TestConditionalReads_MissNoChange(t *testing.T) {
	same, other := 0, 0
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			p := &moody{rand: r, of: map[string]dispatch.Report{}}
			b := conformance.NewBroker(conformance.NewMemStore(conformance.WallClock{}), p, &dispatch.Backend{
				Name: "cdse", Label: dispatch.OpenEO, Endpoint: "https://openeo.example.org",
				Access: dispatch.AccessOpen, Platform: p,
				Limits: dispatch.Limits{Jobs: 1 + r.IntN(4), Requests: 2, Send: 30 * time.Second,
					MinPoll: 2 * time.Second}})
			stop := conformance.RunBroker(b)
			c := newWorld().config()
			c.Broker = b
			w := &walk{T: t, seed: seed, rand: r, p: p, b: b, h: New(c), kept: map[string]copied{}}
			c.Freshness = broker.AsKnown
			w.blank = New(c).(*api)
			for range 25 {
				waiters := w.await()
				did := w.act()
				synctest.Wait()
				if slices.Contains([]string{"a deleted job", "a deleted task", "the end of any job", "a retry",
					"a pause"}, did) {
					w.check(did + " at once")
				}
				time.Sleep(time.Duration(2100+r.IntN(20_000)) * time.Millisecond)
				synctest.Wait()
				w.check(did)
				w.overdue(waiters, did)
				time.Sleep(15 * time.Second) // a waiting request reads again after 10 s even if nothing was signaled
				synctest.Wait()
				w.overdue(waiters, did)
				for _, waits := range waiters {
					<-waits.answer
				}
				w.check("a wait")
			}
			same, other = same+w.same, other+w.other
			w.h.Close()
			w.blank.Close()
			stop()
		})
		if t.Failed() {
			return
		}
	}
	if same < 500 || other < 250 {
		t.Errorf("%d responses with 304, %d with 200", same, other)
	}
}

// TestConditional_DeletedParameters: the ETag of a job changes when its parameters are deleted by age, which moves no
// time.
func TestConditional_DeletedParameters(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	w.set(1, func(r *dispatch.Record) { r.Phase, r.Status = dispatch.Ended, dispatch.Finished })
	tag := ask(h, "GET", "/unit_jobs/1", "").Header().Get("ETag")
	w.set(1, func(r *dispatch.Record) {
		r.Pruned, r.Request.Parameters, r.Updated = true, json.RawMessage("{}"), r.Updated.Add(-time.Second)
	})
	if a := ask(h, "GET", "/unit_jobs/1", "", "If-None-Match", tag); a.Code != 200 {
		t.Errorf("%d after the parameters were deleted", a.Code)
	}
}
