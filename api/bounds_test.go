package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/test/detector"
)

// Exact arithmetic with huge numbers takes seconds, so they are refused when JSON is read.
func TestRequest_RefusesHugeNumbers(t *testing.T) {
	h := New(newWorld().config())
	for _, number := range []string{"1e999999", "-1E-401", strings.Repeat("9", 10_001)} {
		body := fmt.Sprintf(
			`{"label":"openeo","service":{"endpoint":"https://h.example","application":"a"},"title":"t","format":"json","parameters":{"x":[%s]}}`,
			strings.TrimSuffix(strings.Repeat(number+",", 200), ","))
		for _, path := range []string{"/unit_jobs", "/sync_jobs", "/params"} {
			got := ask(h, "POST", path, body)
			if got.Code != 422 || !strings.Contains(got.Body.String(), "(bound number_") {
				t.Errorf("%s %.10s: %d %.300s", path, number, got.Code, got.Body)
			}
		}
	}
}

// comb returns an area with many teeth, each of which crosses 120 degrees of latitude.
func comb(teeth int) string {
	var b strings.Builder
	b.WriteString(`{"grid":"20x20km","aoi":{"type":"Polygon","coordinates":[[[-20,-61],[20,-61]`)
	step := 20 / float64(teeth)
	for i := range teeth {
		x := 20 - float64(2*i)*step
		fmt.Fprintf(&b, ",[%.5f,60],[%.5f,60]", x, x-step)
		if i < teeth-1 {
			fmt.Fprintf(&b, ",[%.5f,-60],[%.5f,-60]", x-step, x-2*step)
		}
	}
	return b.String() + `,[-20,-61]]]}}`
}

// Without the bound, 593 KB took 16 s of CPU and returned 282 MB.
func TestTiles_RefusesAComb(t *testing.T) {
	detector.Skip(t) // one goroutine, which the detector makes too slow for the time that /tiles gives it
	h := New(newWorld().config())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := failed(t, ask(h, "POST", "/tiles", comb(9_000)), 422, "VALIDATION_ERROR")
	runtime.ReadMemStats(&after)
	if !strings.Contains(f.Detail[0].Msg, "(bound tiles_") {
		t.Error(f.Detail[0].Msg)
	}
	if mib := int64(after.Sys-before.Sys) >> 20; mib > 400 {
		t.Errorf("it took %d MiB", mib)
	}
}

func TestTiles_BoundsTheResponse(t *testing.T) {
	most := bounds.TilesBytes.Most
	defer func() { bounds.TilesBytes.Most = most }()
	bounds.TilesBytes.Most = 500
	f := failed(t, ask(New(newWorld().config()), "POST", "/tiles", brussels), 422, "VALIDATION_ERROR")
	if !strings.Contains(f.Detail[0].Msg, "(bound tiles_bytes)") {
		t.Error(f.Detail[0].Msg)
	}
}

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// Without the bound, forty bodies of 10 MiB took 836 MB.
func TestTiles_ReadsBodiesInTurn(t *testing.T) {
	a := New(newWorld().config()).(*api)
	large := httptest.NewRequest("POST", "/tiles", untouched{t})
	large.ContentLength = 10 << 20
	got := httptest.NewRecorder()
	a.ServeHTTP(got, large)
	if f := failed(t, got, 413, "PAYLOAD_TOO_LARGE"); !strings.Contains(f.Message, "(bound tiles_body)") {
		t.Error(f.Message)
	}
	synctest.Test(t, func(t *testing.T) {
		a := New(newWorld().config()).(*api)
		for client := 0; a.tiling.TryAcquire(fmt.Sprint(client), tilingOfOne) != nil; client++ {
		}
		got := httptest.NewRecorder()
		a.ServeHTTP(got, httptest.NewRequest("POST", "/tiles", untouched{t}))
		failed(t, got, 429, "RATE_LIMITED")
	})
}

// A client whose bodies do not arrive does not take the places of others.
func TestTiles_LeavesPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(newWorld().config())
		var slow sync.WaitGroup
		for range 2 * tilingAtOnce {
			slow.Go(func() {
				body, _ := io.Pipe()
				time.AfterFunc(time.Minute, func() { _ = body.Close() }) // ends the body
				a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/tiles", body))
			})
		}
		synctest.Wait()
		other := httptest.NewRequest("POST", "/tiles", strings.NewReader(brussels))
		other.RemoteAddr = "198.51.100.7:1"
		got := httptest.NewRecorder()
		a.ServeHTTP(got, other)
		if got.Code != 201 {
			t.Errorf("another address gets %d: %s", got.Code, got.Body)
		}
		slow.Wait()
	})
}

// slowWriter receives a response when the test permits it.
type slowWriter struct {
	*httptest.ResponseRecorder
	writing, allowed chan struct{}
}

func (w *slowWriter) Write(b []byte) (int, error) {
	w.writing <- struct{}{}
	<-w.allowed
	return w.ResponseRecorder.Write(b)
}

// A request keeps its place until its response is written, but releases the core before.
func TestTiles_KeepTheirPlaceUntilWritten(t *testing.T) {
	a := New(newWorld().config()).(*api)
	w := &slowWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.ServeHTTP(w, httptest.NewRequest("POST", "/tiles", strings.NewReader(brussels)))
	}()
	<-w.writing
	if a.tiling.Clients() != 1 || a.Cores.Clients() != 0 {
		t.Errorf("%d places, or %d cores are taken", a.tiling.Clients(), a.Cores.Clients())
	}
	close(w.allowed)
	<-done
	if w.Code != 201 {
		t.Error(w.Code)
	}
	failed(t, ask(a, "POST", "/tiles", `{}`), 422, "VALIDATION_ERROR")
	if a.tiling.Clients() != 0 {
		t.Error("a request that has ended keeps its place")
	}
}

// A request that takes longer than its deadline is stopped, and the client gets an error.
func TestDeadline_OfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(newWorld().config()).(*api)
		openapi.Register(a.Document, huma.Operation{OperationID: "slow", Method: http.MethodGet, Path: "/slow"},
			func(ctx context.Context, _ *openapi.Request) (*openapi.Plain[[]wire.Grid], error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		began := time.Now()
		f := failed(t, ask(a, "GET", "/slow", ""), 503, "SERVICE_UNAVAILABLE")
		if took := time.Since(began); took != call.RequestWithin || !strings.Contains(f.Message, "110 seconds") {
			t.Errorf("after %v: %s", took, f.Message)
		}
	})
}
