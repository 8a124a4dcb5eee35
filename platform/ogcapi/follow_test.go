package ogcapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestResults(t *testing.T) {
	s := serve(t, map[string][]reply{
		"GET /jobs/a/results":     {{200, "Content-Type: application/json", `{"slept": 3}`}},
		"GET /ns/jobs/a/results":  {ok(`{"slept": 3}`)},
		"GET /jobs/bytes/results": {{406, "", ""}, {200, "Content-Type: image/tiff", "II*"}},
		"GET /jobs/refs/results":  {{204, "Link: </x.tif>; rel=map", ""}},
		"GET /jobs/huge/results":  {{200, "Content-Type: image/tiff", strings.Repeat("x", 11<<20)}},
	})
	for _, c := range []struct{ base, id, assets string }{{"", "a", "slept"}, {"/ns", "a", "slept"},
		{"", "bytes", "result"}, {"", "refs", "map"}, {"", "huge", "result"}} {
		ref := dispatch.Ref{ID: c.id}
		if c.base != "" {
			ref.Base = s.URL + c.base
		}
		raw, err := s.platform().Results(t.Context(), token, ref)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		got := validCollection(t, raw)
		if got.ID != c.id || assetNames(got) != c.assets {
			t.Errorf("%+v: %s", c, raw[:min(len(raw), 300)])
		}
		if c.id == "huge" && got.Assets["result"].Href != s.URL+"/jobs/huge/results" {
			t.Error(got.Assets["result"].Href[:100])
		}
	}
	if accept := s.requests("GET", "/jobs/a/results")[0].header.Get("Accept"); accept != "application/json" {
		t.Error(accept)
	}
}

func TestResults_NotThere(t *testing.T) {
	pygeoapi := func(status int, code, text string) reply {
		return reply{status, "Content-Type: application/json", `{"code":"` + code + `","type":"` + code +
			`","description":"` + text + `"}`}
	}
	for name, c := range map[string]struct {
		results, status reply
		kind            dispatch.Kind
		text            string
	}{
		"not ready": {pygeoapi(404, "ResultNotReady", "job accepted"), ok(`{"status":"accepted"}`),
			dispatch.Conflict, "not finished"},
		"not ready, 1.0": {reply{404, "",
			`{"type":"http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/result-not-ready"}`},
			reply{502, "", ""}, dispatch.Conflict, ""},
		"failed, pygeoapi": {pygeoapi(400, "InvalidParameterValue", "job failed"),
			ok(`{"status":"failed","message":"Cannot process without a name"}`), dispatch.Conflict, "without a name"},
		"failed, 1.0": {reply{500, "Content-Type: application/problem+json", `{"detail":"No scene"}`},
			ok(`{"status":"failed"}`), dispatch.Conflict, "No scene"},
		"failed, 2.0": {reply{404, "", ""}, ok(`{"status":"failed","exception":{"detail":"No scene"}}`),
			dispatch.Conflict, "No scene"},
		"dismissed":        {reply{410, "", ""}, ok(`{"status":"dismissed"}`), dispatch.Conflict, "canceled"},
		"no such job":      {pygeoapi(404, "NoSuchJob", "a"), pygeoapi(404, "NoSuchJob", "a"), dispatch.NotFound, ""},
		"a proxy's pages":  {reply{404, "", "<html>"}, reply{404, "", "<html>"}, dispatch.Unavailable, ""},
		"finished, broken": {reply{500, "", ""}, ok(`{"status":"successful"}`), dispatch.Unavailable, ""},
		"status as results": {ok(`{"jobID":"a","type":"process","status":"running"}`), reply{}, dispatch.Conflict,
			"not finished"},
		"status of the end": {ok(`{"jobID":"a","type":"process","status":"successful"}`), reply{}, dispatch.BadUpstream,
			"returned no results"},
		"a page": {reply{200, "Content-Type: text/html", "<!doctype html>"}, reply{}, dispatch.BadUpstream,
			"web page"},
		"nothing":       {reply{200, "", ""}, reply{}, dispatch.BadUpstream, "no results"},
		"not signed in": {reply{401, "", ""}, reply{}, dispatch.SignInRequired, ""},
		"a redirect":    {reply{302, "Location: https://evil.example/", ""}, reply{}, dispatch.BadUpstream, ""},
		"too long a document": {reply{200, "Content-Type: application/json", `"` + strings.Repeat("x", 11<<20) + `"`},
			reply{}, dispatch.BadUpstream, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string][]reply{"GET /jobs/a/results": {c.results}, "GET /jobs/a": {c.status}})
			_, err := s.platform().Results(t.Context(), token, dispatch.Ref{ID: "a"})
			wantKind(t, err, c.kind)
			wantText(t, err, c.text)
		})
	}
}

// The token is sent to the platform only.
func TestResults_LinksGetTheTokenOnOneOriginOnly(t *testing.T) {
	elsewhere := serve(t, map[string][]reply{"GET /c.json": {ok(stacCollection)}})
	s := serve(t, map[string][]reply{
		"GET /jobs/own/results":   {ok(strings.ReplaceAll(gepFeatures, "LINK", "/stac/c"))},
		"GET /jobs/other/results": {ok(strings.ReplaceAll(gepFeatures, "LINK", elsewhere.URL+"/c.json"))},
		"GET /jobs/away/results":  {ok(strings.ReplaceAll(gepFeatures, "LINK", "/away"))},
		"GET /jobs/ill/results":   {ok(strings.ReplaceAll(gepFeatures, "LINK", "/ill"))},
		"GET /jobs/dead/results":  {ok(strings.ReplaceAll(gepFeatures, "LINK", elsewhere.URL+"/gone.json"))},
		"GET /stac/c":             {ok(stacCollection)},
		"GET /away":               {{302, "Location: " + elsewhere.URL + "/c.json", ""}},
		"GET /ill":                {{503, "Retry-After: 1", ""}},
	})
	for id, want := range map[string]string{"own": "a s3", "other": "a s3", "away": "collection",
		"dead": "collection"} {
		raw, err := s.platform().Results(t.Context(), token, dispatch.Ref{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		if got := assetNames(validCollection(t, raw)); got != want {
			t.Errorf("%s: %s", id, got)
		}
	}
	_, err := s.platform().Results(t.Context(), token, dispatch.Ref{ID: "ill"})
	wantKind(t, err, dispatch.Busy)
	for _, r := range elsewhere.asked {
		if r.header.Get("Authorization") != "" {
			t.Errorf("%s got the token", r.path)
		}
	}
	if len(elsewhere.requests("GET", "/c.json")) != 1 ||
		s.requests("GET", "/stac/c")[0].header.Get("Authorization") == "" {
		t.Error(elsewhere.asked)
	}
}

// Without the operator's permission no private address is read, and the link itself is the result.
func TestResults_LinksToPrivateAddresses(t *testing.T) {
	elsewhere := serve(t, map[string][]reply{"GET /c.json": {ok(stacCollection)}})
	s := serve(t, map[string][]reply{"GET /jobs/a/results": {ok(`{"out":{"href":"` + elsewhere.URL + `/c.json"}}`)}})
	p := New(Config{Endpoint: s.URL, Client: upstream.New(upstream.Config{Trust: []string{s.URL}})})
	raw, err := p.Results(t.Context(), token, dispatch.Ref{ID: "a"})
	if err != nil || assetNames(validCollection(t, raw)) != "out" || len(elsewhere.asked) > 0 {
		t.Errorf("%s, %v, %v", raw, err, elsewhere.asked)
	}
}

func runSync(t *testing.T, s *server) (media, body string, err error) {
	t.Helper()
	got, err := s.platform().RunSync(t.Context(), token, s.submission())
	if err != nil {
		return "", "", err
	}
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	return got.ContentType, string(raw), err
}

func TestRunSync(t *testing.T) {
	s := serve(t, map[string][]reply{
		"GET /processes/p":      {ok(`{"jobControlOptions":["sync-execute"],"outputs":{"a":{}}}`)},
		"POST " + executionPath: {{200, "Content-Type: image/tiff\nLocation: /jobs/a", "II*"}},
	})
	media, body, err := runSync(t, s)
	if err != nil || media != "image/tiff" || body != "II*" {
		t.Error(media, body, err)
	}
	asked := s.requests("POST", executionPath)[0]
	if asked.header.Get("Prefer") != "" || asked.header.Get("Accept") != "*/*" || asked.body != `{"inputs":{}}` {
		t.Errorf("%+v", asked)
	}
}

func TestRunSync_SeveralOutputs(t *testing.T) {
	s := serve(t, map[string][]reply{"GET /processes/p": {ok(`{"outputs":{"a":{},"b":{}}}`)}, "POST " +
		executionPath: {{204, "Link: </b.tif>; rel=b", ""}}})
	media, body, err := runSync(t, s)
	if err != nil || media != "application/json" || assetNames(validCollection(t, []byte(body))) != "b" {
		t.Error(media, body, err)
	}
	if sent := s.requests("POST", executionPath)[0].body; !strings.Contains(sent, `"response":"document"`) {
		t.Error(sent)
	}
}

func TestRunSync_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		answer reply
		kind   dispatch.Kind
		text   string
	}{
		"refused": {reply{400, "Content-Type: application/json", `{"description":"failed on request"}`},
			dispatch.Invalid, "failed on request"},
		"cut off":  {reply{}, dispatch.Uncertain, ""},
		"no id":    {reply{201, "", "null"}, dispatch.Uncertain, "identifier"},
		"no route": {reply{404, "", ""}, dispatch.Unavailable, ""},
	} {
		_, _, err := runSync(t, serve(t, map[string][]reply{"POST " + executionPath: {c.answer}}))
		if !dispatch.Is(err, c.kind) || !strings.Contains(dispatch.TextFor(err), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// scripted returns responses in memory, on the fake clock of a bubble.
type scripted struct {
	replies map[string][]string // by method and path; a status other than 200 comes first
	asked   []string
}

func (s *scripted) transport() roundTrip {
	return func(r *http.Request) *http.Response {
		key := r.Method + " " + r.URL.Path
		s.asked = append(s.asked, key)
		bodies := s.replies[key]
		if len(bodies) > 1 {
			s.replies[key] = bodies[1:]
		}
		status, body := 200, ""
		if len(bodies) > 0 {
			body = bodies[0]
		}
		switch {
		case strings.HasPrefix(body, "201 "):
			status, body = 201, body[4:]
		case strings.HasPrefix(body, "404 "):
			status, body = 404, body[4:]
		case len(bodies) == 0:
			status = 404
		}
		a := answerWith(r, body)
		a.StatusCode = status
		return a
	}
}

func TestRunSync_ServerCreatesAJob(t *testing.T) {
	for name, c := range map[string]struct {
		status []string
		result string
		kind   dispatch.Kind
		text   string
	}{
		"gives nonsense": {[]string{`{"status":"running"}`, `{}`}, "", dispatch.BadUpstream, "no status"},
		"at last": {[]string{`{"status":"accepted"}`, `{"status":"running"}`, `{"status":"successful"}`}, `{"out":1}`,
			0, ""},
		"fails": {[]string{`{"status":"running"}`, `{"status":"failed","message":"No scene"}`}, "",
			dispatch.BadUpstream, "No scene"},
		"is dismissed": {[]string{`{"status":"dismissed"}`}, "", dispatch.BadUpstream, "canceled"},
		"appears late": {[]string{`404 {}`, `404 {}`, `{"status":"successful"}`}, `{"out":1}`, 0, ""},
		"is forgotten": {[]string{`404 {}`}, "", dispatch.BadUpstream, "does not know the job any more"},
		"never ends":   {[]string{`{"status":"running"}`}, "", dispatch.Uncertain, "in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{replies: map[string][]string{
					"GET /processes/p": {bothModes}, "POST " + executionPath: {`201 {"jobID":"a"}`},
					"GET /jobs/a": c.status, "GET /jobs/a/results": {c.result}, "DELETE /jobs/a": {"{}"},
				}}
				p := New(Config{Endpoint: "https://x.example",
					Client: upstream.New(upstream.Config{Transport: s.transport()})})
				ctx, cancel := contextWithTimeout(t, time.Minute)
				defer cancel()
				var created []string
				got, err := p.RunSync(ctx, token, dispatch.Submission{
					Request: dispatch.Request{Service: dispatch.Service{Endpoint: "https://x.example",
						Application: "p"},
						Parameters: []byte(`{}`)},
					Created: func(_ context.Context, r dispatch.Ref) error {
						created = append(created, r.ID)
						return nil
					}})
				if !slices.Equal(created, []string{"a"}) {
					t.Errorf("the run does not name its job: %v", created)
				}
				if c.text != "" {
					wantKind(t, err, c.kind)
					wantText(t, err, c.text)
					if dismissed := s.asked[len(s.asked)-1] == "DELETE /jobs/a"; dismissed != (name == "never ends") {
						t.Error(s.asked)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(got.Body)
				if got.Body.Close(); err != nil || string(body) != c.result {
					t.Errorf("%s, %v", body, err)
				}
			})
		})
	}
}

// TestRunSync_NotItsJob: nothing is read of a job that is not the run's own, and the job is not dismissed.
func TestRunSync_NotItsJob(t *testing.T) {
	s := serve(t, map[string][]reply{
		"GET /processes/p": {ok(bothModes)}, "POST " + executionPath: {job("/jobs/others")},
		"GET /jobs/others":         {ok(`{"status":"successful"}`)},
		"GET /jobs/others/results": {ok(`"another's result"`)},
	})
	submission := s.submission()
	submission.Created = func(_ context.Context, r dispatch.Ref) error {
		return &dispatch.Error{Kind: dispatch.BadUpstream, Text: r.ID + " is not yours"}
	}
	got, err := s.platform().RunSync(t.Context(), token, submission)
	if wantKind(t, err, dispatch.BadUpstream); got != nil || dispatch.TextFor(err) != "others is not yours" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, r := range s.asked {
		if strings.HasPrefix(r.path, "/jobs/") {
			t.Errorf("%s %s", r.method, r.path)
		}
	}
}

func TestRunSync_ProcessIsAsynchronousOnly(t *testing.T) {
	for name, c := range map[string]struct {
		results     []reply
		media, body string
	}{
		"bytes": {[]reply{{406, "", ""}, {200, "Content-Type: image/tiff", "II*"}}, "image/tiff", "II*"},
		"JSON":  {[]reply{ok("3")}, "application/json", "3"},
		"references": {[]reply{{204, "Link: <https://x.example/a.tif>; rel=map", ""}}, "application/json",
			`"map":{"href":"https://x.example/a.tif"`},
	} {
		s := serve(t, map[string][]reply{"POST " + executionPath: {job("/jobs/a")},
			"GET /jobs/a": {ok(`{"status":"successful"}`)}, "GET /jobs/a/results": c.results})
		media, body, err := runSync(t, s)
		if err != nil || media != c.media || !strings.Contains(body, c.body) {
			t.Errorf("%s: %s, %s, %v", name, media, body, err)
		}
	}
}

// A Collection whose assets are only at the Items that it links to gets them, as that of openEO does.
func TestResults_OfItems(t *testing.T) {
	s := serve(t, map[string][]reply{
		"GET /jobs/a/results": {ok(`{"type":"Collection","stac_version":"1.0.0","id":"c","links":[{"rel":"item",
			"href":"/items/1"},{"rel":"item","href":"/items/none"}]}`)},
		"GET /jobs/b/results": {ok(`{"type":"Collection","stac_version":"1.0.0","id":"c","links":[{"rel":"item",
			"href":"/items/busy"}]}`)},
		"GET /items/1": {ok(`{"type":"Feature","stac_version":"1.0.0","id":"1","bbox":[1,2,3,4],
			"assets":{"x":{"href":"x.tif","nodata":NaN}}}`)},
		"GET /items/busy": {{503, "Retry-After: 1", ""}},
	})
	raw, err := s.platform().Results(t.Context(), token, dispatch.Ref{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	got := validCollection(t, raw)
	if got.Assets["x"].Href != s.URL+"/items/x.tif" || got.Extent.Spatial.Bbox[0][0] != 1 ||
		!strings.Contains(got.Description, "1 of its 2 Items") {
		t.Errorf("%s", raw)
	}
	_, err = s.platform().Results(t.Context(), token, dispatch.Ref{ID: "b"})
	wantKind(t, err, dispatch.Busy)
}

// Documents of results that are linked side by side are read a few at once, in their order, and each once.
func TestResults_ReadsLinkedDocumentsTogether(t *testing.T) {
	var links []string
	for i := range 12 {
		links = append(links, fmt.Sprintf(`{"rel":"item","href":"/items/%d"}`, i))
	}
	list := strings.Join(append(links, links[3]), ",")
	for name, results := range map[string]string{
		"Collection": `{"type":"Collection","stac_version":"1.0.0","id":"c","links":[` + list + `]}`,
		"Catalog":    `{"type":"Catalog","stac_version":"1.0.0","id":"c","links":[` + list + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked, now, most atomic.Int32
				h := &simulator.Hostile{Answer: func(r *http.Request) simulator.Reply {
					if r.URL.Path == "/jobs/a/results" {
						return simulator.JSONReply(200, "", results)
					}
					asked.Add(1)
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
					id := path.Base(r.URL.Path)
					return simulator.JSONReply(200, "", `{"type":"Feature","stac_version":"1.0.0","id":"`+id+
						`","assets":{"x":{"href":"`+id+`.tif"}}}`)
				}}
				p := New(Config{Endpoint: "http://x.example", Client: upstream.New(upstream.Config{Development: true,
					Dial: h.Dial})})
				raw, err := p.Results(t.Context(), token, dispatch.Ref{ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				if n := len(validCollection(t, raw).Assets); n != 12 || asked.Load() != 12 {
					t.Errorf("%d assets after %d requests: %s", n, asked.Load(), raw)
				}
				if most.Load() != 4 {
					t.Errorf("%d requests at once", most.Load())
				}
				time.Sleep(2 * time.Hour) // connections end
			})
		})
	}
}

// Servers in Python write NaN and Infinity, which JSON lacks: in STAC, in values, and in parts of a multipart response.
func TestResults_WithNaN(t *testing.T) {
	s := serve(t, map[string][]reply{
		"GET /jobs/stac/results": {ok(`{"out":{"type":"Collection","stac_version":"1.0.0","id":"c",
			"assets":{"a":{"href":"a.tif","nodata":NaN}},"links":[]}}`)},
		"GET /jobs/value/results":  {ok(`{"mean":NaN,"range":{"value":[-Infinity,1],"mediaType":"application/json"}}`)},
		"GET /jobs/linked/results": {ok(strings.ReplaceAll(gepFeatures, "LINK", "/stac/c"))},
		"GET /stac/c": {ok(strings.Replace(stacCollection, `"stac_version"`, `"x":NaN,"stac_version"`,
			1))},
		"GET /jobs/parts/results": {{200, "Content-Type: multipart/related; boundary=b",
			"--b\r\nContent-ID: <out>\r\nContent-Type: application/json\r\n\r\n" +
				`{"type":"Collection","stac_version":"1.0.0","id":"c","x":NaN,"assets":{"a":{"href":"a.tif"}}}` +
				"\r\n--b--\r\n"}},
		"GET /jobs/stac": {ok(`{"jobID":"stac","status":"running","progress":NaN}`)},
	})
	for id, want := range map[string]string{"stac": "a", "value": "mean range", "linked": "a s3", "parts": "a"} {
		raw, err := s.platform().Results(t.Context(), token, dispatch.Ref{ID: id})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if got := assetNames(validCollection(t, raw)); got != want {
			t.Errorf("%s: %s", id, got)
		}
	}
	if r, err := s.platform().Status(t.Context(), token, dispatch.Ref{ID: "stac"}); err != nil ||
		r.Status != dispatch.Running || r.Progress != nil {
		t.Errorf("%+v, %v", r, err)
	}
}
