package parameters_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/parameters"
)

// A warning has at most 500 bytes, however many and long the names in a document are.
func TestUnchecked_IsShort(t *testing.T) {
	var described []dispatch.Parameter
	given := map[string]int{}
	for i := range 100 {
		name := fmt.Sprintf("%d%s", i, strings.Repeat("\x01é", 500))
		described = append(described, dispatch.Parameter{Name: name, Schema: json.RawMessage(`{"required":1}`)})
		given[name] = i
	}
	text, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	warning := parameters.NewSet(described).Unchecked(dispatch.Request{Parameters: text}, nil)
	if len(warning) > 500 || !strings.Contains(warning, `"0`) || strings.Contains(warning, "\x01") {
		t.Errorf("%d bytes: %q", len(warning), warning)
	}
}

// Parameters with the same schema get the same warning.
func TestWarning_OfOneSchema(t *testing.T) {
	schema := json.RawMessage(`{"properties":{"a":{"required":1},"b":{"required":1}}}`)
	set := parameters.NewSet([]dispatch.Parameter{{Name: "p", Schema: schema}, {Name: "q", Schema: schema}})
	if p, q := set.Warning("p"), set.Warning("q"); p == "" || q != strings.Replace(p, `"p"`, `"q"`, 1) {
		t.Errorf("%q and %q", p, q)
	}
}
