package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/live/socket"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// service is an API on loopback.
type service struct {
	*testing.T
	w      *world
	api    API
	server *httptest.Server
}

// logged returns the log once it is complete, or as it is after 20 s: a stream is logged when it has ended.
func (s *service) logged(complete func(log string) bool) string {
	log := s.w.log.String()
	for end := time.Now().Add(20 * time.Second); !complete(log) && time.Now().Before(end); log = s.w.log.String() {
		time.Sleep(time.Millisecond)
	}
	return log
}

func serveWorld(t *testing.T, w *world, change func(*Config)) *service {
	t.Helper()
	before := goleak.IgnoreCurrent()
	c := w.config()
	if change != nil {
		change(&c)
	}
	a := New(c)
	s := &service{t, w, a, httptest.NewServer(a)}
	t.Cleanup(func() {
		a.Close()
		s.server.Close()
		http.DefaultClient.CloseIdleConnections()
		var left error
		// Find itself waits for half a second, which a busy machine exceeds
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if left = goleak.Find(before); left == nil {
				return
			}
		}
		t.Error(left)
	})
	return s
}

// dial opens a stream as anna; headers are name, value, ….
func (s *service) dial(path string, headers ...string) (*client, *http.Response, error) {
	h := http.Header{"Authorization": {"Bearer token-anna"}}
	for i := 0; i < len(headers); i += 2 {
		if h.Del(headers[i]); headers[i+1] != "" {
			h.Set(headers[i], headers[i+1])
		}
	}
	var offers []string
	if offered := h.Get("Sec-WebSocket-Protocol"); offered != "" {
		offers = strings.Split(offered, ", ")
		h.Del("Sec-WebSocket-Protocol")
	}
	c, r, err := websocket.Dial(s.Context(), "ws"+strings.TrimPrefix(s.server.URL, "http")+path,
		&websocket.DialOptions{HTTPHeader: h, Subprotocols: offers})
	if err != nil {
		return nil, r, err
	}
	c.SetReadLimit(-1)
	s.Cleanup(func() { c.CloseNow() })
	return &client{s.T, c}, r, nil
}

func (s *service) open(path string, headers ...string) *client {
	s.Helper()
	c, _, err := s.dial(path, headers...)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

type client struct {
	*testing.T
	*websocket.Conn
}

// streamMessage is one message of a stream.
type streamMessage struct {
	Type      string           `json:"type"`
	Task      *int64           `json:"task_id"`
	Data      *json.RawMessage `json:"data"`
	Message   *string          `json:"message"`
	ErrorCode string           `json:"error_code"`
	More      bool             `json:"more"`
}

func (c *client) next() streamMessage {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
	defer cancel()
	kind, text, err := c.Read(ctx)
	var s streamMessage
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil || kind != websocket.MessageText {
		c.Fatalf("%v %v", kind, err)
	}
	return s
}

// until reads up to a message of a type.
func (c *client) until(kind string) streamMessage {
	c.Helper()
	for {
		if s := c.next(); s.Type == kind {
			return s
		}
	}
}

// closed reads up to the close.
func (c *client) closed() websocket.StatusCode {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
	defer cancel()
	for {
		if _, _, err := c.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func listIn(t *testing.T, s streamMessage) (l wire.JobsStatusResponse) {
	t.Helper()
	if s.Data == nil {
		t.Fatalf("no data: %+v", s)
	}
	if err := json.Unmarshal(*s.Data, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *service) post() {
	s.Helper()
	decode[any](s.T, ask(s.api, "POST", "/unit_jobs", goodBody), 201)
}

func TestStream_SendsTheState(t *testing.T) {
	for _, path := range []string{"/job_status", "/ws/jobs_status"} {
		s := serveWorld(t, newWorld(), nil)
		s.post()
		c := s.open(path + "?interval=1")
		if m := c.next(); m.Type != "init" || m.Data != nil && string(*m.Data) != "null" || m.Message == nil ||
			m.Task != nil {
			t.Errorf("first %+v", m)
		}
		if m := c.next(); m.Type != "loading" {
			t.Errorf("second %+v", m)
		}
		m := c.next()
		if l := listIn(t, m); m.Type != "status" || m.Message != nil || len(l.ProcessingJobs) != 1 ||
			l.ProcessingJobs[0].Status != "submitted" || l.UpscalingTasks == nil {
			t.Errorf("third %+v", m)
		}
		s.w.mu.Lock()
		if n := s.w.fresh; n != 10*time.Second {
			t.Errorf("asked for %v", n)
		}
		s.w.mu.Unlock()
		c.until("loading") // the next cycle
		if l := listIn(t, c.until("status")); len(l.ProcessingJobs) != 1 {
			t.Errorf("list %+v", l)
		}
		s.w.set(1, func(r *dispatch.Record) { r.Status, r.Phase = dispatch.Finished, dispatch.Ended })
		for listIn(t, c.until("status")).ProcessingJobs[0].Status != "finished" {
		}
	}
}

// A change is sent at once, however long the interval is.
func TestStream_SendsChangesAtOnce(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	s.post()
	whole, changes := s.open("/job_status?interval=3600"),
		s.open("/job_status?interval=3600&changes=true&filter=processing")
	whole.until("status")
	if l := listIn(t, changes.until("status")); len(l.ProcessingJobs) != 1 {
		t.Errorf("first all: %+v", l)
	}
	s.post()
	s.w.set(1, func(r *dispatch.Record) { r.Status = dispatch.Running })
	for { // one message, or two if time passed between the changes
		if l := listIn(t, whole.until("status")); len(l.ProcessingJobs) == 2 &&
			l.ProcessingJobs[1].Status == "running" {
			break
		}
	}
	for statuses := map[int64]string{}; statuses[1] != "running" || statuses[2] != "submitted"; {
		for _, j := range listIn(t, changes.until("changes")).ProcessingJobs {
			statuses[j.ID] = string(j.Status)
		}
	}
	s.w.set(2, func(r *dispatch.Record) { r.Status = dispatch.Finished })
	if l := listIn(t, changes.until("changes")); len(l.ProcessingJobs) != 1 || l.ProcessingJobs[0].ID != 2 ||
		l.ProcessingJobs[0].Status != "finished" {
		t.Errorf("changes: %+v", l)
	}
	s.w.set(1, func(r *dispatch.Record) { r.Owner = bert })
	s.w.set(2, func(r *dispatch.Record) { r.Status = dispatch.Failed })
	var gone wire.StatusChanges
	if m := changes.until("changes"); json.Unmarshal(*m.Data, &gone) != nil || len(gone.RemovedJobs) != 1 ||
		gone.RemovedJobs[0] != 1 {
		t.Errorf("removed: %s", *m.Data)
	}
}

// All jobs have ended, one changes in another process, and the signal is lost.
func TestStream_ReadsAgainWithoutASignal(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, newWorld(), nil)
	s.post()
	s.w.set(1, func(r *dispatch.Record) { r.Status, r.Phase = dispatch.Finished, dispatch.Ended })
	c := s.open("/job_status?interval=1")
	c.until("status")
	s.w.mu.Lock()
	r := s.w.jobs[1]
	r.Status, r.Updated = dispatch.Failed, r.Updated.Add(time.Second)
	s.w.jobs[1] = r
	s.w.mu.Unlock()
	for range 12 {
		if l := listIn(t, c.until("status")); l.ProcessingJobs[0].Status == "failed" {
			return
		}
	}
	t.Error("the change is not seen in 12 intervals")
}

func TestStream_OfATask(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	body := strings.Replace(goodBody, `{"title"`, `{"dimension":{"name":"tile","values":[1,2]},"title"`, 1)
	decode[any](t, ask(s.api, "POST", "/upscale_tasks", body), 201)
	c := s.open("/ws/upscale_tasks/1?interval=3600")
	for range 3 {
		m := c.next()
		if m.Task == nil || *m.Task != 1 {
			t.Fatalf("without its task: %+v", m)
		}
		var task wire.UpscalingTask
		if m.Type == "status" && (json.Unmarshal(*m.Data, &task) != nil || len(task.Jobs) != 2) {
			t.Errorf("data %s", *m.Data)
		}
	}
	s.w.mu.Lock()
	delete(s.w.tasks, 1)
	s.w.mu.Unlock()
	s.w.set(1, func(*dispatch.Record) {})
	if m := c.until("error"); m.ErrorCode != "TASK_NOT_FOUND" {
		t.Errorf("the last message is %+v", m)
	}
	if code := c.closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d", code)
	}
	s.try([]handshake{{"deleted", "/ws/upscale_tasks/1", nil, 404}})
}

// handshake is one request for a stream and the status of its response.
type handshake struct {
	name, path string
	headers    []string
	status     int
}

// try opens streams, or checks that they are refused in JSON before the upgrade.
func (s *service) try(all []handshake) {
	s.Helper()
	for _, h := range all {
		conn, r, err := s.dial(h.path, h.headers...)
		switch {
		case r == nil || r.StatusCode != h.status:
			s.Errorf("%s: %v, %v; want %d", h.name, r, err, h.status)
		case h.status == http.StatusSwitchingProtocols:
			conn.until("status")
		case r.Header.Get("Content-Type") != "application/json":
			s.Errorf("%s: Content-Type %q", h.name, r.Header.Get("Content-Type"))
		}
	}
}

// Case 65 of the security cases.
func TestStream_NeedsAToken(t *testing.T) {
	serveWorld(t, newWorld(), nil).try([]handshake{
		{"no token", "/job_status", []string{"Authorization", ""}, 401},
		{"bad token", "/job_status", []string{"Authorization", "Bearer bad"}, 401},
		{"bad token in the query", "/job_status?token=bad", []string{"Authorization", ""}, 401},
		{"two tokens", "/job_status?token=token-anna", nil, 401},
		{"two in the query", "/job_status?token=token-anna&token=token-anna", []string{"Authorization", ""}, 401},
		{"bad token in a protocol", "/job_status", []string{"Authorization", "", "Sec-WebSocket-Protocol",
			"bearer.bad"}, 401},
		{"tasks too", "/ws/upscale_tasks/1", []string{"Authorization", ""}, 401},
		{"header", "/job_status", nil, 101},
		{"protocol", "/job_status", []string{"Authorization", "", "Sec-WebSocket-Protocol", "bearer.token-anna"}, 101},
	})
}

// Case 66, in which the contract differs: existing clients have no other way, so streams accept tokens in the query,
// and no other operation does.
func TestStream_QueryTokenOpensNothingElse(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	without := []string{"Authorization", ""}
	s.try([]handshake{{"list", "/job_status?token=token-anna", without, 101},
		{"deployed", "/ws/jobs_status?token=token-anna", without, 101}})
	for _, path := range []string{"/jobs_status", "/unit_jobs/1", "/upscale_tasks/1"} {
		failed(t, ask(s.api, "GET", path+"?token=token-anna", "", without...), 401, "AUTHENTICATION_FAILED")
	}
}

// Case 68.
func TestStream_ChecksTheOrigin(t *testing.T) {
	s := serveWorld(t, newWorld(), func(c *Config) {
		c.CORSOrigins, c.PublicURL = []string{"https://portal.example.org"}, "https://dispatch.example.org"
	})
	s.try([]handshake{
		{"foreign", "/job_status", []string{"Origin", "https://evil.example.org"}, 403},
		{"none", "/job_status", []string{"Origin", "null"}, 403},
		{"on http", "/job_status", []string{"Origin", "http://portal.example.org"}, 403},
		{"a longer name", "/job_status", []string{"Origin", "https://portal.example.org.evil.example"}, 403},
		{"listed", "/job_status", []string{"Origin", "https://portal.example.org"}, 101},
		{"our own", "/job_status", []string{"Origin", "https://dispatch.example.org"}, 101},
		{"same host", "/job_status", []string{"Origin", s.server.URL}, 101},
	})
}

// Case 69: the minimum interval and other parameters.
func TestStream_ChecksTheQuery(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	s.try([]handshake{
		{"interval", "/job_status?interval=soon", nil, 422},
		{"interval", "/job_status?interval=NaN", nil, 422},
		{"filter", "/job_status?filter=all", nil, 422},
		{"changes", "/job_status?changes=some", nil, 422},
		{"unknown task", "/ws/upscale_tasks/9", nil, 404},
		{"no task", "/ws/upscale_tasks/x", nil, 422},

		{"zero", "/job_status?interval=0&filter=processing&filter=upscaling&changes=0", nil, 101},
		{"below", "/job_status?interval=-5", nil, 101},
		{"above", "/job_status?interval=1e9", nil, 101},
		{"far above", "/job_status?interval=1e999", nil, 101},
	})
	for _, headers := range [][]string{nil, {"Upgrade", "websocket"}, // as proxies pass it on that do not support it
		{"Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "8"}} {
		if f := failed(t, ask(s.api, "GET", "/job_status", "", headers...), 426, "UPGRADE_REQUIRED"); f.Message == "" {
			t.Error("no message")
		}
	}
}

// Case 70, also if the handshake fails, and at every log level.
func TestStream_LogsNoToken(t *testing.T) {
	s := serveWorld(t, newWorld(), func(c *Config) { c.Limits.Sockets = 1 })
	without := []string{"Authorization", ""}
	s.try([]handshake{
		{"good", "/job_status?token=token-anna", without, 101},
		{"one too many", "/job_status?token=token-anna", without, 429},
		{"unknown task", "/ws/upscale_tasks/9?token=token-anna", without, 404},
		{"filter", "/job_status?filter=all&token=token-anna", without, 422},
		{"no such path", "/ws/job?token=token-anna", without, 404},
		{"bad", "/job_status?token=token-b64", without, 401},
		{"protocol", "/job_status", []string{"Authorization", "", "Sec-WebSocket-Protocol", "bearer.token-anna"}, 429},
	})
	log := s.logged(func(log string) bool { return strings.Count(log, "/job_status") >= 5 })
	if strings.Contains(log, "token-anna") || strings.Contains(log, "token-b64") || strings.Contains(log, "token=") {
		t.Error("a token is in the log")
	}
	if strings.Count(log, "/job_status") < 5 {
		t.Errorf("the requests are not in the log: %s", log)
	}
}

// A handshake is logged with the status that its client got.
func TestStream_LogsTheStatus(t *testing.T) {
	for version, want := range map[string]int{"13": 101, "12": 426, "": 426} {
		s := serveWorld(t, newWorld(), nil)
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.server.URL+"/job_status", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer token-anna"}, "Connection": {"Upgrade"},
			"Upgrade": {"websocket"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
			"Sec-Websocket-Version": {version}}
		a, err := http.DefaultClient.Do(r)
		if err != nil || a.StatusCode != want {
			t.Fatalf("version %q: %v, %v", version, a, err)
		}
		a.Body.Close()
		log := s.logged(func(log string) bool { return log != "" })
		if line := lines(t, log)["request"]; line["status"] != float64(want) {
			t.Errorf("%v, want %d", line, want)
		}
	}
}

// The operator can allow every origin, because only the token identifies the user.
func TestStream_AllowsEveryOriginIfConfigured(t *testing.T) {
	s := serveWorld(t, newWorld(), func(c *Config) { c.CORSOrigins = []string{"*"} })
	s.open("/job_status", "Origin", "https://any.example.org").until("status")
	if _, r, err := s.dial("/job_status", "Origin", "https://any.example.org", "Authorization", ""); err == nil ||
		r.StatusCode != 401 {
		t.Errorf("%v without a token", err)
	}
}

// A browser accepts the connection only with one of the protocols that it offered.
func TestStream_PrefersAProtocolWithoutAToken(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	for offered, want := range map[string]string{"bearer.token-anna": "bearer.token-anna",
		"bearer.token-anna, live": "live"} {
		_, r, err := s.dial("/job_status", "Authorization", "", "Sec-WebSocket-Protocol", offered)
		if err != nil || r.Header.Get("Sec-WebSocket-Protocol") != want {
			t.Errorf("%s: %v %v", offered, r, err)
		}
	}
}

func TestStream_ClampsTheInterval(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": time.Second, "-1": time.Second, "1e9": time.Hour,
		"Inf": time.Hour, "2.5": 2500 * time.Millisecond, "1e999": time.Hour} {
		query := url.Values{"interval": {text}}
		faults := openapi.CheckQuery(openapi.StreamParams, query.Encode())
		if got := live.IntervalOf(query); got != want || faults != nil {
			t.Errorf("%s: %v %v", text, got, faults)
		}
	}
	if live.UsualInterval != 10*time.Second || math.Abs(live.ShortestInterval.Seconds()-1) > 0 {
		t.Error("not as the contract says")
	}
}

func TestStream_EndsWithItsToken(t *testing.T) {
	w := newWorld()
	s := serveWorld(t, w, nil)
	w.expires = time.Now().Add(5 * time.Second)
	c := s.open("/job_status?interval=3600")
	if m := c.until("error"); m.ErrorCode != "AUTHENTICATION_FAILED" {
		t.Errorf("the last message is %+v", m)
	}
	if code := c.closed(); code != websocket.StatusPolicyViolation || time.Now().Before(w.expires) {
		t.Errorf("closed with %d, %v before the end", code, time.Until(w.expires))
	}
}

func TestStream_EndsWithTheService(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	c := s.open("/job_status")
	c.until("status")
	done := make(chan struct{})
	go func() { defer close(done); s.api.Close() }()
	if m := c.until("error"); m.ErrorCode != "SERVICE_UNAVAILABLE" {
		t.Errorf("the last message is %+v", m)
	}
	if code := c.closed(); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d", code)
	}
	<-done
	if _, r, err := s.dial("/job_status"); err == nil || r.StatusCode != 503 {
		t.Errorf("%v after the end", err)
	}
}

// A stream that fails says why, as a response would, and the operator finds the reason in the log.
func TestStream_EndsWithAnError(t *testing.T) {
	for _, row := range []struct {
		name, code, message, logged string
		err                         error
		close                       websocket.StatusCode
	}{
		{"a bug", "INTERNAL_ERROR", "internal error", "secret detail", errors.New("secret detail"),
			websocket.StatusInternalError},
		{"the database", "SERVICE_UNAVAILABLE", "does not respond", "database unavailable", &dispatch.Error{
			Kind: dispatch.Unavailable, Database: true, Text: "The database does not respond.",
			Err: errors.New("secret detail")}, websocket.StatusInternalError},
		{"a limit", "RATE_LIMITED", "too many", "", &dispatch.Error{Kind: dispatch.LimitReached, Text: "too many"},
			websocket.StatusTryAgainLater},
	} {
		w := newWorld()
		s := serveWorld(t, w, nil)
		s.post()
		c := s.open("/job_status?interval=1")
		c.until("status")
		w.mu.Lock()
		w.fail = row.err
		w.mu.Unlock()
		if m := c.until("error"); m.ErrorCode != row.code || m.Message == nil ||
			strings.Contains(*m.Message, "secret") || !strings.Contains(*m.Message, row.message) {
			t.Errorf("%s: %+v", row.name, m)
		}
		if code := c.closed(); code != row.close {
			t.Errorf("%s: closed with %d", row.name, code)
		}
		if log := w.log.String(); !strings.Contains(log, row.logged) {
			t.Errorf("%s: %s", row.name, log)
		}
	}
}

// Case 69: the size and the number of messages.
func TestStream_ClosesTalkativeClients(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	big := s.open("/job_status?interval=3600")
	big.until("status")
	// it may be cut off in the middle
	_ = big.Write(t.Context(), websocket.MessageText, bytes.Repeat([]byte("x"), 5<<20))
	if code := big.closed(); code != websocket.StatusMessageTooBig && code != -1 {
		t.Errorf("megabytes: closed with %d", code)
	}
	long := s.open("/job_status?interval=3600")
	long.until("status")
	if err := long.Write(t.Context(), websocket.MessageText, bytes.Repeat([]byte("x"), socket.Longest+1)); err != nil {
		t.Fatal(err)
	}
	if code := long.closed(); code != websocket.StatusMessageTooBig {
		t.Errorf("a long message: closed with %d", code)
	}
	many := s.open("/job_status?interval=3600")
	many.until("status")
	for range live.HeardPerMinute + 1 {
		if err := many.Write(t.Context(), websocket.MessageText, []byte("ping")); err != nil {
			t.Fatal(err)
		}
	}
	if code := many.closed(); code != websocket.StatusTryAgainLater {
		t.Errorf("many messages: closed with %d", code)
	}
}

// A client that was closed, or has left, is no failure of the service when the next message cannot be sent to it.
func TestStream_LogsNoFailureOfClients(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	c := s.open("/job_status?interval=1")
	c.until("status")
	for range live.HeardPerMinute + 1 { // it does not answer the close, and is sent a message before it is cut off
		if err := c.Write(t.Context(), websocket.MessageText, []byte("ping")); err != nil {
			t.Fatal(err)
		}
	}
	log := s.logged(func(log string) bool { return strings.Contains(log, "stream closed") })
	if !strings.Contains(log, "stream closed") || strings.Contains(log, "failed") ||
		strings.Contains(log, `"level":"ERROR"`) {
		t.Error(log)
	}
}

// Case 69: the number of streams.
func TestStream_BoundsTheStreamsOfAUser(t *testing.T) {
	s := serveWorld(t, newWorld(), func(c *Config) { c.Limits.Sockets = 3 })
	var open []*client
	for range 3 {
		open = append(open, s.open("/job_status"))
	}
	refused := 0
	for range 20 {
		if _, r, err := s.dial("/job_status"); err != nil && r.StatusCode == 429 && r.Header.Get("Retry-After") != "" {
			refused++
		}
	}
	if refused != 20 {
		t.Errorf("%d of 20 refused", refused)
	}
	s.open("/job_status", "Authorization", "Bearer token-bert").until("status")
	open[0].CloseNow()
	for end := time.Now().Add(2 * time.Minute); ; {
		if _, _, err := s.dial("/job_status"); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal("what is closed still counts")
		}
	}
}

// Case 69. A client that does not read gets the newest state when it does.
func TestStream_SlowClientDelaysNobodyElse(t *testing.T) {
	w := newWorld()
	s := serveWorld(t, w, nil)
	for range 200 {
		s.post()
	}
	slow, quick := s.open("/job_status?interval=1"), s.open("/job_status?interval=1")
	for n := range 5 {
		w.set(1, func(r *dispatch.Record) { r.Failure = fmt.Sprint("step ", n) })
		for {
			l := listIn(t, quick.until("status"))
			if l.ProcessingJobs[199].Failure == fmt.Sprint("step ", n) {
				break
			}
		}
	}
	for messages := 1; listIn(t, slow.until("status")).ProcessingJobs[199].Failure != "step 4"; messages++ {
		if messages > 500 {
			t.Fatal("the newest does not come")
		}
	}
}

// Streams beyond the limit are refused before anything is stored for them.
func TestStream_TenThousandOfOneUser(t *testing.T) {
	const asked = 10_000
	w := newWorld()
	s := serveWorld(t, w, func(c *Config) { c.Log, c.OnRequest = slog.New(slog.DiscardHandler), nil })
	limit := s.api.(*api).Limits.Sockets
	for range limit {
		s.open("/job_status?interval=3600").until("status")
	}
	goroutines, memory := runtime.NumGoroutine(), alive()
	var all sync.WaitGroup
	var refused atomic.Int64
	for range 8 {
		all.Go(func() {
			for range asked / 8 {
				a := ask(s.api, "GET", "/job_status", "", "Connection", "Upgrade", "Upgrade", "websocket",
					"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
				if a.Code == http.StatusTooManyRequests {
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	if refused.Load() != asked {
		t.Errorf("%d of %d refused", refused.Load(), asked)
	}
	if now := alive(); now > memory+1<<20 || runtime.NumGoroutine() > goroutines+limit/10 {
		t.Errorf("%d kB and %d goroutines more", (int64(now)-int64(memory))>>10, runtime.NumGoroutine()-goroutines)
	}
}

// alive returns the memory in use.
func alive() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// loopback is a network in memory inside a synctest bubble.
type loopback chan net.Conn

func (l loopback) Accept() (net.Conn, error) {
	if c, open := <-l; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l loopback) Close() error {
	close(l)
	return nil
}

func (l loopback) Addr() net.Addr { return &net.IPAddr{} }

// Case 69: pings. The connection stays open on this side: the client receives, or stops receiving, and never sends. The
// bubble checks that all goroutines end. Until the ping, a stream has one goroutine, and another while it sends.
func TestStream_FindsVanishedClients(t *testing.T) {
	for _, takes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := make(loopback)
			w := newWorld()
			handler := New(w.config())
			server := Server(handler, w.config().Log)
			served := make(chan error)
			go func() { served <- server.Serve(l) }()
			here, there := net.Pipe()
			l <- there
			fmt.Fprint(here, "GET /job_status?interval=3600 HTTP/1.1\r\nHost: dispatch\r\nAuthorization: Bearer "+
				"token-anna\r\nConnection: Upgrade\r\n"+
				"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+
				"dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
			if r, err := http.ReadResponse(bufio.NewReader(here), nil); err != nil ||
				r.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(r, err)
			}
			if takes {
				go io.Copy(io.Discard, here)
			}
			synctest.Wait()
			if n, want := goroutinesIn("live.(*Stream)."), map[bool]int{true: 0, false: 1}[takes]; n != want ||
				goroutinesIn("socket.(*Socket).wait(") != 1 {
				t.Errorf("a client that takes what is sent: %v: %d goroutines send, want %d", takes, n, want)
			}
			began := time.Now()
			within := map[bool]time.Duration{true: 40 * time.Second, false: 30 * time.Second}[takes]
			for handler.Streams() > 0 && time.Since(began) < 2*within {
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(began); took > within+time.Second || took < 30*time.Second {
				t.Errorf("a client that takes what is sent: %v: it was given up after %v", takes, took)
			}
			handler.Close()
			server.Close()
			<-served
			here.Close()
		})
	}
}

// goroutinesIn counts the goroutines that have called a function whose name contains a text.
func goroutinesIn(name string) (n int) {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		called, _, _ := strings.Cut(stack, "created by ")
		if strings.Contains(called, name) {
			n++
		}
	}
	return n
}

// A stream sends changes a second after the last, later after many, and within its interval in any case.
func TestStream_SendsManyChangesLessOften(t *testing.T) {
	for _, row := range []struct {
		large     int
		after, of time.Duration
	}{{0, time.Second, 10 * time.Second}, {live.ChangeRate, time.Second, 10 * time.Second},
		{3 * live.ChangeRate, 3 * time.Second, 10 * time.Second},
		{100 * live.ChangeRate, 10 * time.Second, 10 * time.Second}, {3 * live.ChangeRate, time.Second, time.Second}} {
		s := live.Stream{Changes: true, Interval: row.of, Size: row.large, Sent: moment}
		if after := s.NextChangeAt().Sub(moment); after != row.after {
			t.Errorf("%d bytes, every %v: the next after %v", row.large, row.of, after)
		}
	}
}

// The messages of both streams are those that the AsyncAPI document describes.
func TestAsyncAPI_DescribesTheMessages(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	schemas := jsonschema.NewCompiler()
	for _, path := range []string{"/openapi.json", "/asyncapi.json"} {
		document, err := jsonschema.UnmarshalJSON(ask(s.api, "GET", path, "").Body)
		if err := errors.Join(err, schemas.AddResource("mem://broker"+path, document)); err != nil {
			t.Fatal(err)
		}
	}
	s.post()
	decode[any](t, ask(s.api, "POST", "/upscale_tasks", strings.Replace(goodBody, `{"title"`,
		`{"dimension":{"name":"tile","values":[1,2]},"title"`, 1)), 201)
	check := func(c *client, channel, kind string) {
		t.Helper()
		at := "mem://broker/asyncapi.json#/channels/" + channel + "/messages/" + kind + "/payload"
		shape := schemas.MustCompile(at)
		for {
			_, text, err := c.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			message, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if message.(map[string]any)["type"] != kind {
				continue
			}
			if err := shape.Validate(message); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			return
		}
	}
	jobs, task := s.open("/ws/jobs_status?changes=true"), s.open("/ws/upscale_tasks/1?changes=true")
	for _, kind := range []string{"init", "status"} {
		check(jobs, "jobs", kind)
		check(task, "task", kind)
	}
	for id := range dispatch.JobID(3) {
		s.w.set(id+1, func(r *dispatch.Record) { r.Status = dispatch.Running })
	}
	check(jobs, "jobs", "changes")
	check(task, "task", "changes")
	s.w.mu.Lock()
	delete(s.w.tasks, 1)
	s.w.mu.Unlock()
	s.w.set(2, func(*dispatch.Record) {})
	check(task, "task", "error")
}
