package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// platform runs jobs until the test finishes them. It refuses a process called unknown.
type platform struct {
	mu       sync.Mutex
	jobs     int
	finished bool
	canceled []string
	failure  string // of all jobs, which it cannot run synchronously; "": none
}

func (*platform) TwoStep() bool                         { return true }
func (*platform) Base(dispatch.Service) (string, error) { return "", nil }

func (p *platform) Submit(_ context.Context, _ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Service.Application == "unknown" {
		return dispatch.SubmitResult{}, &dispatch.Error{Kind: dispatch.Invalid, Op: "platform",
			Text: "There is no process unknown."}
	}
	if s.Ref.ID != "" {
		return dispatch.SubmitResult{Ref: s.Ref, Started: true}, nil
	}
	p.jobs++
	return dispatch.SubmitResult{Ref: dispatch.Ref{ID: fmt.Sprintf("j-%d", p.jobs)}}, nil
}

func (p *platform) Status(context.Context, dispatch.Token, dispatch.Ref) (dispatch.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != "" {
		return dispatch.Report{Status: dispatch.Failed, Message: p.failure}, nil
	}
	if p.finished {
		return dispatch.Report{Status: dispatch.Finished}, nil
	}
	return dispatch.Report{Status: dispatch.Running}, nil
}

func (*platform) Results(context.Context, dispatch.Token, dispatch.Ref) (json.RawMessage, error) {
	return json.RawMessage(`{"type":"Collection","id":"ndvi"}`), nil
}

func (p *platform) Cancel(_ context.Context, _ dispatch.Token, r dispatch.Ref) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.canceled = append(p.canceled, r.ID)
	return nil
}

func (p *platform) RunSync(context.Context, dispatch.Token, dispatch.Submission) (*dispatch.SyncResult, error) {
	if p.failure != "" {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "platform", Text: "It has no synchronous runs."}
	}
	return &dispatch.SyncResult{ContentType: "image/tiff", Body: io.NopCloser(strings.NewReader("II*"))}, nil
}

func (*platform) Token(context.Context, dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{}, nil
}
func (*platform) Invalidate(dispatch.Account, dispatch.Token) {}

// newRealAPI returns an API over the real broker, store and engine, with p as the only platform.
func newRealAPI(t *testing.T, p *platform) http.Handler {
	t.Helper()
	return houseWith(t, p, newWorld().config())
}

// houseWith is house with further settings.
func houseWith(t *testing.T, p *platform, c Config) http.Handler {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+t.TempDir()+"/jobs.db", conformance.WallClock{})
	if err != nil {
		t.Fatal(err)
	}
	b := conformance.NewBroker(s, p, &dispatch.Backend{
		Name: "cdse", Label: dispatch.OpenEO, Endpoint: "https://openeo.example.org", Access: dispatch.AccessOpen,
		Platform: p,
		Limits:   dispatch.Limits{Jobs: 5, Requests: 2, Send: 5 * time.Second, MinPoll: time.Millisecond},
	})
	stop := conformance.RunBroker(b)
	t.Cleanup(func() { stop(); s.Close() })
	c.Broker, c.Health, c.Freshness = b, s.Ping, time.Nanosecond
	return New(c)
}

// emptied is a catalogue whose services can be taken away.
type emptied struct {
	shelf
	gone atomic.Bool
}

func (s *emptied) Find(id string) (catalogue.Service, bool) {
	if s.gone.Load() {
		return catalogue.Service{}, false
	}
	return s.shelf.Find(id)
}

// A request that is repeated with its key returns what was stored, also when its service has left the catalogue.
func TestBroker_KeyOfAServiceThatLeftTheCatalogue(t *testing.T) {
	c, s := newWorld().config(), &emptied{shelf: shelved}
	c.Services, c.PublicURL = s, "https://dispatch.example.org/broker"
	h := houseWith(t, &platform{}, c)
	const job = `{"title":"a","format":"json","parameters":{},"service":{"id":"ndvi composite"}`
	bodies := map[string]string{"/unit_jobs": job + `}`, "/upscale_tasks": job +
		`,"dimension":{"name":"tile","values":[1]}}`}
	stored := map[string]int64{}
	for path, body := range bodies {
		a := ask(h, "POST", path, body, "Idempotency-Key", path)
		stored[path] = decode[wire.UpscalingTaskSummary](t, a, 201).ID
		if want := fmt.Sprintf("/broker%s/%d", path, stored[path]); a.Header().Get("Location") != want {
			t.Errorf("Location %q, want %q", a.Header().Get("Location"), want)
		}
	}
	s.gone.Store(true)
	for path, body := range bodies {
		if again := decode[wire.UpscalingTaskSummary](t, ask(h, "POST", path, body, "Idempotency-Key", path),
			201); again.ID != stored[path] {
			t.Errorf("%s: %d, stored was %d", path, again.ID, stored[path])
		}
		for _, other := range [][]string{nil, {"Idempotency-Key", "another"}, {"Idempotency-Key", path, "Authorization",
			"Bearer token-bert"}} {
			failed(t, ask(h, "POST", path, body, other...), 422, "VALIDATION_ERROR")
		}
		failed(t, ask(h, "POST", path, body+" ", "Idempotency-Key", path), 422, "VALIDATION_ERROR")
	}
}

// A job that takes longer than its max_duration is canceled, and its failure says so.
func TestBroker_MaxDuration(t *testing.T) {
	p := &platform{}
	h := newRealAPI(t, p)
	body := strings.Replace(goodBody, `{"title"`, `{"options":{"max_duration":1},"title"`, 1)
	decode[any](t, ask(h, "POST", "/unit_jobs", body), 201)
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	until(t, func() bool {
		return decode[wire.ProcessingJob](t, ask(h, "GET", "/unit_jobs/1?wait=5", ""), 200).Status == "canceled"
	})
	got := decode[wire.ProcessingJob](t, ask(h, "GET", "/unit_jobs/1", ""), 200)
	if got.Attention == nil || got.Attention.Code != "max_duration_reached" || !strings.Contains(got.Failure, "1s") {
		t.Errorf("it says %+v, %q", got.Attention, got.Failure)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.canceled) != 1 || p.canceled[0] != got.PlatformJobID {
		t.Errorf("canceled at the platform: %q", p.canceled)
	}
}

// The queue position counts jobs of other users that share the account.
func TestBroker_QueuePositions(t *testing.T) {
	h := newRealAPI(t, &platform{})
	task := goodBody[:len(goodBody)-1] + `,"dimension":{"name":"tile","values":[1,2,3,4,5,6,7,8,9,10,11,12]}}`
	decode[any](t, ask(h, "POST", "/upscale_tasks", task), 201)
	until(t, func() bool { // five slots are taken
		got := decode[wire.UpscalingTask](t, ask(h, "GET", "/upscale_tasks/1", ""), 200)
		return got.Counts["running"] == 5 && got.Counts["created"] == 7
	})
	decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask, "Authorization", "Bearer token-bert"), 201)
	positions := func(path string, who string) (all []int) {
		for _, j := range decode[wire.UpscalingTask](t, ask(h, "GET", path, "", "Authorization", "Bearer token-"+who),
			200).Jobs {
			if (j.QueuePosition != nil) != (j.Status == "created") {
				t.Errorf("%s has the position %v", j.Status, j.QueuePosition)
			}
			if j.QueuePosition != nil {
				all = append(all, *j.QueuePosition)
			}
		}
		return all
	}
	if got := fmt.Sprint(positions("/upscale_tasks/2", "bert"), positions("/upscale_tasks/1", "anna"),
		positions("/upscale_tasks/1?status=created&limit=2", "anna")); got != "[0 1 2] [3 4 5 6 7 8 9] [3 4]" {
		t.Errorf("positions %s", got)
	}
	one := goodBody[:len(goodBody)-1] + `,"dimension":{"name":"tile","values":[1]}}`
	decode[any](t, ask(h, "POST", "/upscale_tasks", one, "Authorization", "Bearer token-bert"), 201)
	if got := fmt.Sprint(positions("/upscale_tasks/2", "bert"), positions("/upscale_tasks/3", "bert"),
		positions("/upscale_tasks/1", "anna")); got != "[0 2 3] [1] [4 5 6 7 8 9 10]" {
		t.Errorf("with another task of bert's: %s", got)
	}
}

// /platforms reports the state of each platform without asking it, and only numbers of other users' jobs.
func TestBroker_Platforms(t *testing.T) {
	p := &platform{}
	h := newRealAPI(t, p)
	show := func(who string) (string, wire.PlatformList) {
		a := ask(h, "GET", "/platforms", "", "Authorization", "Bearer token-"+who)
		list := decode[wire.PlatformList](t, a, 200)
		if strings.Contains(a.Body.String(), "idp.example.org") ||
			a.Header().Get("Cache-Control") != "private, no-cache" || len(list.Platforms) != 1 {
			t.Fatalf("%v %s", a.Header(), a.Body)
		}
		at := list.Platforms[0]
		return fmt.Sprint(at.State, " ", at.QueueLength, at.Jobs, at.Slots.Used, " of ", *at.Slots.Of, " ",
			at.Live.Used, at.LastDay.Used, list.Live.Used, list.LastDay.Used), list
	}
	if got, list := show("anna"); got != "unknown 0 {0 0} 0 of 5 0 0 0 0" || list.Platforms[0].LastAnswer != nil {
		t.Errorf("before anything: %s, %+v", got, list)
	}
	task := goodBody[:len(goodBody)-1] + `,"dimension":{"name":"tile","values":[1,2,3,4,5,6,7]}}`
	decode[any](t, ask(h, "POST", "/upscale_tasks", task), 201)
	until(t, func() bool { got, _ := show("anna"); return got == "ok 2 {2 5} 5 of 5 7 7 7 7" })
	if _, list := show("anna"); list.Bytes.Used < 7 || list.Bytes.Of != nil {
		t.Errorf("bytes: %+v", list.Bytes)
	}
	got, list := show("bert")
	if list.Bytes.Used != 0 {
		t.Errorf("another's bytes: %+v", list.Bytes)
	}
	if at := list.Platforms[0]; got != "ok 2 {0 0} 5 of 5 0 0 0 0" || time.Since(*at.LastAnswer) > time.Minute ||
		at.Attention != nil || at.Endpoint != "https://openeo.example.org" || at.Access != "open" {
		t.Errorf("another's: %s, %+v", got, at)
	}
	if at := list.Platforms[0].Starts; at == nil || at.SettlesAfter != 1200 && at.SettlesAfter != 20 || at.Lag != 0 {
		t.Errorf("starts in doubt: %+v", at)
	}
	failed(t, ask(h, "GET", "/platforms", "", "Authorization", ""), 401, "AUTHENTICATION_FAILED")
}

// Pages are read from the database while jobs change and tasks are added.
func TestBroker_Pages(t *testing.T) {
	h := newRealAPI(t, &platform{})
	values := strings.Repeat("1,", 1099) + "1"
	task := goodBody[:len(goodBody)-1] + `,"dimension":{"name":"tile","values":[` + values + `]}}`
	decode[any](t, ask(h, "POST", "/upscale_tasks", task), 201)
	seen := 0
	for path := "/upscale_tasks/1?limit=100000000&status=created&status=submitted&status=queued&status=running"; path !=
		""; {
		a := ask(h, "GET", path, "")
		part := decode[wire.UpscalingTask](t, a, 200)
		for _, j := range part.Jobs {
			if seen++; !strings.HasSuffix(j.Title, fmt.Sprint(" Job ", seen)) {
				t.Fatalf("%q comes as number %d", j.Title, seen)
			}
		}
		if len(part.Jobs) > live.LongestPage || part.Counts["finished"] != 0 {
			t.Errorf("%d jobs in a part, of %v", len(part.Jobs), part.Counts)
		}
		path = nextOf(t, a)
	}
	if seen != 1100 {
		t.Errorf("%d jobs were shown", seen)
	}
	next := nextOf(t, ask(h, "GET", "/upscale_tasks/1?limit=1", ""))
	failed(t, ask(h, "GET", next, "", "Authorization", "Bearer token-bert"), 422, "VALIDATION_ERROR")
	failed(t, ask(h, "GET", next+"x", ""), 422, "VALIDATION_ERROR")
	failed(t, ask(h, "GET", "/upscale_tasks/1?limit=1", "", "Authorization", "Bearer token-bert"), 404,
		"TASK_NOT_FOUND")
	if got := decode[wire.UpscalingTask](t, ask(h, "GET", "/upscale_tasks/1?platform=other", ""),
		200); len(got.Jobs) != 0 || got.Counts["finished"] != 0 {
		t.Errorf("at another platform: %d jobs", len(got.Jobs))
	}
	for range 3 {
		decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	}
	var ids []int64
	for path := "/jobs_status?filter=upscaling&limit=3&platform=cdse"; path != ""; {
		a := ask(h, "GET", path, "")
		for _, s := range decode[wire.JobsStatusResponse](t, a, 200).UpscalingTasks {
			ids = append(ids, s.ID)
		}
		path = nextOf(t, a)
	}
	if fmt.Sprint(ids) != "[4 3 2 1]" {
		t.Errorf("tasks %v", ids)
	}
}

// until repeats a check until it succeeds; reads that are not fresh enough wait by themselves.
func until(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); {
		if time.Now().After(end) {
			t.Fatal("it did not come to be so")
		}
	}
}

func TestBroker_Jobs(t *testing.T) {
	p := &platform{}
	h := newRealAPI(t, p)
	if a := ask(h, "GET", "/health", ""); a.Code != 200 {
		t.Fatal(a.Body)
	}
	a := ask(h, "POST", "/unit_jobs", goodBody, "Idempotency-Key", "once")
	first := decode[wire.ProcessingJobSummary](t, a, 201)
	if first.Status != "submitted" || first.PlatformJobID != "j-1" || first.Platform != "cdse" {
		t.Fatalf("accepted %+v", first)
	}
	if again := decode[wire.ProcessingJobSummary](t, ask(h, "POST", "/unit_jobs", goodBody, "Idempotency-Key", "once"),
		201); again.ID != first.ID {
		t.Errorf("repeated: %d", again.ID)
	}
	failed(t, ask(h, "POST", "/unit_jobs", goodBody+" ", "Idempotency-Key", "once"), 422, "VALIDATION_ERROR")
	path := fmt.Sprintf("/unit_jobs/%d", first.ID)
	until(t, func() bool {
		got := decode[wire.ProcessingJob](t, ask(h, "GET", path, ""), 200)
		return got.Status == "running" && got.Checked != nil
	})
	if a := ask(h, "GET", path+"/results", ""); strings.TrimSpace(a.Body.String()) != "null" {
		t.Errorf("results %s", a.Body)
	}
	failed(t, ask(h, "GET", path, "", "Authorization", "Bearer token-bert"), 404, "JOB_NOT_FOUND")

	f := failed(t, ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, "openeo.example.org", "elsewhere.example.org",
		1)), 422, "VALIDATION_ERROR")
	if got := locs(f.Detail); len(got) != 1 || got[0] != `["body","service","endpoint"] value_error` ||
		!strings.Contains(f.Message, "https://openeo.example.org") {
		t.Errorf("unknown endpoint: %+v", f)
	}
	f = failed(t, ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, "https://apps.example.org/ndvi.json",
		"unknown", 1)), 422, "VALIDATION_ERROR")
	if f.Message != "There is no process unknown." {
		t.Errorf("refused: %+v", f)
	}

	p.mu.Lock()
	p.finished = true
	p.mu.Unlock()
	until(t, func() bool {
		list := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status", ""), 200).ProcessingJobs
		return len(list) == 1 && list[0].Status == "finished"
	})
	if got := decode[map[string]any](t, ask(h, "GET", path+"/results", ""), 200); got["type"] != "Collection" ||
		got["id"] != "ndvi" || got["providers"] == nil {
		t.Errorf("results %v", got)
	}
	if a := ask(h, "POST", "/sync_jobs", goodBody); a.Code != 200 || a.Body.String() != "II*" ||
		a.Header().Get("Content-Type") != "image/tiff" {
		t.Errorf("%d %v %s", a.Code, a.Header(), a.Body)
	}
	if a := ask(h, "DELETE", path, ""); a.Code != 200 || strings.TrimSpace(a.Body.String()) != "null" {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	failed(t, ask(h, "DELETE", path, ""), 404, "JOB_NOT_FOUND")
	failed(t, ask(h, "GET", path, ""), 404, "JOB_NOT_FOUND")
	f = failed(t, ask(h, "POST", "/unit_jobs", goodBody, "Idempotency-Key", "once"), 409, "CONFLICT")
	if !strings.Contains(f.Message, "deleted") {
		t.Errorf("the key of a deleted job: %+v", f)
	}
}

// Synchronous runs are listed only if asked for: newest first, in pages, without parameters, and only the user's own.
func TestListSyncRuns_OnlyWhenAskedFor(t *testing.T) {
	h := newRealAPI(t, &platform{})
	for range 3 {
		if a := ask(h, "POST", "/sync_jobs", goodBody); a.Code != 200 {
			t.Fatal(a.Code, a.Body)
		}
	}
	if list := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status", ""), 200); len(list.ProcessingJobs)+
		len(list.UpscalingTasks) != 0 {
		t.Errorf("runs are among the jobs: %+v", list)
	}
	a := ask(h, "GET", "/jobs_status?filter=sync&limit=2", "")
	list := decode[wire.JobsStatusResponse](t, a, 200).ProcessingJobs
	if len(list) != 2 || list[0].ID <= list[1].ID || list[0].Status != "finished" || list[0].Platform != "cdse" ||
		list[0].Title == "" || strings.Contains(a.Body.String(), "parameters") {
		t.Fatalf("%s", a.Body)
	}
	next, _, found := strings.Cut(strings.TrimPrefix(a.Header().Get("Link"), "<"), ">")
	at := strings.Index(next, "/jobs_status")
	if !found || at < 0 {
		t.Fatalf("Link %q", a.Header().Get("Link"))
	}
	rest := decode[wire.JobsStatusResponse](t, ask(h, "GET", next[at:], ""), 200).ProcessingJobs
	if len(rest) != 1 || rest[0].ID >= list[1].ID {
		t.Errorf("rest %+v", rest)
	}
	tag := a.Header().Get("ETag")
	if same := ask(h, "GET", "/jobs_status?filter=sync&limit=2", "", "If-None-Match", tag); same.Code != 304 {
		t.Errorf("unchanged: %d", same.Code)
	}
	if none := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status?filter=sync", "", "Authorization",
		"Bearer token-bert"), 200); len(none.ProcessingJobs) != 0 {
		t.Errorf("another's runs: %+v", none)
	}
	failed(t, ask(h, "GET", "/jobs_status?filter=sync&filter=processing", ""), 422, "VALIDATION_ERROR")
	failed(t, ask(h, "GET", "/job_status?filter=sync", ""), 422, "VALIDATION_ERROR")
}
