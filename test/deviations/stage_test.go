// Package deviations tests what users see of their jobs when platforms deviate from their specifications: the real
// broker, adapters and HTTP interface with simulated platforms that misbehave, watched by a client until the job ends.
package deviations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// stage is a broker with its HTTP interface and SQLite, and one platform for each protocol, on a fake clock.
type stage struct {
	*testing.T
	openEO  *simulator.OpenEO
	ogc     *simulator.OGC
	broker  *broker.Broker
	handler api.API

	request     string // body of the request that submits the job
	platform    server // the platform of the job
	faults      *simulator.Faults
	oracle      *simulator.Oracle
	inMemory    bool // use the store in memory instead of SQLite
	atLeastOnce bool // see dispatch.Backend
	failures    dispatch.FailureRules
	giveUp      time.Duration // see dispatch.Timing.GiveUpAfter
	job         int64         // id of the watched job
	task        int64
}

// server is a simulated platform.
type server interface {
	http.Handler
	SetLife(simulator.Life)
	SetStatus(id, word string) bool
	Forget(id string) bool
}

const (
	openEORequest = `{"title": "NDVI", "label": "openeo", "format": "gtiff", "parameters": {"spatial_extent": {"west": 5, "south": 51, "east": 5.1, "north": 51.1},
			"temporal_extent": ["2025-05-01", "2025-06-01"]}, "service": {"endpoint": "http://openeo.example", "application": "ndvi_composite"}}`
)

var ogcRequest = ogcRequestOf("ndvi", `{"bbox": {"bbox": [5, 51, 5.1, 51.1]}}`)

func ogcRequestOf(process, parameters string) string {
	return `{"title": "NDVI", "label": "ogc_api_process", "format": "gtiff", "parameters": ` + parameters + `,
			"service": {"endpoint": "http://ogc.example", "application": "` + process + `"}}`
}

// life is the life of jobs at a correct platform.
var life = simulator.Life{Queue: time.Minute, Run: 10 * time.Minute}

// with returns a stage whose jobs run at one of the platforms.
func with(t *testing.T, protocol string) *stage {
	s := &stage{T: t, openEO: &simulator.OpenEO{Open: true, Life: life}, ogc: &simulator.OGC{Life: life}}
	s.request, s.platform, s.faults, s.oracle = openEORequest, s.openEO, &s.openEO.Faults, &s.openEO.Oracle
	if protocol == "ogc" {
		s.request, s.platform, s.faults, s.oracle = ogcRequest, s.ogc, &s.ogc.Faults, &s.ogc.Oracle
	}
	return s
}

// open starts the broker; end stops it.
func (s *stage) open() (end func()) {
	var servers sync.WaitGroup
	lines := map[string]*line{"openeo.example:80": newLine(), "ogc.example:80": newLine()}
	for host, h := range map[string]http.Handler{"openeo.example:80": s.openEO, "ogc.example:80": s.ogc} {
		servers.Go(func() { (&http.Server{Handler: h}).Serve(lines[host]) })
	}
	network := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, host string) (net.Conn, error) {
			return lines[host].dial(ctx)
		}}
	client := upstream.New(upstream.Config{Development: true, Transport: network})
	kept, forget := s.keep()
	limits := dispatch.Limits{Jobs: 100, Requests: 4, Send: 30 * time.Second}
	s.broker = conformance.NewBroker(kept, noTokens{},
		&dispatch.Backend{Name: "openeo", Label: dispatch.OpenEO, Endpoint: "http://openeo.example",
			Access: dispatch.AccessOpen, Limits: limits, Failures: s.failures,
			Platform: openeo.New(openeo.Config{Name: "openeo", Endpoint: "http://openeo.example", Client: client})},
		&dispatch.Backend{Name: "ogc", Label: dispatch.OGCProcess, Endpoint: "http://ogc.example",
			Access: dispatch.AccessOpen, Limits: limits, AtLeastOnce: s.atLeastOnce, Failures: s.failures,
			Platform: ogcapi.New(ogcapi.Config{Name: "ogc", Endpoint: "http://ogc.example", Client: client})})
	s.broker.Timing = dispatch.Timing{GiveUpAfter: s.giveUp, StalledAfter: 30 * time.Minute}
	s.handler = api.New(api.Config{Broker: s.broker, Verifier: anybody{}, Health: kept.Ping, Log: s.broker.Log})
	stop := conformance.RunBroker(s.broker)
	return func() {
		stop()
		s.handler.Close()
		forget()
		for _, l := range lines {
			l.Close()
		}
		servers.Wait()
	}
}

// keep opens the store: SQLite, or the store in memory, which is faster.
func (s *stage) keep() (kept conformance.Store, forget func()) {
	if s.inMemory {
		return conformance.NewMemStore(conformance.WallClock{}), func() {}
	}
	sqlite, err := store.Open(s.Context(), "sqlite::memory:", conformance.WallClock{})
	if err != nil {
		s.Fatal(err)
	}
	return sqlite, func() { sqlite.Close() }
}

type noTokens struct{}

func (noTokens) Token(context.Context, dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{}, nil
}
func (noTokens) Invalidate(dispatch.Account, dispatch.Token) {}

type anybody struct{}

func (anybody) Verify(context.Context, dispatch.Secret) (identity.Caller, error) {
	return identity.Caller{User: "https://idp.example ann", Expires: time.Now().Add(time.Hour)}, nil
}

// line is an in-memory connection to one server.
type line struct {
	calls chan net.Conn
	once  sync.Once
	cut   chan struct{}
}

func newLine() *line { return &line{calls: make(chan net.Conn), cut: make(chan struct{})} }

func (l *line) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.calls <- far:
		return near, nil
	case <-l.cut:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *line) Accept() (net.Conn, error) {
	select {
	case c := <-l.calls:
		return c, nil
	case <-l.cut:
		return nil, net.ErrClosed
	}
}

func (l *line) Close() error   { l.once.Do(func() { close(l.cut) }); return nil }
func (l *line) Addr() net.Addr { return &net.UnixAddr{Name: "line", Net: "unix"} }

// shown is the response of GET /unit_jobs/{id}.
type shown struct {
	ID        int64  `json:"id"`
	Status    string `json:"status"`
	Ref       string `json:"platform_job_id"`
	Failure   string `json:"failure"`
	Attention struct {
		Code string `json:"code"`
	} `json:"attention"`
}

func (j shown) String() string {
	if j.Attention.Code == "" {
		return j.Status
	}
	return j.Status + " (" + j.Attention.Code + ")"
}

func (j shown) ended() bool {
	return j.Status == "finished" || j.Status == "failed" || j.Status == "canceled"
}

// ask sends a request as the only user, and decodes the response into v.
func (s *stage) ask(want int, method, path, body string, v any) {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer ann")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code != want {
		s.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		s.Fatalf("%s %s: %v in %s", method, path, err, w.Body)
	}
}

// submit submits the job to be watched and returns the first response.
func (s *stage) submit() shown {
	s.Helper()
	var first shown
	s.ask(201, "POST", "/unit_jobs", s.request, &first)
	s.job = first.ID
	return first
}

func (s *stage) read() shown {
	s.Helper()
	var now shown
	s.ask(200, "GET", fmt.Sprintf("/unit_jobs/%d", s.job), "", &now)
	return now
}

// readTask returns the number of the task's jobs by status, and the jobs.
func (s *stage) readTask() (counts map[string]int, jobs []shown) {
	s.Helper()
	var now struct {
		Counts map[string]int
		Jobs   []shown
	}
	s.ask(200, "GET", fmt.Sprintf("/upscale_tasks/%d", s.task), "", &now)
	return now.Counts, now.Jobs
}

// submitTask submits a task over six areas.
func (s *stage) submitTask() {
	s.Helper()
	var request struct {
		Parameters map[string]json.RawMessage `json:"parameters"`
	}
	var all, task map[string]any
	if err := errors.Join(json.Unmarshal([]byte(s.request), &request), json.Unmarshal([]byte(s.request),
		&all)); err != nil {
		s.Fatal(err)
	}
	name := map[bool]string{true: "spatial_extent", false: "bbox"}[s.platform == s.openEO]
	all["dimension"] = map[string]any{"name": name, "values": slices.Repeat([]json.RawMessage{request.Parameters[name]},
		6)}
	delete(all["parameters"].(map[string]any), name)
	body, err := json.Marshal(all)
	if err != nil {
		s.Fatal(err)
	}
	s.ask(201, "POST", "/upscale_tasks", string(body), &task)
	s.task = int64(task["id"].(float64))
}

// refs returns the platform's ids of the watched jobs.
func (s *stage) refs() (refs []string) {
	s.Helper()
	if s.task == 0 {
		return []string{s.read().Ref}
	}
	_, jobs := s.readTask()
	for _, j := range jobs {
		refs = append(refs, j.Ref)
	}
	return refs
}

func (s *stage) results() json.RawMessage {
	s.Helper()
	var results json.RawMessage
	s.ask(200, "GET", fmt.Sprintf("/unit_jobs/%d/results", s.job), "", &results)
	return results
}

// others creates jobs of another client at the openEO platform.
func (s *stage) others(n int) {
	for range n {
		r := httptest.NewRequest("POST", "http://openeo.example/openeo/1.2/jobs", strings.NewReader(
			`{"title": "not ours", "process": {"process_graph": {"add": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true}}}}`))
		w := httptest.NewRecorder()
		s.openEO.ServeHTTP(w, r)
		if w.Code != 201 {
			s.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}
