package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

type document struct {
	OpenAPI string `json:"openapi"`
	Info    struct{ Title, Version, Description string }
	Servers []struct{ URL string }
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Security    *[]map[string][]string
		Responses   map[string]response
		RequestBody struct {
			Content map[string]struct {
				Examples map[string]struct{ Value json.RawMessage }
			}
		} `json:"requestBody"`
	}
	Security   []map[string][]string
	Components struct {
		Schemas         map[string]json.RawMessage
		SecuritySchemes map[string]map[string]string
	}
}

// response is a response as the document describes it.
type response struct {
	Description string
	Headers     map[string]struct {
		Schema struct {
			Type string
			Enum []string
		}
	}
	Content map[string]struct{ Schema json.RawMessage }
}

func read(t *testing.T, h http.Handler) document {
	t.Helper()
	return decode[document](t, ask(h, "GET", "/openapi.json", "", "Authorization", ""), 200)
}

func compiler(t *testing.T, h http.Handler) *jsonschema.Compiler {
	t.Helper()
	whole, err := jsonschema.UnmarshalJSON(ask(h, "GET", "/openapi.json", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem://openapi.json", whole); err != nil {
		t.Fatal(err)
	}
	return c
}

func schemaOf(t *testing.T, h http.Handler, name string) *jsonschema.Schema {
	t.Helper()
	s, err := compiler(t, h).Compile("mem://openapi.json#/components/schemas/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDocument(t *testing.T) {
	c := newWorld().config()
	c.PublicURL, c.Description = "https://dispatch.example.org", "About it"
	d := read(t, New(c))
	if !strings.HasPrefix(d.OpenAPI, "3.1") || d.Info.Title != "Dispatch test" || d.Info.Version != "1.2.3" ||
		!strings.HasPrefix(d.Info.Description, "About it\n\n") ||
		len(d.Servers) != 1 || d.Servers[0].URL != "https://dispatch.example.org" {
		t.Errorf("head %+v", d)
	}
	var operations []string
	for path, methods := range d.Paths {
		for method := range methods {
			operations = append(operations, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(operations)
	want := []string{"DELETE /grants/{grant_id}", "DELETE /hooks/{hook_id}", "DELETE /unit_jobs/{job_id}",
		"DELETE /upscale_tasks/{task_id}", "GET /grants", "GET /grids", "GET /health", "GET /health/details",
		"GET /hooks", "GET /hooks/{hook_id}", "GET /hooks/{hook_id}/deliveries", "GET /jobs_status", "GET /platforms",
		"GET /services", "GET /services/{service_id}", "GET /session", "GET /unit_jobs/{job_id}",
		"GET /unit_jobs/{job_id}/document", "GET /unit_jobs/{job_id}/logs", "GET /unit_jobs/{job_id}/provenance",
		"GET /unit_jobs/{job_id}/results", "GET /upscale_tasks/{task_id}",
		"GET /upscale_tasks/{task_id}/dimensions", "GET /upscale_tasks/{task_id}/platforms",
		"GET /upscale_tasks/{task_id}/provenance", "GET /upscale_tasks/{task_id}/results",
		"GET /upscale_tasks/{task_id}/results/items", "GET /upscale_tasks/{task_id}/results/items/{job_id}",
		"GET /upscale_tasks/{task_id}/tiles", "GET /usage", "PATCH /unit_jobs/{job_id}",
		"PATCH /upscale_tasks/{task_id}",
		"POST /estimate", "POST /grants", "POST /hooks", "POST /hooks/{hook_id}/deliveries/{delivery_id}/send",
		"POST /hooks/{hook_id}/test", "POST /params", "POST /session/sign-out", "POST /sync_jobs", "POST /tickets",
		"POST /tiles", "POST /unit_jobs", "POST /unit_jobs/{job_id}/cancel", "POST /upscale_tasks",
		"POST /upscale_tasks/{task_id}/cancel", "POST /upscale_tasks/{task_id}/pause",
		"POST /upscale_tasks/{task_id}/resume", "POST /upscale_tasks/{task_id}/retry"}
	if d := cmp.Diff(want, operations); d != "" {
		t.Error(d)
	}
	if s := d.Components.SecuritySchemes["bearer"]; s["type"] != "http" || s["scheme"] != "bearer" ||
		len(d.Security) != 1 {
		t.Errorf("security %v %v", s, d.Security)
	}
	if strings.Contains(string(d.Components.Schemas["BaseJobRequest"]), `"additionalProperties":false`) {
		t.Error("unknown members are refused by the document")
	}
}

// openOperations are all operations that need no token.
var openOperations = []string{"GET /health", "GET /health/details", "GET /grids", "POST /session/sign-out",
	"POST /tiles"}

func TestOperations_NeedAToken(t *testing.T) {
	const unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIn0."
	w := newWorld()
	h := New(w.config())
	d := read(t, h)
	checked := 0
	for path, methods := range d.Paths {
		for method, op := range methods {
			name := strings.ToUpper(method) + " " + path
			target := strings.NewReplacer("{job_id}", "1", "{task_id}", "1", "{service_id}", "fire").Replace(path)
			if slices.Contains(openOperations, name) {
				if op.Security == nil || len(*op.Security) != 0 {
					t.Errorf("%s is not declared open", name)
				}
				continue
			}
			checked++
			if op.Security != nil {
				t.Errorf("%s has a security of its own", name)
			}
			var bodies []string
			for _, token := range []string{"", "Bearer " + unsigned, "Bearer", "Bearer ", "Basic token-anna",
				"token-anna", "Bearer token-x", "Bearer token-anna token-anna", "Bearer token-old"} {
				a := ask(h, strings.ToUpper(method), target, goodBody, "Authorization", token, "X-Correlation-ID",
					"same")
				failed(t, a, 401, "AUTHENTICATION_FAILED")
				want := "Bearer"
				switch token {
				case "Bearer token-x", "Bearer " + unsigned, "Bearer token-anna token-anna":
					want = `Bearer error="invalid_token"`
				case "Bearer token-old":
					want = expired
				}
				if got := a.Header().Values("WWW-Authenticate"); !slices.Equal(got, []string{want}) {
					t.Errorf("%s, %q: WWW-Authenticate %q", name, token, got)
				}
				if want == "Bearer" {
					bodies = append(bodies, a.Body.String())
				}
			}
			if len(slices.Compact(bodies)) != 1 {
				t.Errorf("%s: bodies differ: %q", name, bodies)
			}
		}
	}
	if checked != 44 || len(w.signed) != 0 || len(w.jobs) != 0 {
		t.Errorf("%d operations, %d sign-ins, %d jobs", checked, len(w.signed), len(w.jobs))
	}
}

// The test makes every operation answer with every status that it can, and compares status and body with the document.
func TestDocument_DescribesTheResponses(t *testing.T) {
	w := newWorld()
	h := New(withCatalogue(w))
	c := compiler(t, h)
	d := read(t, h)
	w.sync = func(_ context.Context, _ dispatch.Request) (*dispatch.SyncResult, error) {
		return &dispatch.SyncResult{ContentType: "image/tiff", Body: io.NopCloser(strings.NewReader("II*"))}, nil
	}
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	w.parameters = map[string][]dispatch.Parameter{"https://apps.example.org/ndvi.json": {
		{Name: "cloud", Type: dispatch.Double, Maximum: new(json.Number("100")),
			Options: []json.RawMessage{[]byte("1")},
			Schema:  []byte(`{"type":"number"}`)}, {Name: "x", Type: dispatch.Object}}}
	w.logs = []dispatch.LogEntry{{Time: moment, Level: "info", Message: "hello"}, {Level: "error"}}
	w.document = []byte(`{"id":"ndvi"}`)
	decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	task := w.tasks[1]
	task.Attention, task.Request.Warning = dispatch.ServiceChanged, "odd"
	half := 50.0
	r := w.jobs[1]
	r.Status, w.results[1] = dispatch.Finished, json.RawMessage(
		`{"type":"Collection","stac_version":"1.1.0","id":"1","description":"NDVI","license":"other",`+
			`"extent":{"spatial":{"bbox":[[4,51,5,52]]},"temporal":{"interval":[["2026-01-01T00:00:00Z",null]]}},`+
			`"links":[],"assets":{"a":{"href":"https://x.example/a"}}}`)
	r.Progress, r.Costs, r.Attention, r.Checked, r.Failure, r.Task = &half, &half, dispatch.Unreachable, moment, "x", 1
	r.Ahead, r.Duration, r.Request.Warning = new(int), time.Minute, "odd"
	fromStore := []dispatch.Kind{dispatch.Internal, dispatch.Unavailable, dispatch.NotFound}
	seen := map[string]bool{}
	for path, methods := range d.Paths {
		for method, op := range methods {
			name := strings.ToUpper(method) + " " + path
			kinds := fromStore
			if method == "post" && !strings.HasSuffix(path, "/retry") && !strings.HasSuffix(path, "/cancel") &&
				!strings.HasSuffix(path, "/pause") && !strings.HasSuffix(path, "/resume") ||
				strings.HasPrefix(path, "/unit_jobs/{job_id}/results") || strings.Contains(path, "/items") {
				kinds = dispatch.Kinds()
			}
			for i := -1; i < len(kinds) || i == len(kinds) && len(kinds) > len(fromStore); i++ {
				var fail error
				if i >= 0 && i < len(kinds) {
					fail = &dispatch.Error{Kind: kinds[i], Op: "fake", Text: "No.", Link: "https://x.example.org"}
				}
				if i == len(kinds) {
					fail = &dispatch.Error{Kind: dispatch.Unavailable, Op: "fake", Err: context.DeadlineExceeded}
				}
				if (path == "/jobs_status" || path == "/usage" || path == "/grants" || path == "/platforms" ||
					path == "/services") && dispatch.Is(fail, dispatch.NotFound) {
					continue // a list is there, if only empty
				}
				w.jobs[1], w.tasks[1], w.fail = r, task, fail
				if path == "/health" {
					w.down = fail
				}
				for _, token := range []string{"Bearer token-anna", "", "Bearer token-x", "Bearer token-old"} {
					for _, body := range []string{goodTask, brussels, "{}"} { // a task is a job with one member more
						target := strings.NewReplacer("{job_id}", "1", "{task_id}", "1", "{service_id}",
							"fire").Replace(path)
						a := ask(h, strings.ToUpper(method), target, body, "Authorization", token)
						check(t, c, name, op.Responses, a, path, method)
						seen[name+" "+http.StatusText(a.Code)] = true
						if op.RequestBody.Content != nil {
							check(t, c, name, op.Responses, ask(h, strings.ToUpper(method), target, body,
								"Authorization", token, "Content-Type", "text/plain"), path, method)
						}
					}
				}
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d kinds of answers", len(seen))
	}
}

func check(t *testing.T, c *jsonschema.Compiler, name string, responses map[string]response,
	a *httptest.ResponseRecorder, path, method string) {
	t.Helper()
	status := regexp.MustCompile(`\d+`).FindString(a.Result().Status)
	documented, ok := responses[status]
	if !ok {
		t.Errorf("%s: %s is not in the document: %s", name, status, a.Body)
		return
	}
	checkHeaders(t, name+": "+status, documented, a.Header())
	var failed failure
	if json.Unmarshal(a.Body.Bytes(), &failed) == nil && a.Code >= 400 &&
		!strings.Contains(documented.Description, failed.Code) {
		t.Errorf("%s: %s: %q does not name %s", name, status, documented.Description, failed.Code)
	}
	if len(documented.Content) == 0 {
		if a.Body.Len() > 0 {
			t.Errorf("%s: %s should have no body: %s", name, status, a.Body)
		}
		return
	}
	if _, any := documented.Content["*/*"]; any {
		return
	}
	at := strings.NewReplacer("~", "~0", "/", "~1").Replace
	media := a.Header().Get("Content-Type")
	if _, ok := documented.Content[media]; !ok {
		t.Errorf("%s: %s is not in the document as %s", name, status, media)
		return
	}
	schema, err := c.Compile("mem://openapi.json#/paths/" + at(path) + "/" + method + "/responses/" + status +
		"/content/" + at(media) + "/schema")
	if err != nil {
		t.Fatal(err)
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Body.Bytes()))
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, a.Body)
	}
	if err := schema.Validate(body); err != nil {
		t.Errorf("%s: %s: %v: %s", name, status, err, a.Body)
	}
}

// checkHeaders compares the headers of a response with the document, except for those that mean the same in all.
func checkHeaders(t *testing.T, name string, documented response, sent http.Header) {
	t.Helper()
	headers := map[string]bool{}
	for header := range documented.Headers {
		headers[http.CanonicalHeaderKey(header)] = true
	}
	for header := range sent {
		if !headers[header] && !slices.Contains(anyHeaders, header) {
			t.Errorf("%s: the header %s is not in the document", name, header)
		}
	}
	for header, h := range documented.Headers {
		value := sent.Get(header)
		if value == "" {
			continue
		}
		if _, err := strconv.Atoi(value); h.Schema.Type == "integer" && err != nil ||
			len(h.Schema.Enum) > 0 && !slices.Contains(h.Schema.Enum, value) {
			t.Errorf("%s: %s: %s does not fit the document", name, header, value)
		}
	}
}

// anyHeaders are headers that every response can have.
var anyHeaders = []string{"Cache-Control", "Content-Length", "Content-Security-Policy", "Content-Type", "Vary",
	"X-Content-Type-Options", "X-Correlation-Id"}

func TestDocument_SchemasFitTheResponses(t *testing.T) {
	c := newWorld().config()
	c.Limits.Title = 7
	h := New(c)
	job := schemaOf(t, h, "BaseJobRequest")
	for title, good := range map[string]bool{"1234567": true, "12345678": false} {
		var body map[string]any
		json.Unmarshal([]byte(goodBody), &body)
		body["title"] = title
		if err := job.Validate(body); (err == nil) != good {
			t.Errorf("%s: %v", title, err)
		}
	}
	fault := schemaOf(t, h, "ValidationError")
	for loc, good := range map[string]bool{`["body",3,"x"]`: true, `["body",null]`: false, `["body",[]]`: false} {
		body, _ := jsonschema.UnmarshalJSON(strings.NewReader(`{"loc":` + loc + `,"msg":"m","type":"t"}`))
		if err := fault.Validate(body); (err == nil) != good {
			t.Errorf("%s: %v", loc, err)
		}
	}
	attention := schemaOf(t, h, "JobAttention")
	for code := range openapi.Attentions {
		if err := attention.Validate(map[string]any{"code": string(code), "message": "m", "link": nil}); err != nil {
			t.Error(err)
		}
	}
	if attention.Validate(map[string]any{"code": "other", "message": "m", "link": nil}) == nil {
		t.Error("any code is an attention's")
	}
}

func TestOperations_AnswerJSONWhateverIsAccepted(t *testing.T) {
	h := New(newWorld().config())
	for _, accept := range []string{"", "*/*", "text/html", "application/xml", "application/json;q=0",
		"application/problem+json", "nonsense", "application/cbor"} {
		decode[any](t, ask(h, "GET", "/jobs_status", "", "Accept", accept), 200)
		failed(t, ask(h, "GET", "/unit_jobs/9", "", "Accept", accept), 404, "JOB_NOT_FOUND")
	}
}

func TestDocument_ExamplesAreAccepted(t *testing.T) {
	h := New(newWorld().config())
	d := read(t, h)
	examples := d.Paths["/unit_jobs"]["post"].RequestBody.Content["application/json"].Examples
	if len(examples) != 2 {
		t.Errorf("%d examples", len(examples))
	}
	for name, e := range examples {
		if a := ask(h, "POST", "/unit_jobs", string(e.Value)); a.Code != 201 {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
}

func TestDocs_WorkOffline(t *testing.T) {
	h := New(newWorld().config())
	for _, path := range []string{"/docs", "/docs/"} {
		a := ask(h, "GET", path, "", "Authorization", "")
		if a.Code != 200 || !strings.HasPrefix(a.Header().Get("Content-Type"), "text/html") {
			t.Fatalf("%s: %d %v", path, a.Code, a.Header())
		}
		page := a.Body.String()
		links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
		if len(links) < 3 || !strings.Contains(page, "/openapi.json") {
			t.Fatalf("page %s", page)
		}
		for _, link := range links {
			if !strings.HasPrefix(link[1], "/docs/") {
				t.Errorf("loads %s", link[1])
			} else if got := ask(h, "GET", link[1], "", "Authorization", "", "Accept-Encoding",
				"gzip"); got.Code != 200 {
				t.Errorf("%s: %d", link[1], got.Code)
			}
		}
		if p := a.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'self'") {
			t.Errorf("policy %q", p)
		}
	}
}
