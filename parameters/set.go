package parameters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Set is the parameters of one service, ready to check and shape many values.
type Set struct {
	// Unwrap, if not nil, tells values that stand for others, which stay as they are: what is to be checked of them, or
	// nil where nobody here can check anything.
	Unwrap func(json.RawMessage) (inner json.RawMessage, wrapped bool)

	parameters map[string]parameter
	names      []string
}

type parameter struct {
	dispatch.Parameter
	leaves []schema
	schema *jsonschema.Schema // nil when the document's schema is none: then every value will do
}

// NewSet prepares described parameters.
func NewSet(described []dispatch.Parameter) *Set {
	s := &Set{parameters: map[string]parameter{}}
	for _, d := range described {
		var root schema
		_ = json.Unmarshal(d.Schema, &root) // what is no schema allows everything
		s.parameters[d.Name] = parameter{d, root.leaves(root, 0), compile(d.Schema)}
		s.names = append(s.names, d.Name)
	}
	return s
}

// Arguments checks the arguments of a request, a JSON object, against the parameters, and gives them in the shape that is
// asked for. It names all faults at once, each below "body", "parameters". The parameter except, if not "", is given
// elsewhere and must be missing here.
func (s *Set) Arguments(raw json.RawMessage, except string) (json.RawMessage, []dispatch.Fault) {
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &arguments); err != nil {
		return raw, []dispatch.Fault{{Loc: []any{"body", "parameters"}, Msg: "The parameters must be a JSON object.", Type: "dict_type"}}
	}
	var faults []dispatch.Fault
	changed := false
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		shaped, found := s.Argument(name, arguments[name], "body", "parameters", name)
		faults = append(faults, found...)
		changed = changed || !bytes.Equal(shaped, arguments[name])
		arguments[name] = shaped
	}
	for _, name := range s.names {
		if _, given := arguments[name]; !given && !s.parameters[name].Optional && name != except {
			faults = append(faults, dispatch.Fault{Loc: []any{"body", "parameters", name}, Type: "missing",
				Msg: fmt.Sprintf("The parameter %q (%s) is required.", name, s.parameters[name].Type)})
		}
	}
	if !changed || faults != nil {
		return raw, faults
	}
	shaped, err := marshal(arguments)
	if err != nil {
		return raw, []dispatch.Fault{{Loc: []any{"body", "parameters"}, Msg: err.Error(), Type: "value_error"}}
	}
	return shaped, nil
}

// Argument checks and shapes one value. Faults are placed below loc.
func (s *Set) Argument(name string, value json.RawMessage, loc ...any) (json.RawMessage, []dispatch.Fault) {
	p, known := s.parameters[name]
	if !known {
		return value, []dispatch.Fault{{Loc: loc, Type: "extra_forbidden",
			Msg: fmt.Sprintf("There is no parameter %q. There are: %s.", name, strings.Join(s.names, ", "))}}
	}
	if inner, wrapped := s.unwrap(value); wrapped {
		if inner == nil {
			return value, nil
		}
		_, faults := p.take(inner, loc)
		return value, faults
	}
	return p.take(value, loc)
}

func (s *Set) unwrap(value json.RawMessage) (json.RawMessage, bool) {
	if s.Unwrap == nil {
		return nil, false
	}
	return s.Unwrap(value)
}

func (p parameter) take(value json.RawMessage, loc []any) (json.RawMessage, []dispatch.Fault) {
	if equal(value, p.Default) || p.Nullable && isNull(value) {
		return value, nil // what the document itself gives is right, whatever its schema says
	}
	var faults []dispatch.Fault
	for _, candidate := range p.shapes(value) {
		found := p.check(candidate, loc)
		if found == nil {
			return candidate, nil
		}
		if faults == nil {
			faults = found
		}
	}
	if _, crosses, _ := extent(value); crosses && p.Type == dispatch.BoundingBox {
		faults = []dispatch.Fault{{Loc: loc, Type: "value_error", Msg: fmt.Sprintf("The parameter %q is a %s, which cannot say an area "+
			"across the antimeridian, or with a side longer than half the globe: cut it there, and submit each part.", p.Name, p.Type)}}
	}
	return value, faults
}

// equal compares two JSON texts by value.
func equal(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return false
	}
	var ca, cb bytes.Buffer
	return json.Compact(&ca, a) == nil && json.Compact(&cb, b) == nil && bytes.Equal(ca.Bytes(), cb.Bytes())
}

// marshal writes JSON without escaping what only HTML needs escaped.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

var english = message.NewPrinter(language.English)

func (p parameter) check(value json.RawMessage, loc []any) (faults []dispatch.Fault) {
	if p.schema == nil {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []dispatch.Fault{{Loc: loc, Msg: "This is not JSON.", Type: "json_invalid"}}
	}
	err = p.schema.Validate(v)
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil
	}
	for _, leaf := range innermost(invalid) {
		faults = append(faults, dispatch.Fault{
			Loc:  slices.Concat(loc, indexes(leaf.InstanceLocation)),
			Msg:  fmt.Sprintf("The parameter %q is a %s: %s.", p.Name, p.Type, leaf.ErrorKind.LocalizedString(english)),
			Type: "value_error",
		})
	}
	return faults
}

// innermost gives the causes that say something. Of alternatives that all fail, it gives those of the one that came
// furthest, or a user would be told to be null.
func innermost(e *jsonschema.ValidationError) (all []*jsonschema.ValidationError) {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	keywords := e.ErrorKind.KeywordPath()
	if last := len(keywords) - 1; last >= 0 && (keywords[last] == "anyOf" || keywords[last] == "oneOf") {
		return innermost(slices.MaxFunc(e.Causes, func(a, b *jsonschema.ValidationError) int { return depth(a) - depth(b) }))
	}
	for _, c := range e.Causes {
		all = append(all, innermost(c)...)
	}
	return all
}

func depth(e *jsonschema.ValidationError) int {
	d := len(e.InstanceLocation)
	for _, c := range e.Causes {
		d = max(d, depth(c))
	}
	return d
}

func indexes(path []string) []any {
	loc := make([]any, len(path))
	for i, step := range path {
		loc[i] = step
	}
	return loc
}

// anything stands for schemas elsewhere: none is fetched, and what they would say is not checked.
type anything struct{}

func (anything) Load(string) (any, error) { return map[string]any{}, nil }

// compile gives nil for what is no valid schema.
func compile(raw json.RawMessage) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.AssertFormat()
	c.UseLoader(anything{})
	const name = "parameter:/schema"
	if c.AddResource(name, adapt(doc)) != nil {
		return nil
	}
	s, err := c.Compile(name)
	if err != nil {
		return nil
	}
	return s
}
