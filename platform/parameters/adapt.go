package parameters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// adapter converts a schema as openEO or OpenAPI 3.0 writes it to JSON Schema draft-07: arrays of alternatives,
// nullable, boolean exclusive bounds, alternatives that differ in more than values show, and subtypes that imply more
// than their keywords. A keyword whose value has the wrong form is left out and becomes a fault, so that the rest can
// still be checked.
//
// References into the document become references to definitions of the new one, one for each target, because positions
// change. References to other documents are ignored: nothing is fetched.
type adapter struct {
	doc         *document
	targets     map[*node]string // the name of each target's definition
	definitions map[string]any
	faults      []string
}

func (a *adapter) fault(format string, args ...any) {
	const most = 20
	if len(a.faults) < most {
		a.faults = append(a.faults, fmt.Sprintf(format, args...))
	}
}

func (a *adapter) adapt(n *node) any {
	if !a.doc.reader.steps.Spend(1) {
		return true
	}
	switch n.kind() {
	case '[':
		if len(n.list) == 0 {
			return true
		}
		return map[string]any{"anyOf": convertList(n, a.adapt), costWord: cost(len(n.list))}
	case '{':
		return a.object(n)
	case 't', 'f':
		return n.kind() == 't'
	}
	a.fault("%s is not a schema", short(string(n.raw)))
	return true
}

// Checking one value against one schema costs failSteps, which the schema around it pays in advance, and visitSteps
// with the costs of the schema's keywords, which follow. For a value of the wrong type only the first part is paid,
// since the library then skips the keywords.
const (
	failSteps  = 8 // the library creates an error for each value that is not valid
	visitSteps = 1
)

func cost(n int) json.Number { return json.Number(strconv.Itoa(visitSteps + n)) }

func (a *adapter) object(n *node) any {
	if ref, ok := n.members["$ref"].text(); ok {
		return a.reference(ref)
	}
	out := map[string]any{}
	for name, value := range n.members {
		switch k := vocabulary[name]; {
		case k.valid == nil: // it does not restrict values
		case k.valid(value):
			a.keyword(out, n, name, value)
		default:
			a.fault("%q is not %s", name, k.what)
		}
	}
	relaxOneOf(out)
	addImplied(out)
	prepay(out)
	out[costWord] = cost(len(n.members) + weight(out))
	if n.members["nullable"].isTrue() {
		return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}, costWord: cost(2)}
	}
	return out
}

// relaxOneOf has a value match any of the alternatives of oneOf, in place of exactly one. What tells alternatives apart
// is often no part of the value, such as the media type of a text, or in a document that is not read. Then values of
// every alternative would be refused.
func relaxOneOf(out map[string]any) {
	list, found := out["oneOf"]
	if !found {
		return
	}
	delete(out, "oneOf")
	if _, both := out["anyOf"]; !both {
		out["anyOf"] = list
		return
	}
	inner := map[string]any{"anyOf": list}
	inner[costWord] = cost(weight(inner))
	all, _ := out["allOf"].([]any)
	out["allOf"] = append(all, inner)
}

// weight is the cost of visiting a schema beyond one step for each keyword.
func weight(out map[string]any) (n int) {
	for name, value := range out {
		k := vocabulary[name]
		if k.inPlace {
			n += failSteps * len(parts(value))
		}
		if k.cost != nil {
			n += k.cost(value)
		}
	}
	return n
}

// prepay charges for the elements and members of a value before the library checks them. It does so in a format,
// because the library checks formats first.
func prepay(out map[string]any) {
	times := prepaid(out)
	if times == 0 {
		return
	}
	if own, set := out["format"]; set { // the schema's own format, which moves to a schema of its own
		all, _ := out["allOf"].([]any)
		out["allOf"] = append(all, map[string]any{"format": own, costWord: cost(1)})
	}
	out["format"] = prepayFormat(times)
}

func prepayFormat(times int) string { return "x-cost-" + strconv.Itoa(times) }

// keyword translates a keyword whose value has the required form.
func (a *adapter) keyword(out map[string]any, n *node, keyword string, value *node) {
	switch keyword {
	case "exclusiveMinimum", "exclusiveMaximum":
		bound := map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[keyword]
		if k := value.kind(); k != 't' && k != 'f' {
			out[keyword] = value.value()
		} else if limit := n.members[bound].number(); k == 't' && limit != nil {
			out[keyword] = *limit
		}
	case "enum":
		out[valuesWord] = value.value()
	case "const":
		out[valueWord] = value.value()
	default:
		out[keyword] = vocabulary[keyword].convert(value, a.adapt)
	}
}

// value decodes a node and keeps its numbers as written.
func (n *node) value() any {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(n.raw))
	if err != nil {
		return nil
	}
	return v
}

// reference returns a reference to the definition of a target. It creates the definition at the first use.
func (a *adapter) reference(ref string) any {
	if ref == "" || ref[0] != '#' {
		return true // into another document
	}
	n := a.doc.target(ref)
	if n == nil {
		a.fault("the reference %q has no target", short(ref))
		return true
	}
	name, known := a.targets[n]
	if !known {
		name = strconv.Itoa(len(a.targets))
		a.targets[n] = name
		a.definitions[name] = true // set before its content, which may refer to it
		a.definitions[name] = a.adapt(n)
	}
	return map[string]any{"$ref": "#/definitions/" + name}
}

// visits returns how many schemas are visited at most for one value: the schema, its alternatives, and what they refer
// to. The result exceeds [bounds.SchemaVisits] for circular references.
func (a *adapter) visits(schema any, known map[string]int64) (n int64) {
	m, ok := schema.(map[string]any)
	if !ok {
		return 1
	}
	if ref, ok := m["$ref"].(string); ok {
		name := ref[len("#/definitions/"):]
		if _, ok := known[name]; !ok {
			known[name] = bounds.SchemaVisits.Most // while it is counted, which detects circles
			known[name] = a.visits(a.definitions[name], known)
		}
		return known[name] + 1
	}
	for name, value := range m {
		if !vocabulary[name].inPlace {
			continue
		}
		for _, part := range parts(value) {
			n = min(n+a.visits(part, known), bounds.SchemaVisits.Most)
		}
	}
	return n + 1
}

// addImplied adds what a subtype or format implies and the schema does not state (openeo-processes,
// meta/subtype-schemas.json; OGC 18-062r2, section 7.11.2.3).
func addImplied(out map[string]any) {
	number := map[string]any{"type": "number"}
	missing := func(keyword string, value any) {
		if _, set := out[keyword]; !set {
			out[keyword] = value
		}
	}
	switch out["subtype"] {
	case "bounding-box":
		missing("type", "object")
		missing("required", []any{"west", "south", "east", "north"})
		missing("properties", map[string]any{"west": number, "south": number, "east": number, "north": number})
	case "temporal-interval":
		missing("type", "array")
		missing("minItems", json.Number("2"))
		missing("maxItems", json.Number("2"))
	case "geojson":
		missing("type", "object")
		missing("required", []any{"type"})
		missing("properties", map[string]any{"type": map[string]any{"enum": asAny(GeoJSONTypes)}})
	case "date", "date-time":
		missing("format", out["subtype"])
	}
	if out["format"] == "ogc-bbox" {
		missing("required", []any{"bbox"})
	}
}

func asAny(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}
