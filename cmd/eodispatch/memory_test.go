package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

const (
	largeJobs = 24
	largeJob  = 1 << 20 // bytes of parameters
)

// withLargeJobs serves so many jobs with large parameters, and a task of as many jobs that share such parameters, and
// returns the address.
func withLargeJobs(t *testing.T) string {
	t.Helper()
	kept, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), wallClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	request := dispatch.Request{Title: "large", Label: dispatch.OpenEO, Format: "json",
		Parameters: json.RawMessage(`{"x":"` + strings.Repeat("x", largeJob) + `"}`),
		Service:    dispatch.Service{Endpoint: "https://p.example", Application: "a"}}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	ended := dispatch.Job{Identity: dispatch.Identity{Owner: upscaler}, Target: dispatch.Target{Account: "p/open"},
		Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Ended},
		Condition: dispatch.Condition{Status: dispatch.Finished}}
	var values []dispatch.Draft
	for i := range largeJobs {
		if _, err := kept.Accept(t.Context(), dispatch.Key{}, nil,
			[]dispatch.Draft{{Job: ended, Body: body}}); err != nil {
			t.Fatal(err)
		}
		v := dispatch.Draft{Job: ended, Body: json.RawMessage(`{"west":5,"south":51,"east":5.1,"north":51.1}`)}
		v.Number = i + 1
		values = append(values, v)
	}
	task := &dispatch.Task{Owner: upscaler, Account: "p/open", Request: request, Dimension: "tile"}
	if _, err := kept.Accept(t.Context(), dispatch.Key{}, task, values); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	b := conformance.NewBroker(kept, bearers{}, platforms(&config.Config{}, nil)...)
	handler := api.New(api.Config{Broker: b, Verifier: bearers{}, Log: log, Health: kept.Ping})
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.Close(); handler.Close() })
	return server.URL
}

// peak returns the maximum of additional memory in use while f runs.
func peak(f func()) (most int64) {
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	done := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
				most = max(most, inUse()-before)
			}
		}
	})
	f()
	close(done)
	sampling.Wait()
	return most
}

// TestLists_TakeLittleMemory reads lists of 24 MiB in every way, each with four concurrent clients: complete in memory
// they would take more than 100 MiB.
func TestLists_TakeLittleMemory(t *testing.T) {
	detector.Skip(t) // it slows the encoding of 1 GiB
	address := withLargeJobs(t)
	const whole, readers, within = largeJobs * largeJob, 4, 64 << 20
	for path, least := range map[string]int64{
		"/jobs_status": whole, "/jobs_status?limit=1000": whole, "/jobs_status?parameters=false": largeJobs * 100,
		"/upscale_tasks/1": whole, "/upscale_tasks/1?limit=1000": whole,
		"/upscale_tasks/1?parameters=false": largeJobs * 100,
		"/upscale_tasks/1/tiles":            largeJobs * 100, "/upscale_tasks/1/results": 100,
		"ws:/job_status": whole, "ws:/ws/upscale_tasks/1": whole,
	} {
		t.Run(path, func(t *testing.T) {
			used := peak(func() {
				var all sync.WaitGroup
				for range readers {
					all.Go(func() {
						n, err := readAll(t.Context(), address, path)
						if err != nil || n < least || least < whole && n > whole/8 {
							t.Errorf("read %d bytes, %v", n, err)
						}
					})
				}
				all.Wait()
			})
			if used > within {
				t.Errorf("%d MiB were in use, more than %d", used>>20, within>>20)
			}
		})
	}
}

// TestAcceptance_TakesLittleMemory accepts a task of 50,000 jobs. In memory these would take 50 MiB.
func TestAcceptance_TakesLittleMemory(t *testing.T) {
	detector.Skip(t)
	kept, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), wallClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	const jobs, within = 50_000, 8 << 20
	d := dispatch.Dimension{Name: "tile", Values: slices.Repeat([]json.RawMessage{[]byte(`{"west":5,"south":51}`)}, jobs)}
	task := &dispatch.Task{Owner: upscaler, Account: "p/open", Dimension: d.Name,
		Request: dispatch.Request{Parameters: json.RawMessage(`{}`)}}
	shared := dispatch.Draft{Job: dispatch.Job{Identity: dispatch.Identity{Owner: upscaler},
		Target: dispatch.Target{Account: "p/open"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
		Handover: dispatch.Handover{Phase: dispatch.Waiting}, Condition: dispatch.Condition{Status: dispatch.Accepted}}}
	used := peak(func() {
		_, err = kept.Accept(t.Context(), dispatch.Key{}, task, []dispatch.Draft{task.Draft(shared, &d)})
	})
	if err != nil || used > within {
		t.Errorf("%d MiB were in use, more than %d: %v", used>>20, within>>20, err)
	}
	t.Logf("%d KiB were in use", used>>10)
}

// readAll reads a response, or the first state of a stream, and returns its size.
func readAll(ctx context.Context, address, path string) (int64, error) {
	header := http.Header{"Authorization": {"Bearer " + string(upscaler)}}
	if stream, ok := strings.CutPrefix(path, "ws:"); ok {
		return readState(ctx, address+stream, header)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
	if err != nil {
		return 0, err
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %s", response.Status)
	}
	return io.Copy(io.Discard, response.Body)
}

func readState(ctx context.Context, address string, header http.Header) (n int64, err error) {
	socket, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return 0, err
	}
	defer socket.CloseNow()
	socket.SetReadLimit(-1)
	for range 3 { // init, loading, status
		_, message, err := socket.Reader(ctx)
		if err != nil {
			return 0, err
		}
		if n, err = io.Copy(io.Discard, message); err != nil {
			return n, err
		}
	}
	return n, nil
}
