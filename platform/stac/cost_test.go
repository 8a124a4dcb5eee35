package stac

import (
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance"
)

// FuzzGeoJSON: the extent of any text is on the Earth or unknown, and takes memory in proportion to the text.
func FuzzGeoJSON(f *testing.F) {
	for _, seed := range []string{
		`{"type":"FeatureCollection","features":[{"bbox":[1,2,3,4]},{"geometry":{"type":"Point","coordinates":[5,6]}}]}`,
		`{"type":"GeometryCollection","geometries":[{"coordinates":[[[170,1],[-170,2]]]},{"geometries":[{}]}]}`,
		`{"coordinates":[[[[[[1e308,-1e308]]]]]],"properties":{"datetime":"2026-01-01"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e Extent
		used := conformance.Allocated()
		e.GeoJSON(raw)
		if used = conformance.Allocated() - used; used > 1<<20+500*int64(len(raw)) {
			t.Errorf("%d bytes cost %d", len(raw), used)
		}
		if b := e.Box(); b != nil && (b[0] < -180 || b[2] > 180 || b[1] < -90 || b[3] > 90) {
			t.Errorf("%s is at %v", raw, b)
		}
	})
}
