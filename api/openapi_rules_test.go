package api

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/client/wire"
)

// eachSchema calls visit for each schema below v with its place, such as Job.labels or TileRequest.aoi.type.
func eachSchema(v any, at string, visit func(at string, s map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			eachSchema(one, at, visit)
		}
	case map[string]any:
		visit(at, v)
		for key, below := range v {
			if key == "properties" {
				for name, property := range below.(map[string]any) {
					eachSchema(property, at+"."+name, visit)
				}
			} else if key != "enum" && key != "example" && key != "examples" {
				eachSchema(below, at, visit)
			}
		}
	}
}

// eachComponent calls visit for each schema below the components of the document.
func eachComponent(t *testing.T, visit func(at string, s map[string]any)) {
	t.Helper()
	for name, text := range read(t, New(newWorld().config())).Components.Schemas {
		var s any
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		eachSchema(s, name, visit)
	}
}

// Types that generators make of the document have the members that it names and no others, so that compilers find names
// that are misspelled. What platforms add to is open.
func TestDocument_OpensOnlyWhatOthersAddTo(t *testing.T) {
	open := []string{"JobOptions", "TaskOptions", "Collection", "Asset"}
	var found []string
	eachComponent(t, func(at string, s map[string]any) {
		if s["properties"] != nil && s["additionalProperties"] == true {
			found = append(found, at)
		}
	})
	slices.Sort(open)
	if slices.Sort(found); !slices.Equal(found, open) {
		t.Errorf("open are %q, want %q", found, open)
	}
}

// A list that a response always has is never null.
func TestDocument_ListsAreNeverNull(t *testing.T) {
	unknown := []string{"CatalogueService.formats", "CatalogueService.parameters"} // when a platform does not tell
	requests := map[string]bool{}
	for _, name := range []string{"AnnotationsPatch", "BaseJobRequest", "HookRequest", "JobChoice", "Notify",
		"ParamRequest", "ParameterDimension", "TileRequest", "UpscalingTaskRequest"} {
		requests[name] = true
	}
	var found []string
	eachComponent(t, func(at string, s map[string]any) {
		name, _, _ := strings.Cut(at, ".")
		if reflect.DeepEqual(s["type"], []any{"array", "null"}) && !requests[name] {
			found = append(found, at)
		}
	})
	if slices.Sort(found); !slices.Equal(found, unknown) {
		t.Errorf("null can be %q, want %q", found, unknown)
	}
	for path, methods := range read(t, New(newWorld().config())).Paths {
		for method, op := range methods {
			for status, response := range op.Responses {
				for _, content := range response.Content {
					if strings.Contains(string(content.Schema), `["array","null"]`) {
						t.Errorf("%s %s: %s: %s", method, path, status, content.Schema)
					}
				}
			}
		}
	}
}

// Members of requests have no default, by which generators of types take them for required. Their descriptions say what
// happens without them.
func TestDocument_RequestsHaveNoDefaults(t *testing.T) {
	eachComponent(t, func(at string, s map[string]any) {
		if _, found := s["default"]; found && s["type"] != nil {
			t.Errorf("%s has a default", at)
		}
	})
}

// What each operation with a body answers to one that does not arrive, is too large, is not JSON, or is not valid.
func TestDocument_BodiesHaveTheirStatuses(t *testing.T) {
	checked := 0
	for path, methods := range read(t, New(newWorld().config())).Paths {
		for method, op := range methods {
			if op.RequestBody.Content == nil {
				continue
			}
			checked++
			for _, status := range []string{"408", "413", "415", "422"} {
				if _, documented := op.Responses[status]; !documented {
					t.Errorf("%s %s: %s is not in the document", strings.ToUpper(method), path, status)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d operations have bodies", checked)
	}
}

// A member that the server always writes is required. namespace is one of requests, too, where it can be absent.
func TestDocument_RequiresWhatIsAlwaysSent(t *testing.T) {
	schemas := read(t, New(newWorld().config())).Components.Schemas
	for _, body := range []any{wire.CatalogueService{}, wire.Delivery{}, wire.ErrorResponse{}, wire.Estimate{},
		wire.Grant{}, wire.Grid{}, wire.NewHook{}, wire.Item{}, wire.ItemPage{}, wire.JobsStatusResponse{},
		wire.LogPage{}, wire.Parameter{}, wire.Platform{}, wire.ProcessingJob{}, wire.ServiceDetails{},
		wire.StatusChanges{}, wire.TaskCollection{}, wire.TaskDimensions{}, wire.TaskTiles{}, wire.UpscalingTask{},
		wire.Usage{}, wire.PlatformProgress{}, wire.ServiceList{}} {
		name := reflect.TypeOf(body).Name()
		var s struct{ Required []string }
		text, err := json.Marshal(body)
		var sent map[string]any
		if json.Unmarshal(schemas[name], &s) != nil || err != nil || json.Unmarshal(text, &sent) != nil {
			t.Fatal(name, err)
		}
		for member := range sent {
			if !slices.Contains(s.Required, member) && name+"."+member != "ServiceDetails.namespace" {
				t.Errorf("%s.%s is always sent, and is not required", name, member)
			}
		}
	}
	for _, member := range []string{"UpscalingTask.counts", "UpscalingTask.progress", "ProcessingJob.platform",
		"Collection.assets", "Collection.links", "Collection.extent"} {
		name, member, _ := strings.Cut(member, ".")
		var s struct{ Required []string }
		if err := json.Unmarshal(schemas[name], &s); err != nil || !slices.Contains(s.Required, member) {
			t.Errorf("%s.%s is not required: %v", name, member, err)
		}
	}
}

// The document has all codes of errors, which stand in the literals of refusals, and no others.
func TestDocument_HasTheCodesOfErrors(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "facade") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		ast.Inspect(file, func(n ast.Node) bool {
			if member, ok := n.(*ast.KeyValueExpr); ok {
				key, isName := member.Key.(*ast.Ident)
				if code, isText := member.Value.(*ast.BasicLit); isName && isText && key.Name == "Code" {
					found[strings.Trim(code.Value, `"`)] = true
				}
			}
			return true
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if codes := slices.Sorted(maps.Keys(found)); !slices.Equal(codes, call.Codes) {
		t.Errorf("the code has %q, and the document %q", codes, call.Codes)
	}
	var s struct{ Enum []string }
	text := read(t, New(newWorld().config())).Components.Schemas["ErrorCode"]
	if err := json.Unmarshal(text, &s); err != nil || !slices.Equal(s.Enum, call.Codes) {
		t.Errorf("%s: %v", text, err)
	}
}
