package ogcapi

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	params "github.com/eodispatch/eodispatch/platform/parameters"
)

var (
	_ dispatch.Describer = (*Platform)(nil)
	_ dispatch.Checker   = (*Platform)(nil)
)

// Parameters returns the inputs of the process description.
func (p *Platform) Parameters(ctx context.Context, t dispatch.Token, s dispatch.Service) ([]dispatch.Parameter, error) {
	_, d, err := p.describe(ctx, t, s)
	if err != nil {
		return nil, err
	}
	return d.parameters, nil
}

// Check validates a request against the schemas of the process's inputs, and its format against what the outputs offer.
func (p *Platform) Check(ctx context.Context, t dispatch.Token, r dispatch.Request,
	dim *dispatch.Dimension) (warning string, err error) {
	_, d, err := p.describe(ctx, t, r.Service)
	if err != nil || !r.Checked() {
		return "", err
	}
	if warning, err = d.checkFormat(r); err != nil {
		return "", err
	}
	if d.set == nil {
		return warning, nil
	}
	if err := d.set.Check(ctx, r, dim); err != nil {
		return "", err
	}
	return strings.TrimSpace(warning + " " + d.set.Unchecked(r, dim)), nil
}

// describeInputs reads the inputs of a description. The set is nil if the description has no inputs that can be read.
func describeInputs(raw json.RawMessage) (all []dispatch.Parameter, set *params.Set) {
	if kindOf(raw) != '{' && kindOf(raw) != '[' {
		return nil, nil
	}
	var checked []dispatch.Parameter
	lists := map[string]bool{}
	// the result is cached for others, so it must not depend on this request's context
	reader := params.NewReader(context.Background())
	for _, named := range namedValues(raw) {
		p, schema, repeated := describeInput(reader, named.id, named.value)
		all, lists[p.Name] = append(all, p), repeated
		p.Schema = schema
		checked = append(checked, p)
	}
	set = reader.NewSet(checked)
	set.Unwrap = unwrapper(lists)
	for i := range all {
		// about the schema used for the check, which repeatable may have changed
		all[i].Warning = set.Warning(all[i].Name)
	}
	return all, set
}

// describeInput returns one input, the schema for its value, and whether an array of values may be given in its place.
// That is so of an input that may occur several times (OGC 18-062r2, 7.11.2.1).
func describeInput(reader *params.Reader, id string, raw json.RawMessage) (
	p dispatch.Parameter, schema json.RawMessage, repeated bool) {
	var input struct {
		occurrence
		Title       string `json:"title"`
		Description string `json:"description"`
	}
	_ = json.Unmarshal(raw, &input) // unreadable members stay empty
	one, repeated, most := input.values()
	p = reader.Describe(dispatch.Parameter{Name: id, Description: input.Description, Schema: one,
		Optional: input.optional()})
	if p.Description == "" {
		p.Description = input.Title
	}
	if !repeated || p.Schema == nil {
		return p, p.Schema, repeated
	}
	switch {
	case most == 1:
	case p.Type == dispatch.String, p.Type == dispatch.ArrayString:
		p.Type = dispatch.ArrayString
	default:
		p.Type = dispatch.Array
	}
	return p, repeatable(p.Schema, most), repeated
}

// repeatable returns a schema for one value or an array of them, at most so many unless most is 0. Definitions stay
// where references expect them.
func repeatable(schema json.RawMessage, most int) json.RawMessage {
	array := map[string]any{"type": "array", "items": schema}
	if most > 0 {
		array["maxItems"] = most
	}
	both := map[string]any{"anyOf": []any{schema, array}}
	var own struct {
		Definitions json.RawMessage `json:"definitions"`
		Defs        json.RawMessage `json:"$defs"`
	}
	if json.Unmarshal(schema, &own) == nil {
		if own.Definitions != nil {
			both["definitions"] = own.Definitions
		}
		if own.Defs != nil {
			both["$defs"] = own.Defs
		}
	}
	return marshal(both)
}

// unwrapper returns the function that recognizes qualified values, links, and arrays with some of them, where inputs
// take arrays.
func unwrapper(lists map[string]bool) func(string, json.RawMessage) ([]json.RawMessage, bool) {
	return func(name string, value json.RawMessage) (inner []json.RawMessage, wrapped bool) {
		if kindOf(value) != '[' {
			one, wrapped := unwrap(value)
			return []json.RawMessage{one}, wrapped
		}
		if !lists[name] || json.Unmarshal(value, &inner) != nil {
			return nil, false
		}
		for i, item := range inner {
			if one, found := unwrap(item); found {
				inner[i], wrapped = one, true
			}
		}
		return inner, wrapped
	}
}

// unwrap returns the value inside a qualified value, and nothing for a link, which only the server can read.
func unwrap(value json.RawMessage) (inner json.RawMessage, wrapped bool) {
	var m map[string]json.RawMessage
	if kindOf(value) != '{' || json.Unmarshal(value, &m) != nil {
		return nil, false
	}
	if isQualified(m) {
		return m["value"], true
	}
	return nil, isLink(m)
}
