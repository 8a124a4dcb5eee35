package ogcapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const executionPath = "/processes/p/execution"

func TestSubmit(t *testing.T) {
	for name, c := range map[string]struct {
		answer reply
		base   string // below the server
		id     string
	}{
		"pygeoapi 0.21":              {answer: job("HOST/jobs/a"), id: "a"},
		"pygeoapi 0.21, document":    {answer: reply{201, "Location: HOST/jobs/a", "{}"}, id: "a"},
		"pygeoapi of September 2025": {answer: reply{201, "", `{"id":"a","status":"accepted"}`}, id: "a"},
		"pygeoapi 0.24": {answer: reply{201, "Location: HOST/jobs/a\nContent-Type: application/json",
			`{"jobID":"a","type":"process","status":"accepted"}`}, id: "a"},
		"relative":              {answer: job("/jobs/a"), id: "a"},
		"relative to the path":  {answer: job("../../jobs/a"), id: "a"},
		"with a query":          {answer: job("HOST/jobs/a?f=json"), id: "a"},
		"with a slash":          {answer: job("HOST/jobs/a/"), id: "a"},
		"to the status":         {answer: job("HOST/jobs/a/status"), id: "a"},
		"escaped":               {answer: job("/jobs/a%20b"), id: "a b"},
		"another server's":      {answer: job("https://evil.example/x/jobs/a"), id: "a"},
		"another scheme":        {answer: job("https://127.0.0.1/jobs/a"), id: "a"},
		"a namespace":           {answer: job("HOST/ns/jobs/a"), base: "/ns", id: "a"},
		"an old ADES":           {answer: job("HOST/processes/p/jobs/a"), base: "/processes/p", id: "a"},
		"Location before body":  {answer: reply{201, "Location: /jobs/a", `{"jobID":"b"}`}, id: "a"},
		"id only":               {answer: reply{201, "", `{"id":"a"}`}, id: "a"},
		"job_id only":           {answer: reply{201, "", `{"job_id":"a"}`}, id: "a"},
		"number":                {answer: reply{201, "", `{"jobID":17}`}, id: "17"},
		"Location of no job":    {answer: reply{201, "Location: /processes/p/execution", `{"jobID":"a"}`}, id: "a"},
		"Location of a bad id":  {answer: reply{201, "Location: /jobs/%2e%2e", `{"jobID":"a"}`}, id: "a"},
		"body that is cut":      {answer: reply{201, "Location: /jobs/a\nContent-Length: 100", `{"jobID":`}, id: "a"},
		"body that is not JSON": {answer: reply{201, "Location: /jobs/a", `<html>`}, id: "a"},
		"accepted":              {answer: reply{202, "Location: /jobs/a", ""}, id: "a"},
		"monitor link":          {answer: reply{201, "Link: </jobs/a>; rel=monitor", ""}, id: "a"},
		"200 with a job": {answer: ok(`{"jobID":"a","processID":"p","type":"process","status":"accepted"}`),
			id: "a"},
		"201 with a result": {answer: reply{201, "Location: /jobs/a", `{"out":1}`}, id: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string][]reply{"POST " + executionPath: {c.answer}})
			want := dispatch.SubmitResult{Ref: dispatch.Ref{ID: c.id}, Started: true,
				Versions: dispatch.Versions{Process: "1"}}
			if c.base != "" {
				want.Ref.Base = s.URL + c.base
			}
			got, err := s.platform().Submit(t.Context(), token, s.submission())
			if err != nil || !cmp.Equal(got, want) {
				t.Fatalf("got %+v, %v", got, err)
			}
			asked := s.requests("POST", executionPath)
			if len(asked) != 1 || cmp.Diff(asked[0].header["Prefer"], []string{"respond-async"}) != "" ||
				cmp.Diff(asked[0].header["Accept"], []string{"application/json"}) != "" ||
				asked[0].header.Get("Authorization") != "Bearer secret-token" {
				t.Errorf("asked %+v", asked)
			}
			if asked[0].body != `{"inputs":{},"response":"document"}` {
				t.Errorf("sent %s", asked[0].body)
			}
		})
	}
}

func TestSubmit_Failures(t *testing.T) {
	for name, c := range map[string]struct {
		answer reply
		kind   dispatch.Kind
		text   string
	}{
		"no id":             {reply{201, "", "null"}, dispatch.Uncertain, "identifier"},
		"no id, not JSON":   {reply{201, "Location: ../..", "<html>"}, dispatch.Uncertain, "identifier"},
		"nothing at all":    {reply{200, "", ""}, dispatch.BadUpstream, "no results"},
		"cut off":           {reply{}, dispatch.Uncertain, ""},
		"result cut off":    {reply{200, "Content-Length: 100", "{"}, dispatch.Uncertain, ""},
		"request timeout":   {reply{408, "", ""}, dispatch.Uncertain, ""},
		"server error":      {reply{500, "Content-Type: text/html", "<h1>Oops</h1>"}, dispatch.Uncertain, "500"},
		"not implemented":   {reply{501, "", ""}, dispatch.Uncertain, ""},
		"bad gateway":       {reply{502, "Content-Type: text/html", "<h1>Oops</h1>"}, dispatch.Uncertain, ""},
		"gateway timeout":   {reply{504, "", ""}, dispatch.Uncertain, ""},
		"unavailable":       {reply{503, "", ""}, dispatch.Uncertain, ""},
		"unavailable, busy": {reply{503, "Retry-After: 7", ""}, dispatch.Busy, ""},
		"too many":          {reply{429, "Retry-After: 7", ""}, dispatch.Busy, ""},
		"not signed in":     {reply{401, "", ""}, dispatch.SignInRequired, ""},
		"forbidden":         {reply{403, "", ""}, dispatch.Forbidden, ""},
		"pygeoapi": {reply{400, "Content-Type: application/json\nLocation: HOST/jobs/a",
			`{"type":"InvalidParameterValue","code":"InvalidParameterValue","description":"Cannot process without a name"}`},
			dispatch.Invalid, "without a name"},
		"problem": {reply{422, "Content-Type: application/problem+json",
			`{"type":"about:blank","title":"Bad","detail":"<b>bbox</b> missing"}`}, dispatch.Invalid, "bbox missing"},
		"pygeoapi without a manager": {reply{400, "Content-Type: application/json",
			`{"outputs":[{"code":"InvalidParameterValue","description":"Error executing process: no x"}]}`},
			dispatch.Invalid, "no x"},
		"plain text": {reply{400, "Content-Type: text/plain", "no such input"}, dispatch.Invalid, "no such input"},
		"no such process": {reply{404, "", `{"code":"NoSuchProcess","type":"NoSuchProcess"}`}, dispatch.NotFound,
			"does not know this process"},
		"conflict": {reply{409, "Content-Type: application/json", `{"detail":"locked"}`}, dispatch.Invalid,
			"locked"},
		"moved": {reply{307, "Location: /elsewhere", ""}, dispatch.BadUpstream, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string][]reply{"POST " + executionPath: {c.answer}})
			step, err := s.platform().Submit(t.Context(), token, s.submission())
			wantKind(t, err, c.kind)
			wantText(t, err, c.text)
			if len(step.Result) > 0 || step.Ref.ID != "" {
				t.Errorf("learnt %+v", step)
			}
			if n := len(s.requests("POST", executionPath)); n != 1 {
				t.Errorf("sent %d times", n)
			}
			if len(s.requests("POST", "/processes/p/jobs")) > 0 {
				t.Error("sent to the old path, too")
			}
			if strings.Contains(err.Error(), "secret-token") {
				t.Error("the token is in the error")
			}
		})
	}
}

func TestSubmit_SendsNothing(t *testing.T) {
	description := func(a reply) map[string][]reply { return map[string][]reply{"GET /processes/p": {a}} }
	for name, c := range map[string]struct {
		script map[string][]reply
		change func(*dispatch.Submission)
		kind   dispatch.Kind
		text   string
	}{
		"no run is wanted": {script: description(ok(onlySync)), kind: dispatch.Busy,
			change: func(s *dispatch.Submission) {
				s.Runs = func(context.Context) (context.Context, error) {
					return nil, &dispatch.Error{Kind: dispatch.Busy}
				}
			}},
		"no such process": {script: description(reply{404, "", ""}), kind: dispatch.NotFound,
			text: "does not know this process"},
		"ZOO, no namespace": {script: description(reply{400, "Content-Type: application/json",
			`{"title":"BadRequest","detail":"The resource is not available"}`}), kind: dispatch.NotFound,
			text: "The resource is not available"},
		"description refused": {script: description(reply{405, "", ""}), kind: dispatch.NotFound, text: "405"},
		"description gone": {script: description(reply{410, "", ""}), kind: dispatch.NotFound,
			text: "does not know this process"},
		"description locked":  {script: description(reply{409, "", ""}), kind: dispatch.NotFound, text: "409"},
		"description invalid": {script: description(reply{422, "", ""}), kind: dispatch.NotFound, text: "422"},
		"no descriptions":     {script: description(reply{501, "", ""}), kind: dispatch.NotFound, text: "501"},
		"not JSON": {script: description(reply{200, "Content-Type: text/html", "<html>"}), kind: dispatch.NotFound,
			text: "instead of JSON"},
		"a list": {script: description(ok(`[]`)), kind: dispatch.NotFound,
			text: "does not describe this process"},
		"moved": {script: description(reply{307, "Location: /elsewhere", ""}), kind: dispatch.NotFound,
			text: "does not describe this process"},
		"too many inputs": {script: description(ok(`{"inputs":[` + strings.Repeat("{},", 100_000) + `{}]}`)),
			kind: dispatch.NotFound, text: "service_parameters"},
		"description ill":  {script: description(reply{502, "", ""}), kind: dispatch.Unavailable},
		"description busy": {script: description(reply{429, "", ""}), kind: dispatch.Busy},
		"not signed in":    {script: description(reply{401, "", ""}), kind: dispatch.SignInRequired},
		"forbidden":        {script: description(reply{403, "", ""}), kind: dispatch.Forbidden},
		"elsewhere": {change: func(s *dispatch.Submission) { s.Service.Endpoint = "https://evil.example" },
			kind: dispatch.Invalid},
		"no object": {change: func(s *dispatch.Submission) { s.Parameters = json.RawMessage(`[1]`) },
			kind: dispatch.Invalid},
		"null": {change: func(s *dispatch.Submission) { s.Parameters = json.RawMessage(`null`) },
			kind: dispatch.Invalid},
		"options": {change: func(s *dispatch.Submission) { s.Options = json.RawMessage(`"x"`) },
			kind: dispatch.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.script)
			submission := s.submission()
			if c.change != nil {
				c.change(&submission)
			}
			_, err := s.platform().Submit(t.Context(), token, submission)
			wantKind(t, err, c.kind)
			wantText(t, err, c.text)
			if len(s.requests("POST", executionPath)) > 0 {
				t.Error("something was sent")
			}
		})
	}
}

// A proxy's page in place of a description that was read before changes nothing.
func TestSubmit_DescriptionStaysWhileAProxyAnswers(t *testing.T) {
	pages := map[string]reply{
		"a page": {200, "Content-Type: text/html", "<html>"}, "a redirect": {307, "Location: /sign-in", ""}}
	for name, page := range pages {
		s := serve(t, map[string][]reply{"GET /processes/p": {ok(bothModes), page}})
		p := s.platform()
		first, err := p.readDescription(t.Context(), token, s.URL+"/processes/p", nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.readDescription(t.Context(), token, s.URL+"/processes/p", first)
		if err != nil || again != first {
			t.Errorf("%s: %+v, %v", name, again, err)
		}
	}
}

func TestSubmit_ServerIsDown(t *testing.T) {
	s := serve(t, nil)
	p, submission := s.platform(), s.submission()
	if _, _, err := p.describe(t.Context(), token, submission.Service); err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err := p.Submit(t.Context(), token, submission)
	wantKind(t, err, dispatch.Unavailable)
}

func TestSubmit_OldPath(t *testing.T) {
	for name, c := range map[string]struct {
		missing reply
		falls   bool
	}{
		"router": {reply{404, "Content-Type: application/json", `{"detail":"Not Found"}`}, true},
		"page":   {reply{404, "Content-Type: text/html", `<html>`}, true},
		"blank problem": {reply{404, "Content-Type: application/problem+json", `{"type":"about:blank","status":404}`},
			true},
		"method": {reply{405, "", ""}, true},
		"exception": {reply{404, "",
			`{"type":"http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/no-such-process"}`}, false},
		"pygeoapi": {reply{404, "", `{"code":"NoSuchProcess"}`}, false},
	} {
		s := serve(t, map[string][]reply{"POST " + executionPath: {c.missing},
			"POST /processes/p/jobs": {job("/jobs/a")}})
		step, err := s.platform().Submit(t.Context(), token, s.submission())
		if c.falls != (err == nil) || c.falls && step.Ref.ID != "a" {
			t.Errorf("%s: %+v, %v", name, step, err)
		}
		for _, r := range s.requests("POST", "/processes/p/jobs") {
			if !strings.Contains(r.body, `"mode":"async"`) || r.header.Get("Prefer") != "respond-async" {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

// TestSubmit_BehindAProxyWithoutARoute: what the proxy says about a path is not the platform's refusal of the process.
func TestSubmit_BehindAProxyWithoutARoute(t *testing.T) {
	for name, missing := range map[string]reply{"page": {404, "Content-Type: text/html", "<html>"},
		"empty": {404, "", ""}} {
		s := serve(t, map[string][]reply{"POST " + executionPath: {missing}, "POST /processes/p/jobs": {missing}})
		step, err := s.platform().Submit(t.Context(), token, s.submission())
		if !dispatch.Is(err, dispatch.Unavailable) || step.Started {
			t.Errorf("%s: %+v, %v", name, step, err)
		}
	}
}

func TestSubmit_ResultInTheResponse(t *testing.T) {
	for name, c := range map[string]struct {
		answer reply
		ref    string
		asset  string
	}{
		"pygeoapi": {reply{200, "Content-Type: application/json\nLocation: HOST/jobs/a",
			`{"id":"echo","value":"Hello"}`}, "a", "echo"},
		"document":  {ok(`{"outputs":[{"id":"out","value":3}]}`), "", "out"},
		"bytes":     {reply{200, "Content-Type: image/tiff", "II*"}, "", "result"},
		"reference": {reply{204, "Link: <https://data.example/a.tif>; rel=map; type=image/tiff", ""}, "", "map"},
	} {
		s := serve(t, map[string][]reply{"POST " + executionPath: {c.answer}})
		step, err := s.platform().Submit(t.Context(), token, s.submission())
		if err != nil || step.Ref.ID != c.ref || !step.Started {
			t.Errorf("%s: %+v, %v", name, step, err)
			continue
		}
		if got := assetNames(validCollection(t, step.Result)); got != c.asset {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A result that is too large to store is read from its job, if there is one.
func TestSubmit_ResultInTheResponseIsTooLarge(t *testing.T) {
	long := strings.Repeat("x", 9<<20) // 12 MiB in base64
	for location, kind := range map[string]dispatch.Kind{"": dispatch.BadUpstream, "\nLocation: /jobs/a": 0} {
		s := serve(t, map[string][]reply{"POST " + executionPath: {{200, "Content-Type: image/tiff" + location, long}}})
		step, err := s.platform().Submit(t.Context(), token, s.submission())
		if kind != 0 {
			wantKind(t, err, kind)
		} else if err != nil || step.Ref.ID != "a" || step.Result != nil {
			t.Errorf("%+v, %v", step.Ref, err)
		}
	}
}

func TestInputs(t *testing.T) {
	const inputs = `{
		"geometry": {"schema": {"oneOf": [{"type":"object","contentMediaType":"application/geo+json"},{"type":"string","contentMediaType":"application/gml+xml"}]}},
		"aoi": {"schema": {"type":"object","contentMediaType":"application/geo+json"}},
		"many": {"schema": {"type":"object"}, "maxOccurs": "unbounded"},
		"three": {"schema": {"type":"object"}, "maxOccurs": 3},
		"list": {"schema": {"type":"array","items":{"type":"object"}}},
		"odd": {"schema": 3}
	}`
	d, err := parseDescription([]byte(`{"inputs":` + inputs + `}`))
	if err != nil {
		t.Fatal(err)
	}
	point := `{"type":"Point","coordinates":[4.10,51]}`
	for given, want := range map[string]string{
		`{"n":12345678901234567890.10,"b":true,"z":null,"s":"x","l":[1.0,2]}`: `{"b":true,"l":[1.0,2],"n":12345678901234567890.10,"s":"x","z":null}`,
		`{"geometry":` + point +
			`}`: `{"geometry":{"mediaType":"application/geo+json","value":` + point + `}}`,
		`{"aoi":` + point + `}`:                       `{"aoi":{"value":` + point + `}}`,
		`{"undescribed":{"a":1}}`:                     `{"undescribed":{"value":{"a":1}}}`,
		`{"odd":{}}`:                                  `{"odd":{"value":{}}}`,
		`{"aoi":{"value":{"a":1},"mediaType":"x/y"}}`: `{"aoi":{"value":{"a":1},"mediaType":"x/y"}}`,
		`{"aoi":{"value":1,"unit":"m"}}`:              `{"aoi":{"value":{"value":1,"unit":"m"}}}`,
		`{"aoi":{"href":"https://x/a.json","type":"application/json"}}`:                      `{"aoi":{"href":"https://x/a.json","type":"application/json"}}`,
		`{"bbox":{"bbox":[4,51,5,52],"crs":"http://www.opengis.net/def/crs/OGC/1.3/CRS84"}}`: `{"bbox":{"bbox":[4,51,5,52],"crs":"http://www.opengis.net/def/crs/OGC/1.3/CRS84"}}`,
		`{"aoi":{"type":"Feature","bbox":[4,51,5,52]}}`:                                      `{"aoi":{"value":{"type":"Feature","bbox":[4,51,5,52]}}}`,
		`{"many":[{"a":1},{"href":"https://x"},2]}`:                                          `{"many":[{"value":{"a":1}},{"href":"https://x"},2]}`,
		`{"three":[{"a":1}]}`:       `{"three":[{"value":{"a":1}}]}`,
		`{"list":[{"a":1}]}`:        `{"list":[{"a":1}]}`,
		`{"undescribed":[{"a":1}]}`: `{"undescribed":[{"a":1}]}`,
		`{}`:                        `{}`,
	} {
		body, err := executeBody(t.Context(), dispatch.Request{Parameters: json.RawMessage(given),
			Options: json.RawMessage(`{"validate":false}`)}, d, "")
		if err != nil || string(body["inputs"]) != want {
			t.Errorf("%s\n got %s, %v\nwant %s", given, body["inputs"], err, want)
		}
	}
}

func TestOutputs(t *testing.T) {
	choice :=
		`{"map":{"schema":{"oneOf":[{"type":"string","contentEncoding":"base64","contentMediaType":"image/tiff; application=geotiff"},{"contentMediaType":"application/x-netcdf"},{"type":"object"}]}},"log":{"schema":{"type":"string"}}}`
	single := `{"map":{"schema":{"contentMediaType":"image/tiff"}}}`
	for _, c := range []struct{ outputs, passing, format, want string }{
		{choice, `["value"]`, "gtiff", `{"log":{},"map":{"format":{"mediaType":"image/tiff; application=geotiff"}}}`},
		{choice, `["value","reference"]`, "netcdf",
			`{"log":{},"map":{"format":{"mediaType":"application/x-netcdf"},"transmissionMode":"reference"}}`},
		{choice, `null`, "GTiff", `{"log":{},"map":{"format":{"mediaType":"image/tiff; application=geotiff"}}}`},
		{choice, `["value","reference"]`, "geojson", ""},
		{choice, `["value"]`, "IMAGE/TIFF; application=geotiff",
			`{"log":{},"map":{"format":{"mediaType":"image/tiff; application=geotiff"}}}`},
		{choice, `["value"]`, "image/tiff",
			`{"log":{},"map":{"format":{"mediaType":"image/tiff; application=geotiff"}}}`},
		{choice, `["value"]`, "geotiff", `{"log":{},"map":{"format":{"mediaType":"image/tiff; application=geotiff"}}}`},
		{choice, `["value"]`, "image/tiff; application=geotiff; profile=cloud-optimized",
			`{"log":{},"map":{"format":{"mediaType":"image/tiff; application=geotiff"}}}`},
		{choice, `["value"]`, "zarr", ""},
		{single, `["value"]`, "gtiff", ""},
		{choice, `["value","reference"]`, "", `{"log":{},"map":{"transmissionMode":"reference"}}`},
		{single, `["reference"]`, "gtiff", `{"map":{"transmissionMode":"reference"}}`},
		{`{"a":{"schema":{"contentMediaType":"application/json"}}}`, `["reference"]`, "json", ""},
		{
			`[{"id":"map","schema":{"anyOf":[{"contentMediaType":"application/geo+json"},{"contentMediaType":"text/csv"}]}}]`,
			`{}`, "geojson", `{"map":{"format":{"mediaType":"application/geo+json"}}}`},
		{`7`, `7`, "json", ""},
	} {
		d, err := parseDescription(fmt.Appendf(nil, `{"outputs":%s,"outputTransmission":%s}`, c.outputs, c.passing))
		if err != nil {
			t.Fatal(err)
		}
		body, err := executeBody(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{}`), Format: c.format}, d,
			"document")
		if err != nil || string(body["outputs"]) != c.want {
			t.Errorf("%s of %s:\n got %s, %v\nwant %s", c.format, c.outputs, body["outputs"], err, c.want)
		}
	}
}

// Options are sent to the platform; members that the broker sets itself take precedence.
func TestOptions(t *testing.T) {
	body, err := executeBody(t.Context(), dispatch.Request{Parameters: json.RawMessage(`{"a":1}`),
		Options: json.RawMessage(`{"outputs":{"x":{}},"inputs":{},"response":"raw"}`)}, &description{}, "document")
	if err != nil || string(marshal(body)) != `{"inputs":{"a":1},"outputs":{"x":{}},"response":"document"}` {
		t.Error(string(marshal(body)), err)
	}
}

func TestDescription_IsReadOnce(t *testing.T) {
	s := serve(t, map[string][]reply{"POST " + executionPath: {job("/jobs/a")}})
	p := s.platform()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := p.Submit(t.Context(), token, s.submission()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(s.requests("GET", "/processes/p")); n != 1 {
		t.Errorf("read %d times", n)
	}
}

// A caller that stops waiting does not cancel the request for the others, and an error is remembered for its pause.
func TestDescription_SurvivesACanceledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := []string{"", `{"jobControlOptions":["async-execute"]}`}
		transport := roundTrip(func(r *http.Request) *http.Response {
			time.Sleep(time.Second)
			body := replies[0]
			replies = replies[1:]
			return answerWith(r, body)
		})
		p := New(Config{Endpoint: "https://x.example", Client: upstream.New(upstream.Config{Transport: transport})})
		ask := func(wait time.Duration) error {
			ctx, cancel := contextWithTimeout(t, wait)
			defer cancel()
			_, _, err := p.describe(ctx, token, dispatch.Service{Endpoint: p.endpoint.String(), Application: "p"})
			return err
		}
		wantKind(t, ask(time.Minute), dispatch.NotFound)
		wantKind(t, ask(time.Minute), dispatch.NotFound) // without a request
		time.Sleep(5 * time.Second)
		left := ask(time.Millisecond)
		wantKind(t, left, dispatch.Unavailable)
		if err := ask(time.Minute); err != nil {
			t.Error(err)
		}
		if err := ask(time.Minute); err != nil || len(replies) > 0 {
			t.Error(err, replies)
		}
	})
}

// TestDescription_BehindAProxyWithoutARoute: a process that was described is not missing because a proxy says so.
func TestDescription_BehindAProxyWithoutARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status, body := 200, bothModes
		transport := roundTrip(func(r *http.Request) *http.Response {
			a := answerWith(r, body)
			a.StatusCode = status
			return a
		})
		p := New(Config{Endpoint: "https://x.example", Client: upstream.New(upstream.Config{Transport: transport})})
		describe := func() error {
			_, _, err := p.describe(t.Context(), token,
				dispatch.Service{Endpoint: p.endpoint.String(), Application: "p"})
			time.Sleep(describeFor)
			return err
		}
		if err := describe(); err != nil {
			t.Fatal(err)
		}
		if status, body = 404, "404 page not found"; describe() != nil {
			t.Error("the process is missing by the word of a proxy")
		}
		body = `{"type":"no-such-process"}`
		wantKind(t, describe(), dispatch.NotFound)
	})
}

// TestDescription_FailureIsRemembered: fifty jobs of a process without a description cause one request per pause.
func TestDescription_FailureIsRemembered(t *testing.T) {
	for name, bad := range map[string]reply{"missing": {404, "", `{"type":"no-such-process"}`}, "no JSON": ok("<html>"),
		"failing": {500, "", ""}} {
		s := serve(t, map[string][]reply{"GET /processes/p": {bad}})
		p := s.platform()
		for range 50 { // many more than one, and few enough for the first pause of five seconds
			if _, err := p.Submit(t.Context(), token, s.submission()); err == nil {
				t.Fatal("it was submitted")
			}
		}
		if n := len(s.requests("GET", "/processes/p")); n != 1 {
			t.Errorf("%s: asked for %d times", name, n)
		}
	}
}

// TestDescription_IsRevalidatedByETag after five minutes.
func TestDescription_IsRevalidatedByETag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		transport := roundTrip(func(r *http.Request) *http.Response {
			sent = append(sent, r.Header.Get("If-None-Match"))
			a := answerWith(r, bothModes)
			a.Header.Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` {
				a.StatusCode = http.StatusNotModified
			}
			return a
		})
		p := New(Config{Endpoint: "https://x.example", Client: upstream.New(upstream.Config{Transport: transport})})
		service := dispatch.Service{Endpoint: "https://x.example", Application: "p"}
		for range 3 {
			for range 2 {
				if _, d, err := p.describe(t.Context(), token, service); err != nil || len(d.modes) != 2 {
					t.Fatal(d, err)
				}
			}
			time.Sleep(describeFor)
		}
		if got := fmt.Sprintf("%q", sent); got != `["" "\"1\"" "\"1\""]` {
			t.Errorf("requests with %s", got)
		}
	})
}

// TestDescription_PrivateProcessIsCachedPerToken: a description that the server shows only with a token is used for
// that token only; one that it shows to everybody is shared.
func TestDescription_PrivateProcessIsCachedPerToken(t *testing.T) {
	public := false
	var asked int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if !public && r.Header.Get("Authorization") != "Bearer secret-token" {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"id":"p","inputs":{"password_of_ann":{"schema":{"type":"string"}}}}`)
	}))
	defer server.Close()
	newPlatform := func() *Platform {
		return New(Config{Endpoint: server.URL, Client: upstream.New(upstream.Config{Development: true})})
	}
	p, s := newPlatform(), dispatch.Service{Endpoint: server.URL, Application: "p"}
	if got, err := p.Parameters(t.Context(), token, s); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	for _, other := range []dispatch.Token{{}, {Secret: "another's"}} {
		got, err := p.Parameters(t.Context(), other, s)
		wantKind(t, err, dispatch.Forbidden)
		if len(got) > 0 {
			t.Errorf("shown to another: %v", got)
		}
	}
	if _, err := p.Parameters(t.Context(), token, s); err != nil || asked != 3 {
		t.Errorf("its owner: %v, after %d requests", err, asked)
	}
	public, asked = true, 0
	p = newPlatform()
	for _, anyone := range []dispatch.Token{{}, token, {Secret: "another's"}} {
		if _, err := p.Parameters(t.Context(), anyone, s); err != nil {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("what is public was asked for %d times", asked)
	}
}

const onlySync = `{"id":"p","version":"1","jobControlOptions":["sync-execute","dismiss"]}`

// A process that only runs synchronously is executed so, with the context for its run. What the server says about the
// run is final; what a proxy says is not.
func TestSubmit_OnlySynchronous(t *testing.T) {
	for name, c := range map[string]struct {
		answer reply
		kind   dispatch.Kind // 0: there is a result
		text   string
	}{
		"a value":    {answer: ok(`{"sum":3}`)},
		"a map":      {answer: reply{200, "Content-Type: image/tiff", "II*"}},
		"failed":     {reply{500, "Content-Type: application/json", `{"detail":"no scene"}`}, dispatch.Invalid, "no scene"},
		"refused":    {reply{400, "Content-Type: application/json", `{"detail":"no x"}`}, dispatch.Invalid, "no x"},
		"no results": {reply{200, "", ""}, dispatch.Invalid, "no results"},
		"a page":     {reply{200, "Content-Type: text/html", "<!doctype html>"}, dispatch.Invalid, ""},
		"too large": {reply{200, "Content-Type: image/tiff", strings.Repeat("x", maxResult+1)}, dispatch.Invalid,
			"too large"},
		"cut off":     {reply{200, "Content-Length: 100", "{"}, dispatch.Uncertain, ""},
		"gateway":     {reply{504, "", ""}, dispatch.Uncertain, ""},
		"busy":        {reply{429, "Retry-After: 7", ""}, dispatch.Busy, ""},
		"overloaded":  {reply{503, "Retry-After: 7", ""}, dispatch.Busy, ""},
		"unavailable": {reply{503, "", ""}, dispatch.Uncertain, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string][]reply{"GET /processes/p": {ok(onlySync)}, "POST " + executionPath: {c.answer}})
			submission, begun := s.submission(), 0
			submission.Runs = func(ctx context.Context) (context.Context, error) { begun++; return ctx, nil }
			step, err := s.platform().Submit(t.Context(), token, submission)
			if c.kind != 0 {
				wantKind(t, err, c.kind)
				wantText(t, err, c.text)
			} else if err != nil || step.Result == nil || !step.Started {
				t.Errorf("%+v, %v", step, err)
			}
			asked := s.requests("POST", executionPath)
			if begun != 1 || len(asked) != 1 || asked[0].header["Prefer"] != nil {
				t.Errorf("begun %d times, asked %+v", begun, asked)
			}
		})
	}
}
