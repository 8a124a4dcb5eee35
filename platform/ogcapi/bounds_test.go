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

// TestToCollection_ManyAssetsOfOneName: 552 KB of assets with one name took 6 s when each searched its number from 2
// on. Sixteen times as many must take less than 100 times as long, and took 256 times as long then.
func TestToCollection_ManyAssetsOfOneName(t *testing.T) {
	const n = 13_000
	few, many := costOfAssets(t, n/16), costOfAssets(t, n)
	if ratio := float64(many) / float64(few); ratio > 100 {
		t.Errorf("%v against %v, %.1f times", many, few, ratio)
	}
}

// costOfAssets returns the shortest of three measurements with n assets of one name.
func costOfAssets(t *testing.T, n int) time.Duration {
	t.Helper()
	item := `{"id":"a","value":"https://h.example/b.tif"},`
	body := `{"outputs":[` + strings.TrimSuffix(strings.Repeat(item, n), ",") + `]}`
	at, _ := url.Parse("https://h.example/results")
	var got []byte
	shortest := time.Hour
	for range 3 {
		began := time.Now()
		var err error
		if got, err = toCollection("j", document{at: at, header: http.Header{"Content-Type": {"application/json"}},
			body: []byte(body)}, expectNothing, nil); err != nil {
			t.Fatal(err)
		}
		shortest = min(shortest, time.Since(began))
	}
	var c struct{ Assets map[string]json.RawMessage }
	if json.Unmarshal(got, &c) != nil || len(c.Assets) != n || c.Assets["a"] == nil || c.Assets["a-2"] == nil ||
		c.Assets[fmt.Sprintf("a-%d", n)] == nil {
		t.Errorf("%d assets", len(c.Assets))
	}
	return shortest
}

// TestDescribeInputs_RepeatedInputsKeepTheirReferences: an input that may occur several times is also checked by its
// definitions.
func TestDescribeInputs_RepeatedInputsKeepTheirReferences(t *testing.T) {
	all, set := describeInputs(json.RawMessage(
		`{"n":{"maxOccurs":3,"schema":{"$ref":"#/definitions/i","definitions":{"i":{"type":"integer"}}}}}`))
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
