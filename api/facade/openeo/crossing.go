package openeo

import (
	"encoding/json"
	"fmt"

	"github.com/eodispatch/eodispatch/dispatch"
)

// crossing returns a warning if a request for an openEO platform has a bounding box whose west is greater than its
// east; "": it has none. The box is sent as its client wrote it, because openEO neither defines nor forbids it, and
// platforms differ.
func crossing(r dispatch.Request) string {
	if r.Label != dispatch.OpenEO {
		return ""
	}
	text := r.Process
	if text == nil {
		text = r.Parameters
	}
	var sent any
	if json.Unmarshal(text, &sent) != nil {
		return ""
	}
	west, east, found := crossingBox(sent)
	if !found {
		return ""
	}
	return fmt.Sprintf(
		"A bounding box has a west that is greater than its east (%g and %g), and was sent as it was written. openEO "+
			"does not define such a box: a platform may fail, find nothing, "+
			"or read it as an area across the antimeridian. The job option %s splits an area there; two batch jobs, "+
			"or GeoJSON that is cut there, are understood everywhere.", west, east, optionGrid)
}

// crossingBox looks for a bounding box in longitude and latitude whose west is greater than its east.
func crossingBox(v any) (west, east float64, found bool) {
	for o := range objects(v) {
		west, hasWest := o["west"].(float64)
		east, hasEast := o["east"].(float64)
		if hasWest && hasEast && west > east && inDegrees(o["crs"]) {
			return west, east, true
		}
	}
	return 0, 0, false
}

// inDegrees reports whether a reference system is absent, or is longitude and latitude.
func inDegrees(crs any) bool {
	return crs == nil || crs == 4326.0 || crs == "EPSG:4326"
}
