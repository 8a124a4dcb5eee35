package stac

import (
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func object(t *testing.T, raw string) (o Object) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// What is valid stays digit for digit.
func TestComplete_KeepsWhatIsValid(t *testing.T) {
	const valid = `{"assets":{"a":{"href":"https://x.example/a","file:size":12345678901234567890}},"description":"d","extent":{"spatial":{"bbox":[[4.0,51.0,4.10,51.1]]},"temporal":{"interval":[["2026-01-01T00:00:00+00:00",null]]}},"id":"c","keywords":["k"],"license":"CC-BY-4.0","links":[{"rel":"about","href":"https://x.example/"}],"providers":[{"name":"p","roles":["host"]}],"stac_extensions":["https://e.example/schema.json"],"stac_version":"1.1.0","summaries":{"gsd":[10.0],"r":{"minimum":1,"maximum":2}},"title":"T","type":"Collection","x:own":0.10}`
	c := object(t, valid)
	Complete(c, "other", Extent{})
	if got := marshal(c); string(got) != valid {
		t.Errorf("got  %s\nwant %s", got, valid)
	}
}

func TestComplete_AddsWhatIsKnown(t *testing.T) {
	var e Extent
	e.AddBox([]float64{4, 51, 5, 52})
	e.AddTime("2026-01-01")
	c := Object{}
	Complete(c, "job", e)
	const want = `{"assets":{},"description":"Results of job.","extent":{"spatial":{"bbox":[[4,51,5,52]]},"temporal":{"interval":[["2026-01-01T00:00:00Z","2026-01-01T00:00:00Z"]]}},"id":"job","license":"proprietary","links":[],"stac_version":"1.0.0","type":"Collection"}`
	if got := marshal(c); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAnchor(t *testing.T) {
	at, _ := url.Parse("https://x.example/jobs/1/results?sig=1")
	o := object(t,
		`{"links":[{"rel":"next","href":"more"},{"rel":"x"},{"href":"x"},null,7,{"rel":"s3","href":"s3://b/k"}],
		"assets":{"a":{"href":"../a%20b.TIF?sig=a%2Fb"},"b":{"href":"//y.example/b.json","type":"text/json","roles":["metadata"]},"c":{"type":"x"},"d":7}}`)
	Anchor(o, at)
	const links = `[{"href":"https://x.example/jobs/1/more","rel":"next"},{"href":"s3://b/k","rel":"s3"}]`
	const assets = `{"a":{"href":"https://x.example/jobs/a%20b.TIF?sig=a%2Fb","roles":["data"],"type":"image/tiff; application=geotiff"},"b":{"href":"https://y.example/b.json","roles":["metadata"],"type":"text/json"}}`
	if string(o["links"]) != links || string(o["assets"]) != assets {
		t.Errorf("%s\n%s", o["links"], o["assets"])
	}
	for _, odd := range []string{`{"assets":7,"links":7}`, `{}`, `{"assets":null,"links":null}`} {
		o := object(t, odd)
		Anchor(o, nil)
		if len(Links(o)) > 0 || Self(o) != "" {
			t.Error(odd)
		}
	}
}

func TestExtent_AddBox(t *testing.T) {
	for _, c := range []struct{ boxes, want string }{
		{`[]`, `null`},
		{`[[4,51,5,52],[3,50,4,51]]`, `[3,50,5,52]`},
		{`[[4,51,0,5,52,9]]`, `[4,51,5,52]`},
		{`[[500000,5650000,500010,5650010]]`, `null`},
		{`[[179,0,-179,1]]`, `[179,0,-179,1]`},
		{`[[179,0,-179,1],[-178,2,-177,3]]`, `[179,0,-177,3]`},
		{`[[-178,2,-177,3],[179,0,-179,1]]`, `[179,0,-177,3]`},
		{`[[179,0,-179,1],[177,0,178,1]]`, `[177,0,-179,1]`},
		{`[[179,0,-179,1],[178,0,-178,1]]`, `[178,0,-178,1]`},
		{`[[170,0,-170,1],[-175,0,175,1]]`, `[-180,0,180,1]`},
		{`[[170,0,180,1],[-180,0,-170,1]]`, `[170,0,-170,1]`},
		{`[[170,0,175,1],[-180,0,-170,1],[174,0,180,1]]`, `[170,0,-170,1]`},
		{`[[-180,0,0,1],[0,0,180,1]]`, `[-180,0,180,1]`},
		{`[[170,0,179,1],[-179,0,-170,1]]`, `[-179,0,179,1]`},
		{`[[-190,0,-170,1]]`, `[170,0,-170,1]`},
		{`[[170,0,0,190,1,0]]`, `[170,0,-170,1]`},
		{`[[190,0,200,1]]`, `[-170,0,-160,1]`},
		{`[[-200,0,-190,1],[165,2,170,3]]`, `[160,0,170,3]`},
		{`[[-180.5,0,180.5,1]]`, `[-180,0,180,1]`},
		{`[[0,0,360,1]]`, `[-180,0,180,1]`},
		{`[[170,0,361,1]]`, `null`},
	} {
		var boxes [][]float64
		var e Extent
		_ = json.Unmarshal([]byte(c.boxes), &boxes)
		for _, b := range boxes {
			e.AddBox(b)
		}
		if got := marshal(e.Box()); string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.boxes, got, c.want)
		}
	}
}

// A geometry that is cut at the antimeridian has a box across it, and one around the globe has the box of the globe.
func TestExtent_GeoJSON(t *testing.T) {
	for given, want := range map[string]string{
		`{"type":"MultiPolygon","coordinates":[[[[179,1],[180,1],[180,2],[179,1]]],[[[-180,1],[-178,1],[-180,2],[-180,1]]]]}`:                                            `[179,1,-178,2]`,
		`{"type":"Polygon","coordinates":[[[-180,1],[180,1],[180,2],[-180,2],[-180,1]],[[-170,1.2],[170,1.2],[0,1.8],[-170,1.2]]]}`:                                      `[-180,1,180,2]`,
		`{"type":"GeometryCollection","geometries":[{"type":"LineString","coordinates":[[179,1],[180,1]]},{"type":"Point","coordinates":[-180,3]}]}`:                     `[179,1,-180,3]`,
		`{"type":"FeatureCollection","features":[{"geometry":{"coordinates":[[[170,1],[180,1],[170,1]]]}},{"geometry":{"coordinates":[[[-180,1],[-175,1],[-180,1]]]}}]}`: `[170,1,-175,1]`,
		`{"type":"Polygon","coordinates":[[[4,51],[5,51],[500000,5650000],[4,52],[4,51],"x",[7]]]}`:                                                                      `[4,51,5,52]`,
	} {
		var e Extent
		e.GeoJSON(json.RawMessage(given))
		if got := marshal(e.Box()); string(got) != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

func TestExtent_GeoJSONBeyondTheAntimeridian(t *testing.T) {
	var e Extent
	e.GeoJSON([]byte(`{"type":"Polygon","coordinates":[[[178,0],[182,0],[182,1],[178,0]]]}`))
	if got := string(marshal(e.Box())); got != `[178,0,-178,1]` {
		t.Error(got)
	}
}

// TestExtent_OfManyPlaces: the box contains all places, the widest gap is left out, and a copy that was taken before is
// not changed.
func TestExtent_OfManyPlaces(t *testing.T) {
	var e Extent
	e.AddBox([]float64{100, 0, -100, 1})
	before := e
	for i := range 2 * mostSpans {
		at := 100.5 + 79*float64(i*7919%(2*mostSpans))/(2*mostSpans)
		e.AddBox([]float64{-at, 0, -at, 1})
		e.AddBox([]float64{at - 80, 0, at - 80, 1})
	}
	if got := e.Box(); !slices.Equal(got, []float64{20.5, 0, -100, 1}) || len(e.spans) > mostSpans ||
		!slices.Equal(before.Box(), []float64{100, 0, -100, 1}) {
		t.Errorf("%v of %d, before %v", got, len(e.spans), before.Box())
	}
}

// The box around two boxes contains both, in either order.
func TestExtent_ContainsItsBoxes(t *testing.T) {
	longitude := rapid.IntRange(-180, 180)
	within := func(x, west, east float64) bool {
		if west <= east {
			return west <= x && x <= east
		}
		return x >= west || x <= east
	}
	rapid.Check(t, func(t *rapid.T) {
		var e Extent
		var boxes [][]float64
		for i := range 2 {
			b := []float64{float64(longitude.Draw(t, "west")), float64(i), float64(longitude.Draw(t, "east")),
				float64(i + 1)}
			boxes = append(boxes, b)
			e.AddBox(b)
		}
		got := e.Box()
		if got[1] != 0 || got[3] != 2 {
			t.Fatalf("latitudes of %v", got)
		}
		for _, b := range boxes {
			for x := b[0]; ; x++ {
				if x > 180 {
					x = -179
				}
				if !within(x, got[0], got[2]) {
					t.Fatalf("%v is in %v and not in %v", x, b, got)
				}
				if x == b[2] || math.Mod(x-b[2], 360) == 0 {
					break
				}
			}
		}
	})
}

func TestExtent_Collection(t *testing.T) {
	var e Extent
	e.Collection(object(t, `{"extent":{"spatial":{"bbox":[[-180,-90,180,90]]},"temporal":{"interval":[[null,null]]}}}`))
	if e.Box() != nil {
		t.Error("the whole earth says nothing")
	}
	e.Collection(object(t,
		`{"extent":{"spatial":{"bbox":[[4,51,5,52]]},"temporal":{"interval":[["2026-01-01T00:00:00Z",null]]}}}`))
	e.Collection(object(t, `{"extent":7}`))
	if first, last := e.Times(); !slices.Equal(e.Box(), []float64{4, 51, 5, 52}) || first.Year() != 2026 ||
		!first.Equal(last) {
		t.Errorf("%v, %v to %v", e.Box(), first, last)
	}
}

// FuzzComplete checks what STAC requires of every Collection.
func FuzzComplete(f *testing.F) {
	f.Add([]byte(
		`{"type":"Collection","links":[{}],"assets":{"":{"href":"x","roles":[null]}},"extent":{"spatial":{"bbox":[[1,2,3,null]]}}}`))
	f.Add([]byte(
		`{"stac_version":"1.1.0","extent":{"spatial":{"bbox":[[1,2,3,4],[5,6,7,8]]},"temporal":{"interval":[["2026-01-01",7]]}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c Object
		if json.Unmarshal(raw, &c) != nil || c == nil {
			return
		}
		at, _ := url.Parse("https://x.example/")
		Anchor(c, at)
		Complete(c, "job", Extent{})
		parse[[]Object](t, c["links"])
		for _, name := range []string{"id", "description", "license", "stac_version"} {
			if parse[string](t, c[name]) == "" {
				t.Fatalf("no %s: %s", name, marshal(c))
			}
		}
		extent := parse[Object](t, c["extent"])
		for _, box := range parse[[][]float64](t, parse[Object](t, extent["spatial"])["bbox"]) {
			if len(box) != 4 && len(box) != 6 {
				t.Fatalf("%s", c["extent"])
			}
		}
		for _, interval := range parse[[][]*string](t, parse[Object](t, extent["temporal"])["interval"]) {
			if len(interval) != 2 {
				t.Fatalf("%s", c["extent"])
			}
		}
		if c["assets"] == nil {
			return
		}
		for name, asset := range parse[map[string]Object](t, c["assets"]) {
			if Text(asset["href"]) == "" || len(parse[[]string](t, asset["roles"])) == 0 {
				t.Fatalf("asset %q: %s", name, c["assets"])
			}
		}
	})
}

func parse[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %q", err, raw)
	}
	return v
}
