package parameters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

func described(schema string) dispatch.Parameter {
	return Describe(dispatch.Parameter{Name: "p", Schema: json.RawMessage(schema)})
}

// The test has the type of every form of schema known from platforms.
func TestDescribe_Types(t *testing.T) {
	const bbox = `{"type":"object","subtype":"bounding-box","required":["west","south","east","north"],
		"properties":{"west":{"type":"number"},"south":{"type":"number"},"east":{"type":"number"},"north":{"type":"number"},
		"crs":{"anyOf":[{"type":"integer","subtype":"epsg-code"},{"type":"string","subtype":"wkt2-definition"}]}}}`
	for schema, want := range map[string]dispatch.ParamType{
		`{"type":"number"}`:                                  dispatch.Double,
		`{"type":"integer"}`:                                 dispatch.Integer,
		`{"type":"integer","allOf":[{"minimum":3}]}`:         dispatch.Integer,
		`{"type":"boolean"}`:                                 dispatch.Boolean,
		`{"type":"string"}`:                                  dispatch.String,
		`{"type":"string","enum":["a","b"]}`:                 dispatch.String,
		`{"enum":["a","b"]}`:                                 dispatch.String,
		`{"type":"string","format":"date"}`:                  dispatch.DateTime,
		`{"type":"string","format":"date-time"}`:             dispatch.DateTime,
		`{"type":"string","subtype":"date","format":"date"}`: dispatch.DateTime,
		`{"type":"string","subtype":"date"}`:                 dispatch.DateTime,
		`{"type":"string","subtype":"time"}`:                 dispatch.String,
		`{"type":"integer","subtype":"year"}`:                dispatch.Integer,
		`{"type":"array","subtype":"temporal-interval"}`:     dispatch.DateInterval,
		`{"type":"array","subtype":"temporal-interval","items":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]}}`: dispatch.DateInterval,
		`[{"type":"array","subtype":"temporal-interval"},{"type":"null"}]`:                                                     dispatch.DateInterval,
		`{"type":"object","subtype":"bounding-box"}`:                                                                           dispatch.BoundingBox,
		bbox: dispatch.BoundingBox,
		`[` + bbox + `,{"type":"object","subtype":"datacube"},{"type":"null"}]`:              dispatch.BoundingBox,
		`[` + bbox + `,{"type":"null"}]`:                                                     dispatch.BoundingBox,
		`{"type":"object","subtype":"geojson"}`:                                              dispatch.Polygon,
		`[{"type":"object","subtype":"geojson"},` + bbox + `]`:                               dispatch.BoundingBox,
		`{"type":"array","items":{"type":"string"}}`:                                         dispatch.ArrayString,
		`{"type":"array","items":{"type":"string","enum":["B02","B03"]}}`:                    dispatch.ArrayString,
		`[{"type":"array","items":{"type":"string","subtype":"band-name"}},{"type":"null"}]`: dispatch.ArrayString,
		`[{"type":"null"},{"type":"string"}]`:                                                dispatch.String,
		`{"type":"array","items":{"type":"array","items":{"type":"string"}}}`:                dispatch.Array,
		`{"type":"array","items":{"type":"number"}}`:                                         dispatch.Array,
		`{"type":"array"}`:                       dispatch.Array,
		`{"type":"object"}`:                      dispatch.Object,
		`{"type":"object","subtype":"datacube"}`: dispatch.Object,
		`{}`:                                     dispatch.Object,
		`true`:                                   dispatch.Object,
		`{"type":["number","null"]}`:             dispatch.Double,
		`{"type":["integer","number"]}`:          dispatch.Double,
		`{"type":["string","null"],"format":"date-time"}`:                          dispatch.DateTime,
		`{"oneOf":[{"type":"string"},{"type":"integer"}]}`:                         dispatch.Integer,
		`{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}`: dispatch.ArrayString,
		`{"default":5}`:   dispatch.Integer,
		`{"default":0.5}`: dispatch.Double,
		`{"$ref":"#/definitions/d","definitions":{"d":{"type":"boolean"}}}`:                                                                             dispatch.Boolean,
		`{"type":"object","required":["bbox"],"properties":{"bbox":{"type":"array"},"crs":{"type":"string"}}}`:                                          dispatch.BoundingBox,
		`{"allOf":[{"format":"ogc-bbox"},{"$ref":"https://schemas.example.org/bbox.yaml"}]}`:                                                            dispatch.BoundingBox,
		`{"type":"object","contentMediaType":"application/geo+json"}`:                                                                                   dispatch.Polygon,
		`{"allOf":[{"format":"geojson-geometry"},{"$ref":"https://schemas.example.org/geometryGeoJSON.yaml"}]}`:                                         dispatch.Polygon,
		`{"oneOf":[{"$ref":"https://schemas.example.org/geometryGeoJSON.yaml"},{"type":"string","contentMediaType":"application/gml+xml"}]}`:            dispatch.Polygon,
		`{"type":"object","required":["type","coordinates"],"properties":{"type":{"type":"string","enum":["Polygon"]},"coordinates":{"type":"array"}}}`: dispatch.Polygon,
		`{"type":"string","contentEncoding":"base64","contentMediaType":"image/tiff"}`:                                                                  dispatch.String,
		`{"type":"number","nullable":true}`: dispatch.Double,
	} {
		if p := described(schema); p.Type != want {
			t.Errorf("%s is a %s, not a %s", schema, p.Type, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ schema, options, def, bounds, null string }{
		{`{"type":"string","enum":["2021","2022"]}`, `"2021" "2022"`, "", "", ""},
		{`{"type":"array","items":{"type":"string","enum":["B02","B03"]},"default":["B02"]}`, `"B02" "B03"`, `["B02"]`,
			"", ""},
		{`{"type":"array","items":{"type":"integer","minimum":1},"default":[1,2]}`, "", "[1,2]", "", ""},
		{`[{"type":"string","enum":["a"]},{"type":"string","enum":["b",null]}]`, `"a" "b"`, "", "", "null"},
		{`{"type":"number","minimum":0.10,"maximum":100,"nullable":true,"default":1.50}`, "", "1.50", "0.10 100",
			"null"},
		{`[{"type":"integer"},{"type":"null"}]`, "", "", "", "null"},
		{`{"type":["number","null"],"default":null}`, "", "null", "", "null"},
		{`{"anyOf":[{"type":"integer","minimum":3},{"type":"null"}],"default":7}`, "", "7", "3 ", "null"},
	} {
		p := described(c.schema)
		var options []string
		for _, o := range p.Options {
			options = append(options, string(o))
		}
		bounds := ""
		if p.Minimum != nil {
			bounds = p.Minimum.String() + " "
		}
		if p.Maximum != nil {
			bounds += p.Maximum.String()
		}
		null := ""
		if p.Nullable {
			null = "null"
		}
		got := []string{strings.Join(options, " "), string(p.Default), bounds, null}
		if want := []string{c.options, c.def, c.bounds, c.null}; !slices.Equal(got, want) {
			t.Errorf("%s says %q, want %q", c.schema, got, want)
		}
	}
}

// shape is a schema, a value, and the value in the schema's form.
type shape struct{ schema, value, want string }

// shapes returns the cases of TestShape.
func shapes() []shape {
	const (
		corners   = `{"type":"object","subtype":"bounding-box"}`
		ogc       = `{"allOf":[{"format":"ogc-bbox"},{"$ref":"https://schemas.example.org/bbox.yaml"}]}`
		geojson   = `{"type":"object","subtype":"geojson"}`
		feature   = `{"type":"object","properties":{"type":{"enum":["FeatureCollection"]}},"required":["type"]}`
		polygon   = `{"type":"Polygon","coordinates":[[[4.10,50],[5,50],[5,51.00],[4.10,51.00],[4.10,50]]]}`
		box       = `{"east":5,"north":51.00,"south":50,"west":4.10}`
		interval  = `{"type":"array","subtype":"temporal-interval","items":{"anyOf":[{"type":"string","format":"date-time"},{"type":"string","format":"date"},{"type":"null"}]}}`
		textMedia = `{"oneOf":[{"type":"string","contentEncoding":"base64","contentMediaType":"image/tiff"},{"type":"string","contentEncoding":"base64","contentMediaType":"image/jp2","title":"JPEG 2000"}]}`
		withHole  = `{"type":"Polygon","coordinates":[[[4.10,50],[5,50],[5,51.00],[4.10,50]],[[4.5,50.1],[4.6,50.1],[4.6,50.2],[4.5,50.1]]]}`
	)
	return []shape{
		{corners, box, box},
		{corners, `{"west":1,"south":2,"east":3,"north":4,"crs":"EPSG:32631","base":1,"height":null}`,
			`{"west":1,"south":2,"east":3,"north":4,"crs":"EPSG:32631","base":1,"height":null}`},
		{corners, polygon, box},
		{corners, withHole, box},
		{corners, `{"type":"MultiPolygon","coordinates":[` +
			polygon[len(`{"type":"Polygon","coordinates":`):len(polygon)-1] + `]}`, box},
		{corners, `{"type":"Feature","properties":null,"geometry":` + polygon + `}`, box},
		{corners, `{"type":"FeatureCollection","features":[{"type":"Feature","geometry":` + polygon + `}]}`, box},
		{corners, `{"type":"Point","coordinates":[4.10,50,7]}`, `{"east":4.10,"north":50,"south":50,"west":4.10}`},
		{corners, `[4.10,50,5,51.00]`, box},
		{corners, `{"bbox":[4.10,50,5,51.00],"crs":"x"}`, `{"crs":"x","east":5,"north":51.00,"south":50,"west":4.10}`},
		{corners, `{"west":1}`, ""},
		{corners, `"4,50,5,51"`, ""},
		{corners, `{"type":"Polygon","coordinates":[]}`, ""},
		{`[` + corners + `,` + geojson + `]`, polygon, polygon},
		{`[` + corners + `,{"type":"object","subtype":"datacube"},{"type":"null"}]`, polygon, box},
		{`[` + corners + `,{"type":"null"}]`, `null`, `null`},
		{ogc, box, `{"bbox":[4.10,50,5,51.00]}`},
		{ogc, polygon, `{"bbox":[4.10,50,5,51.00]}`},
		{ogc, `[4.10,50,5,51.00]`, `{"bbox":[4.10,50,5,51.00]}`},
		{ogc, `{"bbox":[1,2,3,4]}`, `{"bbox":[1,2,3,4]}`},
		{geojson, box, `{"coordinates":[[[4.10,50],[5,50],[5,51.00],[4.10,51.00],[4.10,50]]],"type":"Polygon"}`},
		{geojson, polygon, polygon},
		{geojson, `{"west":1,"south":2,"east":3,"north":4,"crs":"EPSG:32631"}`, ""},
		{feature, box,
			`{"features":[{"geometry":{"coordinates":[[[4.10,50],[5,50],[5,51.00],[4.10,51.00],[4.10,50]]],"type":"Polygon"},"properties":{},"type":"Feature"}],"type":"FeatureCollection"}`},
		{`{"type":"string","format":"date"}`, `"2024-05-01"`, `"2024-05-01"`},
		{`{"type":"string","format":"date"}`, `"2024-05-01T10:00:00Z"`, `"2024-05-01"`},
		{`{"type":"string","format":"date-time"}`, `"2024-05-01"`, `"2024-05-01T00:00:00Z"`},
		{`{"type":"string","format":"date-time"}`, `"2024-05-01 10:00:00"`, `"2024-05-01T10:00:00Z"`},
		{`{"type":"string","format":"date"}`, `"yesterday"`, ""},
		{`{"type":"string","format":"date"}`, `"2024-13-01"`, ""},
		{interval, `["2024-01-01","2024-02-01"]`, `["2024-01-01","2024-02-01"]`},
		{interval, `"2024-01-01/.."`, `["2024-01-01",null]`},
		{interval, `["2024-01-01T00:00:00","2024-02-01"]`, `["2024-01-01T00:00:00Z","2024-02-01"]`},
		{interval, `["2024-01-01"]`, ""},
		{`{"type":"array","subtype":"temporal-interval"}`, `["2024-01-01"]`, ""},
		{`{"type":"string"}`, `["2024-01-01",null]`, `"2024-01-01/.."`},
		{`{"type":"string"}`, `["2024-01-01 10:00:00","2024-02-01T00:00:00Z"]`,
			`"2024-01-01 10:00:00/2024-02-01T00:00:00Z"`},
		{`{"type":"string"}`, `["B04","B08"]`, ""},
		{`{"type":"string"}`, `["B04",null]`, ""},
		{`{"type":"string"}`, `[null,null]`, ""},
		{`{"type":"string"}`, `["2024-01-01","B08"]`, ""},
		{`{"type":"string"}`, `["https://data.example.org/a.json","https://data.example.org/b.json"]`, ""},
		{`{"type":"string","subtype":"collection-id"}`, `["SENTINEL2_L2A","SENTINEL1_GRD"]`, ""},
		{`{"type":"string","pattern":"^[0-9/]+$"}`, `["2023","2024"]`, ""},
		{textMedia, `"aGVsbG8="`, `"aGVsbG8="`},
		{textMedia, `7`, ""},
		{`{"oneOf":[` + textMedia + `,{"type":"integer"}]}`, `"aGVsbG8="`, `"aGVsbG8="`},
		{
			`{"oneOf":[{"type":"string","contentMediaType":"application/gml+xml"},{"$ref":"https://schemas.example.org/geometryGeoJSON.yaml"}]}`, `"<gml/>"`, `"<gml/>"`},
		{
			`{"type":"string","oneOf":[{"minLength":2},{"minLength":3}],"anyOf":[{"maxLength":4},{"maxLength":5}],"allOf":[{"pattern":"^a"}]}`, `"abcd"`, `"abcd"`},
		{
			`{"type":"string","oneOf":[{"minLength":2},{"minLength":3}],"anyOf":[{"maxLength":4},{"maxLength":5}],"allOf":[{"pattern":"^a"}]}`, `"a"`, ""},
		{
			`{"type":"string","oneOf":[{"minLength":2},{"minLength":3}],"anyOf":[{"maxLength":4},{"maxLength":5}],"allOf":[{"pattern":"^a"}]}`, `"abcdef"`, ""},
		{
			`{"type":"string","oneOf":[{"minLength":2},{"minLength":3}],"anyOf":[{"maxLength":4},{"maxLength":5}],"allOf":[{"pattern":"^a"}]}`, `"bcd"`, ""},
		{`{"type":"number","minimum":0,"exclusiveMinimum":true}`, `0`, ""},
		{`{"type":"number","minimum":0,"exclusiveMinimum":true}`, `0.00000000000000000001`, `0.00000000000000000001`},
		{`{"type":"integer"}`, `12345678901234567890`, `12345678901234567890`},
		{`{"type":"integer"}`, `1.5`, ""},
		{`{"type":"integer","nullable":true}`, `null`, `null`},
		{`{"type":"integer"}`, `null`, ""},
		{`{"type":"string","enum":["VV","VH"]}`, `"HH"`, ""},
		{`{"type":"array","items":{"type":"string","enum":["B02"]}}`, `["B02","B03"]`, ""},
		{`{"type":"no-type"}`, `5`, `5`},
		{`{"$ref":"https://elsewhere.example.org/schema.json"}`, `{"a":1}`, `{"a":1}`},
	}
}

// The test has the values that are accepted, and the form in which they are sent. An empty form: refused.
func TestShape(t *testing.T) {
	for _, c := range shapes() {
		s := NewSet([]dispatch.Parameter{described(c.schema)})
		got, faults := s.Argument(nil, "p", json.RawMessage(c.value), "body")
		switch {
		case c.want == "" && faults == nil:
			t.Errorf("%s took %s as %s", c.schema, c.value, got)
		case c.want != "" && (faults != nil || string(got) != c.want):
			t.Errorf("%s: %s became %s %v, want %s", c.schema, c.value, got, faults, c.want)
		}
	}
}

// The reference system of a box is named as the description asks, since longitude and latitude have several names. An
// empty form: refused.
func TestShape_ReferenceSystems(t *testing.T) {
	const (
		sides    = `{"west":4.10,"south":50,"east":5,"north":51`
		crs84    = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
		strict   = `{"type":"object","required":["bbox"],"format":"ogc-bbox","properties":{"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","default":"` + crs84 + `","enum":["` + crs84 + `","http://www.opengis.net/def/crs/OGC/0/CRS84h"]}}}`
		loose    = `{"type":"object","required":["bbox"],"properties":{"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","format":"uri"}}}`
		zoo      = `{"type":"object","required":["bbox","crs"],"properties":{"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","format":"uri","default":"EPSG:4326","enum":["EPSG:4326","EPSG:3857"]}}}`
		urn      = `{"type":"object","required":["bbox","crs"],"properties":{"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","format":"uri","default":"urn:ogc:def:crs:EPSG:6.6:4326","enum":["urn:ogc:def:crs:EPSG:6.6:4326","urn:ogc:def:crs:EPSG:6.6:3785"]}}}`
		metres   = `{"type":"object","required":["bbox"],"format":"ogc-bbox","properties":{"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","default":"EPSG:3857"}}}`
		only3857 = `{"type":"object","required":["bbox","crs"],"format":"ogc-bbox","properties":{"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","default":"EPSG:3857","enum":["EPSG:3857"]}}}`
		// A default alone, and CRS84 after it.
		uri     = `{"type":"object","required":["bbox"],"properties":{"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","default":"http://www.opengis.net/def/crs/EPSG/0/4326"}}}`
		both    = `{"type":"object","required":["bbox","crs"],"properties":{"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","enum":["urn:ogc:def:crs:EPSG::4326","` + crs84 + `"]}}}`
		list    = `{"type":"array","format":"bounding-box","items":{"type":"number"},"minItems":4,"maxItems":4}`
		corners = `{"type":"object","subtype":"bounding-box"}`
		polygon = `{"type":"Polygon","coordinates":[[[4.10,50],[5,50],[5,51],[4.10,51],[4.10,50]]]}`
	)
	for _, c := range []shape{
		{strict, sides + `,"crs":"EPSG:4326"}`, `{"bbox":[4.10,50,5,51]}`},
		{strict, sides + `,"crs":4326}`, `{"bbox":[4.10,50,5,51]}`},
		{strict, sides + `,"crs":null}`, `{"bbox":[4.10,50,5,51]}`},
		{strict, sides + `,"crs":"EPSG:32631"}`, ""},
		{strict, `{"bbox":[4.10,50,5,51],"crs":"` + crs84 + `"}`, `{"bbox":[4.10,50,5,51],"crs":"` + crs84 + `"}`},
		{loose, sides + `,"crs":"EPSG:4326"}`, `{"bbox":[4.10,50,5,51]}`},
		{loose, sides + `,"crs":4326}`, `{"bbox":[4.10,50,5,51]}`},
		{loose, sides + `,"crs":"EPSG:32631"}`, `{"bbox":[4.10,50,5,51],"crs":"EPSG:32631"}`},
		// whose axes nobody knows
		{loose, `{"bbox":[50,4.10,51,5],"crs":"EPSG:4326"}`, `{"bbox":[50,4.10,51,5],"crs":"EPSG:4326"}`},
		{loose, `[4.10,50,5,51]`, `{"bbox":[4.10,50,5,51]}`},
		{zoo, sides + `}`, `{"bbox":[4.10,50,5,51],"crs":"EPSG:4326"}`},
		{zoo, sides + `,"crs":4326}`, `{"bbox":[4.10,50,5,51],"crs":"EPSG:4326"}`},
		{zoo, polygon, `{"bbox":[4.10,50,5,51],"crs":"EPSG:4326"}`},
		{zoo, `[4.10,50,5,51]`, `{"bbox":[4.10,50,5,51],"crs":"EPSG:4326"}`},
		{zoo, `{"bbox":[4.10,50,5,51]}`, `{"bbox":[4.10,50,5,51],"crs":"EPSG:4326"}`},
		{zoo, `{"bbox":[4.10,50,5,51],"crs":"` + crs84 + `"}`, `{"bbox":[4.10,50,5,51],"crs":"EPSG:4326"}`},
		{zoo, `{"bbox":[455000,6446000,556000,6621000],"crs":"EPSG:3857"}`,
			`{"bbox":[455000,6446000,556000,6621000],"crs":"EPSG:3857"}`},
		{zoo, sides + `,"crs":"EPSG:32631"}`, ""},
		// A URN or URI of EPSG:4326 means that latitudes come first.
		{urn, sides + `}`, `{"bbox":[50,4.10,51,5],"crs":"urn:ogc:def:crs:EPSG:6.6:4326"}`},
		{urn, sides + `,"crs":"EPSG:4326"}`, `{"bbox":[50,4.10,51,5],"crs":"urn:ogc:def:crs:EPSG:6.6:4326"}`},
		{urn, polygon, `{"bbox":[50,4.10,51,5],"crs":"urn:ogc:def:crs:EPSG:6.6:4326"}`},
		{urn, `{"bbox":[4.10,50,1,5,51,2]}`, `{"bbox":[50,4.10,1,51,5,2],"crs":"urn:ogc:def:crs:EPSG:6.6:4326"}`},
		{urn, `{"bbox":[50,4.10,51,5],"crs":"urn:ogc:def:crs:EPSG:6.6:4326"}`,
			`{"bbox":[50,4.10,51,5],"crs":"urn:ogc:def:crs:EPSG:6.6:4326"}`},
		{uri, sides + `}`, `{"bbox":[4.10,50,5,51],"crs":"` + crs84 + `"}`},
		{both, sides + `}`, `{"bbox":[4.10,50,5,51],"crs":"` + crs84 + `"}`},
		{metres, sides + `}`, `{"bbox":[4.10,50,5,51],"crs":"` + crs84 + `"}`},
		{only3857, sides + `}`, ""},
		{only3857, `{"bbox":[4.10,50,5,51]}`, ""},
		{list, sides + `}`, `[4.10,50,5,51]`},
		{list, sides + `,"crs":"EPSG:4326"}`, `[4.10,50,5,51]`},
		{list, sides + `,"crs":"EPSG:32631"}`, ""},
		{list, polygon, `[4.10,50,5,51]`},
		{list, `[4.10,50,5,51]`, `[4.10,50,5,51]`},
		{list, `{"bbox":[4.10,50,5,51]}`, `[4.10,50,5,51]`},
		{corners, `{"bbox":[4.10,50,5,51],"crs":"` + crs84 + `"}`, `{"east":5,"north":51,"south":50,"west":4.10}`},
	} {
		p := described(c.schema)
		got, faults := NewSet([]dispatch.Parameter{p}).Argument(nil, "p", json.RawMessage(c.value), "body")
		switch {
		case p.Type != dispatch.BoundingBox:
			t.Errorf("%s is a %s", c.schema, p.Type)
		case c.want == "" && faults == nil:
			t.Errorf("%s took %s as %s", c.schema, c.value, got)
		case c.want != "" && (faults != nil || string(got) != c.want):
			t.Errorf("%s: %s became %s %v, want %s", c.schema, c.value, got, faults, c.want)
		}
	}
}

// Areas on both sides of the antimeridian become a box from west to east across it in OGC API. openEO does not define
// such boxes, so there they are a fault. An empty box: refused.
func TestShape_Antimeridian(t *testing.T) {
	const (
		corners = `{"type":"object","subtype":"bounding-box"}`
		ogc     = `{"allOf":[{"format":"ogc-bbox"},{"$ref":"https://schemas.example.org/bbox.yaml"}]}`
		geojson = `{"type":"object","subtype":"geojson"}`
	)
	ring := func(w, e string) string { // counterclockwise from west to east
		return `[[` + w + `,-18],[` + e + `,-18],[` + e + `,-16],[` + w + `,-16],[` + w + `,-18]]`
	}
	polygon := func(rings ...string) string {
		return `{"type":"Polygon","coordinates":[` + strings.Join(rings, ",") + `]}`
	}
	parts := func(rings ...string) string {
		return `{"type":"MultiPolygon","coordinates":[[` + strings.Join(rings, "],[") + `]]}`
	}
	for name, c := range map[string]struct{ value, west, east, openEO string }{
		"cut": {parts(ring("177.0", "180"), ring("-180", "-178.50")), "177.0", "-178.50", ""},
		"cut, others apart": {parts(ring("30", "177"), ring("178", "180.0"), ring("-180", "-170"), ring("20.5", "25")),
			"20.5", "-170", ""},
		"jumping": {polygon(ring("177.0", "-178.50")), "177.0", "-178.50", ""},
		"jumping with hole": {polygon(ring("177", "-178"), `[[178,-17],[178,-16.5],[-179,-17],[178,-17]]`), "177",
			"-178", ""},
		"in a collection": {`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":` +
			polygon(ring("177", "180")) +
			`},{"type":"Feature","geometry":` + polygon(ring("-180", "-179")) + `}]}`, "177", "-179", ""},
		"a line":               {`{"type":"LineString","coordinates":[[179,-18],[-179,-16]]}`, "179", "-179", ""},
		"unclear":              {polygon(ring("-179", "179")), "", "", ""},
		"beyond":               {polygon(ring("177", "182")), "177", "182", "yes"},
		"on both sides, apart": {parts(ring("140", "150"), ring("-160", "-150")), "-160", "150", "yes"},
		"ends at it":           {polygon(ring("177", "180")), "177", "180", "yes"},
		"begins at it":         {polygon(ring("-180", "-177")), "-180", "-177", "yes"},
		"points":               {`{"type":"MultiPoint","coordinates":[[179,-18],[-179,-16]]}`, "-179", "179", "yes"},
		"the globe":            {polygon(ring("-180", "180")), "-180", "180", "yes"},
		"the globe in halves":  {parts(ring("-180", "0"), ring("0", "180")), "-180", "180", "yes"},
		"long, with positions": {polygon(`[[-179,-18],[0,-18],[179,-18],[179,-16],[0,-16],[-179,-16],[-179,-18]]`),
			"-179", "179", "yes"},
	} {
		got, faults := NewSet([]dispatch.Parameter{described(ogc)}).Argument(nil, "p", json.RawMessage(c.value))
		want := `{"bbox":[` + c.west + `,-18,` + c.east + `,-16]}`
		if c.west == "" && faults == nil || c.west != "" && (faults != nil || string(got) != want) {
			t.Errorf("%s: OGC %s %v, want %s", name, got, faults, want)
		}
		got, faults = NewSet([]dispatch.Parameter{described(corners)}).Argument(nil, "p", json.RawMessage(c.value),
			"body", 7)
		want = `{"east":` + c.east + `,"north":-16,"south":-18,"west":` + c.west + `}`
		switch {
		case c.openEO != "" && (faults != nil || string(got) != want):
			t.Errorf("%s: openEO %s %v, want %s", name, got, faults, want)
		case c.openEO == "" && (len(faults) != 1 || fmt.Sprint(faults[0].Loc) != "[body 7]" ||
			!strings.Contains(faults[0].Msg, "antimeridian")):
			t.Errorf("%s: openEO took %s: %v", name, got, faults)
		}
		if got, faults := NewSet([]dispatch.Parameter{described(geojson)}).Argument(nil, "p",
			json.RawMessage(c.value)); faults != nil || string(got) != c.value {
			t.Errorf("%s where GeoJSON is asked for: %s %v", name, got, faults)
		}
	}
	got, faults := NewSet([]dispatch.Parameter{described(geojson)}).Argument(nil, "p",
		json.RawMessage(`{"west":177.0,"south":-18,"east":-178.50,"north":-16}`))
	if want := `{"coordinates":[[` + ring("177.0", "180") + `],[` + ring("-180", "-178.50") +
		`]],"type":"MultiPolygon"}`; faults != nil || string(got) != want {
		t.Errorf("a box over it as GeoJSON: %s %v", got, faults)
	}
	for _, value := range []string{`{"bbox":[177.0,-18,-178.50,-16]}`, `[177,-18,-178.5,-16]`,
		`[177,-18,0,-178.5,-16,9]`} {
		got, faults := NewSet([]dispatch.Parameter{described(corners)}).Argument(nil, "p", json.RawMessage(value),
			"body", 7)
		if len(faults) != 1 || fmt.Sprint(faults[0].Loc) != "[body 7]" ||
			!strings.Contains(faults[0].Msg, "antimeridian") {
			t.Errorf("openEO took %s as %s: %v", value, got, faults)
		}
	}
	for _, value := range []string{`{"bbox":[null,1,2,3]}`, `[4,50,5,null]`, `{"bbox":[4,50,0,5,51,null]}`} {
		if got, faults := NewSet([]dispatch.Parameter{described(corners)}).Argument(nil, "p",
			json.RawMessage(value)); len(faults) != 1 {
			t.Errorf("openEO took %s as %s: %v", value, got, faults)
		}
	}
}

func TestArguments_ListsAllFaults(t *testing.T) {
	s := NewSet([]dispatch.Parameter{
		Describe(dispatch.Parameter{Name: "extent", Schema: json.RawMessage(`{"type":"object","subtype":"bounding-box"}`)}),
		Describe(dispatch.Parameter{Name: "bands",
			Schema: json.RawMessage(`{"type":"array","items":{"type":"string","enum":["B02"]}}`)}),
		Describe(dispatch.Parameter{Name: "cloud", Optional: true,
			Schema: json.RawMessage(`{"type":"number","maximum":100}`)}),
		Describe(dispatch.Parameter{Name: "burst", Optional: true, Default: json.RawMessage(`null`),
			Schema: json.RawMessage(`{"type":"integer"}`)}),
		Describe(dispatch.Parameter{Name: "year", Schema: json.RawMessage(`{"type":"integer"}`)}),
	})
	_, faults := s.Arguments(nil, json.RawMessage(`{"bands":["B02","B99"],"cloud":101,"burst":null,"clouds":3}`),
		&dispatch.Dimension{Name: "year"})
	var got []string
	for _, f := range faults {
		got = append(got, fmt.Sprint(f.Loc))
		if f.Msg == "" || f.Type == "" {
			t.Errorf("%v says nothing", f)
		}
	}
	want := []string{"[body parameters bands 1]", "[body parameters cloud]", "[body parameters clouds]",
		"[body parameters extent]"}
	if !slices.Equal(got, want) {
		t.Errorf("faults at %v, want %v: %v", got, want, faults)
	}
}

// A text in another form than that of its parameter is described in the user's words.
func TestArguments_SaysWhichFormTextsHave(t *testing.T) {
	var all []dispatch.Parameter
	for _, form := range []string{"date", "date-time", "uuid"} {
		all = append(all, Describe(dispatch.Parameter{Name: form,
			Schema: json.RawMessage(`{"type":"string","format":"` + form + `"}`)}))
	}
	_, faults := NewSet(all).Arguments(nil,
		json.RawMessage(`{"date":"2024-01","date-time":"2024-04","uuid":"2024"}`), nil)
	var got []string
	for _, f := range faults {
		_, text, _ := strings.Cut(f.Msg, "is not valid: ")
		got = append(got, text)
	}
	want := []string{`"2024-01" is not a date such as 2024-06-01.`,
		`"2024-04" is not a time such as 2024-06-01T12:00:00Z.`, `"2024" does not have the form "uuid".`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestArguments_KeepsValidValues(t *testing.T) {
	s := NewSet([]dispatch.Parameter{Describe(dispatch.Parameter{Name: "x",
		Schema: json.RawMessage(`{"type":"number"}`)})})
	raw := json.RawMessage(`{ "x" : 1.10 }`)
	if got, faults := s.Arguments(nil, raw, nil); faults != nil || !bytes.Equal(got, raw) {
		t.Errorf("%s %v", got, faults)
	}
}

// Random schemas, including invalid ones, are described.
func TestDescribe_EverySchema(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(anySchema(3).Draw(t, "schema"))
		if err != nil {
			t.Fatal(err)
		}
		p := described(string(raw))
		if !slices.Contains(bySpecificity, p.Type) {
			t.Errorf("%s is a %q", raw, p.Type)
		}
		NewSet([]dispatch.Parameter{p}).Argument(nil, "p",
			json.RawMessage(`{"type":"Polygon","coordinates":[[[1,2]]]}`))
	})
}

func anySchema(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		s := map[string]any{}
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"string", "number", "integer", "array", "object", "null",
			"odd"}), 0, 2).Draw(t, "type")
		switch len(names) {
		case 1:
			s["type"] = names[0]
		case 2:
			s["type"] = names
		}
		if rapid.Bool().Draw(t, "subtyped") {
			s["subtype"] = rapid.SampledFrom([]string{"bounding-box", "geojson", "date", "temporal-interval",
				"strange"}).Draw(t, "subtype")
		}
		if depth > 0 && rapid.Bool().Draw(t, "nested") {
			s[rapid.SampledFrom([]string{"anyOf", "oneOf", "allOf"}).Draw(t, "how")] = rapid.SliceOfN(
				anySchema(depth-1), 0, 3).Draw(t, "alternatives")
			s["items"] = anySchema(depth-1).Draw(t, "items")
			s["minimum"] = rapid.SampledFrom([]any{1, "odd", nil}).Draw(t, "minimum")
		}
		return s
	})
}

func FuzzDescribe(f *testing.F) {
	f.Add([]byte(`[{"type":"object","subtype":"bounding-box"},{"type":"null"}]`),
		[]byte(`{"type":"Point","coordinates":[1,2]}`))
	f.Add([]byte(`{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/a"}}}`), []byte(`1`))
	f.Add([]byte(`{"required":1,"items":{"required":1,"items":{}}}`), []byte(`[[1]]`))
	f.Add(
		[]byte(`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":{"a":{"$ref":"#"}}}}}`),
		[]byte(`{"a":{"a":{"a":1}}}`))
	f.Add([]byte(`{"enum":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,1.80e1],"nullable":true}`), []byte(`18`))
	f.Add([]byte(`{"pattern":"(a|b)*c{100}","patternProperties":{"^x":{"type":["string","null"]}}}`), []byte(`"abab"`))
	f.Add([]byte(`{"exclusiveMaximum":true,"maximum":3,"multipleOf":1e-300}`), []byte(`1e400`))
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		if !json.Valid(schema) || !json.Valid(value) {
			return
		}
		const most = 1_000
		r := NewReader(t.Context())
		set := r.NewSet([]dispatch.Parameter{r.Describe(dispatch.Parameter{Name: "p", Schema: schema})})
		if steps := r.Steps(); steps > bounds.SchemaNodes.Most+bounds.SchemaSteps.Most+2*most {
			t.Errorf("reading %s took %d steps", schema, steps)
		}
		m := bounds.CheckSteps.Meter(t.Context())
		got, _ := set.Argument(m, "p", value)
		if !json.Valid(got) {
			t.Errorf("%s became %s", value, got)
		}
		if m.Spent() > bounds.CheckSteps.Most+int64(most+len(schema)*len(value)) {
			t.Errorf("checking %s against %s took %d steps", value, schema, m.Spent())
		}
	})
}

func BenchmarkTiles(b *testing.B) {
	s := NewSet([]dispatch.Parameter{described(`{"type":"object","subtype":"bounding-box"}`)})
	value := json.RawMessage(`{"type":"Polygon","coordinates":[[[4.10,50],[5,50],[5,51.00],[4.10,51.00],[4.10,50]]]}`)
	for b.Loop() {
		if _, faults := s.Argument(nil, "p", value, "body"); faults != nil {
			b.Fatal(faults)
		}
	}
}
