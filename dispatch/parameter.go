package dispatch

import (
	"context"
	"encoding/json"
)

// ParamType is what kind of value a parameter takes, in words that a form can be built from.
type ParamType string

const (
	DateTime     ParamType = "datetime"
	DateInterval ParamType = "date-interval"
	BoundingBox  ParamType = "bounding-box"
	Polygon      ParamType = "polygon"
	Boolean      ParamType = "boolean"
	Integer      ParamType = "integer"
	Double       ParamType = "double"
	String       ParamType = "string"
	ArrayString  ParamType = "array-string"
	Object       ParamType = "object"
	Array        ParamType = "array"
)

// Parameter is one value that a service takes.
type Parameter struct {
	Name        string
	Type        ParamType
	Optional    bool
	Nullable    bool
	Description string
	Default     json.RawMessage   // nil: there is none
	Options     []json.RawMessage // the only values it takes, or its elements; none: any
	Minimum     *json.Number
	Maximum     *json.Number
	Schema      json.RawMessage // as the service's document has it
}

// Describer tells what parameters a service takes, in the order of its document. The zero token will do where the
// platform shows its documents to everybody.
type Describer interface {
	Parameters(context.Context, Token, Service) ([]Parameter, error)
}
