package openeo_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// runNow sends a process graph as anna, to be run at once.
func (w *world) runNow(view, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.ask("POST", view+"/result", body, "Authorization", anna)
}

// runLog returns the messages of the log to which the result of a run links.
func (w *world) runLog(got *httptest.ResponseRecorder) (text string) {
	w.t.Helper()
	address, _, ok := strings.Cut(strings.TrimPrefix(got.Header().Get("Link"), "<"), `>; rel="monitor"`)
	if !ok {
		w.t.Fatalf("link %q", got.Header().Get("Link"))
	}
	for _, e := range w.get(strings.TrimPrefix(address, publicURL), "Authorization", anna)["logs"].([]any) {
		text += fmt.Sprint(e.(map[string]any)["level"], ": ", e.(map[string]any)["message"], "\n")
	}
	return text
}

const adding = `{"process": {"process_graph": {"a": {"process_id": "add", "arguments": {"x": 1.5, "y": 2}, "result": true}}}`

// A graph runs as it was sent, in every view and version; the result comes with its costs and a log, and the run is
// recorded like one of POST /sync_jobs.
func TestRun_FromGraphToFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for _, view := range []string{"/openeo/cdse/1.2", "/openeo/1.2", "/openeo/cdse/1.3", "/openeo/1.3"} {
		// the members that are null are how the JavaScript client and the Editor send them
		got := w.runNow(view, `{"title": "Now", "description": null, "plan": null, "budget": null, "process": `+
			addition+`}`)
		h := got.Header()
		if got.Code != http.StatusOK || got.Body.Len() == 0 ||
			!strings.HasPrefix(h.Get("Content-Type"), "image/tiff") ||
			h.Get("OpenEO-Costs") != "2" || h.Get("OpenEO-Identifier") == "" ||
			h.Get("Content-Security-Policy") != "sandbox" {
			t.Fatalf("%s: %d %v", view, got.Code, h)
		}
		if text := w.runLog(got); !strings.Contains(text, "The run at cdse began.\n") ||
			!strings.Contains(text, "its result was sent") {
			t.Errorf("%s: %s", view, text)
		}
		if number := w.runNow(view, adding+`}`); number.Code != 200 ||
			strings.TrimSpace(number.Body.String()) != "3.5" {
			t.Errorf("%s: %d %s", view, number.Code, number.Body)
		}
		log := view + "/result/" + h.Get("OpenEO-Identifier") + "/logs"
		refusedWith(t, w.ask("GET", log, "", "Authorization", bert), http.StatusNotFound, "JobNotFound")
		refusedWith(t, w.ask("GET", log, ""), http.StatusUnauthorized, "AuthenticationRequired")
	}
	runs, err := w.broker.SyncRuns(t.Context(), "https://idp.example.org anna", dispatch.Page{})
	if err != nil || len(runs) != 8 || runs[1].Status != dispatch.Finished || runs[1].Request.Title != "Now" {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// A service of the catalogue, a process of the user, and a definition at a URL run too.
func TestRun_WhatAGraphCalls(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	if got := w.ask("PUT", "/openeo/1.2/process_graphs/mine",
		`{"process_graph": {"a": {"process_id": "add", "arguments":
		{"x": {"from_parameter": "n"}, "y": 1}, "result": true}}, "parameters": [{"name": "n", "schema": {}, "description": ""}],
		"default_job_options": {"for": "jobs"}, "default_synchronous_options": {"for": "runs"}}`, "Authorization",
		anna); got.Code != 200 {
		t.Fatal(got.Body)
	}
	sent := ""
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			r.Body, sent = io.NopCloser(strings.NewReader(string(body))), string(body)
		}
		return false
	}
	for _, body := range []string{calling("ndvi", `{"bbox": `+someBox+`}`), calling("doubled", `{"x": 1.50}`),
		`{"process": {"process_graph": {"a": {"process_id": "mine", "arguments": {"n": 4}, "result": true}}}, "job_options":
			{"eodispatch:platform": "east"}}`} {
		if got := w.runNow("/openeo/1.3", body); got.Code != 200 || got.Body.Len() == 0 {
			t.Errorf("%s: %d %s", body, got.Code, got.Body)
		}
	}
	if !strings.Contains(sent, `{"for":"runs"}`) {
		t.Errorf("options that the process proposes: %s", sent)
	}
}

// What cannot be run is refused before anything is sent.
func TestRun_IsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, func(_ string, s *simulator.OpenEO) { s.Collections = []string{"S2"} })
	for body, code := range map[string]string{`{}`: "ProcessInvalid",
		`{"process": {"process_graph": {}}}`:                             "ProcessGraphMissing",
		adding + `, "job_options": {"eodispatch:tile_grid": "20x20km"}}`: "ProcessParameterInvalid",
		adding + `, "eodispatch:max_duration": 60}`:                      "ProcessParameterInvalid",
		adding + `, "eodispatch:nothing": 60}`:                           "ProcessParameterInvalid",
		adding + `, "budget": "much"}`:                                   "ProcessParameterInvalid",
		`{"process": {"process_graph": {"l": {"process_id": "load_collection", "arguments": {"id": "NONE",
			"spatial_extent": null, "temporal_extent": null}, "result": true}}}}`: "CollectionNotFound",
		`{"process": {"process_graph": {"a": {"process_id": "add", "arguments": {"x": {"from_node": "a"}, "y": 2},
			"result": true}}}}`: "ProcessGraphInvalid", ``: "ContentTypeInvalid"} {
		got := w.runNow("/openeo/cdse/1.2", body)
		if v := object(t, got, got.Code); v["code"] != code || got.Code < 400 || got.Code >= 500 {
			t.Errorf("%s: %d %s", body, got.Code, got.Body)
		}
	}
	refusedWith(t, w.ask("POST", "/openeo/cdse/1.2/result", adding+`}`), http.StatusUnauthorized,
		"AuthenticationRequired")
	if n := w.sims["cdse"].Oracle.Requests("POST /result"); n != 0 {
		t.Errorf("%d were sent", n)
	}
}

// A platform that refuses, redirects, or fails is answered for in the words of openEO; who waited too long learns what
// to do.
func TestRun_WhenThePlatformFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for _, c := range []struct {
		status     int
		body       string
		want       int
		code, text string
	}{
		{400, `{"code": "ProcessGraphComplexity", "message": "Too demanding."}`, 400, "ProcessGraphComplexity",
			"Too demanding. Run it as a batch job"},
		{408, `{"code": "RequestTimeout", "message": "Too slow."}`, 400, "ProcessGraphComplexity", "execute_batch"},
		{504, `<html>Gateway Time-out</html>`, 400, "ProcessGraphComplexity", "execute_batch"},
		{400, `{"code": "ProcessParameterInvalid", "message": "x is no number."}`, 400, "ProcessGraphInvalid",
			"x is no number."},
		{402, `{"code": "PaymentRequired", "message": "No credits."}`, 403, "PermissionsInsufficient", "No credits."},
		{429, `{"code": "TooMany", "message": "Slowly."}`, 503, "InfrastructureBusy", "Slowly."},
		{500, `{"code": "Internal", "message": "A worker died."}`, 502, "Internal", "A worker died."},
		{501, `{"code": "FeatureUnsupported", "message": "No."}`, 501, "FeatureUnsupported", "execute_batch"},
		{302, ``, 502, "Internal", "302"},
	} {
		w.front = func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/result") {
				return false
			}
			if rw.Header().Set("Location", w.urls["cdse"]+"/elsewhere"); strings.HasPrefix(c.body, "{") {
				rw.Header().Set("Content-Type", "application/json")
			}
			rw.WriteHeader(c.status)
			_, _ = io.WriteString(rw, c.body)
			return true
		}
		got := w.runNow("/openeo/cdse/1.3", adding+`}`)
		if v := object(t, got, c.want); v["code"] != c.code || !strings.Contains(v["message"].(string), c.text) {
			t.Errorf("%d %s: %d %s", c.status, c.body, got.Code, got.Body)
		}
	}
}

// A platform without synchronous runs: its view lists none, and who tries learns what to do.
func TestRun_NotOffered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, func(_ string, s *simulator.OpenEO) {
		s.Faults.Set(simulator.Fault{Route: "GET /", Body: `{"api_version":"1.2.0","title":"Small","endpoints":[
			{"path":"/jobs","methods":["GET","POST"]}]}`})
	})
	if text := fmt.Sprint(w.get("/openeo/cdse/1.3")["endpoints"]); strings.Contains(text, "/result ") ||
		!strings.Contains(fmt.Sprint(w.get("/openeo/1.3")["endpoints"]), "path:/result]") {
		t.Errorf("endpoints %s", text)
	}
	got := w.runNow("/openeo/cdse/1.3", adding+`}`)
	if refusedWith(t, got, http.StatusNotImplemented, "FeatureUnsupported"); !strings.Contains(got.Body.String(),
		"execute_batch") {
		t.Errorf("%s", got.Body)
	}
}

// Runs count in quotas, whoever asks for them.
func TestRun_CountsInQuotas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	w.share("cdse")
	w.backends[0].Quota = dispatch.Quota{Daily: 1}
	if got := w.runNow("/openeo/cdse/1.2", adding+`}`); got.Code != http.StatusOK {
		t.Fatal(got.Body)
	}
	got := w.runNow("/openeo/1.3", adding+`}`)
	if refusedWith(t, got, http.StatusTooManyRequests, "InfrastructureBusy"); !strings.Contains(got.Body.String(),
		"24 hours") {
		t.Errorf("%s", got.Body)
	}
}

// A result of any length is passed on while it comes; a client that leaves ends the run, and what breaks off is cut.
func TestRun_IsStreamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	front := httptest.NewServer(w)
	t.Cleanup(front.Close)
	gone, more := make(chan struct{}), make(chan bool)
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/result") {
			return false
		}
		_, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(rw, "first")
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-r.Context().Done():
			close(gone)
		case cut := <-more:
			if cut {
				panic(http.ErrAbortHandler)
			}
			for range 64 << 10 { // 64 MiB
				_, _ = rw.Write(make([]byte, 1<<10))
			}
		}
		return true
	}
	begin := func(ctx context.Context) *http.Response {
		r, err := http.NewRequestWithContext(ctx, "POST", front.URL+"/openeo/cdse/1.2/result",
			strings.NewReader(adding+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", anna)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(got.Body, make([]byte, 5)); err != nil || got.StatusCode != 200 {
			t.Fatal(got.Status, err)
		}
		return got
	}
	got := begin(t.Context())
	more <- false
	if n, err := io.Copy(io.Discard, got.Body); n != 64<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	got = begin(t.Context())
	more <- true
	if _, err := io.ReadAll(got.Body); err == nil {
		t.Error("a part was taken for the whole")
	}
	ctx, leave := context.WithCancel(t.Context())
	begin(ctx)
	leave()
	<-gone
	want := []dispatch.Status{dispatch.Canceled, dispatch.Failed, dispatch.Finished}
	for end := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		runs, err := w.broker.SyncRuns(t.Context(), "https://idp.example.org anna", dispatch.Page{})
		var seen []dispatch.Status
		for _, run := range runs {
			seen = append(seen, run.Status)
		}
		if slices.Equal(seen, want) {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("runs %v, %v", seen, err)
		}
	}
}
