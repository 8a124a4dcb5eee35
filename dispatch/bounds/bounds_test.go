package bounds_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

func TestMeter_StopsAtItsBound(t *testing.T) {
	m := bounds.Bound{Name: "b", Most: 1_500, Unit: "steps"}.Meter(t.Context())
	if !m.Spend(1_500) || m.Err() != nil {
		t.Fatalf("stopped at the bound: %v", m.Err())
	}
	if m.Spend(1) || m.Spend(0) {
		t.Fatal("it goes on beyond the bound")
	}
	if got := m.Err().Error(); got != "more than 1,500 steps (bound b)" {
		t.Fatalf("got %q", got)
	}
}

func TestMeter_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := bounds.Bound{Name: "b", Most: 1 << 40}.Meter(ctx)
	if !m.Spend(1) {
		t.Fatal("it stops at once")
	}
	cancel()
	steps := 0
	for ; m.Spend(1) && steps < 1<<20; steps++ {
	}
	if !errors.Is(m.Err(), context.Canceled) || steps > 10_000 {
		t.Fatalf("after %d steps: %v", steps, m.Err())
	}
}

func TestNumbers_HaveBounds(t *testing.T) {
	for text, bound := range map[string]string{
		`{"a":[1e400,-2.5E-400,0,"1e999999"]}`:                      "",
		`{"a":1e401}`:                                               "number_exponent",
		`[1,-1E-0999999]`:                                           "number_exponent",
		`[1e99999999999999999999999999]`:                            "number_exponent",
		`["\"1e9",1e9999]`:                                          "number_exponent",
		`[` + strings.Repeat("1", 10_001) + `]`:                     "number_length",
		`[` + strings.Repeat("1", 10_000) + `]`:                     "",
		`{"text":"` + strings.Repeat("1", 10_001) + `","e":"1e999"`: "",
	} {
		err := bounds.Numbers([]byte(text))
		exceeded, _ := errors.AsType[*bounds.Exceeded](err)
		if bound == "" && err != nil || bound != "" && (exceeded == nil || exceeded.Bound.Name != bound) {
			t.Errorf("%.40s: got %v, want %q", text, err, bound)
		}
	}
}

func FuzzNumbers(f *testing.F) {
	for _, seed := range []string{`[1e400]`, `{"a":-0.1e-401}`, `"\\"1`, `1e`, `-`, `["`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := bounds.Numbers(text); err != nil && !strings.Contains(err.Error(), "(bound number_") {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// docs/security.md lists each bound with its default.
func TestAll_IsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bounds.All() {
		most := strings.TrimPrefix(strings.Split((&bounds.Exceeded{Bound: b}).Error(), " "+b.Unit)[0], "more than ")
		if !strings.Contains(string(text), "| `"+b.Name+"` | "+most+" "+b.Unit+" |") {
			t.Errorf("docs/security.md has no row | `%s` | %s %s |", b.Name, most, b.Unit)
		}
	}
}

func TestValues_AndEntries(t *testing.T) {
	for text, want := range map[string][2]int64{
		`[]`: {1, 0}, ` { } `: {1, 0}, `[1,2,-3e4]`: {1, 3}, `{"a":[true,null],"b\",c":{"d":"}"}}`: {9, 2}, `"a,b"`: {1, 0},
		`7`: {0, 0}, ``: {0, 0},
		`[[],[]]`: {3, 2}, `["a"]`: {2, 1}, `[[1,2],{"a":3}]`: {4, 2},
	} {
		if v, e := bounds.Values([]byte(text)), bounds.Entries([]byte(text)); v != want[0] || e != want[1] {
			t.Errorf("%s: %d values and %d entries, want %v", text, v, e, want)
		}
	}
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte(`[1,{"a":[2,3]},"b,"]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var list []json.RawMessage
		if json.Unmarshal(text, &list) == nil && int64(len(list)) != bounds.Entries(text) {
			t.Errorf("%q: %d, not %d", text, bounds.Entries(text), len(list))
		}
		if bounds.Values(text) > int64(len(text)) {
			t.Errorf("%q: %d values", text, bounds.Values(text))
		}
	})
}
