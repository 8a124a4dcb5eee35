package ogcapi

import (
	"context"
	"encoding/json"

	"github.com/eodispatch/eodispatch/dispatch"
	params "github.com/eodispatch/eodispatch/parameters"
)

var (
	_ dispatch.Describer = (*Platform)(nil)
	_ dispatch.Checker   = (*Platform)(nil)
)

// Parameters returns the inputs of the process description.
func (p *Platform) Parameters(ctx context.Context, t dispatch.Token, s dispatch.Service) ([]dispatch.Parameter, error) {
	at, err := p.locate(s)
	if err != nil {
		return nil, err
	}
	d, err := p.describe(ctx, t, at)
	if err != nil {
		return nil, err
	}
	return d.parameters, nil
}

// Check validates a request against the schemas of the process's inputs, and its format against what the outputs offer.
func (p *Platform) Check(ctx context.Context, t dispatch.Token, r dispatch.Request, dim *dispatch.Dimension) (warning string, err error) {
	at, err := p.locate(r.Service)
	if err != nil {
		return "", err
	}
	d, err := p.describe(ctx, t, at)
	if err != nil || !r.Checked() {
		return "", err
	}
	if err := d.checkFormat(r); err != nil || d.set == nil {
		return "", err
	}
	if err := d.set.Check(ctx, r, dim); err != nil {
		return "", err
	}
	return d.set.Unchecked(r, dim), nil
}

// describeInputs reads the inputs of a description. The set is nil if the description has no inputs that can be read.
func describeInputs(raw json.RawMessage) (all []dispatch.Parameter, set *params.Set) {
	if kindOf(raw) != '{' && kindOf(raw) != '[' {
		return nil, nil
	}
	var checked []dispatch.Parameter
	reader := params.NewReader(context.Background()) // the result is cached for others, so it must not depend on this request's context
	for _, named := range namedValues(raw) {
		p, schema := describeInput(reader, named.id, named.value)
		all = append(all, p)
		p.Schema = schema
		checked = append(checked, p)
	}
	set = reader.NewSet(checked)
	set.Unwrap = unwrap
	for i := range all {
		all[i].Warning = set.Warning(all[i].Name) // about the schema used for the check, which repeatable may have changed
	}
	return all, set
}

// describeInput returns one input and the schema for its value. An input that may occur several times also accepts an array
// (OGC 18-062r2, 7.11.2.1).
func describeInput(reader *params.Reader, id string, raw json.RawMessage) (p dispatch.Parameter, schema json.RawMessage) {
	var input struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		MinOccurs   *json.Number    `json:"minOccurs"`
		Schema      json.RawMessage `json:"schema"`
	}
	_ = json.Unmarshal(raw, &input) // unreadable members stay empty
	p = reader.Describe(dispatch.Parameter{Name: id, Description: input.Description, Schema: input.Schema,
		Optional: input.MinOccurs != nil && input.MinOccurs.String() == "0"})
	if p.Description == "" {
		p.Description = input.Title
	}
	if !parseParameter(raw).repeated || p.Schema == nil {
		return p, p.Schema
	}
	switch p.Type {
	case dispatch.String, dispatch.ArrayString:
		p.Type = dispatch.ArrayString
	default:
		p.Type = dispatch.Array
	}
	return p, repeatable(p.Schema)
}

// repeatable returns a schema for one value or an array of them. Definitions stay where references expect them.
func repeatable(schema json.RawMessage) json.RawMessage {
	both := map[string]any{"anyOf": []any{schema, map[string]any{"type": "array", "items": schema}}}
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

// shape converts the inputs into the form that the process expects.
func (d *description) shape(ctx context.Context, r dispatch.Request) (json.RawMessage, error) {
	if d.set == nil {
		return r.Parameters, nil
	}
	return d.set.Shape(ctx, r)
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
