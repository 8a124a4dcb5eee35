package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

// For programs, the root lists addresses.
func TestRoot_LeadsToTheDocuments(t *testing.T) {
	h := New(newWorld().config())
	for _, accept := range []string{"", "*/*", "application/json"} {
		links := decode[map[string]string](t, ask(h, "GET", "/", "", "Authorization", "", "Accept", accept), 200)
		for _, name := range []string{"documentation", "openapi", "health"} {
			if got := ask(h, "GET", links[name], "", "Authorization", ""); got.Code != 200 {
				t.Errorf("%s at %q: %d", name, links[name], got.Code)
			}
		}
	}
	failed(t, ask(h, "POST", "/", "", "Authorization", ""), 405, "METHOD_NOT_ALLOWED")
	below := newWorld().config()
	below.PublicURL = "https://host.example/eo"
	links := decode[map[string]string](t, ask(New(below), "GET", "/", "", "Authorization", ""), 200)
	if links["documentation"] != "/eo/docs" || links["openapi"] != "/eo/openapi.json" ||
		links["health"] != "/eo/health" {
		t.Errorf("below a path: %v", links)
	}
}

// Where a proxy serves the broker below a path, the documentation page finds its parts there.
func TestDocs_BelowAPath(t *testing.T) {
	c := withDocsSignIn("docs", &endpointSource{authorizationURL: signInAt, tokenURL: tokensAt})
	c.PublicURL = "https://host.example/eo"
	h := New(c)
	page := ask(h, "GET", "/docs", "", "Authorization", "").Body.String()
	addresses := regexp.MustCompile(`(?:src=|href=|JsonUrl":|origin \+ )"([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(addresses) != 7 {
		t.Errorf("addresses %q", addresses)
	}
	for _, address := range addresses {
		path, below := strings.CutPrefix(address[1], "/eo")
		if !below {
			t.Errorf("the page leads to %s", address[0])
		} else if got := ask(h, "GET", path, "", "Authorization", ""); got.Code != 200 {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
	if got := ask(h, "GET", "/redoc", "", "Authorization", "").Header().Get("Location"); got != "/eo/docs" {
		t.Errorf("/redoc leads to %s", got)
	}
}

// The page runs the scripts and applies the styles that it was made with and no others: the policy names each by its
// hash.
func TestDocs_PolicyNamesWhatIsInline(t *testing.T) {
	a := ask(New(newWorld().config()), "GET", "/docs", "", "Authorization", "")
	policy, page := a.Header().Get("Content-Security-Policy"), a.Body.String()
	if strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	for _, name := range []string{"script", "style"} {
		found := regexp.MustCompile(`(?s)<`+name+`>(.*?)</`+name+`>`).FindAllStringSubmatch(page, -1)
		if len(found) == 0 {
			t.Errorf("no inline %s", name)
		}
		for _, f := range found {
			sum := sha256.Sum256([]byte(f[1]))
			if hash := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, hash) {
				t.Errorf("%q does not allow the %s %.80q", policy, name, f[1])
			}
		}
	}
	if strings.Contains(page, " onload=") || strings.Contains(page, " style=") {
		t.Error("attributes of the page have scripts or styles, which have no hashes")
	}
}

// whole returns the OpenAPI document as JSON values.
func whole(t *testing.T, h API) (d struct {
	Info       struct{ Description string }
	Tags       []struct{ Name, Description string }
	Components struct{ Schemas map[string]json.RawMessage }
	Paths      map[string]map[string]struct {
		Tags        []string
		OperationID string `json:"operationId"`
	}
}, text []byte) {
	t.Helper()
	text = ask(h, "GET", "/openapi.json", "", "Authorization", "").Body.Bytes()
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d, text
}

// The introduction answers the first questions of newcomers, and the paths that it names exist.
func TestDocument_BeginsWithAnIntroduction(t *testing.T) {
	d, _ := whole(t, New(newWorld().config()))
	for _, heading := range []string{"### Sign in", "### A first job", "### Streams", "### Errors"} {
		if !strings.Contains(d.Info.Description, heading) {
			t.Errorf("no %s", heading)
		}
	}
	named := regexp.MustCompile("`(GET|POST) ([^`? ]+)").FindAllStringSubmatch(d.Info.Description+openapi.StreamsText,
		-1)
	if len(named) < 6 {
		t.Errorf("it names %q", named)
	}
	for _, m := range named {
		if _, ok := d.Paths[m[2]][strings.ToLower(m[1])]; !ok {
			t.Errorf("%s %s does not exist", m[1], m[2])
		}
	}
}

// Groups have the order of a user's work: jobs first, access last. Every operation is in one group, but for two that
// keep the groups of the deployed service.
func TestDocument_HasJobsFirstAndAccessLast(t *testing.T) {
	d, _ := whole(t, New(newWorld().config()))
	var order []string
	for _, tag := range d.Tags {
		order = append(order, tag.Name)
	}
	if len(order) == 0 || order[0] != "Unit Jobs" || order[len(order)-1] != "access" {
		t.Errorf("groups %v", order)
	}
	for path, methods := range d.Paths {
		for method, op := range methods {
			want := map[string]int{"/health": 0, "/jobs_status": 2}
			groups, ok := want[path]
			if !ok {
				groups = 1
			}
			if len(op.Tags) != groups || groups > 0 && !slices.Contains(order, op.Tags[0]) {
				t.Errorf("%s %s: groups %v", method, path, op.Tags)
			}
		}
	}
}

// The description of the streams names every address, parameter, message type and close code.
func TestDocument_DescribesTheStreams(t *testing.T) {
	d, _ := whole(t, New(newWorld().config()))
	i := slices.IndexFunc(d.Tags, func(tag struct{ Name, Description string }) bool { return tag.Name == "streams" })
	for _, want := range []string{"`/job_status`", "`/ws/jobs_status`", "`/ws/upscale_tasks/{task_id}`", "`interval`",
		"`filter`", "`changes=true`",
		"`parameters=false`", "`init`", "`loading`", "`status`", "`changes`", "`error`", "1001", "1008", "1011", "1013",
		"401", "403", "404", "422", "426", "429", "503",
		"POST /tickets", "bearer.TOKEN"} {
		if i < 0 || !strings.Contains(d.Tags[i].Description, want) {
			t.Errorf("%s is not described", want)
		}
	}
}

// Each enumeration is one named schema, and the operations or the streams use each schema.
func TestDocument_NamesItsModels(t *testing.T) {
	h := New(newWorld().config())
	d, text := whole(t, h)
	streams := ask(h, "GET", "/asyncapi.json", "").Body.Bytes()
	for list, name := range map[string]string{
		`["created","submitted","queued","running","finished","canceled","failed","unknown"]`: "ProcessingStatusEnum",
		`["openeo","ogc_api_process"]`: "ProcessTypeEnum", `["upscaling","processing","sync"]`: "JobsFilter"} {
		if n := bytes.Count(text, []byte(list)); n != 1 || !bytes.Contains(d.Components.Schemas[name], []byte(list)) {
			t.Errorf("%s stands %d times, and %s is %s", list, n, name, d.Components.Schemas[name])
		}
	}
	for name := range d.Components.Schemas {
		if at := []byte(openapi.SchemasPath + name + `"`); !bytes.Contains(text, at) && !bytes.Contains(streams, at) {
			t.Errorf("nothing uses the schema %s", name)
		}
	}
	if !bytes.Contains(text, []byte(`{"$ref":"#/components/schemas/Collection"}`)) {
		t.Error("the results of a job have no named model")
	}
}

func TestDocument_HasTheBrokersPlatformsInItsExamples(t *testing.T) {
	c := newWorld().config()
	c.Endpoints = map[dispatch.Label]string{dispatch.OpenEO: "https://openeo.mine.example.net",
		dispatch.OGCProcess: "https://ogc.mine.example.net"}
	_, text := whole(t, New(c))
	for _, made := range []string{`"endpoint":"https://openeo.example.org"`,
		`"endpoint":"https://processes.example.org"`} {
		if bytes.Contains(text, []byte(made)) {
			t.Errorf("an example has %s", made)
		}
	}
	for _, own := range c.Endpoints {
		if !bytes.Contains(text, []byte(own)) {
			t.Errorf("no example has %s", own)
		}
	}
}

// The test generates a Go client from the document, compiles it, and submits a job with it.
func TestGeneratedClient_SubmitsAJob(t *testing.T) {
	h := New(withDocsSignIn("docs", &endpointSource{authorizationURL: signInAt, tokenURL: tokensAt}))
	folder := t.TempDir()
	document, client := filepath.Join(folder, "openapi.json"), filepath.Join(folder, "client.go")
	_, text := whole(t, h)
	if err := os.WriteFile(document, text, 0o600); err != nil {
		t.Fatal(err)
	}
	const tools = "-modfile=../tools/go.mod"
	// builds the tool: go prints what it downloads
	if out, err := exec.CommandContext(t.Context(), "go", "tool", tools, "oapi-codegen",
		"-version").CombinedOutput(); err != nil {
		t.Fatalf("oapi-codegen: %v\n%s", err, out)
	}
	generate := exec.CommandContext(t.Context(), "go", "tool", tools, "oapi-codegen", "-generate", "types,client",
		"-package", "main", "-o", client, document)
	if out, err := generate.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("oapi-codegen: %v\n%s", err, out)
	}
	program, err := os.ReadFile("testdata/client/main.go")
	if err != nil {
		t.Fatal(err)
	}
	use := filepath.Join(folder, "main.go")
	if err := os.WriteFile(use, program, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	run := exec.CommandContext(t.Context(), "go", "run", tools, client, use, server.URL, "token-anna")
	var faults bytes.Buffer
	run.Stderr = &faults
	if out, err := run.Output(); err != nil || string(out) != "submitted submitted\n" {
		t.Errorf("the client: %v\n%s%s", err, out, &faults)
	}
}

// Addresses of documentation that the deployed service has lead to ours.
func TestDocs_AtTheAddressesOfTheDeployedService(t *testing.T) {
	h := New(newWorld().config())
	if a := ask(h, "GET", "/redoc", "", "Authorization", ""); a.Code != 307 || a.Header().Get("Location") != "/docs" {
		t.Errorf("/redoc: %d, %v", a.Code, a.Header())
	}
	a := ask(h, "GET", "/docs/oauth2-redirect", "", "Authorization", "")
	if a.Code != 200 || !strings.HasPrefix(a.Header().Get("Content-Type"), "text/html") {
		t.Errorf("/docs/oauth2-redirect: %d, %v", a.Code, a.Header())
	}
}

// The eleven operations of the deployed service have its names, groups and models, from which generators make the names
// of modules and classes. The enumerations have its words alone where the broker is configured for its clients.
func TestDocument_HasTheNamesOfTheDeployedService(t *testing.T) {
	c := newWorld().config()
	c.Compat, c.DocumentVersion = openapi.Compat{SubmittedAsCreated: true, ObjectAsString: true}, "0.9"
	d, text := whole(t, New(c))
	for operation, name := range map[string]string{
		"get /health": "health_health_get", "post /unit_jobs": "create_unit_job_unit_jobs_post",
		"get /unit_jobs/{job_id}":         "get_job_unit_jobs__job_id__get",
		"get /unit_jobs/{job_id}/results": "get_job_results_unit_jobs__job_id__results_get",
		"delete /unit_jobs/{job_id}":      "delete_job_unit_jobs__job_id__delete",
		"post /sync_jobs":                 "create_sync_job_sync_jobs_post",
		"post /params":                    "get_job_params_params_post",
		"post /upscale_tasks":             "create_upscale_task_upscale_tasks_post",
		"get /upscale_tasks/{task_id}":    "get_upscale_task_upscale_tasks__task_id__get",
		"get /jobs_status":                "get_jobs_status_jobs_status_get",
		"post /tiles":                     "split_in_tiles_tiles_post",
	} {
		method, path, _ := strings.Cut(operation, " ")
		if got := d.Paths[path][method].OperationID; got != name {
			t.Errorf("%s: %s", operation, got)
		}
	}
	for model, want := range map[string]string{
		"ProcessingStatusEnum": `["created","queued","running","finished","canceled","failed","unknown"]`,
		"ParamTypeEnum": `["datetime","date-interval","bounding-box","polygon","boolean",` +
			`"integer","double","string","array-string"]`,
		"ProcessTypeEnum": `["openeo","ogc_api_process"]`, "OutputFormatEnum": `["geojson","gtiff","json","netcdf"]`,
		"GridTypeEnum": `"20x20km"`, "ParameterDimension": `"values"`, "ServiceDetails": `"namespace"`,
		"ParamRequest":        `"service"`,
		"HTTPValidationError": "ValidationError", "GeometryCollection": "geometries",
		"UpscalingTaskRequest": "ParameterDimension",
	} {
		if !strings.Contains(string(d.Components.Schemas[model]), want) {
			t.Errorf("%s is %s", model, d.Components.Schemas[model])
		}
	}
	if !bytes.Contains(text, []byte(`"version":"0.9"`)) {
		t.Error("the document has not the version that is set")
	}
}
