package parameters_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/parameters"
)

// smaller divides the sizes of costly values and the bound on checking them, because the race detector slows these
// tests ten times.
var smaller = 1

// fewerSteps lets a value that is smaller meet its bound as the whole one does.
func fewerSteps(t *testing.T) {
	most := bounds.CheckSteps.Most
	t.Cleanup(func() { bounds.CheckSteps.Most = most })
	bounds.CheckSteps.Most /= int64(smaller)
}

// list returns a list of an item so many times.
func list(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }

// long returns a list of a length that shrinks with the bound on checking it.
func long(item string, n int) string { return list(item, max(1, n/smaller)) }

// nested returns a schema with a keyword of the wrong form at each level.
func nested(levels int) string {
	return strings.Repeat(`{"required":1,"items":`, levels) + "{}" + strings.Repeat("}", levels)
}

// fan returns definitions that each refer to the next one several times.
func fan(keyword string, levels, times int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/definitions/d0","definitions":{`)
	for i := range levels {
		ref := fmt.Sprintf(`{"$ref":"#/definitions/d%d"}`, i+1)
		fmt.Fprintf(&b, `"d%d":{%q:[%s]},`, i, keyword, strings.TrimSuffix(strings.Repeat(ref+",", times), ","))
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string","enum":["a","b"]}}}`, levels)
	return b.String()
}

func enum(n int) string {
	var b strings.Builder
	b.WriteString(`{"enum":[`)
	for i := range n {
		fmt.Fprintf(&b, `"value %d",`, i)
	}
	return b.String() + `"last"]}`
}

func circle() string {
	return `{"$ref":"#/definitions/a","definitions":{"a":{"allOf":[{"$ref":"#/definitions/b"}]},"b":{"anyOf":[{"$ref":"#/definitions/a"},{"type":"string"}]}}}`
}

// tree is a recursive schema that visits each level of a value twice.
const tree = `{"$ref":"#/definitions/t","definitions":{"t":{"allOf":[{"properties":{"a":{"$ref":"#/definitions/t"}}},{"properties":{"a":{"$ref":"#/definitions/t"}}}]}}}`

func TestSchemas_Cost(t *testing.T) {
	fewerSteps(t)
	for name, row := range map[string]struct{ schema, value string }{
		"1 KB of keywords of the wrong form": {nested(41), `"x"`},
		"references that fan out, anyOf":     {fan("anyOf", 30, 2), `"x"`},
		"references that fan out, allOf":     {fan("allOf", 30, 2), `"x"`},
		"references that fan out, 1.3 KB":    {fan("oneOf", 8, 8), `"x"`},
		"references in a circle":             {circle(), `"x"`},
		"items in a circle": {`{"items":{"$ref":"#"}}`,
			strings.Repeat("[", 60) + strings.Repeat("]", 60)},
		"a long enumeration":                   {enum(15_000), `"nothing"`},
		"a value that is looked at 2^60 times": {tree, strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)},
		"a pattern of a million instructions": {`{"pattern":"` + strings.Repeat("(x{1000}y)", 300) + `"}`, `"` +
			strings.Repeat("x", 100_000) + `"`},
		"a deep schema":    {nested(100_000), `"x"`},
		"a million values": {`{"default":[` + strings.Repeat("1,", 500_000) + `1]}`, `"x"`},
		"huge exponents":   {`{"enum":[` + strings.Repeat("1e999999,", 200) + `1],"type":"number"}`, `1`},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			r := parameters.NewReader(t.Context())
			p := r.Describe(dispatch.Parameter{Name: "p", Schema: json.RawMessage(row.schema)})
			set := r.NewSet([]dispatch.Parameter{p})
			err := set.Check(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"p":` + row.value + `}`)}, nil)
			t.Logf("%v, %d steps, warning %.200q, error %.200v", time.Since(began), r.Steps(), p.Warning, err)
			if steps := r.Steps(); steps > 130_000 {
				t.Errorf("it took %d steps", steps)
			}
			if took := time.Since(began); took > time.Minute { // about 0.1 s on a quiet machine
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Each comparison with a value counts all of its depth and digits.
func TestCheck_CostOfComparing(t *testing.T) {
	fewerSteps(t)
	alternatives := func(schema string, n int) string {
		return `{"anyOf":[` + strings.Repeat(schema+",", n) + `{"type":"array"}]}`
	}
	digits := strings.Repeat("7", 9_000)
	for name, row := range map[string]struct{ schema, value string }{
		"a nested value in long enumerations": {alternatives(`{"enum":`+list("1", 20)+`}`, 900),
			"[" + long("1", 100_000) + "]"},
		"a constant list": {`{"items":` + alternatives(`{"const":`+list("1", 99)+`}`, 190) + `}`,
			long(list("1", 98)[:196]+",2]", 2_000)},
		"a short enumeration of lists": {`{"items":` + alternatives(`{"enum":[`+list("1", 99)+`]}`, 180) + `}`,
			long(list("1", 98)[:196]+",2]", 2_000)},
		"a nested value of unique items": {`{"allOf":` + list(`{"uniqueItems":true}`, 900) + `}`, "[" +
			long("1", 20_000) + "]"},
		"long numbers": {`{"items":{"anyOf":` + list(`{"maximum":1}`, 900) + `}}`, long(digits, 100)},
		"long divisors": {`{"items":{"anyOf":` + list(`{"multipleOf":0.`+digits+`}`, 30) + `}}`,
			long("1", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			set := parameters.NewSet([]dispatch.Parameter{{Name: "p", Schema: json.RawMessage(row.schema)}})
			err := set.Check(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"p":` + row.value + `}`)}, nil)
			if !dispatch.Is(err, dispatch.Invalid) || !strings.Contains(err.Error(), "(bound check_steps)") {
				t.Errorf("%.300v", err)
			}
		})
	}
}

// No value of 1 MiB takes much memory, or time, to check: neither if nothing fits, nor in exact arithmetic, nor with
// regular expressions. Valid values of ordinary form are checked completely.
func TestCheck_CostOfElements(t *testing.T) {
	fewerSteps(t)
	all := func(schema string) string { return `{"allOf":` + list(schema, 900) + `}` }
	var names strings.Builder
	for i := range 80_000 / smaller {
		fmt.Fprintf(&names, `"a%d":1,`, i)
	}
	object := "{" + names.String() + `"b":1}`
	const refused, faulty, good = "(bound check_steps)", "is not valid", ""
	for name, row := range map[string]struct{ schema, value, want string }{
		"elements that are not contained": {all(`{"contains":{"type":"string"}}`), long("1", 500_000), refused},
		"elements of the wrong type":      {all(`{"items":{"type":"string"}}`), long("1", 500_000), refused},
		"the same with a format": {`{"allOf":` + list(`{"format":"date","items":{"type":"string"}}`, 400) + `}`,
			long("1", 500_000), refused},
		"elements of no alternative": {`{"items":{"anyOf":[{"type":"string"},{"type":"object"}]}}`, long("1", 500_000),
			refused},
		"members of the wrong type":      {all(`{"additionalProperties":{"type":"string"}}`), object, refused},
		"multiples":                      {`{"items":{"multipleOf":7}}`, long("1", 500_000), refused},
		"multiples of huge numbers":      {`{"items":{"multipleOf":1e300}}`, long("1e-400", 140_000), refused},
		"huge numbers in a list":         {`{"items":{"enum":[1e400,1e399]}}`, long("1e400", 170_000), refused},
		"regular expressions in a value": {`{"items":{"format":"regex"}}`, long(`"(x{1000}){1}"`, 70_000), good},
		"480,000 numbers":                {`{"items":{"type":"number"}}`, long("1", 480_000), good},
		"50,000 positions": {
			`{"type":"array","items":{"type":"array","items":{"type":"array","minItems":2,"items":{"type":"number"}}}}`,
			list(long("[1.12345,2.12345]", 1_000), 50), good},
		"a format beside elements":         {`{"format":"date","items":{"type":"string"}}`, `"yesterday"`, faulty},
		"a format beside elements that is": {`{"format":"date","items":{"type":"string"}}`, `"2026-11-22"`, good},
		"a regular expression":             {`{"format":"regex"}`, `"^a+$"`, good},
		"no regular expression":            {`{"format":"regex"}`, `"("`, faulty},
	} {
		t.Run(name, func(t *testing.T) {
			set := parameters.NewSet([]dispatch.Parameter{{Name: "p", Schema: json.RawMessage(row.schema)}})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := set.Check(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"p":` + row.value + `}`)}, nil)
			runtime.ReadMemStats(&after)
			if row.want == good && err != nil || row.want != good &&
				(err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%.300v, want %q", err, row.want)
			}
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > uint64(20+380/smaller) {
				t.Errorf("%d MiB allocated", mib)
			} else {
				t.Logf("%d MiB allocated", mib)
			}
		})
	}
}

// A set is cached and checks several requests at once.
func TestCheck_SeveralRequestsAtOnce(t *testing.T) {
	set := parameters.NewSet([]dispatch.Parameter{parameters.Describe(dispatch.Parameter{Name: "p",
		Schema: json.RawMessage(
			`{"type":"object","subtype":"bounding-box","required":["west"],"properties":{"type":{"enum":["box"]},"west":{"type":"number"}}}`)})})
	var checks sync.WaitGroup
	for range 8 {
		checks.Go(func() {
			err := set.Check(t.Context(),
				dispatch.Request{Parameters: json.RawMessage(`{"p":{"type":"Point","coordinates":[4,50]}}`)}, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	checks.Wait()
}

func TestCheck_RefusesHugeNumbers(t *testing.T) {
	set := parameters.NewSet([]dispatch.Parameter{{Name: "p",
		Schema: json.RawMessage(`{"type":"array","items":{"type":"number","maximum":5}}`)}})
	for _, number := range []string{"1e999999", "-1E-401", strings.Repeat("9", 10_001)} {
		err := set.Check(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"p":[` + number + `]}`)}, nil)
		if !dispatch.Is(err, dispatch.Invalid) || !strings.Contains(err.Error(), "(bound number_") {
			t.Errorf("%.20s: %v", number, err)
		}
	}
}

// A value that does not fit the target of a reference is a fault.
func TestCheck_LocalReferences(t *testing.T) {
	for name, row := range map[string]struct{ schema, good, bad string }{
		"definitions": {`{"$ref":"#/definitions/n","definitions":{"n":{"type":"integer"}}}`, `1`, `"x"`},
		"$defs":       {`{"$ref":"#/$defs/n","$defs":{"n":{"type":"integer"}}}`, `1`, `"x"`},
		"within properties": {
			`{"type":"object","properties":{"a":{"$ref":"#/definitions/n"}},"definitions":{"n":{"type":"integer"}}}`,
			`{"a":1}`, `{"a":"x"}`},
		"nullable at the root": {
			`{"nullable":true,"type":"object","properties":{"a":{"$ref":"#/definitions/n"}},"definitions":{"n":{"type":"integer"}}}`, `{"a":1}`, `{"a":"x"}`},
		"from an alternative":    {`[{"type":"integer"},{"type":"array","items":{"$ref":"#/0"}}]`, `[1]`, `["x"]`},
		"a reference to another": {`{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/b"},"b":{"type":"integer"}}}`, `1`, `"x"`},
		"escaped": {`{"$ref":"#/definitions/a~1b%25","definitions":{"a/b%":{"type":"integer"}}}`, `1`,
			`"x"`},
		"a tree": {
			`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"next":{"$ref":"#"}}}`,
			`{"n":1,"next":{"n":2}}`, `{"n":1,"next":{}}`},
		"a long enumeration":     {enum(1_000), `"value 999"`, `"value 1000"`},
		"a long list of numbers": {`{"enum":[` + strings.Repeat("7,", 30) + `1.50]}`, `15e-1`, `2`},
	} {
		t.Run(name, func(t *testing.T) {
			p := parameters.Describe(dispatch.Parameter{Name: "p", Schema: json.RawMessage(row.schema)})
			if p.Warning != "" {
				t.Errorf("warning %q", p.Warning)
			}
			set := parameters.NewSet([]dispatch.Parameter{p})
			if err := set.Check(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"p":` + row.good + `}`)},
				nil); err != nil {
				t.Errorf("%s: %v", row.good, err)
			}
			if err := set.Check(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"p":` + row.bad + `}`)},
				nil); !dispatch.Is(err, dispatch.Invalid) {
				t.Errorf("%s: %v", row.bad, err)
			}
		})
	}
}

// The warning names what is not understood, and the rest is checked.
func TestWarning_OddSchemas(t *testing.T) {
	for schema, warned := range map[string]string{
		`{"type":"integer","required":1}`:                     `"required" is not a list of names`,
		`{"type":"integer","allOf":[{"$ref":"#/nowhere"}]}`:   `the reference "#/nowhere" has no target`,
		`{"type":"integer","pattern":"("}`:                    `"pattern" is not a valid regular expression within the bound schema_pattern`,
		`{"type":"integer","items":{"type":"nonsense"}}`:      `"type" is not a type, or a list of types`,
		`{"type":"integer","title":5,"examples":[1],"x-a":1}`: ``,
	} {
		p := parameters.Describe(dispatch.Parameter{Name: "p", Schema: json.RawMessage(schema)})
		if warned == "" && p.Warning != "" || !strings.Contains(p.Warning, warned) {
			t.Errorf("%s: warning %q", schema, p.Warning)
		}
		set := parameters.NewSet([]dispatch.Parameter{p})
		if err := set.Check(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"p":"x"}`)},
			nil); !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%s takes a text: %v", schema, err)
		}
	}
}

func TestCheck_EndsWithItsContext(t *testing.T) {
	set := parameters.NewSet([]dispatch.Parameter{{Name: "p", Schema: json.RawMessage(tree)}})
	ctx := done(t)
	err := set.Check(ctx, dispatch.Request{Parameters: json.RawMessage(`{"p":{"a":1}}`)}, nil)
	if !dispatch.Is(err, dispatch.Unavailable) || !errors.Is(err, ctx.Err()) {
		t.Fatalf("got %v", err)
	}
}

func done(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
