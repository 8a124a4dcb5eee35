package ogcapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// collection is a Collection as STAC defines it.
type collection struct {
	Type        string `json:"type"`
	Version     string `json:"stac_version"`
	ID          string `json:"id"`
	Description string `json:"description"`
	License     string `json:"license"`
	Links       []struct{ Href, Rel, Type string }
	Assets      map[string]struct {
		Href, Type, Title string
		Roles             []string
	}
	Extent struct {
		Spatial  struct{ Bbox [][]float64 }
		Temporal struct{ Interval [][]*string }
	}
}

// validCollection checks a Collection against the STAC specification 1.0.0, and that it is not empty.
func validCollection(t *testing.T, raw []byte) (c collection) {
	t.Helper()
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if c.Type != "Collection" || c.Version == "" || c.ID == "" || c.Description == "" || c.License == "" ||
		c.Links == nil {
		t.Fatalf("something is missing: %s", raw)
	}
	if len(c.Extent.Spatial.Bbox) == 0 || len(c.Extent.Temporal.Interval) == 0 {
		t.Fatalf("no extent: %s", raw)
	}
	for _, b := range c.Extent.Spatial.Bbox {
		if len(b) != 4 && len(b) != 6 {
			t.Fatalf("bbox: %s", raw)
		}
	}
	for _, interval := range c.Extent.Temporal.Interval {
		if len(interval) != 2 {
			t.Fatalf("interval: %s", raw)
		}
		for _, at := range interval {
			if at != nil {
				if _, err := time.Parse(time.RFC3339, *at); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, l := range c.Links {
		if l.Href == "" || l.Rel == "" {
			t.Fatalf("link: %s", raw)
		}
	}
	for name, a := range c.Assets {
		if a.Href == "" {
			t.Fatalf("asset %q: %s", name, raw)
		}
	}
	return c
}

func assetNames(c collection) string { return strings.Join(slices.Sorted(maps.Keys(c.Assets)), " ") }

func (c collection) data(t *testing.T, name string) string {
	t.Helper()
	_, encoded, _ := strings.Cut(c.Assets[name].Href, ";base64,")
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || encoded == "" {
		t.Errorf("asset %s: %q, %v", name, c.Assets[name].Href, err)
	}
	return string(data)
}

const (
	stacCollection = `{"type":"Collection","stac_version":"1.1.0","id":"theirs","description":"d","license":"CC-BY-4.0","links":[{"rel":"self","href":"https://stac.example/c/theirs.json"}],
		"extent":{"spatial":{"bbox":[[4,51,5,52]]},"temporal":{"interval":[["2026-01-01T00:00:00Z",null]]}},"assets":{"a":{"href":"./a.tif","type":"image/tiff"},"s3":{"href":"s3://bucket/x.tif","storage:platform":"AWS"}},"keywords":["k"]}`
	stacItem    = `{"type":"Feature","stac_version":"1.0.0","id":"item","bbox":[4,51,5,52],"geometry":null,"properties":{"datetime":"2026-03-01T12:00:00Z"},"links":[],"assets":{"a":{"href":"a.tif"}}}`
	otherItem   = `{"type":"Feature","stac_version":"1.0.0","id":"other","geometry":{"type":"Point","coordinates":[6,50]},"properties":{"datetime":null,"start_datetime":"2026-01-01T00:00:00Z","end_datetime":"2026-02-01T00:00:00Z"},"links":[{"rel":"self","href":"https://stac.example/items/other"}],"assets":{"a":{"href":"a.tif"}}}`
	gepFeatures = `{"type":"FeatureCollection","features":[{"type":"Feature","id":"1","geometry":null,"properties":{},"links":[{"rel":"collection","href":"LINK"}]},{"type":"Feature","geometry":null,"properties":{},"links":[{"rel":"collection","href":"LINK"}]}]}`
)

// results are documents by URL, to which links lead.
type results map[string]string

func (r results) read(href string) (document, error) {
	u, _ := url.Parse(href)
	body, ok := r[href]
	switch {
	case !ok:
		return document{}, &dispatch.Error{Kind: dispatch.NotFound}
	case body == "busy":
		return document{}, &dispatch.Error{Kind: dispatch.Busy}
	}
	return document{at: u, header: http.Header{"Content-Type": {"application/json"}}, body: []byte(body)}, nil
}

// shapesOfResults are the cases of TestResults_Shapes.
var shapesOfResults = map[string]struct {
	body   string
	assets string
	id     string // "job" unless it is theirs
}{
	"Collection": {body: stacCollection, assets: "a s3", id: "theirs"},
	"Collection, qualified": {body: `{"out":{"value":` + stacCollection + `,"mediaType":"application/json"}}`,
		assets: "a s3", id: "theirs"},
	"Collection, output": {body: `{"out":` + stacCollection + `}`, assets: "a s3", id: "theirs"},
	"Collection, nested": {body: `{"outputs":{"out":` + stacCollection + `}}`, assets: "a s3", id: "theirs"},
	"Collection, in a list": {body: `{"outputs":[{"id":"out","value":` + stacCollection + `}]}`, assets: "a s3",
		id: "theirs"},
	"Collection by link": {body: `{"out":{"href":"https://x.example/c.json","type":"application/json"}}`,
		assets: "a s3", id: "theirs"},
	"Collection by text": {body: `{"StacCatalogUri":"https://x.example/c.json"}`, assets: "a s3", id: "theirs"},
	"Collection as text": {body: `{"out":{"value":` + string(marshal(stacCollection)) +
		`,"mediaType":"application/json"}}`, assets: "a s3", id: "theirs"},
	"Collection and more": {body: `{"out":` + stacCollection + `,"log":"fine"}`, assets: "a log s3", id: "theirs"},
	"two Collections": {body: `{"a":` + stacCollection + `,"b":` + stacCollection + `}`, assets: "a b_a b_s3 s3",
		id: "theirs"},
	"link itself": {body: `{"href":"https://x.example/c.json"}`, assets: "a s3", id: "theirs"},
	"Item":        {body: stacItem, assets: "a"},
	"Item by link": {body: `{"out":{"href":"https://x.example/item.json","type":"application/geo+json"}}`,
		assets: "a"},
	"Items": {body: `{"type":"FeatureCollection","features":[` + stacItem + `,` + otherItem + `]}`,
		assets: "item_a other_a"},
	"Item without assets": {body: `{"type":"Feature","stac_version":"1.0.0","id":"bare","properties":{},"geometry":null}`,
		assets: "bare"},
	"collection links": {body: strings.ReplaceAll(gepFeatures, "LINK", "https://stac.example/c/1"), assets: "a s3",
		id: "theirs"},
	"collection links, dead": {body: strings.ReplaceAll(gepFeatures, "LINK", "https://stac.example/c/2"),
		assets: "collection"},
	"GeoJSON":        {body: `{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{"type":"Point","coordinates":[4,51]},"properties":{}}]}`, assets: "result"},
	"GeoJSON, empty": {body: `{"type":"FeatureCollection","features":[]}`, assets: "result"},
	"GeoJSON output": {body: `{"stats":{"type":"Polygon","coordinates":[]}}`, assets: "stats"},
	"Catalog by link": {body: `{"out":{"href":"https://x.example/cat.json","type":"application/json"}}`,
		assets: "a collection.json"},
	"Catalog without links": {body: `{"type":"Catalog","stac_version":"1.0.0","id":"c","links":[]}`, assets: "result"},
	"file by link":          {body: `{"out":{"href":"https://x.example/a.tif","type":"image/tiff"}}`, assets: "out"},
	"files by link": {body: `{"out":[{"href":"https://x.example/a.tif"},{"href":"b.tif"}]}`,
		assets: "out-1 out-2"},
	"file by text":          {body: `{"out":"s3://bucket/a.tif"}`, assets: "out"},
	"files by text":         {body: `{"out":["s3://bucket/a.tif","s3://bucket/b.tif"]}`, assets: "out-1 out-2"},
	"JSON by link, no STAC": {body: `{"out":{"href":"https://x.example/data.json"}}`, assets: "out"},
	"JSON by link, dead":    {body: `{"out":{"href":"https://x.example/dead.json"}}`, assets: "out"},
	"literals":              {body: `{"n":3,"s":"x","b":true,"l":[1,2],"z":null}`, assets: "b l n s z"},
	"pygeoapi, raw":         {body: `{"id":"echo","value":"Hello A!"}`, assets: "echo"},
	"pygeoapi, document":    {body: `{"outputs":[{"id":"echo","value":"Hello A!"}]}`, assets: "echo"},
	"one output, no id":     {body: `{"outputs":[{"type":"FeatureCollection","features":[]}]}`, assets: "result"},
	"outputs, no id": {body: `{"outputs":[{"value":1},{"href":"https://x.example/a.tif"}]}`,
		assets: "result-1 result-2"},
	"object": {body: `{"stats":{"mean":0.4}}`, assets: "stats"},
	"bytes in base64": {body: `{"img":{"value":"SUkq","mediaType":"image/tiff","encoding":"base64"}}`,
		assets: "img"},
	"data URI":                {body: `{"img":"data:image/png;base64,AAAA"}`, assets: "img"},
	"array":                   {body: `[1,2]`, assets: "result"},
	"literal":                 {body: `42`, assets: "result"},
	"Collection, only a name": {body: `{"type":"Collection","extent":7,"links":"x","id":"c"}`, id: "c"},
}

// expectNothing reads no document before its turn.
func expectNothing([]string) {}

func TestResults_Shapes(t *testing.T) {
	linked := results{
		"https://x.example/c.json":    stacCollection,
		"https://x.example/item.json": stacItem,
		"https://x.example/data.json": `{"mean":1}`,
		"https://x.example/cat.json":  `{"type":"Catalog","stac_version":"1.0.0","id":"c","links":[{"rel":"root","href":"cat.json"},{"rel":"item","href":"./item.json"},{"rel":"child","href":"gone/collection.json"}]}`,
		"https://x.example/loop.json": `{"type":"Catalog","stac_version":"1.0.0","id":"c","links":[{"rel":"child","href":"loop.json"},{"rel":"child","href":"loop.json"}]}`,
		"https://stac.example/c/1":    stacCollection,
	}
	for name, c := range shapesOfResults {
		t.Run(name, func(t *testing.T) {
			at, _ := url.Parse("https://x.example/jobs/job/results")
			raw, err := toCollection("job", document{at: at, header: http.Header{"Content-Type": {"application/json"}},
				body: []byte(c.body)}, expectNothing, linked.read)
			if err != nil {
				t.Fatal(err)
			}
			got := validCollection(t, raw)
			if names := assetNames(got); names != c.assets {
				t.Errorf("assets %q, want %q", names, c.assets)
			}
			if want := c.id; want == "" && got.ID != "job" || want != "" && got.ID != want {
				t.Errorf("id %q", got.ID)
			}
		})
	}
}

func convert(t *testing.T, body string, linked results) collection {
	t.Helper()
	at, _ := url.Parse("https://x.example/jobs/job/results")
	raw, err := toCollection("job", document{at: at, header: http.Header{"Content-Type": {"application/json"}},
		body: []byte(body)}, expectNothing, linked.read)
	if err != nil {
		t.Fatal(err)
	}
	return validCollection(t, raw)
}

func TestResults_CollectionIsKept(t *testing.T) {
	got := convert(t, stacCollection, nil)
	if got.Version != "1.1.0" || got.License != "CC-BY-4.0" || got.Extent.Spatial.Bbox[0][0] != 4 {
		t.Errorf("%+v", got)
	}
	if href := got.Assets["a"].Href; href != "https://stac.example/c/a.tif" {
		t.Errorf("not absolute: %s", href)
	}
	if href := got.Assets["s3"].Href; href != "s3://bucket/x.tif" {
		t.Error(href)
	}
	at, _ := url.Parse("https://x.example/r")
	raw, _ := toCollection("job", document{at: at, body: []byte(stacCollection)}, expectNothing, nil)
	if !strings.Contains(string(raw), `"storage:platform":"AWS"`) ||
		!strings.Contains(string(raw), `"keywords":["k"]`) {
		t.Errorf("something was lost: %s", raw)
	}
}

func TestResults_ExtentOfItems(t *testing.T) {
	got := convert(t, `{"type":"FeatureCollection","features":[`+stacItem+`,`+otherItem+`]}`, nil)
	if b := got.Extent.Spatial.Bbox[0]; !slices.Equal(b, []float64{4, 50, 6, 52}) {
		t.Error(b)
	}
	if i := got.Extent.Temporal.Interval[0]; *i[0] != "2026-01-01T00:00:00Z" || *i[1] != "2026-03-01T12:00:00Z" {
		t.Error(*i[0], *i[1])
	}
	if a, b := got.Assets["item_a"].Href, got.Assets["other_a"].Href; a != "https://x.example/jobs/job/a.tif" ||
		b != "https://stac.example/items/a.tif" {
		t.Error(a, b)
	}
	if len(got.Links) != 1 || got.Links[0].Rel != "item" || got.Links[0].Href != "https://stac.example/items/other" {
		t.Errorf("%+v", got.Links)
	}
}

func TestResults_UnknownExtentIsTheEarth(t *testing.T) {
	got := convert(t, `{"n":1}`, nil)
	if b := got.Extent.Spatial.Bbox[0]; !slices.Equal(b, []float64{-180, -90, 180, 90}) {
		t.Error(b)
	}
	if i := got.Extent.Temporal.Interval[0]; i[0] != nil || i[1] != nil {
		t.Error(i)
	}
}

// The values are in the assets, digit for digit.
func TestResults_LiteralsAndBytes(t *testing.T) {
	got := convert(t,
		`{"n":0.10,"s":"two words","o":{"mean":1.50},"img":{"value":"SUkq","mediaType":"image/tiff"},"csv":{"value":"a,b","mediaType":"text/csv"},"xml":{"value":"<a/>","format":{"mediaType":"application/xml"}}}`, nil)
	for name, want := range map[string][2]string{
		"n": {"application/json", "0.10"}, "s": {"text/plain; charset=utf-8", "two words"}, "o": {"application/json",
			`{"mean":1.50}`},
		"img": {"image/tiff", "II*"}, "csv": {"text/csv", "a,b"}, "xml": {"application/xml", "<a/>"},
	} {
		if got.Assets[name].Type != want[0] || got.data(t, name) != want[1] {
			t.Errorf("%s: %+v", name, got.Assets[name])
		}
	}
	if href := got.Assets["s"].Href; !strings.HasPrefix(href, "data:text/plain;charset=utf-8;base64,") {
		t.Error(href)
	}
}

func TestResults_BodiesThatAreNotJSON(t *testing.T) {
	const multi = "--b\r\nContent-ID: <map>\r\nContent-Type: image/tiff\r\nContent-Transfer-Encoding: " +
		"base64\r\n\r\nSUkq\r\n--b\r\nContent-Disposition: form-data; name=\"stats\"\r\nContent-Type: " +
		"application/json\r\n\r\n{\"mean\":1}\r\n--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n" +
		"--b\r\nContent-ID: far\r\nContent-Location: ../far.tif\r\nContent-Type: image/tiff\r\n\r\n\r\n--b--\r\n"
	for name, c := range map[string]struct {
		header http.Header
		body   string
		assets string
		fails  bool
	}{
		"bytes": {header: http.Header{"Content-Type": {"image/tiff; application=geotiff"}}, body: "II*",
			assets: "result"},
		"no type": {body: "\x00\x01", assets: "result"},
		"csv":     {header: http.Header{"Content-Type": {"text/csv"}}, body: "a,b\n1,2", assets: "result"},
		"JSON":    {header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, body: `{"a":1}`, assets: "a"},
		"multipart": {header: http.Header{"Content-Type": {`multipart/related; boundary=b; type="application/json"`}},
			body: multi, assets: "far map result stats"},
		"references": {header: http.Header{"Link": {`<https://x.example/a,b.tif>; rel="map"; type="image/tiff"; title="a, b", </c.tif>; rel="item", <https://x.example/jobs/1>; rel=monitor`}}, assets: "c.tif map"},
		"page":       {header: http.Header{"Content-Type": {"text/html"}}, body: "<!DOCTYPE html><html>", fails: true},
		"malformed":  {header: http.Header{"Content-Type": {"application/json"}}, body: `{"a":`, fails: true},
		"nothing":    {fails: true},
		"null":       {body: "null", fails: true},
		"no outputs": {body: `{"outputs":{}}`, fails: true},
		"no members": {body: `{}`, fails: true},
		"cut parts": {header: http.Header{"Content-Type": {"multipart/related; boundary=b"}},
			body: "--b\r\nContent-Type: a/b\r\n\r\nhal", fails: true},
		"no links": {header: http.Header{"Link": {`<https://x.example/jobs/1>; rel=monitor`}}, fails: true},
	} {
		at, _ := url.Parse("https://x.example/jobs/job/results")
		raw, err := toCollection("job", document{at: at, header: c.header, body: []byte(c.body)}, expectNothing,
			results{}.read)
		if c.fails {
			if !dispatch.Is(err, dispatch.BadUpstream) {
				t.Errorf("%s: %s, %v", name, raw, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := assetNames(validCollection(t, raw)); got != c.assets {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestResults_LinkLoopsEnd(t *testing.T) {
	reads := 0
	loop := results{"https://x.example/loop.json": `{"type":"Catalog","stac_version":"1.0.0","id":"c","links":[{"rel":"child","href":"loop.json"},{"rel":"child","href":"loop.json"}]}`}
	_, err := toCollection("job", document{body: []byte(`{"a":"https://x.example/loop.json"}`)}, expectNothing,
		func(href string) (document, error) {
			reads++
			return loop.read(href)
		})
	if err != nil || reads > maxFollowed {
		t.Error(reads, err)
	}
}

func TestResults_LinkFailsTemporarily(t *testing.T) {
	_, err := toCollection("job", document{body: []byte(`{"a":"https://x.example/c.json"}`)}, expectNothing,
		results{"https://x.example/c.json": "busy"}.read)
	wantKind(t, err, dispatch.Busy)
}

func FuzzCollection(f *testing.F) {
	for _, seed := range []string{stacCollection, stacItem, gepFeatures, `{"outputs":[{"id":"a","value":"x"}]}`,
		`{"a":{"href":"https://x.example/c.json"}}`,
		`[{"href":"x"}]`, `"s3://b"`, `{"type":"Collection","stac_version":1,"links":[{}],"assets":{"":{"href":"x"}}}`,
		"--b\r\n\r\nx\r\n--b--"} {
		for _, media := range []string{"application/json", "image/tiff", "multipart/related; boundary=b", ""} {
			f.Add([]byte(seed), media, "<a.json>; rel=x")
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, media, link string) {
		at, _ := url.Parse("https://x.example/jobs/job/results")
		linked, reads := results{"https://x.example/c.json": string(body),
			"https://x.example/jobs/job/a.json": stacItem}.read, 0
		read := func(href string) (document, error) {
			reads++
			return linked(href)
		}
		raw, err := toCollection("job", document{at: at, header: http.Header{"Content-Type": {media}, "Link": {link}},
			body: body}, expectNothing, read)
		if err != nil {
			if _, ok := errors.AsType[*dispatch.Error](err); !ok {
				t.Fatal(err)
			}
			return
		}
		if most := 10_000 + 100*(reads+1)*(len(body)+len(stacItem)+len(link)+len(media)); reads > maxFollowed ||
			len(raw) > most {
			t.Errorf("%d reads, and %d bytes of %d", reads, len(raw), len(body))
		}
		c := validCollection(t, raw)
		if len(c.Assets) == 0 && len(c.Links) == 0 && !strings.Contains(string(body), "Collection") {
			t.Fatalf("empty: %s", raw)
		}
	})
}
