package openeo_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// contract is the standard's own description of the API (openeo-api 1.2.0, openapi.yaml), against which every response
// of these tests is checked. It lies in the folder that EODISPATCH_STANDARDS names; nil without it.
//
// Of documents that platforms publish and users store the body is not checked: it is passed on as it is. Nor could it
// be: the standard demands of the schemas in it that exactly one of several alternatives matches, and two match such as
// {}.
var contract = sync.OnceValue(func() []contractPath {
	folder := os.Getenv("EODISPATCH_STANDARDS")
	if folder == "" {
		return nil
	}
	document, err := openapi3.NewLoader().LoadFromFile(filepath.Join(folder, "openeo-api-1.2.0", "openapi.yaml"))
	if err != nil {
		panic(err)
	}
	var all []contractPath
	for _, path := range document.Paths.InMatchingOrder() {
		pattern := parameter.ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		all = append(all, contractPath{path, regexp.MustCompile("^" + pattern + "$"), document.Paths.Value(path)})
	}
	return all
})

var (
	parameter = regexp.MustCompile(`\\\{[^}]*\\\}`)
	passedOn  = regexp.MustCompile(`^/(collections|processes|process_graphs|file_formats|udf_runtimes)`)
	viewRoot  = regexp.MustCompile(`^/+openeo(/[^/]+)?/1\.2`)
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
	root := viewRoot.FindString(path)
	if root == "" {
		return
	}
	path = "/" + strings.Trim(strings.TrimPrefix(path, root), "/")
	for _, one := range contract() {
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

// The responses that tests see are checked: the checks find what is wrong.
func TestContract_FindsFaults(t *testing.T) {
	if contract() == nil {
		t.Skip("EODISPATCH_STANDARDS does not name the folder of the standards")
	}
	for _, one := range contract() {
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
