package parameters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eodispatch/eodispatch/budget"
)

// adapter converts a schema as openEO or OpenAPI 3.0 writes it to JSON Schema draft-07: arrays of alternatives,
// nullable, boolean exclusive bounds, and subtypes that imply more than their keywords. A keyword whose value has the
// wrong form is left out and becomes a fault, so that the rest can still be checked.
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

func (a *adapter) whole() any {
	root := a.adapt(a.doc.root)
	return map[string]any{"allOf": []any{root}, "definitions": a.definitions}
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
		return map[string]any{"anyOf": a.each(n), costWord: cost(len(n.list))}
	case '{':
		return a.object(n)
	case 't', 'f':
		return n.kind() == 't'
	}
	a.fault("%s is no schema", short(string(n.raw)))
	return true
}

func (a *adapter) each(n *node) []any {
	out := make([]any, len(n.list))
	for i, item := range n.list {
		out[i] = a.adapt(item)
	}
	return out
}

// Looking at one schema for one value costs two parts: what is paid before, by the schema that leads there, and what is paid after. A
// value of the wrong type costs the first part alone, since the library leaves the schema early.
const (
	failSteps  = 8 // before: the library makes an error for each value that does not fit
	visitSteps = 1 // after
)

func cost(n int) json.Number { return json.Number(strconv.Itoa(visitSteps + n)) }

func (a *adapter) object(n *node) any {
	if ref, is := n.members["$ref"].text(); is {
		return a.reference(ref)
	}
	out := map[string]any{}
	for keyword, value := range n.members {
		if form, known := keywords[keyword]; known && !form.of(value) {
			a.fault("%q is not %s", keyword, form.what)
		} else if known {
			a.keyword(out, n, keyword, value)
		}
	}
	demand(out)
	prepay(out)
	out[costWord] = cost(len(n.members) + weight(out))
	if string(n.members["nullable"].rawOrNil()) == "true" {
		return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}, costWord: cost(2)}
	}
	return out
}

func (n *node) rawOrNil() json.RawMessage {
	if n == nil {
		return nil
	}
	return n.raw
}

// weight is the cost of visiting a schema beyond that of its keywords.
func weight(out map[string]any) (n int) {
	for _, keyword := range []string{"enum", "required"} {
		list, _ := out[keyword].([]any)
		n += len(list)
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := out[keyword].([]any)
		n += failSteps * len(list)
	}
	for _, keyword := range []string{"not", "if", "then", "else"} {
		if _, set := out[keyword]; set {
			n += failSteps
		}
	}
	for keyword, exact := range map[string]int{"minimum": 4, "maximum": 4, "exclusiveMinimum": 4, "exclusiveMaximum": 4, "multipleOf": 16} {
		if value, set := out[keyword]; set {
			n += exact + effort(value)
		}
	}
	return n
}

// prepay has a schema pay for the elements and members of a value before they are looked at. The library calls formats just before, and
// makes an error for each element that does not fit, which all are kept for a "contains".
func prepay(out map[string]any) {
	elements, members := 0, 0
	for keyword := range out {
		switch keyword {
		case "items", "additionalItems":
			elements++
		case "contains":
			elements += 2
		case "properties", "patternProperties", "additionalProperties", "propertyNames":
			members++
		}
	}
	if elements+members == 0 {
		return
	}
	if own, set := out["format"]; set { // which says nothing of elements and members
		all, _ := out["allOf"].([]any)
		out["allOf"] = append(all, map[string]any{"format": own, costWord: cost(1)})
	}
	out["format"] = prepayFormat(elements, members)
}

// The most that prepay counts.
const (
	mostElements = 4
	mostMembers  = 4
)

func prepayFormat(elements, members int) string {
	return fmt.Sprintf("x-cost-%d-%d", elements, members)
}

func (a *adapter) keyword(out map[string]any, n *node, keyword string, value *node) {
	switch keyword {
	case "exclusiveMinimum", "exclusiveMaximum":
		bound := map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[keyword]
		if k := value.kind(); k != 't' && k != 'f' {
			out[keyword] = value.value()
		} else if limit := n.members[bound].number(); k == 't' && limit != nil {
			out[keyword] = *limit
		}
	case "anyOf", "oneOf", "allOf":
		out[keyword] = a.each(value)
	case "items", "not", "additionalProperties", "contains", "if", "then", "else", "propertyNames", "additionalItems":
		out[keyword] = a.adapt(value)
	case "properties", "patternProperties":
		members := map[string]any{}
		for name, member := range value.members {
			members[name] = a.adapt(member)
		}
		out[keyword] = members
	case "enum":
		list, _ := value.value().([]any)
		out[enumWord(list)] = list
	case "const":
		out[constWord(value.value())] = value.value()
	default:
		out[keyword] = value.value()
	}
}

// enumWord returns the keyword for a list of values. Long lists, and values that are expensive to compare, are looked
// up instead of compared one by one.
func enumWord(list []any) string {
	const few = 16
	if len(list) > few || slices.ContainsFunc(list, costly) {
		return valuesWord
	}
	return "enum"
}

// constWord returns the keyword for one value, likewise.
func constWord(v any) string {
	if costly(v) {
		return valueWord
	}
	return "const"
}

// costly reports whether comparing with a value costs more than one step. The library stops at the first difference
// before steps are counted.
func costly(v any) bool {
	switch v.(type) {
	case json.Number, []any, map[string]any:
		return true
	}
	return false
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
		a.fault("the reference %q leads nowhere", short(ref))
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
// to. The result exceeds [budget.SchemaVisits] for circular references.
func (a *adapter) visits(schema any, known map[string]int64) (n int64) {
	m, ok := schema.(map[string]any)
	if !ok {
		return 1
	}
	if ref, ok := m["$ref"].(string); ok {
		name := ref[len("#/definitions/"):]
		if _, ok := known[name]; !ok {
			known[name] = budget.SchemaVisits.Most // while it is counted, which detects circles
			known[name] = a.visits(a.definitions[name], known)
		}
		return known[name] + 1
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[keyword].([]any)
		for _, part := range list {
			n = min(n+a.visits(part, known), budget.SchemaVisits.Most)
		}
	}
	for _, keyword := range []string{"not", "if", "then", "else"} {
		if part, ok := m[keyword]; ok {
			n = min(n+a.visits(part, known), budget.SchemaVisits.Most)
		}
	}
	return n + 1
}

// form is the required form of a keyword's value.
type form struct {
	what string
	of   func(*node) bool
}

var (
	anyForm    = form{"a value", func(*node) bool { return true }}
	schemaForm = form{"a schema", isSchema}
	schemas    = form{"a list of schemas", func(n *node) bool { return len(n.list) > 0 && allOf(n.list, isSchema) }}
	members    = form{"an object of schemas", func(n *node) bool { return n.kind() == '{' && allMembers(n, isSchema) }}
	numberForm = form{"a number", func(n *node) bool { return n.number() != nil }}
	count      = form{"a natural number", isCount}
	flag       = form{"true or false", func(n *node) bool { return n.kind() == 't' || n.kind() == 'f' }}
	textForm   = form{"a text", func(n *node) bool { return n.kind() == '"' }}
	limit      = form{"a number, or true or false", func(n *node) bool { return numberForm.of(n) || flag.of(n) }}
	expression = form{"a regular expression of ordinary size", isPattern}
	positive   = form{"a number above 0", isPositive}
	typeForm   = form{"a type, or a list of types", isType}
)

// keywords are the supported keywords; others do not restrict values.
var keywords = map[string]form{
	"type": typeForm, "enum": {"a list of values", func(n *node) bool { return len(n.list) > 0 }}, "const": anyForm,
	"minimum": numberForm, "maximum": numberForm, "exclusiveMinimum": limit, "exclusiveMaximum": limit, "multipleOf": positive,
	"minLength": count, "maxLength": count, "minItems": count, "maxItems": count, "minProperties": count, "maxProperties": count,
	"uniqueItems": flag, "pattern": expression, "format": textForm, "subtype": textForm,
	"required": {"a list of names", func(n *node) bool { return n.kind() == '[' && len(n.texts()) == len(n.list) }},
	"anyOf":    schemas, "oneOf": schemas, "allOf": schemas,
	"items": schemaForm, "additionalItems": schemaForm, "not": schemaForm, "additionalProperties": schemaForm,
	"contains": schemaForm, "propertyNames": schemaForm, "if": schemaForm, "then": schemaForm, "else": schemaForm,
	"properties": members, "patternProperties": {"an object of schemas by regular expressions of ordinary size", isPatterns},
}

func isSchema(n *node) bool {
	switch n.kind() {
	case '{', '[', 't', 'f':
		return true
	}
	return false
}

func allOf(list []*node, is func(*node) bool) bool {
	for _, n := range list {
		if !is(n) {
			return false
		}
	}
	return true
}

func allMembers(n *node, is func(*node) bool) bool {
	for _, member := range n.members {
		if !is(member) {
			return false
		}
	}
	return true
}

func isCount(n *node) bool {
	number := n.number()
	if number == nil {
		return false
	}
	i, err := number.Int64()
	return err == nil && i >= 0
}

func isPositive(n *node) bool {
	number := n.number()
	if number == nil {
		return false
	}
	f, err := number.Float64()
	return err == nil && f > 0
}

func isPattern(n *node) bool {
	text, ok := n.text()
	if !ok {
		return false
	}
	_, err := patternSize(text)
	return err == nil
}

func isPatterns(n *node) bool {
	for text := range n.members {
		if _, err := patternSize(text); err != nil {
			return false
		}
	}
	return members.of(n)
}

func isType(n *node) bool {
	if one, ok := n.text(); ok {
		return types[one]
	}
	names := n.texts()
	seen := map[string]bool{}
	for _, name := range names {
		if !types[name] || seen[name] {
			return false
		}
		seen[name] = true
	}
	return len(names) > 0 && len(names) == len(n.list)
}

var types = map[string]bool{"null": true, "boolean": true, "integer": true, "number": true, "string": true, "array": true, "object": true}

// demand adds what a subtype or format implies and the schema does not state (openeo-processes,
// meta/subtype-schemas.json; OGC 18-062r2, section 7.11.2.3).
func demand(out map[string]any) {
	number := map[string]any{"type": "number"}
	missing := func(keyword string, value any) {
		if _, said := out[keyword]; !said {
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
		missing("properties", map[string]any{"type": map[string]any{"enum": asAny(geometries)}})
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
