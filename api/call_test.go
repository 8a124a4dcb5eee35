package api

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

func TestRoute_NoSuchPathOrMethod(t *testing.T) {
	h := New(newWorld().config())
	for _, path := range []string{"/nothing", "/nothing/", "/unit_jobs//", "/unit_jobs/1//", "/unit_jobs/1/results/x",
		"//unit_jobs", "/a/../health", "/unit_jobs/./1",
		"/upscale_tasks//", "/upscale_tasks/1/retry/x", "/job_state", "/openapi.yaml", "/schemas/ErrorResponse.json",
		"/debug/pprof/", "/metrics", "/metrics/", "/docs/nothing.js", "/docs/../health"} {
		for _, method := range []string{"GET", "POST", "OPTIONS", "TRACE"} {
			failed(t, ask(h, method, path, "", "Authorization", ""), 404, "NOT_FOUND")
		}
	}
	for path, allow := range map[string]string{
		"/health": "GET, HEAD, OPTIONS", "/unit_jobs": "POST, OPTIONS",
		"/unit_jobs/1":         "DELETE, GET, HEAD, PATCH, OPTIONS",
		"/unit_jobs/1/results": "GET, HEAD, OPTIONS", "/jobs_status": "GET, HEAD, OPTIONS",
		"/sync_jobs":     "POST, OPTIONS",
		"/upscale_tasks": "POST, OPTIONS", "/upscale_tasks/1": "DELETE, GET, HEAD, PATCH, OPTIONS",
		"/upscale_tasks/1/retry": "POST, OPTIONS", "/openapi.json": "GET, HEAD, OPTIONS",
		"/params": "POST, OPTIONS", "/tiles": "POST, OPTIONS", "/grids": "GET, HEAD, OPTIONS",
		"/unit_jobs/1/logs": "GET, HEAD, OPTIONS",
	} {
		for _, method := range []string{"PUT", "PATCH", "BREW"} {
			if strings.Contains(allow, method) {
				continue
			}
			a := ask(h, method, path, "", "Authorization", "")
			failed(t, a, 405, "METHOD_NOT_ALLOWED")
			if got := a.Header().Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, path, got, allow)
			}
		}
		a := ask(h, "OPTIONS", path, "", "Authorization", "")
		if a.Code != 204 || a.Header().Get("Allow") != allow || a.Body.Len() > 0 {
			t.Errorf("OPTIONS %s: %d %v %s", path, a.Code, a.Header(), a.Body)
		}
	}
}

func TestRoute_Head(t *testing.T) {
	s := httptest.NewServer(New(newWorld().config()))
	defer s.Close()
	for path, want := range map[string]int{"/health": 200, "/openapi.json": 200, "/unit_jobs/1": 401, "/nothing": 404,
		"/sync_jobs": 405} {
		r, err := s.Client().Head(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("HEAD %s: %d, want %d", path, r.StatusCode, want)
		}
	}
}

func TestCorrelationID(t *testing.T) {
	h := New(newWorld().config())
	longest := strings.Repeat("x", 64)
	for _, id := range []string{"a", "my id 7", longest} {
		if got := ask(h, "GET", "/health", "", "X-Correlation-ID", id).Header().Get("X-Correlation-ID"); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	var made []string
	for _, id := range []string{"", longest + "x", "a\r\nb", "a\tb", "é", "\x7f"} {
		a := ask(h, "GET", "/nothing", "", "X-Correlation-ID", id)
		failed(t, a, 404, "NOT_FOUND")
		got := a.Header().Get("X-Correlation-ID")
		if got == id || len(got) < 20 || len(got) > 64 || !openapi.Printable(got) {
			t.Errorf("%q became %q", id, got)
		}
		made = append(made, got)
	}
	if slices.Sort(made); len(slices.Compact(made)) != 6 {
		t.Errorf("not new: %v", made)
	}
}

func TestHeaders_OfEveryResponse(t *testing.T) {
	h := New(newWorld().config())
	for _, path := range []string{"/health", "/nothing", "/openapi.json", "/docs", "/jobs_status", "/unit_jobs/1"} {
		a := ask(h, "GET", path, "")
		if got := a.Header().Values("X-Content-Type-Options"); !slices.Equal(got, []string{"nosniff"}) {
			t.Errorf("%s: X-Content-Type-Options %q", path, got)
		}
		want := "default-src 'none'; frame-ancestors 'none'"
		if got := a.Header().Get("Content-Security-Policy"); (got == want) == (path == "/docs") {
			t.Errorf("%s: Content-Security-Policy %q", path, got)
		}
		if got := a.Header().Values("Cache-Control"); len(got) != 1 {
			t.Errorf("%s: Cache-Control %q", path, got)
		}
	}
	for _, a := range []*httptest.ResponseRecorder{ask(h, "GET", "/unit_jobs/1", ""), ask(h, "GET", "/unit_jobs/1", "",
		"Authorization", "")} {
		if got := a.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%d: Cache-Control %q", a.Code, got)
		}
	}
}

// lines returns the log lines with a message.
func lines(t *testing.T, log string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for line := range strings.Lines(log) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		all[entry["msg"].(string)] = entry
	}
	return all
}

func TestLog_OneLinePerRequest(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	ask(h, "GET", "/unit_jobs/41?token=canary", "", "X-Correlation-ID", "c-1")
	if n := strings.Count(w.log.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %s", n, w.log.String())
	}
	line := lines(t, w.log.String())["request"]
	user := line["user"].(string)
	if _, ok := line["duration"].(float64); !ok || len(user) != 16 {
		t.Errorf("line %v", line)
	}
	for _, gone := range []string{"time", "duration", "user"} {
		delete(line, gone)
	}
	if d := cmp.Diff(map[string]any{"level": "INFO", "msg": "request", "method": "GET", "route": "/unit_jobs/{job_id}",
		"status": 404.0, "correlation_id": "c-1", "broken": false}, line); d != "" {
		t.Error(d)
	}
	ask(h, "GET", "/canary?token=canary", "", "Authorization", "Bearer canary")
	ask(h, "GET", "/jobs_status", "", "Authorization", "Bearer canary")
	if log := w.log.String(); strings.Contains(log, "canary") || strings.Contains(log, "token-anna") ||
		strings.Contains(log, "idp.example.org anna") {
		t.Errorf("log %s", log)
	}
}

func TestPanic_IsAnswered(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	w.panics = "canary"
	a := ask(h, "GET", "/unit_jobs/1", "", "X-Correlation-ID", "c-2")
	f := failed(t, a, 500, "INTERNAL_ERROR")
	if f.Details != nil || strings.Contains(a.Body.String(), "canary") {
		t.Errorf("body %s", a.Body)
	}
	all := lines(t, w.log.String())
	if p := all["panic"]; p["value"] != "canary" || !strings.Contains(p["stack"].(string), "fake_test.go") ||
		p["correlation_id"] != "c-2" {
		t.Errorf("panic %v", p)
	}
	if all["request"]["status"] != 500.0 {
		t.Errorf("request %v", all["request"])
	}
}

func TestPanic_AbortedHandlerAnswersNothing(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	w.panics = http.ErrAbortHandler
	a := httptest.NewRecorder()
	defer func() {
		if recover() != http.ErrAbortHandler || a.Body.Len() > 0 {
			t.Errorf("answered %s", a.Body)
		}
		if line := lines(t, w.log.String())["request"]; line["broken"] != true {
			t.Errorf("line %v", line)
		}
	}()
	r := httptest.NewRequest("GET", "/unit_jobs/1", nil)
	r.Header.Set("Authorization", "Bearer token-anna")
	h.ServeHTTP(a, r)
}

func TestLogHandler_LogsTheRequest(t *testing.T) {
	var out syncBuffer
	log := slog.New(call.LogHandler(call.LogHandler(slog.NewJSONHandler(&out, nil)))).With("part", "broker")
	h := (&api{Config: Config{Log: log}.withDefaults()}).track(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		log.InfoContext(r.Context(), "inside")
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	log.Info("outside")
	all := lines(t, out.String())
	if id, _ := all["inside"]["correlation_id"].(string); id == "" || all["inside"]["part"] != "broker" ||
		strings.Count(out.String(), id) != 2 {
		t.Errorf("log %s", out.String())
	}
	if _, has := all["outside"]["correlation_id"]; has {
		t.Errorf("log %s", out.String())
	}
}

func TestCORS(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.CORSOrigins = []string{"https://portal.example.org", "http://localhost:*"}
	h := New(c)
	none := New(w.config())
	for _, x := range []struct {
		h       http.Handler
		origin  string
		allowed bool
	}{
		{h, "https://portal.example.org", true}, {h, "http://portal.example.org", false},
		{h, "https://portal.example.org.evil.org", false},
		{h, "http://localhost:5173", true}, {h, "http://localhost", true}, {h, "https://localhost:5173", false},
		{h, "http://localhost:*", false},
		{h, "http://localhost.evil.org:5173", false}, {h, "https://portal.example.org:8443", false}, {h, "null", false},
		{h, "", false}, {none, "https://portal.example.org", false}, {none, "", false},
	} {
		got := ask(x.h, "GET", "/jobs_status", "", "Origin", x.origin)
		pre := ask(x.h, "OPTIONS", "/unit_jobs/1", "", "Origin", x.origin, "Access-Control-Request-Method", "DELETE",
			"Authorization", "")
		want := ""
		if x.allowed {
			want = x.origin
		}
		for _, a := range []*httptest.ResponseRecorder{got, pre} {
			if o := a.Header().Get("Access-Control-Allow-Origin"); o != want {
				t.Errorf("%q: Access-Control-Allow-Origin %q", x.origin, o)
			}
			if v := a.Header().Values("Vary"); !slices.Contains(v, "Origin") {
				t.Errorf("Vary %q", v)
			}
		}
		if got.Code != 200 || (pre.Code == 204) != (x.allowed || x.origin == "") {
			t.Errorf("%q: %d, %d", x.origin, got.Code, pre.Code)
		}
		if pre.Code != 204 && !strings.Contains(failed(t, pre, 403, "FORBIDDEN").Message, "cors.allowed_origins") {
			t.Errorf("%q: %s", x.origin, pre.Body)
		}
		if m := pre.Header().Get("Access-Control-Allow-Methods"); (m != "") != x.allowed {
			t.Errorf("%q: methods %q", x.origin, m)
		}
	}
	const two = "cache-control,traceparent"
	for origin, allowed := range map[string][3]string{
		"https://portal.example.org": {"GET, POST, PATCH, DELETE", "600", two}, "https://evil.org": {}} {
		pre := ask(h, "OPTIONS", "/unit_jobs", "", "Origin", origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", two).Header()
		for i, name := range []string{"Access-Control-Allow-Methods", "Access-Control-Max-Age",
			"Access-Control-Allow-Headers"} {
			if pre.Get(name) != allowed[i] {
				t.Errorf("%s, %s: %q", origin, name, pre.Get(name))
			}
		}
	}
	refused := ask(h, "GET", "/jobs_status", "", "Origin", "https://portal.example.org", "Authorization", "")
	failed(t, refused, 401, "AUTHENTICATION_FAILED")
	if refused.Header().Get("Access-Control-Allow-Origin") == "" ||
		!strings.Contains(refused.Header().Get("Access-Control-Expose-Headers"), "X-Correlation-ID") {
		t.Errorf("a page cannot read why: %v", refused.Header())
	}
	if seen := refused.Header().Get("Access-Control-Expose-Headers"); !strings.Contains(seen, "Link") ||
		!strings.Contains(seen, "ETag") {
		t.Errorf("a page cannot go on in a list: %q", seen)
	}
	if refused.Header().Get("Access-Control-Allow-Credentials") != "true" {
		t.Error("a page that is allowed cannot call with credentials")
	}
}

// A star is never sent together with credentials.
func TestCORS_EveryOriginWithoutCredentials(t *testing.T) {
	c := newWorld().config()
	c.CORSOrigins = []string{"*", "https://portal.example.org"}
	h := New(c)
	for _, row := range []struct{ origin, allowed, credentials string }{
		{"https://any.example.org", "*", ""}, {"null", "*", ""}, {"", "", ""},
		{"https://portal.example.org", "https://portal.example.org", "true"},
	} {
		for _, a := range []*httptest.ResponseRecorder{ask(h, "GET", "/jobs_status", "", "Origin", row.origin),
			ask(h, "OPTIONS", "/unit_jobs", "", "Origin", row.origin, "Access-Control-Request-Method", "POST")} {
			if a.Header().Get("Access-Control-Allow-Origin") != row.allowed ||
				a.Header().Get("Access-Control-Allow-Credentials") != row.credentials {
				t.Errorf("%q: %v", row.origin, a.Header())
			}
		}
	}
}

// A browser that has used https does not come back with http.
func TestHeaders_TransportSecurityWithTLS(t *testing.T) {
	for address, want := range map[string]string{"https://dispatch.example.org": "max-age=31536000",
		"http://localhost:8080": "", "": ""} {
		c := newWorld().config()
		c.PublicURL = address
		h := New(c)
		for _, path := range []string{"/health", "/jobs_status", "/nothing", "/docs"} {
			if got := ask(h, "GET", path, "").Header().Get("Strict-Transport-Security"); got != want {
				t.Errorf("%s%s: %q", address, path, got)
			}
		}
	}
}

func TestAuth_RefusesTokensElsewhere(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	for _, target := range []string{"/jobs_status?token=token-anna", "/jobs_status?access_token=token-anna"} {
		failed(t, ask(h, "GET", target, "", "Authorization", ""), 401, "AUTHENTICATION_FAILED")
	}
	failed(t, ask(h, "POST", "/unit_jobs", "access_token=token-anna", "Authorization", "", "Content-Type",
		"application/x-www-form-urlencoded"), 401, "AUTHENTICATION_FAILED")
	failed(t, ask(h, "GET", "/jobs_status", "", "Authorization", "", "Cookie", "token=token-anna"), 401,
		"AUTHENTICATION_FAILED")
	r := httptest.NewRequest("GET", "/jobs_status", nil)
	r.Header["Authorization"] = []string{"Bearer token-anna", "Bearer token-bert"}
	failed(t, send(h, r), 401, "AUTHENTICATION_FAILED")
	for _, scheme := range []string{"bearer", "BEARER", "Bearer  "} {
		decode[any](t, ask(h, "GET", "/jobs_status", "", "Authorization", scheme+" token-anna"), 200)
	}
	if len(w.signed) != 3 || w.signed[0].User != anna || w.signed[0].Token.Reveal() != "token-anna" {
		t.Errorf("signed in %v", w.signed)
	}
}

func TestAuth_IdentityProviderDown(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	w.unsure = &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Verify", Text: "canary-host"}
	a := ask(h, "GET", "/jobs_status", "")
	failed(t, a, 503, "SERVICE_UNAVAILABLE")
	if strings.Contains(a.Body.String(), "canary") || a.Header().Get("Retry-After") == "" {
		t.Errorf("%v %s", a.Header(), a.Body)
	}
	for _, k := range []dispatch.Kind{dispatch.SignInRequired, dispatch.Forbidden, dispatch.Internal,
		dispatch.Invalid} {
		w.unsure = &dispatch.Error{Kind: k, Op: "identity.Verify", Text: "canary"}
		failed(t, ask(h, "GET", "/jobs_status", ""), 401, "AUTHENTICATION_FAILED")
	}
}

// Some clients write a slash at the end of every path. They get the same response as without, and no redirect.
func TestRoute_SlashAtTheEnd(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	first := decode[wire.ProcessingJobSummary](t, ask(h, "POST", "/unit_jobs/", goodBody, "Idempotency-Key", "k"), 201)
	decode[wire.ProcessingJobSummary](t, ask(h, "POST", "/unit_jobs", goodBody, "Idempotency-Key", "k"), 201)
	if first.ID != 1 || w.keys[0] != w.keys[1] {
		t.Errorf("job %d, keys %+v", first.ID, w.keys)
	}
	decode[wire.ProcessingJob](t, ask(h, "GET", "/unit_jobs/1/", ""), 200)
	decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status/?filter=processing", ""), 200)
	decode[any](t, ask(h, "POST", "/upscale_tasks/", goodTask), 201)
	decode[wire.UpscalingTask](t, ask(h, "GET", "/upscale_tasks/1/?limit=1", ""), 200)
	failed(t, ask(h, "PUT", "/unit_jobs/", ""), 405, "METHOD_NOT_ALLOWED")
	failed(t, ask(h, "GET", "/job_status/", ""), 426, "UPGRADE_REQUIRED")
	decode[any](t, ask(h, "DELETE", "/unit_jobs/1/", ""), 200)
}

// Probes of orchestrators are no lines of the log, unless they fail.
func TestLog_LeavesOutProbes(t *testing.T) {
	w := newWorld()
	c := w.config()
	var out strings.Builder
	c.Log = slog.New(slog.NewJSONHandler(&out, nil))
	h := New(c)
	ask(h, "GET", "/health", "", "Authorization", "")
	if out.Len() > 0 {
		t.Errorf("a probe that succeeds: %s", &out)
	}
	w.down = &dispatch.Error{Kind: dispatch.Unavailable}
	ask(h, "GET", "/health", "", "Authorization", "")
	if !strings.Contains(out.String(), `"route":"/health","status":503`) {
		t.Errorf("a probe that fails: %s", &out)
	}
}
