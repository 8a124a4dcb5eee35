package ogcapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestOutputs_OfAJob: the outputs of a job are found in every form in which servers give results, and no link is
// followed.
func TestOutputs_OfAJob(t *testing.T) {
	const tiff, geo, parts = "Content-Type: image/tiff", "Content-Type: application/geo+json",
		"Content-Type: multipart/related; boundary=x"
	for name, c := range map[string]struct {
		answer reply
		want   string // name, media type, and text or link of each
	}{
		"document": {ok(`{"mean":0.5,"words":["a","b"],"none":null}`),
			`mean application/json 0.5|words application/json ["a","b"]|none application/json null`},
		"qualified": {ok(`{"a":{"value":{"x":1},"mediaType":"application/json"},"b":{"value":"text","mediaType":"text/csv"},"c":{"value":"x"}}`),
			`a application/json {"x":1}|b text/csv text|c application/json "x"`},
		"base64": {ok(`{"a":{"value":"SUkq","mediaType":"image/tiff","encoding":"base64"},"b":{"value":"SUkq","format":{"mediaType":"image/png"}}}`),
			`a image/tiff II*|b image/png II*`},
		"links": {ok(`{"a":{"href":"/files/a.tif","type":"image/tiff"},"b":{"href":"s3://bucket/b"}}`),
			`a image/tiff HOST/files/a.tif|b  s3://bucket/b`},
		"outputs": {ok(`{"outputs":[{"id":"a","value":1},{"id":"b","value":"x"}]}`),
			`a application/json 1|b application/json "x"`},
		"pygeoapi": {ok(`{"outputs":[{"a":1,"b":{"href":"https://x/y"}}]}`), `a application/json 1|b  https://x/y`},
		"GeoJSON": {ok(`{"type":"FeatureCollection","features":[]}`),
			` application/geo+json {"type":"FeatureCollection","features":[]}`},
		"one value": {ok(`17`), ` application/json 17`},
		"raw bytes": {reply{200, tiff, "II*"}, ` image/tiff II*`},
		"raw JSON": {reply{200, geo, `{"type":"Point","coordinates":[1,2]}`},
			` application/geo+json {"type":"Point","coordinates":[1,2]}`},
		"by headers": {reply{204, `Link: <HOST/a.tif>; rel="a"; type="image/tiff", <HOST/jobs/1>; rel="monitor"`, ""},
			`a image/tiff HOST/a.tif`},
		"multipart": {reply{200, parts, "--x\r\nContent-ID: <a>\r\nContent-Type: " +
			"text/plain\r\n\r\nhi\r\n--x\r\nContent-ID: b\r\nContent-Location: /b.tif\r\nContent-Type: " +
			"image/tiff\r\n\r\n\r\n--x--\r\n"}, `a text/plain hi|b image/tiff HOST/b.tif`},
		"hostile names": {ok(`{"../x":1,"\u0000":2,"a\r\nSet-Cookie: b":3}`),
			"../x application/json 1|\x00 application/json 2|a\r\nSet-Cookie: b application/json 3"},
	} {
		s := serve(t, map[string][]reply{"GET /jobs/1/results": {c.answer}})
		all, err := s.platform().Outputs(t.Context(), token, dispatch.Ref{ID: "1"})
		var got []string
		for _, v := range all {
			got = append(got, fmt.Sprintf("%s %s %s%s", v.Name, v.Media, v.Data, v.Link))
		}
		if text := strings.ReplaceAll(strings.Join(got, "|"), s.URL, "HOST"); err != nil || text != c.want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if n := len(s.asked); n != 1 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// TestOutputs_ThereAreNone: what is no result is an error.
func TestOutputs_ThereAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		results, status reply
		want            dispatch.Kind
	}{
		"a page":       {reply{200, "Content-Type: text/html", "<!doctype html>"}, reply{}, dispatch.BadUpstream},
		"no JSON":      {reply{200, "Content-Type: application/json", `{"a"`}, reply{}, dispatch.BadUpstream},
		"not finished": {reply{404, "", ""}, ok(`{"jobID":"1","status":"running"}`), dispatch.Conflict},
		"gone":         {reply{404, "", ""}, reply{404, "", "{}"}, dispatch.NotFound},
		"a broken part": {reply{200, "Content-Type: multipart/related; boundary=x", "--x\r\nContent-ID: a"}, reply{},
			dispatch.BadUpstream},
	} {
		s := serve(t, map[string][]reply{"GET /jobs/1/results": {c.results}, "GET /jobs/1": {c.status}})
		_, err := s.platform().Outputs(t.Context(), token, dispatch.Ref{ID: "1"})
		if !dispatch.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProcesses: a list of processes is read to its end, from this server only.
func TestProcesses(t *testing.T) {
	s := serve(t, map[string][]reply{
		"GET /apex/processes?limit=1000": {ok(`{"processes":[{"id":"a"}],"links":[{"rel":"next","href":"HOST/apex/processes?page=2"}]}`)},
		"GET /apex/processes?page=2":     {ok(`{"processes":[{"id":"b"}],"links":[]}`)},
		"GET /processes?limit=1000":      {ok(`{"processes":[{"id":"a"}],"links":[{"rel":"next","href":"https://elsewhere.example/"}]}`)},
	})
	p := s.platform()
	all, err := p.Processes(t.Context(), token, dispatch.Service{Endpoint: s.URL, Namespace: new("apex")})
	if err != nil || len(all) != 2 || string(all[1]) != `{"id":"b"}` {
		t.Errorf("%s, %v", all, err)
	}
	_, err = p.Processes(t.Context(), token, dispatch.Service{Endpoint: s.URL})
	wantKind(t, err, dispatch.BadUpstream)
	_, err = p.Processes(t.Context(), token, dispatch.Service{Endpoint: s.URL, Namespace: new("../x")})
	wantKind(t, err, dispatch.Invalid)
}
