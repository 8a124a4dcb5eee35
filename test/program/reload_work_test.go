//go:build unix

package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestReload_AwaitsRequestsOfBefore: a request that runs for longer than shutdown_grace does not hold up a reload, and
// the end of the process waits for it as for any other.
func TestReload_AwaitsRequestsOfBefore(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	const execution = "POST /processes/{id}/execution"
	w.OGC.Faults.Add(simulator.Fault{Route: execution, Latency: time.Hour})
	r := &reloadTest{T: t, file: configuration(t, w)}
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	brief := "  limits: {send: 1s}\n"
	good := strings.Replace(string(text), "- name: ogc", brief+"- name: ogc", 1) + brief + "shutdown_grace: 2s\n"
	if err := os.WriteFile(r.file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	r.p = Start(t, "EODISPATCH_CONFIG="+r.file)
	body, err := json.Marshal(OGC(w))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		answered <- SignIn(t, w, r.p.Address).Call(t.Context(), http.MethodPost, "/sync_jobs", body, new(any))
	}()
	arrived(t, w, execution)
	r.hangUp(good+"freshness: 3s\n", `"msg":"requests from before the reload are still running"`)
	if code := r.p.Stop(t); code == exitDone ||
		!strings.Contains(r.p.Log.String(), "some requests to platforms were still running after 2s") {
		t.Errorf("exit %d", code)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
}

// TestReload_OfReplicasAtWork: two replicas on PostgreSQL are reloaded one after the other while they run a task.
// Streams end as at a stop of the process, clients can connect again, and each job runs once.
func TestReload_OfReplicasAtWork(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.OGC.Life = simulator.Life{Run: 300 * time.Millisecond}
	tables := postgres.Database(t)
	replicas := make([]*reloadTest, 2)
	for i := range replicas {
		r := &reloadTest{T: t, file: configuration(t, w)}
		r.p = Start(t, "EODISPATCH_CONFIG="+r.file, "EODISPATCH_DATABASE="+tables)
		t.Cleanup(func() { r.p.Stop(t) })
		replicas[i] = r
	}
	const jobs = 30
	c := As(w, replicas[0].p.Address, "alice", nil)
	values := make([]json.RawMessage, jobs)
	for i := range values {
		values[i] = fmt.Appendf(nil, `{"bbox": [%d, 50, %d.5, 50.5]}`, i, i)
	}
	request := OGC(w)
	request.Parameters = json.RawMessage(`{}`)
	task, err := c.Upscale(t.Context(), request, dispatch.Dimension{Name: "bbox", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replicas {
		r.reloadWatched(As(w, r.p.Address, "alice", nil), task.ID, fmt.Sprintf("freshness: %ds\n", 3+i))
	}
	replicas[0].runs(c, task)
	if n := w.OGC.Oracle.Sum(); n.Creates != jobs || n.Runs != jobs {
		t.Errorf("%+v", n)
	}
}

// reloadWatched reloads a replica while a stream of a task is open.
func (t *reloadTest) reloadWatched(c Client, task int64, more string) {
	t.Helper()
	text, err := os.ReadFile(t.file)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("ws%s/ws/upscale_tasks/%d?token=%s", strings.TrimPrefix(c.Broker, "http"), task, c.Token)
	open := func() *websocket.Conn {
		socket, _, err := websocket.Dial(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { socket.CloseNow() })
		return socket
	}
	socket := open()
	if _, _, err := socket.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.hangUp(string(text)+more, `"msg":"settings reloaded"`)
	for err == nil {
		_, _, err = socket.Read(t.Context())
	}
	// One that was sending a message may be cut in the middle of it, without a code.
	if e, closed := errors.AsType[websocket.CloseError](err); t.Context().Err() != nil || closed &&
		e.Code != websocket.StatusGoingAway {
		t.Errorf("the stream ended with %v", err)
	}
	if _, _, err := open().Read(t.Context()); err != nil {
		t.Errorf("a stream after the reload: %v", err)
	}
}

// TestReload_StoppedMeanwhile: the process is stopped after a reload that takes a platform away, while a request
// submits a job for it. The request is answered, and the job runs when the platform is configured again.
func TestReload_StoppedMeanwhile(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	r := &reloadTest{T: t, file: configuration(t, w)}
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	r.p = Start(t, "EODISPATCH_CONFIG="+r.file)
	c := As(w, r.p.Address, "alice", nil)
	submit := heldTask(t, c, OGC(w))
	r.beginReload(c, string(text[:strings.Index(string(text), "- name: ogc")]))
	stopping := r.p.Log.Shows(`"msg":"stopping"`)
	r.p.Send(t, syscall.SIGTERM)
	select {
	case <-stopping:
	case <-time.After(2 * time.Minute):
		t.Fatalf("it does not stop:\n%s", r.p.Log)
	}
	task := submit()
	r.p.AwaitEnd(t, 2*time.Minute)
	if code := r.p.ProcessState.ExitCode(); code != exitDone {
		t.Errorf("exit %d", code)
	}
	if err := os.WriteFile(r.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.p = Start(t, "EODISPATCH_CONFIG="+r.file)
	c = As(w, r.p.Address, "alice", nil)
	r.runs(c, task)
	if n := w.OGC.Oracle.Sum(); n.Creates != 1 || n.Runs != 1 {
		t.Errorf("%+v", n)
	}
	r.p.Stop(t)
}

// runs waits for the end of a task.
func (t *reloadTest) runs(c Client, task Job) {
	t.Helper()
	var err error
	for err == nil && !task.Ended() {
		err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/upscale_tasks/%d?wait=5", task.ID), nil, &task)
	}
	if err != nil || task.Status != "finished" {
		t.Errorf("%+v, %v", task, err)
	}
}

// beginReload writes the file and waits until the interface of the new broker answers.
func (t *reloadTest) beginReload(c Client, text string) {
	t.Helper()
	socket, _, err := websocket.Dial(t.Context(), fmt.Sprintf("ws%s/job_status?token=%s", strings.TrimPrefix(c.Broker,
		"http"), c.Token), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	if err := os.WriteFile(t.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.p.Send(t.T, syscall.SIGHUP)
	within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for err == nil { // until the former broker closes its streams
		_, _, err = socket.Read(within)
	}
	if within.Err() != nil {
		t.Fatalf("the settings are not reloaded:\n%s", t.p.Log)
	}
}

// heldTask sends the head of a request for a task of one job and waits until the broker asks for its body, which the
// returned function sends.
func heldTask(t *testing.T, c Client, request dispatch.Request) (submit func() Job) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"title": request.Title, "label": request.Label, "format": request.Format,
		"service": request.Service, "parameters": map[string]any{}, "dimension": map[string]any{"name": "bbox",
			"values": []json.RawMessage{json.RawMessage(Box)}}})
	if err != nil {
		t.Fatal(err)
	}
	asked, sending := make(chan struct{}), make(chan struct{})
	held := &heldBody{Reader: bytes.NewReader(body), asked: sync.OnceFunc(func() { close(asked) }), send: sending}
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Broker+"/upscale_tasks", held)
	if err != nil {
		t.Fatal(err)
	}
	post.Header = http.Header{"Authorization": {"Bearer " + c.Token}, "Content-Type": {"application/json"},
		"Expect": {"100-continue"}}
	answered, accepted := make(chan error, 1), Job{}
	go func() {
		response, err := (&http.Transport{ExpectContinueTimeout: time.Hour, DisableKeepAlives: true}).RoundTrip(post)
		if err == nil {
			defer response.Body.Close()
			err = json.NewDecoder(response.Body).Decode(&accepted)
		}
		answered <- err
	}()
	select {
	case <-asked:
	case err := <-answered:
		t.Fatalf("answered before the body was sent: %v", err)
	}
	return func() Job {
		close(sending)
		if err := <-answered; err != nil || accepted.ID == 0 {
			t.Fatalf("%+v, %v", accepted, err)
		}
		return accepted
	}
}

// heldBody is the body of a request that is sent later than asked for.
type heldBody struct {
	io.Reader
	asked func()
	send  <-chan struct{}
}

func (b *heldBody) Read(p []byte) (int, error) {
	b.asked()
	<-b.send
	return b.Reader.Read(p)
}
