package ogcapi

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestInputSchema(t *testing.T) {
	for _, c := range []struct{ name, given, want string }{
		{"a plain type", `{"type":"string","format":"date"}`, `{"type":"string","format":"date"}`},
		{"null among types", `{"type":["number","null"],"minimum":1}`, `{"type":"number","nullable":true,"minimum":1}`},
		{"two types", `{"type":["number","string"]}`, `{"anyOf":[{"type":"number"},{"type":"string"}]}`},
		{"openEO's alternatives", `[{"type":"string","subtype":"date"},{"type":"null"}]`,
			`{"type":"string","nullable":true}`},
		{"alternatives of types", `[{"type":"string"},{"type":"number"}]`, `{"anyOf":[{"type":"string"},{"type":"number"}]}`},
		{"oneOf", `{"oneOf":[{"type":"string"},{"type":"null"}]}`, `{"type":"string","nullable":true}`},
		{"const", `{"const":"a"}`, `{"enum":["a"]}`},
		{"exclusive bounds as numbers", `{"type":"number","exclusiveMinimum":0,"maximum":5,"exclusiveMaximum":9}`,
			`{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":5}`},
		{"exclusive bounds as flags", `{"minimum":0,"exclusiveMinimum":true}`, `{"minimum":0,"exclusiveMinimum":true}`},
		{"a list without items", `{"type":"array"}`, `{"type":"array","items":{}}`},
		{"items one by one", `{"type":"array","items":[{"type":"number"}]}`, `{"type":"array","items":{}}`},
		{"members", `{"type":"object","properties":{"a":{"type":["integer","null"]}},"required":["a"],"patternProperties":{}}`, `{"type":"object","properties":{"a":{"type":"integer","nullable":true}},"required":["a"]}`},
		{"references", `{"$ref":"#/definitions/a","definitions":{"a":{}}}`, `{}`},
		{"empty lists", `{"enum":[],"required":[],"anyOf":[]}`, `{}`},
		{"words of the wrong kind", `{"minimum":"1","pattern":7,"nullable":"yes","type":"file"}`, `{}`},
		{"no schema", ``, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := roundTrip(t, inputSchema(dispatch.Parameter{Schema: json.RawMessage(c.given)}))
			var want any
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInputSchema_OfParameters(t *testing.T) {
	got := inputSchema(dispatch.Parameter{Type: dispatch.BoundingBox,
		Schema: json.RawMessage(`{"type":"object","subtype":"bounding-box"}`), Nullable: true,
		Default: json.RawMessage("null")})
	if got["format"] != formatBbox || got["nullable"] != true || got["default"] != nil {
		t.Errorf("bounding box %v", got)
	}
	got = inputSchema(dispatch.Parameter{Type: dispatch.Integer, Schema: json.RawMessage(`{"type":"integer"}`),
		Default: json.RawMessage("7")})
	if got["default"] != 7.0 {
		t.Errorf("default %v", got)
	}
	if in := inputOf(dispatch.Parameter{Name: "a", Type: dispatch.ArrayString,
		Schema: json.RawMessage(`{"type":"string"}`)}); in.MaxOccurs != "unbounded" || in.MinOccurs != 1 {
		t.Errorf("%+v", in)
	}
}

func roundTrip(t interface{ Fatal(...any) }, v any) (out any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// schemas draws schemas of JSON Schema draft-07.
func schemas(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		s := map[string]any{}
		if rapid.Bool().Draw(t, "typed") {
			s["type"] = rapid.SampledFrom([]any{"string", "number", "object", "array", []any{"null", "number"},
				[]any{"string", "number"}, "null"}).Draw(t, "type")
		}
		for _, word := range []string{"minimum", "exclusiveMinimum", "exclusiveMaximum", "maximum"} {
			if rapid.IntRange(0, 3).Draw(t, "has "+word) == 0 {
				s[word] = float64(rapid.IntRange(-2, 2).Draw(t, word))
			}
		}
		if rapid.IntRange(0, 5).Draw(t, "const") == 0 {
			s["const"] = rapid.SampledFrom([]any{1.0, "a"}).Draw(t, "constant")
		}
		if depth > 0 && rapid.Bool().Draw(t, "combined") {
			s[rapid.SampledFrom([]string{"anyOf", "oneOf", "allOf"}).Draw(t, "word")] = roundTrip(t,
				rapid.SliceOfN(schemas(depth-1), 1, 3).Draw(t, "parts"))
		}
		if depth > 0 && rapid.Bool().Draw(t, "nested") {
			s["items"] = roundTrip(t, schemas(depth-1).Draw(t, "items"))
			s["properties"] = map[string]any{"a": roundTrip(t, schemas(depth-1).Draw(t, "member"))}
		}
		return s
	})
}

var values = rapid.SampledFrom([]any{nil, 0.0, 1.0, -2.0, 2.0, 1.5, "a", "", []any{}, []any{1.0, "a"}, map[string]any{},
	map[string]any{"a": 1.0}, map[string]any{"a": nil}})

// TestOpenAPISchema_AllowsNoLess: a value that a schema allows is allowed by the schema that clients see.
func TestOpenAPISchema_AllowsNoLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := schemas(2).Draw(t, "schema")
		shown := roundTrip(t, openAPISchema(given, 0))
		value := values.Draw(t, "value")
		if compiled(t, given).Validate(value) == nil && compiled(t, jsonSchema(shown)).Validate(value) != nil {
			t.Fatalf("%v is allowed by %v and not by %v", value, given, shown)
		}
	})
}

func compiled(t *rapid.T, schema any) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("mem:s", schema); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:s")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// jsonSchema translates a schema of OpenAPI 3.0, in which nullable has an effect on the schema that has it.
func jsonSchema(given any) any {
	switch v := given.(type) {
	case []any:
		out := make([]any, len(v))
		for i, part := range v {
			out[i] = jsonSchema(part)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for word, part := range v {
			switch word {
			case "nullable", "exclusiveMinimum", "exclusiveMaximum":
			case "enum":
				out[word] = part
			default:
				out[word] = jsonSchema(part)
			}
		}
		if v["nullable"] == true {
			return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
		}
		return out
	}
	return given
}

// TestFormatSchema_OfARecord: an execution can have other formats than those that a record names, because only the
// platform refuses formats.
func TestFormatSchema_OfARecord(t *testing.T) {
	listed := []dispatch.OutputFormat{{Name: "GTiff"}}
	for want, got := range map[string]map[string]any{
		`{"enum":["GTiff"],"type":"string"}`:       formatSchema(listed, []string{"GeoTIFF"}),
		`{"examples":["GeoTIFF"],"type":"string"}`: formatSchema(nil, []string{"GeoTIFF"}),
		`{"type":"string"}`:                        formatSchema(nil, nil),
	} {
		if text, err := json.Marshal(got); err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
	}
}
