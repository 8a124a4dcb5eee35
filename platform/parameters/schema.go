// Package parameters reads the schemas of a service's parameters. It derives the type of each parameter, checks values,
// and converts values that mean the same in another form.
//
// Schemas are JSON Schema as the openEO API defines it (draft-07 with subtypes, or an array of alternatives), or that
// of OpenAPI 3.0 as OGC API - Processes uses it (nullable, formats and references of its own).
package parameters

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Describe fills in what a parameter's schema states: type, options, bounds, whether null is allowed, and the default
// if the parameter has none yet. It accepts every schema and reports the parts that it does not support in the
// parameter's Warning.
func (r *Reader) Describe(p dispatch.Parameter) dispatch.Parameter {
	d := r.document(p.Schema)
	alternatives := d.schema(d.root).alternatives(0)
	p.Type, p.Options = mostSpecific(alternatives), slices.Clip(p.Options)
	for _, l := range alternatives {
		p.Nullable = p.Nullable || l.null()
		if p.Default == nil {
			p.Default = l.Default
		}
		if kind := l.paramType(); kind == p.Type || kind == dispatch.Integer && p.Type == dispatch.Double {
			p = bounded(p, l)
		}
	}
	p.Options = distinct(p.Options)
	_, faults := r.compile(p.Schema)
	p.Warning = warning(p.Name, faults)
	return p
}

// distinct returns values in their order without duplicates.
func distinct(all []json.RawMessage) []json.RawMessage {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(one json.RawMessage) bool {
		known := seen[string(one)]
		seen[string(one)] = true
		return known
	})
}

func bounded(p dispatch.Parameter, l schema) dispatch.Parameter {
	p.Options = append(p.Options, l.options()...)
	if p.Minimum == nil {
		p.Minimum = l.Minimum
	}
	if p.Maximum == nil {
		p.Maximum = l.Maximum
	}
	return p
}

// schema is the part of a JSON Schema that this package uses for descriptions.
type schema struct {
	Type             []string // one type, or several
	Subtype          string   // openEO
	Format           string
	Enum             []json.RawMessage
	Const            json.RawMessage
	Default          json.RawMessage
	Minimum          *json.Number
	Maximum          *json.Number
	Items            *node
	Properties       map[string]*node
	Required         []string
	AnyOf            []*node
	OneOf            []*node
	AllOf            []*node
	Ref              string
	Nullable         bool // OpenAPI 3.0
	ContentMediaType string

	list []*node // alternatives of an array of schemas
	doc  *document
}

// deepest bounds how deep alternatives may nest.
const deepest = 8

// alternatives returns the alternatives of a schema, each with at most one type. Each visited schema costs a step.
func (s schema) alternatives(depth int) (all []schema) {
	if depth > deepest || !s.doc.reader.steps.Spend(1) {
		return nil
	}
	if target := s.doc.target(s.Ref); s.Ref != "" && target != nil {
		return s.doc.schema(target).alternatives(depth + 1)
	}
	s = s.merged(depth)
	alternatives := slices.Concat(s.list, s.AnyOf, s.OneOf)
	if len(alternatives) == 0 || s.hasOwnType() {
		return s.byType()
	}
	for _, n := range alternatives {
		one := *s.doc.schema(n)
		if one.Default == nil {
			one.Default = s.Default
		}
		one.Nullable = one.Nullable || s.Nullable
		all = append(all, one.alternatives(depth+1)...)
	}
	return all
}

// hasOwnType reports whether a schema has a type of its own, so that its alternatives only refine it.
func (s schema) hasOwnType() bool {
	return s.Subtype != "" || s.isBoundingBox() || s.isGeoJSON() || len(s.Type) == 1 && s.Type[0] != "object" &&
		s.Type[0] != "array"
}

func (s schema) byType() (all []schema) {
	if len(s.Type) < 2 {
		return []schema{s}
	}
	for _, t := range s.Type {
		one := s
		one.Type = []string{t}
		all = append(all, one)
	}
	return all
}

func (s schema) merged(depth int) schema {
	for _, part := range s.AllOf {
		for _, l := range s.doc.schema(part).alternatives(depth + 1) {
			if !s.doc.reader.steps.Spend(len(l.Required)) {
				return s
			}
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
	s.Subtype, s.Format, s.Ref = cmp.Or(s.Subtype, t.Subtype), cmp.Or(s.Format, t.Format), cmp.Or(s.Ref, t.Ref)
	s.ContentMediaType = cmp.Or(s.ContentMediaType, t.ContentMediaType)
	s.Minimum, s.Maximum, s.Items = cmp.Or(s.Minimum, t.Minimum), cmp.Or(s.Maximum, t.Maximum), cmp.Or(s.Items, t.Items)
	if s.Enum == nil {
		s.Enum = t.Enum
	}
	if s.Default == nil {
		s.Default = t.Default
	}
	if s.Properties == nil {
		s.Properties = t.Properties
	}
	s.Required = slices.Concat(s.Required, t.Required)
	s.Nullable = s.Nullable || t.Nullable
	return s
}

func (s schema) is(name string) bool { return len(s.Type) == 1 && s.Type[0] == name }

func (s schema) null() bool {
	return s.is("null") || s.Nullable || slices.ContainsFunc(s.Enum, isNull)
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// optionsPerStep is how many values of an enumeration cost one step.
const optionsPerStep = 16

func (s schema) options() []json.RawMessage {
	if !s.doc.reader.steps.Spend(len(s.Enum) / optionsPerStep) {
		return nil
	}
	if s.Const != nil {
		return []json.RawMessage{s.Const}
	}
	if s.Enum == nil && s.Items != nil {
		if items := s.doc.schema(s.Items); items.Enum != nil {
			return items.options()
		}
	}
	return slices.DeleteFunc(slices.Clone(s.Enum), isNull)
}
