//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/simulator"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestReload_AwaitsRequestsOfBefore: a request that runs for longer than shutdown_grace does not hold up a reload, and the end of the process
// waits for it as for any other.
func TestReload_AwaitsRequestsOfBefore(t *testing.T) {
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
	r.p = startProgram(t, "EODISPATCH_CONFIG="+r.file)
	body, err := json.Marshal(ogcRequest(w))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		answered <- signedIn(t, w, r.p.Address).call(t.Context(), http.MethodPost, "/sync_jobs", body, new(any))
	}()
	arrived(t, w, execution)
	r.hangUp(good+"freshness: 3s\n", `"msg":"requests of before the reload are still running"`)
	if code := r.p.Stop(t); code == exitDone || !strings.Contains(r.p.Log.String(), "some requests to platforms were still running after 2s") {
		t.Errorf("exit %d", code)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
}

// TestReload_OfReplicasAtWork: two replicas on PostgreSQL are reloaded one after the other while they run a task. Streams end with the code at
// which clients connect again, and each job runs once.
func TestReload_OfReplicasAtWork(t *testing.T) {
	w := startWorld(t)
	w.OGC.Life = simulator.Life{Run: 300 * time.Millisecond}
	tables := postgres.Database(t)
	replicas := make([]*reloadTest, 2)
	for i := range replicas {
		r := &reloadTest{T: t, file: configuration(t, w)}
		r.p = startProgram(t, "EODISPATCH_CONFIG="+r.file, "EODISPATCH_DATABASE="+tables)
		t.Cleanup(func() { r.p.Stop(t) })
		replicas[i] = r
	}
	const jobs = 30
	c := as(w, replicas[0].p.Address, "alice", nil)
	values := make([]json.RawMessage, jobs)
	for i := range values {
		values[i] = fmt.Appendf(nil, `{"bbox": [%d, 50, %d.5, 50.5]}`, i, i)
	}
	request := ogcRequest(w)
	request.Parameters = json.RawMessage(`{}`)
	task, err := c.upscale(t.Context(), request, dispatch.Dimension{Name: "bbox", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replicas {
		r.reloadWatched(as(w, r.p.Address, "alice", nil), task.ID, fmt.Sprintf("freshness: %ds\n", 3+i))
	}
	for err == nil && !task.ended() {
		err = c.call(t.Context(), http.MethodGet, fmt.Sprintf("/upscale_tasks/%d?wait=5", task.ID), nil, &task)
	}
	if err != nil || task.Status != "finished" {
		t.Errorf("%+v, %v", task, err)
	}
	if n := w.OGC.Oracle.Sum(); n.Creates != jobs || n.Runs != jobs {
		t.Errorf("%+v", n)
	}
}

// reloadWatched reloads a replica while a stream of a task is open.
func (t *reloadTest) reloadWatched(c client, task int64, more string) {
	t.Helper()
	text, err := os.ReadFile(t.file)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("ws%s/ws/upscale_tasks/%d?token=%s", strings.TrimPrefix(c.broker, "http"), task, c.token)
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
	if e, closed := errors.AsType[websocket.CloseError](err); !closed || e.Code != websocket.StatusGoingAway {
		t.Errorf("the stream ended with %v", err)
	}
	if _, _, err := open().Read(t.Context()); err != nil {
		t.Errorf("a stream after the reload: %v", err)
	}
}
