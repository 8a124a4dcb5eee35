package wire

import (
	"encoding/json"
)

// Object is a JSON object, returned byte for byte.
type Object struct{ json.RawMessage }

// Collection is a STAC Collection, returned byte for byte.
type Collection struct{ json.RawMessage }

// ServiceChoice is the service in a request: [ServiceDetails] or [ServiceReference].
type ServiceChoice struct{}

// Geometry is a GeoJSON geometry, or null.
type Geometry struct{ json.RawMessage }

// Area is an area on the Earth in GeoJSON.
type Area struct{ json.RawMessage }

// Cells is a user's own grid in GeoJSON.
type Cells struct{ json.RawMessage }
