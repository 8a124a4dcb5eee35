package parameters

import (
	"encoding/json"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Values that no place or time can have are refused although their schema allows them; open ends, other reference
// systems and boxes across the antimeridian are not.
func TestImplausible(t *testing.T) {
	for _, row := range []struct {
		kind  dispatch.ParamType
		value string
		good  bool
	}{
		{dispatch.BoundingBox, `{"west":4,"south":50,"east":5,"north":51}`, true},
		{dispatch.BoundingBox, `{"west":4,"south":50,"east":5,"north":95}`, false},
		{dispatch.BoundingBox, `{"west":4,"south":-91,"east":5,"north":51,"crs":"EPSG:4326"}`, false},
		{dispatch.BoundingBox, `{"west":4,"south":52,"east":5,"north":51}`, false},
		{dispatch.BoundingBox, `{"west":179,"south":-1,"east":-179,"north":1}`, true},
		{dispatch.BoundingBox, `{"west":500000,"south":5650000,"east":520000,"north":5670000,"crs":"EPSG:32631"}`,
			true},
		{dispatch.BoundingBox, `{"west":500000,"south":5650000,"east":520000,"north":5670000,"crs":32631}`, true},
		{dispatch.BoundingBox, `{"bbox":[4,50,5,95],"crs":"http://www.opengis.net/def/crs/OGC/1.3/CRS84"}`, false},
		{dispatch.BoundingBox, `{"west":500,"south":50,"east":501,"north":51}`, false},
		{dispatch.BoundingBox, `{"west":-361,"south":50,"east":5,"north":51,"crs":4326}`, false},
		{dispatch.BoundingBox, `{"west":177,"south":50,"east":182,"north":51,"crs":4326}`, true},
		{dispatch.BoundingBox, `{"bbox":[500,51,501,52]}`, false},
		{dispatch.BoundingBox, `{"bbox":[170,0,180,190.5]}`, false},
		{dispatch.BoundingBox, `{"bbox":[1e400,0,180,1]}`, false},
		{dispatch.BoundingBox, `{"west":5,"south":51,"east":6,"north":-1e999,"crs":32631}`, false},
		{dispatch.BoundingBox, `{"bbox":[5,51,6,52],"crs":"EPSG:99"}`, false},
		{dispatch.BoundingBox, `{"bbox":[5,51,6,52],"crs":"http://www.opengis.net/def/crs/EPSG/0/99"}`, false},
		{dispatch.BoundingBox, `{"bbox":[5,51,6,52],"crs":"urn:ogc:def:crs:EPSG::0"}`, false},
		{dispatch.BoundingBox, `{"west":5,"south":51,"east":6,"north":52,"crs":0}`, false},
		{dispatch.BoundingBox, `{"bbox":[5,51,6,52],"crs":"http://www.opengis.net/def/crs/EPSG/0/3035"}`, true},
		{dispatch.BoundingBox, `{"west":5,"south":51,"east":6,"north":52,"crs":"GEOGCRS[\"99\"]"}`, true},
		{dispatch.BoundingBox, `{"west":5,"south":51,"east":6,"north":52,"crs":null}`, true},
		{dispatch.Polygon, `{"type":"Polygon","coordinates":[[[170,50],[190,50],[190,51],[170,50]]]}`, true},
		{dispatch.Polygon, `{"type":"Polygon","coordinates":[[[500000,50],[500010,50],[500010,51],[500000,50]]]}`,
			false},
		{dispatch.BoundingBox, `[4,50,5,51]`, true},
		{dispatch.BoundingBox, `[4,52,0,5,51,9]`, false},
		{dispatch.Polygon, `{"type":"Polygon","coordinates":[[[4,50],[5,50],[5,95],[4,50]]]}`, false},
		{dispatch.Polygon, `{"type":"Polygon","coordinates":[[[4,50],[5,50],[5,51],[4,50]]]}`, true},
		{dispatch.Polygon, `"https://example.org/area.geojson"`, true},
		{dispatch.DateInterval, `["2024-06-01","2024-07-01"]`, true},
		{dispatch.DateInterval, `["2024-07-01","2024-06-01"]`, false},
		{dispatch.DateInterval, `["2024-07-01T00:00:00Z","2024-06-30"]`, false},
		{dispatch.DateInterval, `["2024-07-01T00:00:00+02:00","2024-06-30T23:00:00Z"]`, true},
		{dispatch.DateInterval, `"2024-07-01/2024-06-01"`, false},
		{dispatch.DateInterval, `["2024-07-01",null]`, true},
		{dispatch.DateInterval, `["..","2024-06-01"]`, true},
		{dispatch.DateInterval, `["2024-06-01","2024-06-01"]`, true},
		{dispatch.Double, `95`, true},
	} {
		p := parameter{Parameter: dispatch.Parameter{Name: "p", Type: row.kind}}
		if got := p.implausible(nil, json.RawMessage(row.value), nil); (got == nil) != row.good {
			t.Errorf("%s %s: %v", row.kind, row.value, got)
		}
	}
}
