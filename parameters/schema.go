// Package parameters reads the schemas of a service's parameters: what type of value each takes, whether a value is right,
// and how a value that says the same in another form is put into the form that is asked for.
//
// Schemas are JSON Schema as the openEO API has it (draft-07 with subtypes, or an array of alternatives), or that of
// OpenAPI 3.0 as OGC API - Processes has it (nullable, formats and references of its own).
package parameters

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Describe fills in what a parameter's schema says: type, options, bounds, whether null is a value, and the default if
// the parameter has none yet. It finds something for every schema.
func Describe(p dispatch.Parameter) dispatch.Parameter {
	var root schema
	if json.Unmarshal(p.Schema, &root) != nil {
		root = schema{}
	}
	leaves := root.leaves(root, 0)
	p.Type = mostSpecific(leaves)
	for _, l := range leaves {
		p.Nullable = p.Nullable || l.null()
		if p.Default == nil {
			p.Default = l.Default
		}
		if l.paramType() == p.Type || l.paramType() == dispatch.Integer && p.Type == dispatch.Double {
			p = bounded(p, l)
		}
	}
	return p
}

func bounded(p dispatch.Parameter, l schema) dispatch.Parameter {
	for _, option := range l.options() {
		if !slices.ContainsFunc(p.Options, func(o json.RawMessage) bool { return bytes.Equal(o, option) }) {
			p.Options = append(p.Options, option)
		}
	}
	if p.Minimum == nil {
		p.Minimum = l.Minimum
	}
	if p.Maximum == nil {
		p.Maximum = l.Maximum
	}
	return p
}

// schema is what matters here of a JSON Schema.
type schema struct {
	Type             typeNames         `json:"type"`
	Subtype          string            `json:"subtype"` // openEO
	Format           string            `json:"format"`
	Enum             []json.RawMessage `json:"enum"`
	Const            json.RawMessage   `json:"const"`
	Default          json.RawMessage   `json:"default"`
	Minimum          *json.Number      `json:"minimum"`
	Maximum          *json.Number      `json:"maximum"`
	Items            *schema           `json:"items"`
	Properties       map[string]schema `json:"properties"`
	Required         []string          `json:"required"`
	AnyOf            []schema          `json:"anyOf"`
	OneOf            []schema          `json:"oneOf"`
	AllOf            []schema          `json:"allOf"`
	Ref              string            `json:"$ref"`
	Definitions      map[string]schema `json:"definitions"`
	Defs             map[string]schema `json:"$defs"`
	Nullable         bool              `json:"nullable"` // OpenAPI 3.0
	ContentMediaType string            `json:"contentMediaType"`

	list []schema // of an array of schemas: alternatives
}

// UnmarshalJSON also takes an array of alternatives, which openEO prefers over anyOf, true and false. What has another
// form than its keyword should is passed over: one odd keyword does not make the others useless.
func (s *schema) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '[':
		return json.Unmarshal(raw, &s.list)
	case '{':
	default:
		return nil
	}
	type plain schema
	if json.Unmarshal(raw, (*plain)(s)) == nil {
		return nil
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	*s = schema{}
	for name, value := range members {
		one, err := json.Marshal(map[string]json.RawMessage{name: value})
		if err == nil {
			_ = json.Unmarshal(one, (*plain)(s)) // passed over
		}
	}
	return nil
}

// typeNames is one type, or several.
type typeNames []string

func (t *typeNames) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = typeNames{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// deepest bounds how far alternatives are followed into each other.
const deepest = 8

// leaves gives the alternatives of a schema, each with one type at most.
func (s schema) leaves(root schema, depth int) (all []schema) {
	if depth > deepest {
		return nil
	}
	if target, ok := s.local(root); ok {
		return target.leaves(root, depth+1)
	}
	s = s.merged(root, depth)
	alternatives := slices.Concat(s.list, s.AnyOf, s.OneOf)
	if len(alternatives) == 0 || s.known() {
		return s.byType()
	}
	for _, a := range alternatives {
		if a.Default == nil {
			a.Default = s.Default
		}
		a.Nullable = a.Nullable || s.Nullable
		all = append(all, a.leaves(root, depth+1)...)
	}
	return all
}

// known reports whether a schema says by itself what it is, so that its alternatives only say it closer.
func (s schema) known() bool {
	return s.Subtype != "" || s.isBoundingBox() || s.isGeoJSON() || len(s.Type) == 1 && s.Type[0] != "object" && s.Type[0] != "array"
}

// byType parts a schema with several types.
func (s schema) byType() (all []schema) {
	if len(s.Type) < 2 {
		return []schema{s}
	}
	for _, t := range s.Type {
		one := s
		one.Type = typeNames{t}
		all = append(all, one)
	}
	return all
}

// local resolves a reference into the same document.
func (s schema) local(root schema) (schema, bool) {
	if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
		target, ok := root.Definitions[name]
		return target, ok
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		target, ok := root.Defs[name]
		return target, ok
	}
	return s, false
}

// merged takes in what must hold as well.
func (s schema) merged(root schema, depth int) schema {
	for _, part := range s.AllOf {
		for _, l := range part.leaves(root, depth+1) {
			s = s.and(l)
		}
	}
	s.AllOf = nil
	return s
}

func (s schema) and(t schema) schema {
	if len(s.Type) == 0 {
		s.Type = t.Type
	}
	s.Subtype, s.Format, s.Ref = first(s.Subtype, t.Subtype), first(s.Format, t.Format), first(s.Ref, t.Ref)
	s.ContentMediaType = first(s.ContentMediaType, t.ContentMediaType)
	if s.Enum == nil {
		s.Enum = t.Enum
	}
	if s.Default == nil {
		s.Default = t.Default
	}
	if s.Minimum == nil {
		s.Minimum = t.Minimum
	}
	if s.Maximum == nil {
		s.Maximum = t.Maximum
	}
	if s.Items == nil {
		s.Items = t.Items
	}
	if s.Properties == nil {
		s.Properties = t.Properties
	}
	s.Required = append(s.Required, t.Required...)
	s.Nullable = s.Nullable || t.Nullable
	return s
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (s schema) is(name string) bool { return len(s.Type) == 1 && s.Type[0] == name }

func (s schema) null() bool {
	return s.is("null") || s.Nullable || slices.ContainsFunc(s.Enum, isNull)
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// options gives the values that are allowed, of an array those of its elements.
func (s schema) options() []json.RawMessage {
	switch {
	case s.Const != nil:
		return []json.RawMessage{s.Const}
	case s.Enum == nil && s.Items != nil && s.Items.Enum != nil:
		return s.Items.options()
	}
	return slices.DeleteFunc(slices.Clone(s.Enum), isNull)
}
