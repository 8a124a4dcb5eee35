package openeo_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestResults(t *testing.T) {
	b := newBackend(t)
	signed := b.URL + "/assets/x.tif?expires=1&sig=a%2Fb"
	b.json("GET /jobs/j-1/results", 200,
		`{"type":"Collection","stac_version":"1.1.0","id":"c","description":"d","license":"other","extent":{"spatial":{"bbox":[[4.0,51.0,4.10,51.1]]}},
		"links":[{"rel":"item","href":"items/1"},{"rel":"self"}],"assets":{"x.tif":{"href":"`+signed+
			`","file:size":12345678901234567890},"y.tif":{"href":"../../y.tif"},"z":{"href":"s3://bucket/z"}},"openeo:status":"finished"}`)
	got, err := b.platform().Results(t.Context(), token, job1)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON(t, string(got),
		`{"type":"Collection","stac_version":"1.1.0","id":"c","description":"d","license":"other","extent":{"spatial":{"bbox":[[4.0,51.0,4.10,51.1]]},"temporal":{"interval":[[null,null]]}},
		"links":[{"rel":"item","href":"`+b.URL+`/openeo/1.2/jobs/j-1/items/1"}],"assets":{"x.tif":{"href":"`+signed+
			`","type":"image/tiff; application=geotiff","roles":["data"],"file:size":12345678901234567890},
		"y.tif":{"href":"`+b.URL+
			`/openeo/1.2/y.tif","type":"image/tiff; application=geotiff","roles":["data"]},"z":{"href":"s3://bucket/z","roles":["data"]}},"openeo:status":"finished"}`)
	for _, exact := range []string{"12345678901234567890", "4.10", signed} {
		if !strings.Contains(string(got), exact) {
			t.Errorf("%s has changed: %s", exact, got)
		}
	}
}

func TestResults_OfAnItem(t *testing.T) {
	cases := map[string]struct{ item, want string }{
		"bbox and datetime": {
			`{"type":"Feature","stac_version":"1.0.0","stac_extensions":["https://e.example/v1/schema.json"],"id":"i","bbox":[4,51,4.1,51.1],"geometry":null,
				"properties":{"datetime":"2024-01-01T00:00:00Z","title":"T","license":"CC-BY-4.0","description":"D","providers":[{"name":"p"}]},
				"links":[{"rel":"canonical","href":"/c"},{"rel":"collection","href":"/all"}],"assets":{"a":{"href":"a.tif","roles":["data"]}}}`,
			`{"type":"Collection","stac_version":"1.0.0","stac_extensions":["https://e.example/v1/schema.json"],"id":"i","title":"T","description":"D","license":"CC-BY-4.0","providers":[{"name":"p"}],
				"extent":{"spatial":{"bbox":[[4,51,4.1,51.1]]},"temporal":{"interval":[["2024-01-01T00:00:00Z","2024-01-01T00:00:00Z"]]}},
				"links":[{"rel":"item","type":"application/geo+json","href":"HOST/c"}],"assets":{"a":{"href":"HOST/openeo/1.2/jobs/j-1/a.tif","type":"image/tiff; application=geotiff","roles":["data"]}}}`},
		"geometry and range": {
			`{"type":"Feature","id":"i","geometry":{"type":"GeometryCollection","geometries":[{"type":"Polygon","coordinates":[[[1,2],[3,2,9],[3,5],[1,2]]]},{"type":"Point","coordinates":[-7,0.5]}]},
				"properties":{"datetime":null,"start_datetime":"2024-01-01T00:00:00Z","end_datetime":"2024-02-01T00:00:00Z"},"assets":{}}`,
			`{"type":"Collection","stac_version":"1.0.0","id":"i","description":"Results of i.","license":"proprietary",
				"extent":{"spatial":{"bbox":[[-7,0.5,3,5]]},"temporal":{"interval":[["2024-01-01T00:00:00Z","2024-02-01T00:00:00Z"]]}},"links":[],"assets":{}}`},
		"nothing known": {
			`{"type":"Feature","bbox":[1,2],"geometry":null,"properties":null,"links":null}`,
			`{"type":"Collection","stac_version":"1.0.0","id":"j-1","description":"Results of j-1.","license":"proprietary",
				"extent":{"spatial":{"bbox":[[-180,-90,180,90]]},"temporal":{"interval":[[null,null]]}},"links":[],"assets":{}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.json("GET /jobs/j-1/results", 200, c.item)
			got, err := b.platform().Results(t.Context(), token, job1)
			if err != nil {
				t.Fatal(err)
			}
			wantJSON(t, string(got), strings.ReplaceAll(c.want, "HOST", b.URL))
		})
	}
}

func TestResults_NotReady(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   dispatch.Kind
		says   string
	}{
		"not finished": {400, `{"code":"JobNotFinished","message":"try again later"}`, dispatch.Conflict,
			"try again later"},
		"partial": {200, `{"type":"Collection","openeo:status":"running"}`, dispatch.Conflict, "not finished"},
		"failed": {424, `{"id":"r","code":"ProcessFailed","level":"error","message":"No data"}`,
			dispatch.BadUpstream, "No data"},
		"job is gone": {404, `{"code":"JobNotFound","message":"gone"}`, dispatch.NotFound, "gone"},
		"links have ended": {410, `{"code":"ResultLinkExpired","message":"expired"}`, dispatch.NotFound,
			"expired"},
		"a web page":             {200, `<html>`, dispatch.BadUpstream, ""},
		"something else":         {200, `{"type":"FeatureCollection"}`, dispatch.BadUpstream, ""},
		"null":                   {200, `null`, dispatch.BadUpstream, ""},
		"the platform is broken": {500, `{"code":"Internal","message":"boom"}`, dispatch.Unavailable, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.json("GET /jobs/j-1/results", c.status, c.body)
			_, err := b.platform().Results(t.Context(), token, job1)
			if e := wantKind(t, err, c.want); !strings.Contains(e.Text, c.says) {
				t.Errorf("got %q", e.Text)
			}
		})
	}
	b := newBackend(t)
	b.on("GET /jobs/j-1/results", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(424)
		_, _ = io.WriteString(w, "")
	})
	_, err := b.platform().Results(t.Context(), token, job1)
	wantKind(t, err, dispatch.BadUpstream)
}

// TestResults_OfItems: a Collection whose assets are only at the Items that it links to gets them, and the token goes
// to no other origin.
func TestResults_OfItems(t *testing.T) {
	b, elsewhere := newBackend(t), newBackend(t)
	item := func(id, day string) string {
		return `{"type":"Feature","stac_version":"1.1.0","id":"` + id +
			`","bbox":[5,51,5.1,51.1],"properties":{"datetime":"` + day +
			`"},"links":[],"assets":{"openEO":{"href":"../` + id + `.tif"}}}`
	}
	const results = `{"type":"Collection","stac_version":"1.1.0","id":"c","description":"D.","license":"other",
		"links":[LINKS],"assets":{}}`
	link := func(href string) string { return `{"rel":"item","href":"` + href + `"}` }
	b.json("GET /jobs/j-1/items/a", 200, item("a", "2024-06-01T00:00:00Z"))
	b.json("GET /jobs/j-1/items/broken", 200, `{"type":"Feature"`)
	b.json("GET /jobs/j-1/items/busy", 503, `{"code":"Internal","message":"later"}`)
	b.json("GET /jobs/j-1/items/ended", 403, `{"code":"TokenInvalid","message":"sign in"}`)
	elsewhere.json("GET /b", 200, item("b", "2024-06-03T00:00:00Z"))
	b.on("GET /jobs/j-1/items/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/openeo/1.2/b", http.StatusFound)
	})
	read := func(links ...string) (string, error) {
		b.json("GET /jobs/j-1/results", 200, strings.Replace(results, "LINKS", strings.Join(links, ","), 1))
		got, err := b.platform().Results(t.Context(), token, job1)
		return string(got), err
	}
	got, err := read(link("items/a"), link("items/a"))
	if err != nil {
		t.Fatal(err)
	}
	wantJSON(t, got, `{"type":"Collection","stac_version":"1.1.0","id":"c","description":"D.","license":"other",
		"extent":{"spatial":{"bbox":[[5,51,5.1,51.1]]},"temporal":{"interval":[["2024-06-01T00:00:00Z",
			"2024-06-01T00:00:00Z"]]}},
		"links":[{"rel":"item","href":"`+b.URL+`/openeo/1.2/jobs/j-1/items/a"},{"rel":"item",
			"href":"`+b.URL+`/openeo/1.2/jobs/j-1/items/a"}],
		"assets":{"openEO":{"href":"`+b.URL+`/openeo/1.2/jobs/j-1/a.tif","type":"image/tiff; application=geotiff",
			"roles":["data"]}}}`)
	if b.authorization("GET /jobs/j-1/items/a") == "" {
		t.Error("the platform's own Item was read without the token")
	}

	got, err = read(link("items/a"), link(elsewhere.URL+"/openeo/1.2/b"), link("items/broken"), link("items/none"),
		link("items/away"), link("s3://bucket/x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"a_openEO":`, `"b_openEO":{"href":"` + elsewhere.URL + `/openeo/b.tif"`,
		`"2024-06-03T00:00:00Z"`, "D. The assets of 4 of its 6 Items are not listed here"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %s in %s", part, got)
		}
	}
	if elsewhere.authorization("GET /b") != "" {
		t.Error("another server got the token")
	}
	_, err = read(link("items/a"), link("items/busy"))
	wantKind(t, err, dispatch.Busy)
	_, err = read(link("items/ended"))
	wantKind(t, err, dispatch.SignInRequired)

	b.json("GET /jobs/j-1/results", 200, strings.Replace(strings.Replace(results, "LINKS", link("items/busy"), 1),
		`"assets":{}`, `"assets":{"x":{"href":"x.tif"}}`, 1))
	if _, err := b.platform().Results(t.Context(), token, job1); err != nil {
		t.Errorf("an Item was read although the Collection has assets: %v", err)
	}
	many := make([]string, 0, 300)
	for i := range 300 {
		many = append(many, link("items/none?"+strings.Repeat("x", i)))
	}
	b.takeCalls()
	if got, err := read(many...); err != nil || !strings.Contains(got, "300 of its 300 Items") ||
		len(b.takeCalls()) > 110 {
		t.Errorf("%v: %s", err, got)
	}
}

// TestResults_WithNaN: back-ends in Python write NaN and Infinity, which JSON lacks.
func TestResults_WithNaN(t *testing.T) {
	b := newBackend(t)
	b.json("GET /jobs/j-1/results", 200, `{"type":"Collection","stac_version":"1.0.0","id":"NaN",
		"assets":{"a.tif":{"href":"a.tif","raster:bands":[{"nodata":NaN,"statistics":{"maximum":Infinity,
		"minimum":-Infinity}}]}}}`)
	b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"finished","progress":NaN,"costs":NaN,
		"usage":{"cpu":{"value":NaN,"unit":"s"}}}`)
	b.json("GET /jobs/j-1/logs", 200, `{"logs":[{"id":"1","level":"info","message":"mean NaN","data":[NaN]}],
		"links":[]}`)
	got, err := b.platform().Results(t.Context(), token, job1)
	if err != nil || !strings.Contains(string(got), `[{"nodata":null,"statistics":{"maximum":null,"minimum":null}}]`) ||
		!strings.Contains(string(got), `"id":"NaN"`) {
		t.Errorf("%v: %s", err, got)
	}
	if r, err := b.platform().Status(t.Context(), token, job1); err != nil || r.Status != dispatch.Finished ||
		r.Costs != nil {
		t.Errorf("%v: %+v", err, r)
	}
	if logs, err := b.platform().Logs(t.Context(), token, job1); err != nil || len(logs) != 1 ||
		logs[0].Message != "mean NaN" {
		t.Errorf("%v: %+v", err, logs)
	}
}
