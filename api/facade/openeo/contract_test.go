package openeo_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// contracts are the standard's own descriptions of the API (openeo-api, openapi.yaml) by the path of their version,
// against which every response of these tests is checked. They lie in the folder that EODISPATCH_STANDARDS names; nil
// without it.
//
// Of documents that platforms publish and users store the body is not checked: it is passed on as it is. Nor could it
// be: the standard demands of the schemas in it that exactly one of several alternatives matches, and two match such as
// {}.
var contracts = map[string]func() []contractPath{
	"1.2": sync.OnceValue(func() []contractPath { return contract("1.2.0") }),
	"1.3": sync.OnceValue(func() []contractPath { return contract("1.3.0") }),
}

func contract(version string) []contractPath {
	folder := os.Getenv("EODISPATCH_STANDARDS")
	if folder == "" {
		return nil
	}
	file := filepath.Join(folder, "openeo-api-"+version, "openapi.yaml")
	_, absent := os.Stat(file)
	if absent != nil {
		file = filepath.Join(folder, "openeo-api-1.2.0", "openapi.yaml")
	}
	document, err := openapi3.NewLoader().LoadFromFile(file)
	if err != nil {
		panic(err)
	}
	if absent != nil {
		becomeVersion13(document)
	}
	var all []contractPath
	for _, path := range document.Paths.InMatchingOrder() {
		pattern := parameter.ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		all = append(all, contractPath{path, regexp.MustCompile("^" + pattern + "$"), document.Paths.Value(path)})
	}
	return all
}

// becomeVersion13 changes the description of version 1.2.0 as version 1.3.0 differs for this server.
func becomeVersion13(document *openapi3.T) {
	root := document.Paths.Value("/").Get.Responses.Status(200).Value.Content.Get("application/json").Schema.Value
	root.Properties["api_version"] = openapi3.NewStringSchema().WithEnum("1.3.0").NewRef()
	root.Required = append(root.Required, "conformsTo", "type")
	for _, name := range []string{"queued", "started", "unpublished"} {
		document.Components.Schemas["batch_job"].Value.Properties[name] = openapi3.NewDateTimeSchema().NewRef()
	}
	id := openapi3.NewStringSchema().WithPattern(`^[\w\-\.~]+$`).NewRef()
	document.Paths.Value("/result").Post.Responses.Status(200).Value.Headers["OpenEO-Identifier"] = &openapi3.HeaderRef{
		Value: &openapi3.Header{Parameter: openapi3.Parameter{Schema: id}}}
}

var (
	parameter = regexp.MustCompile(`\\\{[^}]*\\\}`)
	passedOn  = regexp.MustCompile(`^/(collections|processes|process_graphs|file_formats|udf_runtimes)`)
	viewRoot  = regexp.MustCompile(`^/+openeo(/[^/]+)?/(1\.[23])`)
	slashes   = regexp.MustCompile(`/{2,}`)
)

type contractPath struct {
	path    string
	matches *regexp.Regexp
	item    *openapi3.PathItem
}

// checkContract checks a response to a request that the standard describes: its status, and its body.
func checkContract(t *testing.T, r *http.Request, got *httptest.ResponseRecorder) {
	t.Helper()
	path := slashes.ReplaceAllString(r.URL.Path, "/")
	root := viewRoot.FindStringSubmatch(path)
	if root == nil {
		return
	}
	path = "/" + strings.Trim(strings.TrimPrefix(path, root[0]), "/")
	for _, one := range contracts[root[2]]() {
		operation := one.item.GetOperation(r.Method)
		if !one.matches.MatchString(path) || operation == nil {
			continue
		}
		if passedOn.MatchString(one.path) && got.Code == http.StatusOK {
			return
		}
		if err := conforms(operation.Responses, got); err != nil {
			t.Errorf("%s %s differs from the standard: %v\n%.2000s", r.Method, one.path, err, got.Body)
		}
		return
	}
}

func conforms(responses *openapi3.Responses, got *httptest.ResponseRecorder) error {
	described := responses.Status(got.Code)
	if described == nil {
		return fmt.Errorf("it does not describe the status %d", got.Code)
	}
	for name, header := range described.Value.Headers {
		if text := got.Header().Get(name); text != "" && !fits(header.Value.Schema.Value, text) {
			return fmt.Errorf("the header %s is %s", name, text)
		}
	}
	if got.Code == http.StatusOK && described.Value.Headers["Content-Type"] != nil {
		return nil // a file
	}
	kind, _, _ := strings.Cut(got.Header().Get("Content-Type"), ";")
	content := described.Value.Content.Get(kind)
	switch {
	case len(described.Value.Content) == 0 && got.Body.Len() > 0:
		return fmt.Errorf("the status %d has no body", got.Code)
	case len(described.Value.Content) == 0:
		return nil
	case content == nil:
		return fmt.Errorf("it has no %q", kind)
	case content.Schema == nil:
		return nil
	}
	var body any
	if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
		return err
	}
	return content.Schema.Value.VisitJSON(body, openapi3.VisitAsResponse(), openapi3.DisableSchemaErrorDetails())
}

// fits reports whether the text of a header is a value that a schema allows.
func fits(schema *openapi3.Schema, text string) bool {
	n, err := strconv.ParseFloat(text, 64)
	return schema.VisitJSON(text) == nil || err == nil && schema.VisitJSON(n) == nil
}

// The responses that tests see are checked: the checks find what is wrong.
func TestContract_FindsFaults(t *testing.T) {
	t.Parallel()
	if contracts["1.2"]() == nil {
		t.Skip("EODISPATCH_STANDARDS does not name the folder of the standards")
	}
	for _, one := range contracts["1.2"]() {
		if one.path != "/jobs" {
			continue
		}
		for body, good := range map[string]bool{`{"jobs":[],"links":[]}`: true, `{"jobs":[]}`: false,
			`{"jobs":[{"id":"1","status":"created","created":"2024-06-01T00:00:00Z"}],"links":[]}`: true,
			`{"jobs":[{"id":"1","status":"waiting","created":"2024-06-01T00:00:00Z"}],"links":[]}`: false,
			`{"jobs":[{"id":1,"status":"created","created":"2024-06-01T00:00:00Z"}],"links":[]}`:   false} {
			got := httptest.NewRecorder()
			got.Header().Set("Content-Type", "application/json")
			_, _ = got.WriteString(body)
			if err := conforms(one.item.Get.Responses, got); (err == nil) != good {
				t.Errorf("%s: %v", body, err)
			}
		}
		return
	}
	t.Error("the standard does not describe /jobs")
}
