package real

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/openeo"
)

// shape is one form of a platform's results response. HOST stands for the platform's address.
type shape struct {
	body   string
	header string // "Name: value" lines; "" means JSON
	assets string // expected keys of the Collection's assets
	box    string // expected spatial extent; "" means the whole earth
	times  string // expected temporal extent; "" means open
}

const (
	extent = `"extent":{"spatial":{"bbox":[[4,51,5,52]]},"temporal":{"interval":[["2026-01-01T00:00:00Z","2026-02-01T00:00:00Z"]]}}`
	here   = "[4,51,5,52]"
	then   = `["2026-01-01T00:00:00Z","2026-02-01T00:00:00Z"]`
	moment = `["2026-03-01T12:00:00Z","2026-03-01T12:00:00Z"]`

	full = `{"type":"Collection","stac_version":"1.0.0","id":"theirs","title":"Theirs","description":"d","license":"CC-BY-4.0","keywords":["k"],
		"providers":[{"name":"p","roles":["producer"]}],"summaries":{"gsd":[10]},` + extent +
		`,"links":[{"rel":"canonical","href":"../c.json?sig=x","type":"application/json"}],
		"assets":{"a.tif":{"href":"a.tif?sig=a%2Fb","type":"image/tiff; application=geotiff","roles":["data"],"proj:epsg":32631},"a.nc":{"href":"HOST/files/a.nc"}}}`
	newer = `{"type":"Collection","stac_version":"1.1.0","id":"newer","description":"d","license":"other",` + extent +
		`,"links":[],
		"assets":{"b.tif":{"href":"./b.tif","bands":[{"name":"B02","data_type":"uint16"}]}},"item_assets":{"data":{"type":"image/tiff","roles":["data"]}}}`
	item = `{"type":"Feature","stac_version":"1.0.0","id":"one","bbox":[4,51,5,52],"geometry":{"type":"Polygon","coordinates":[[[4,51],[5,51],[5,52],[4,52],[4,51]]]},
		"properties":{"datetime":"2026-03-01T12:00:00Z","title":"One"},"links":[{"rel":"self","href":"HOST/items/one.json"},{"rel":"collection","href":"HOST/all"}],"collection":"all",
		"assets":{"one.tif":{"href":"../one.tif","roles":["data"]}}}`
	ranged = `{"type":"Feature","stac_version":"1.1.0","id":"two","geometry":{"type":"Point","coordinates":[6,50]},"bbox":[6,50,6,50],
		"properties":{"datetime":null,"start_datetime":"2026-01-01T00:00:00Z","end_datetime":"2026-02-01T00:00:00Z"},"links":[],"assets":{"two.tif":{"href":"two.tif"}}}`
	polygon = `{"type":"Polygon","coordinates":[[[4,51],[5,51],[5,52],[4,51]]]}`
)

// TestResults_EveryShape requests results from both adapters in every shape that their protocols define, and in those
// of servers known to deviate. Each result must be a valid STAC Collection.
func TestResults_EveryShape(t *testing.T) {
	collections := map[string]json.RawMessage{}
	for name, s := range shapesOfOpenEO {
		collections["openEO: "+name] = s.collection(t, "openEO: "+name, "/jobs/j-1/results",
			func(base string) dispatch.Platform {
				return openeo.New(openeo.Config{Name: "shapes", Endpoint: base, Client: client()})
			})
	}
	for name, s := range shapesOfOGC {
		collections["OGC: "+name] = s.collection(t, "OGC: "+name, "/jobs/j-1/results",
			func(base string) dispatch.Platform {
				return ogcapi.New(ogcapi.Config{Name: "shapes", Endpoint: base, Client: client()})
			})
	}
	faults := stacFaults(t, collections)
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		t.Errorf("%s: %q\n%s", name, faults[name], collections[name])
	}
}

// collection returns the STAC Collection that an adapter builds from the shape, and checks what STAC's schemas cannot
// express.
func (s shape) collection(t *testing.T, name, at string, platform func(base string) dispatch.Platform) json.RawMessage {
	t.Helper()
	server := s.serve(t, at)
	raw, err := platform(server).Results(t.Context(), dispatch.Token{}, dispatch.Ref{ID: "j-1"})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	var c struct {
		Extent struct {
			Spatial  struct{ Bbox []json.RawMessage }
			Temporal struct{ Interval []json.RawMessage }
		}
		Links  []struct{ Href string }
		Assets map[string]struct {
			Href, Type string
			Roles      []string
		}
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(c.Assets)), " "); got != s.assets {
		t.Errorf("%s: the assets are %q, want %q", name, got, s.assets)
	}
	for key, a := range c.Assets {
		if u, err := url.Parse(a.Href); err != nil || !u.IsAbs() || len(a.Roles) == 0 ||
			a.Type == "" && u.Scheme != "s3" {
			t.Errorf("%s: asset %s: %+v", name, key, a)
		}
	}
	for _, l := range c.Links {
		if u, err := url.Parse(l.Href); err != nil || !u.IsAbs() {
			t.Errorf("%s: the link %s is not absolute", name, l.Href)
		}
	}
	want := [2]string{s.box, s.times}
	if s.box == "" {
		want[0] = "[-180,-90,180,90]"
	}
	if s.times == "" {
		want[1] = "[null,null]"
	}
	if box, times := c.Extent.Spatial.Bbox[0], c.Extent.Temporal.Interval[0]; string(box) != want[0] ||
		string(times) != want[1] {
		t.Errorf("%s: the extent is %s, %s, want %s", name, box, times, want)
	}
	return raw
}

// serve starts a platform that responds with results of one shape and serves the documents to which these link. It
// returns the platform's address.
func (s shape) serve(t *testing.T, results string) string {
	linked := map[string]string{"/stac/full.json": full, "/stac/newer.json": newer, "/stac/item.json": item,
		"/data.json":         `{"mean":1}`,
		"/stac/catalog.json": `{"type":"Catalog","stac_version":"1.0.0","id":"c","description":"d","links":[{"rel":"root","href":"catalog.json"},{"rel":"item","href":"item.json"},{"rel":"child","href":"full.json"}]}`,
		"/collections/7":     full, "/jobs/j-1": `{"id":"j-1","jobID":"j-1","type":"process","status":"successful"}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := "http://" + r.Host
		body, known := linked[r.URL.Path]
		switch r.URL.Path {
		case "/.well-known/openeo":
			body, known = `{"versions":[{"url":"HOST","api_version":"1.2.0","production":true}]}`, true
		case "/":
			body, known =
				`{"api_version":"1.2.0","backend_version":"1","stac_version":"1.0.0","id":"b","title":"b","description":"b","endpoints":[],"links":[]}`, true
		case results:
			body, known = s.body, true
		}
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == results {
			for line := range strings.Lines(s.header) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				w.Header().Set(name, strings.ReplaceAll(value, "HOST", host))
			}
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "HOST", host))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func without(stac string, members ...string) string {
	var o map[string]json.RawMessage
	if err := json.Unmarshal([]byte(stac), &o); err != nil {
		panic(err)
	}
	for _, m := range members {
		delete(o, m)
	}
	text, _ := json.Marshal(o)
	return string(text)
}

// with sets a member of a STAC object.
func with(stac, member, value string) string {
	return strings.TrimSuffix(without(stac, member), "}") + fmt.Sprintf(`,%q:%s}`, member, value)
}

var shapesOfOpenEO = map[string]shape{
	"Collection of 1.0.0": {body: full, assets: "a.nc a.tif", box: here, times: then},
	"Collection of 1.1.0": {body: newer, assets: "b.tif", box: here, times: then},
	"Item of 1.0.0":       {body: item, assets: "one.tif", box: here, times: moment},
	"Item of 1.1.0":       {body: ranged, assets: "two.tif", box: "[6,50,6,50]", times: then},
	"Item of an old back-end": {body: `{"type":"Feature","stac_version":"0.9.0","stac_extensions":["eo"],"id":"old","geometry":null,"properties":{"datetime":"2026-03-01T12:00:00Z"},
		"links":[],"assets":{"old.tif":{"href":"old.tif"}}}`, assets: "old.tif", times: moment},
	"Item without a version": {body: without(item, "stac_version"), assets: "one.tif", box: here, times: moment},
	"Item without a place":   {body: with(without(item, "bbox"), "geometry", "null"), assets: "one.tif", times: moment},
	"assets, and no type":    {body: without(item, "type"), assets: "one.tif", box: here, times: moment},
	"Collection with items": {body: with(full, "links",
		`[{"rel":"item","href":"items/1.json","type":"application/geo+json"}]`), assets: "a.nc a.tif", box: here,
		times: then},
	"Collection with little": {body: `{"type":"Collection","stac_version":"1.0.0-rc.2","id":"little","assets":{"x":{"href":"x.tif"}}}`, assets: "x"},
	"Collection with assets " +
		"alone": {body: `{"type":"Collection","assets":{"s3":{"href":"s3://bucket/a","roles":null},"none":{"type":"image/tiff"},"t":{"href":"t.tif","type":7}}}`,
		assets: "s3 t"},
	"members of another shape": {body: `{"type":"Collection","stac_version":"1.1.0","id":"odd","title":7,"description":"","license":"CC BY 4.0","keywords":"k","providers":[{"url":"x"}],
		"summaries":{"gsd":10},"stac_extensions":["eo","https://e.example/a.json","https://e.example/a.json"],"created":"yesterday",` + extent + `,
		"links":[{"rel":"self"},{"href":"x"},7,{"rel":"about","href":"about.html","type":7}],"assets":{"x":{"href":"x.tif"}}}`, assets: "x", box: here, times: then},
	"extent without times": {body: with(full, "extent", `{"spatial":{"bbox":[[4,51,5,52]]}}`), assets: "a.nc a.tif",
		box: here},
	"extent with days": {body: with(full, "extent",
		`{"spatial":{"bbox":[[4,51,5,52]]},"temporal":{"interval":[["2026-01-01","2026-02-01T01:00:00+01:00"]]}}`),
		assets: "a.nc a.tif", box: here, times: then},
	"extent with two boxes": {body: with(newer, "extent",
		`{"spatial":{"bbox":[[4,51,5,52],[6,51,7,52]]},"temporal":{"interval":[["2026-01-01T00:00:00Z","2026-02-01T00:00:00Z"]]}}`),
		assets: "b.tif", box: "[4,51,7,52]", times: then},
	"extent with heights": {body: with(full, "extent",
		`{"spatial":{"bbox":[[4,51,0,5,52,9]]},"temporal":{"interval":[[null,null]]}}`), assets: "a.nc a.tif",
		box: "[4,51,0,5,52,9]"},
	"extent of nonsense": {body: with(full, "extent",
		`{"spatial":{"bbox":[["w","s","e","n"]]},"temporal":{"interval":[["?"]]}}`), assets: "a.nc a.tif"},
	"assets that expire": {body: with(with(full, "openeo:status", `"finished"`), "assets",
		`{"x":{"href":"HOST/x.tif?X-Amz-Date=20260301T120000Z&X-Amz-Expires=3600","expires":"2026-03-01T13:00:00Z"}}`),
		assets: "x", box: here, times: then},
}

const jsonLines = "Content-Type: application/json\n"

var shapesOfOGC = map[string]shape{
	"Collection": {body: full, assets: "a.nc a.tif", box: here, times: then},
	"Collection by value": {body: `{"out":{"value":` + full + `,"mediaType":"application/json"}}`,
		assets: "a.nc a.tif", box: here, times: then},
	"Collection by name": {body: `{"out":` + newer + `}`, assets: "b.tif", box: here, times: then},
	"Collection as a text": {body: `{"out":{"value":` + quoted(newer) + `,"mediaType":"application/json"}}`,
		assets: "b.tif", box: here, times: then},
	"Collection by link": {body: `{"out":{"href":"HOST/stac/full.json","type":"application/json"}}`,
		assets: "a.nc a.tif", box: here, times: then},
	"Collection by address": {body: `{"StacCatalogUri":"HOST/stac/full.json"}`, assets: "a.nc a.tif", box: here,
		times: then},
	"Collection in place of a URI": {body: `{"StacCatalogUri":{"value":` + with(full, "assets",
		`{"s3":{"href":"s3://bucket/a.tif","storage:platform":"AWS"}}`) + `}}`, assets: "s3", box: here, times: then},
	"Collections": {body: `{"a":` + full + `,"b":` + newer + `}`, assets: "a.nc a.tif b_b.tif", box: here,
		times: then},
	"Collection with little": {body: `{"type":"Collection","stac_version":"0.9.0","id":"c","extent":{},"assets":{"x":{"href":"x.tif"}}}`, assets: "x"},
	"Item":                   {body: item, assets: "one.tif", box: here, times: moment},
	"Item by name":           {body: `{"out":` + ranged + `}`, assets: "two.tif", box: "[6,50,6,50]", times: then},
	"Item by link": {body: `{"out":{"href":"HOST/stac/item.json","type":"application/geo+json"}}`,
		assets: "one.tif", box: here, times: moment},
	"Items": {body: `{"out":{"type":"FeatureCollection","features":[` + item + `,` + ranged + `]}}`,
		assets: "one_one.tif two_two.tif", box: "[4,50,6,52]",
		times: `["2026-01-01T00:00:00Z","2026-03-01T12:00:00Z"]`},
	"collection links": {body: `{"type":"FeatureCollection","features":[{"type":"Feature","id":"f","geometry":null,"properties":{},"links":[{"rel":"collection","href":"HOST/collections/7"}]}]}`,
		assets: "a.nc a.tif", box: here, times: then},
	"Catalog by link": {body: `{"out":{"href":"HOST/stac/catalog.json","type":"application/json"}}`,
		assets: "a.nc a.tif one.tif", box: here, times: then},
	"GeoJSON": {body: `{"type":"FeatureCollection","features":[{"type":"Feature","geometry":` + polygon +
		`,"properties":{"mean":0.4}}]}`, assets: "result", box: here},
	"GeoJSON by name": {body: `{"stats":` + polygon + `}`, assets: "stats", box: here},
	"file by link": {body: `{"map":{"href":"HOST/map.tif","type":"image/tiff; application=geotiff"}}`,
		assets: "map"},
	"file without a type": {body: `{"map":{"href":"map.tif"}}`, assets: "map"},
	"files by link":       {body: `{"maps":[{"href":"HOST/a.tif"},{"href":"HOST/b.nc"}]}`, assets: "maps-1 maps-2"},
	"file at S3":          {body: `{"map":"s3://bucket/map.tif"}`, assets: "map"},
	"JSON by link":        {body: `{"out":{"href":"HOST/data.json"}}`, assets: "out"},
	"dead link":           {body: `{"out":{"href":"HOST/dead.json"}}`, assets: "out"},
	"literals": {body: `{"n":0.10,"s":"two words","b":true,"l":[1,2],"o":{"mean":1.50}}`,
		assets: "b l n o s"},
	"bytes in base64": {body: `{"map":{"value":"SUkq","mediaType":"image/tiff","encoding":"base64"}}`, assets: "map"},
	"bytes":           {body: "II*", header: "Content-Type: image/tiff; application=geotiff", assets: "result"},
	"table":           {body: "a,b\n1,2", header: "Content-Type: text/csv", assets: "result"},
	"parts": {body: "--b\r\nContent-ID: <map>\r\nContent-Type: image/tiff\r\n\r\nII*\r\n--b\r\nContent-ID: " +
		"c\r\nContent-Type: application/json\r\n\r\n" + full + "\r\n--b--\r\n",
		header: `Content-Type: multipart/related; boundary=b; type="application/json"`, assets: "a.nc a.tif map",
		box: here, times: then},
	"references": {header: `Link: <HOST/map.tif>; rel="map"; type="image/tiff", <HOST/stac/item.json>; rel="item"; type="application/geo+json"`, assets: "map one.tif", box: here, times: moment},
	"list of outputs": {body: `{"outputs":[{"id":"out","value":` + full + `}]}`, assets: "a.nc a.tif",
		box: here, times: then},
	"list without identifiers": {body: `{"outputs":[{"value":1},{"href":"HOST/a.tif"}]}`, assets: "result-1 result-2"},
	"outputs within": {body: `{"outputs":{"out":` + newer + `}}`, header: jsonLines, assets: "b.tif",
		box: here, times: then},
	"one output with its id":  {body: `{"id":"echo","value":"Hello"}`, assets: "echo"},
	"array":                   {body: `[1,2]`, assets: "result"},
	"literal":                 {body: `42`, assets: "result"},
	"JSON under another name": {body: `{"a":1}`, header: "Content-Type: text/html; charset=utf-8", assets: "a"},
	"data URI":                {body: `{"img":"data:image/png;base64,AAAA"}`, assets: "img"},
	"Feature without STAC": {body: `{"type":"Feature","geometry":` + polygon + `,"properties":{"mean":1}}`,
		assets: "result", box: here},
	"geometry in metres":       {body: `{"type":"Point","coordinates":[500000,5650000]}`, assets: "result"},
	"Collection of nonsense":   {body: `{"type":"Collection","stac_version":7,"extent":7,"links":"x","license":[],"id":7,"assets":{"a":{"href":"a.png"},"b":7}}`, assets: "a"},
	"Item with odd properties": {body: with(item, "properties", `{"datetime":"soon"}`), assets: "one.tif", box: here},
	"Item beyond the antimeridian": {body: with(item, "bbox", `[179,-17,-179,-16]`), assets: "one.tif",
		box: "[179,-17,-179,-16]", times: moment},
}

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}
