package items

import (
	"encoding/json"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

func TestPlaceOf(t *testing.T) {
	const (
		square = `{"type":"Polygon","coordinates":[[[4,51],[5,51],[5,52],[4,52],[4,51]]]}`
		turned = `{"type":"Polygon","coordinates":[[[4,51],[4,52],[5,52],[5,51],[4,51]]]}`
		bowtie = `{"type":"Polygon","coordinates":[[[4,51],[5,52],[5,51],[4,52],[4,51]]]}`
		over   = `{"type":"MultiPolygon","coordinates":[[[[-180,-17],[-179,-17],[-179,-16],[-180,-16],[-180,-17]]],[[[180,-16],[179,-16],[179,-17],[180,-17],[180,-16]]]]}`
		box    = `[4,51,5,52]`
	)
	for value, want := range map[string]struct{ geometry, box string }{
		`{"west":4,"south":51,"east":5,"north":52}`:                                        {square, box},
		`{"west":4,"south":51,"east":5,"north":52,"crs":4326,"base":0,"height":10}`:        {square, box},
		`{"west":4,"south":51,"east":5,"north":52,"crs":"EPSG:4326"}`:                      {square, box},
		`{"west":4,"south":51,"east":5,"north":52,"crs":null}`:                             {square, box},
		`{"west":500000,"south":5650000,"east":520000,"north":5670000,"crs":"EPSG:32631"}`: {},
		`{"west":4,"south":51,"east":5,"north":52,"crs":"EPSG:3035"}`:                      {},
		`{"west":5,"south":52,"east":4,"north":51}`:                                        {},
		`{"west":179,"south":-17,"east":-179,"north":-16}`:                                 {over, `[179,-17,-179,-16]`},
		`{"bbox":[4,51,5,52]}`: {square, box},
		`{"bbox":[4,51,0,5,52,9],"crs":"http://www.opengis.net/def/crs/OGC/0/CRS84h"}`: {square, box},
		`{"bbox":[51,4,52,5],"crs":"http://www.opengis.net/def/crs/EPSG/0/4326"}`:      {},
		`{"value":{"bbox":[4,51,5,52]},"mediaType":"application/json"}`:                {square, box},
		box:    {square, box},
		square: {square, box},
		turned: {square, box},
		bowtie: {square, box},
		over:   {over, `[179,-17,-179,-16]`},
		`{"type":"Feature","geometry":` + turned + `,"properties":{}}`:                           {square, box},
		`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":` + square + `}]}`: {square, box},
		`{"type":"Feature","geometry":{"type":"Point","coordinates":[4,51]},"properties":null}`:  {`{"coordinates":[4,51],"type":"Point"}`, `[4,51,4,51]`},
		`{"type":"LineString","coordinates":[[4,51],[5,52]],"crs":"x"}`:                          {`{"coordinates":[[4,51],[5,52]],"type":"LineString"}`, box},
		`{"type":"Point","coordinates":[500000,5650000]}`:                                        {},
		`{"type":"FeatureCollection","features":[]}`:                                             {},
		`"2026-01-01"`: {}, `7`: {}, `null`: {}, `[]`: {}, `["2026-01-01","2026-02-01"]`: {}, `[1,2,3]`: {}, `{}`: {}, ``: {},
		`{"west":"4","south":51,"east":5,"north":52}`: {},
	} {
		got := PlaceOf(json.RawMessage(value))
		written := ""
		if got.Box != nil {
			raw, _ := json.Marshal(got.Box)
			written = string(raw)
		}
		if string(got.Geometry) != want.geometry || written != want.box {
			t.Errorf("%s: %s %s", value, got.Geometry, written)
		}
	}
}

// The check of an area is bounded: a map of a task has ten thousand.
func TestPlaceOf_IsBounded(t *testing.T) {
	most := bounds.AreaSteps.Most
	defer func() { bounds.AreaSteps.Most = most }()
	bounds.AreaSteps.Most = 10
	got := PlaceOf(json.RawMessage(`{"type":"Polygon","coordinates":[[[4,51],[5,51],[5,52],[4,51]]]}`))
	if want := `{"type":"Polygon","coordinates":[[[4,51],[5,51],[5,52],[4,52],[4,51]]]}`; string(got.Geometry) != want {
		t.Errorf("%s, not the box around it", got.Geometry)
	}
}
