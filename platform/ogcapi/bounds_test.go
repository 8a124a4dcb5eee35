package ogcapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestManyAssetsOfOneName: 552 KB of them took 6 s when each looked for its number from 2 on.
func TestManyAssetsOfOneName(t *testing.T) {
	const n = 13_000
	item := `{"id":"a","value":"https://h.example/b.tif"},`
	body := `{"outputs":[` + strings.TrimSuffix(strings.Repeat(item, n), ",") + `]}`
	at, _ := url.Parse("https://h.example/results")
	began := time.Now()
	got, err := toCollection("j", document{at: at, header: http.Header{"Content-Type": {"application/json"}}, body: []byte(body)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 3*time.Second { // about 0.2 s on a quiet machine
		t.Errorf("it took %v", took)
	}
	var c struct{ Assets map[string]json.RawMessage }
	if json.Unmarshal(got, &c) != nil || len(c.Assets) != n || c.Assets["a"] == nil || c.Assets["a-2"] == nil || c.Assets[fmt.Sprintf("a-%d", n)] == nil {
		t.Errorf("%d assets", len(c.Assets))
	}
}

// TestRepeatedInputsKeepTheirReferences: an input that may occur several times is checked by its definitions, too.
func TestRepeatedInputsKeepTheirReferences(t *testing.T) {
	all, set := describeInputs(json.RawMessage(`{"n":{"maxOccurs":3,"schema":{"$ref":"#/definitions/i","definitions":{"i":{"type":"integer"}}}}}`))
	if len(all) != 1 || all[0].Warning != "" {
		t.Fatalf("got %+v", all)
	}
	for value, good := range map[string]bool{`1`: true, `[1,2]`: true, `"x"`: false, `["x"]`: false} {
		err := set.Check(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"n":` + value + `}`)}, nil)
		if good != (err == nil) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
