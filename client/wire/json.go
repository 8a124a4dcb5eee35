package wire

import (
	"encoding/json"
)

// Object is a JSON object, returned byte for byte.
type Object json.RawMessage

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// UnmarshalJSON implements [json.Unmarshaler]. null is no object.
func (o *Object) UnmarshalJSON(text []byte) error {
	if *o = nil; string(text) == "null" {
		return nil
	}
	return (*json.RawMessage)(o).UnmarshalJSON(text)
}

// Geometry is a GeoJSON geometry, or null.
type Geometry struct{ json.RawMessage }

// Area is an area on the Earth in GeoJSON.
type Area struct{ json.RawMessage }

// Cells is a user's own grid in GeoJSON.
type Cells struct{ json.RawMessage }

// Budget is an amount in the unit of a platform, an object with amount and unit, or null for none.
type Budget struct{ json.RawMessage }
