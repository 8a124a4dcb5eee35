package openeo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
)

const described = `{"id":"ndvi","process_graph":{"load":{"process_id":"load_collection","arguments":{},"result":true}},"parameters":[
	{"name":"extent","description":"Where","schema":[{"type":"object","subtype":"bounding-box"},{"type":"null"}]},
	{"name":"period","schema":{"type":"array","subtype":"temporal-interval"}},
	{"name":"cloud","optional":true,"default":80.50,"schema":{"type":"number","minimum":0,"maximum":100}},
	{"name":"months","optional":true,"schema":{"type":"array","items":{"type":"integer"},"default":[1,2]}},
	{"name":"pairs","optional":true,"schema":{"type":"array","items":{"type":"array","items":{"type":"string"}}}},
	{"name":"window","optional":true,"default":null,"schema":{"type":"object"}}]}`

func types(all []dispatch.Parameter) (list []string) {
	for _, p := range all {
		var def bytes.Buffer
		if p.Default != nil {
			_ = json.Compact(&def, p.Default)
		}
		list = append(list, fmt.Sprintf("%s %s %s", p.Name, p.Type, def.String()))
	}
	return list
}

var wantTypes = []string{"extent bounding-box ", "period date-interval ", "cloud double 80.50", "months array [1,2]",
	"pairs array ", "window object null"}

// TestParameters needs no token and, for a definition at a URL, no running back-end.
func TestParameters(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200, described)
	b.json("GET /processes", 200, `{"processes":[{"id":"other"},`+described+`]}`)
	b.json("GET /processes/vito/ndvi", 200, described)
	vito := "vito"
	for name, s := range map[string]dispatch.Service{
		"by URL":      {Application: b.URL + "/udp.json"},
		"predefined":  {Application: "ndvi"},
		"a namespace": {Application: "ndvi", Namespace: &vito},
	} {
		got, err := b.platform().Parameters(t.Context(), dispatch.Token{}, s)
		if err != nil || !slices.Equal(types(got), wantTypes) {
			t.Errorf("%s: %v, %v", name, types(got), err)
		}
	}
	_, err := b.platform().Parameters(t.Context(), dispatch.Token{}, dispatch.Service{Application: "nowhere"})
	if e := wantKind(t, err, dispatch.NotFound); len(e.Faults) != 1 ||
		!slices.Equal(e.Faults[0].Loc, []any{"body", "service", "application"}) {
		t.Errorf("faults %v", e.Faults)
	}
	b.json("GET /.well-known/openeo", 503, `{}`)
	b.json("GET /", 503, `{}`)
	got, err := b.platform().Parameters(t.Context(), dispatch.Token{},
		dispatch.Service{Application: b.URL + "/udp.json"})
	if err != nil || len(got) != len(wantTypes) {
		t.Errorf("while the back-end is down: %v, %v", types(got), err)
	}
}

// A parameter with a default need not be given, even if the definition does not call it optional.
func TestParameters_WithDefaultsAreOptional(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200,
		`{"id":"p","process_graph":{"a":{"process_id":"add","arguments":{"x":{"from_parameter":"x"},"y":{"from_parameter":"y"}},"result":true}},"parameters":[
		{"name":"x","default":5,"schema":{"type":"number"}},{"name":"y","default":null,"schema":{"type":["number","null"]}},{"name":"z","schema":{"type":"number"}}]}`)
	service := dispatch.Service{Application: b.URL + "/udp.json"}
	all, err := b.platform().Parameters(t.Context(), dispatch.Token{}, service)
	if err != nil || len(all) != 3 || !all[0].Optional || !all[1].Optional || all[2].Optional {
		t.Errorf("%+v, %v", all, err)
	}
	r := dispatch.Request{Service: service, Parameters: json.RawMessage(`{"z":1}`)}
	if _, err = b.platform().Check(t.Context(), dispatch.Token{}, r, nil); err != nil {
		t.Error(err)
	}
	r.Parameters = json.RawMessage(`{"x":1}`)
	_, err = b.platform().Check(t.Context(), dispatch.Token{}, r, nil)
	wantKind(t, err, dispatch.Invalid)
}

// A back-end that refuses to describe a process, or to list its processes, can be reached. Whether it runs the process,
// it says when a job is created.
func TestCheck_DescriptionIsRefused(t *testing.T) {
	vito := "vito"
	for path, s := range map[string]dispatch.Service{"GET /processes": {Application: "ndvi"},
		"GET /processes/vito/ndvi": {Application: "ndvi", Namespace: &vito},
		"GET /process_graphs/ndvi": {Application: "ndvi", Namespace: new("user")}} {
		for _, answer := range []struct {
			status int
			body   string
		}{{400, `{"code":"X"}`}, {404, `{"code":"X"}`}, {404, `<html>`}, {405, `{"code":"X"}`}, {409, `{"code":"X"}`},
			{410, `<html>`}, {501, `{"code":"X"}`}} {
			b := newBackend(t)
			b.json(path, answer.status, answer.body)
			r := dispatch.Request{Service: s, Parameters: json.RawMessage(`{}`)}
			if _, err := b.platform().Check(t.Context(), token, r, nil); err != nil {
				t.Errorf("%s %v: %v", path, answer, err)
			}
			_, err := b.platform().Parameters(t.Context(), token, s)
			e := wantKind(t, err, dispatch.NotFound)
			if dispatch.TextFor(e) != "The platform does not describe this process." {
				t.Errorf("%s %v: %v", path, answer, err)
			}
		}
	}
}

func TestCheck_NamesAllFaults(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200, described)
	r := dispatch.Request{Service: dispatch.Service{Application: b.URL + "/udp.json"},
		Parameters: json.RawMessage(`{"cloud":101,"clouds":1}`)}
	d := &dispatch.Dimension{Name: "extent", Values: []json.RawMessage{
		[]byte(`{"west":1,"south":2,"east":3,"north":4}`), []byte(`"Belgium"`),
		[]byte(`{"type":"Point","coordinates":[1,2]}`), []byte(`7`)}}
	_, err := b.platform().Check(t.Context(), dispatch.Token{}, r, d)
	e := wantKind(t, err, dispatch.Invalid)
	var got []string
	for _, f := range e.Faults {
		got = append(got, fmt.Sprint(f.Loc))
	}
	want := []string{"[body parameters cloud]", "[body parameters clouds]", "[body parameters period]",
		"[body dimension values 1]", "[body dimension values 3]"}
	if !slices.Equal(got, want) {
		t.Errorf("faults at %v", got)
	}
	r.Parameters = json.RawMessage(`{"period":["2026-01-01",null]}`)
	d.Values = d.Values[:1]
	if _, err := b.platform().Check(t.Context(), dispatch.Token{}, r, d); err != nil {
		t.Error(err)
	}
	d.Name = "year"
	_, err = b.platform().Check(t.Context(), dispatch.Token{}, r, d)
	wantKind(t, err, dispatch.Invalid)
}

// TestSubmit_ShapesValues sends values in the form that the process expects, and leaves the request as the client wrote
// it.
func TestSubmit_ShapesValues(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200, described)
	s := b.submission()
	s.Parameters = json.RawMessage(
		`{"extent":{"type":"Polygon","coordinates":[[[4.10,50],[5,50],[5,51],[4.10,50]]]},"period":"2026-01-01/..","cloud":1.10}`)
	if _, err := b.platform().Submit(t.Context(), token, s); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Process struct {
			Graph map[string]struct{ Arguments json.RawMessage } `json:"process_graph"`
		}
	}
	if err := json.Unmarshal([]byte(b.body("POST /jobs")), &sent); err != nil {
		t.Fatal(err)
	}
	wantJSON(t, string(sent.Process.Graph["run"].Arguments),
		`{"extent":{"west":4.10,"south":50,"east":5,"north":51},"period":["2026-01-01",null],"cloud":1.10}`)
	s.Parameters = json.RawMessage(`{"period":5}`)
	_, err := b.platform().Submit(t.Context(), token, s)
	wantKind(t, err, dispatch.Invalid)
	s.Options = json.RawMessage(`{"validate":false}`)
	if _, err := b.platform().Submit(t.Context(), token, s); err != nil {
		t.Errorf("the client wants it submitted as it is: %v", err)
	}
	if body := b.body("POST /jobs"); json.Valid([]byte(body)) && slices.Contains(keys(t, body), "job_options") {
		t.Errorf("our own option went on to the platform: %s", body)
	}
}

func keys(t *testing.T, object string) (names []string) {
	t.Helper()
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(object), &m); err != nil {
		t.Fatal(err)
	}
	for name := range m {
		names = append(names, name)
	}
	return names
}

// TestPrepare_FetchesADefinitionOnce has a hundred users call, at once, everything that needs the definition.
func TestPrepare_FetchesADefinitionOnce(t *testing.T) {
	for _, class := range []string{classes, ""} {
		b := newBackend(t)
		b.capabilities(class)
		fetched := make(chan struct{}, 400)
		b.on("GET /udp.json", func(w http.ResponseWriter, _ *http.Request) {
			fetched <- struct{}{}
			_, _ = w.Write([]byte(described))
		})
		p := b.platform()
		s := b.submission()
		s.Parameters = json.RawMessage(`{"extent":null,"period":["2026-01-01",null]}`)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := p.Parameters(t.Context(), dispatch.Token{}, s.Service); err != nil {
					t.Error(err)
				}
				if _, err := p.Check(t.Context(), dispatch.Token{}, s.Request, nil); err != nil {
					t.Error(err)
				}
				if doc, err := p.Document(t.Context(), s.Service); err != nil || string(doc) != described {
					t.Errorf("%s, %v", doc, err)
				}
				if _, err := p.Submit(t.Context(), token, s); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(fetched) != 1 {
			t.Errorf("fetched %d times", len(fetched))
		}
	}
}

// TestDocument returns the bytes that were served last, and none for a process stored at the platform.
func TestDocument(t *testing.T) {
	b, now := newBackend(t), time.Now()
	etag, text, whole := `"1"`, described, 0
	b.on("GET /udp.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		whole++
		_, _ = w.Write([]byte(text))
	})
	p := b.platform(func(c *openeo.Config) { c.Now = func() time.Time { return now } })
	s := dispatch.Service{Application: b.URL + "/udp.json"}
	ask := func(want string, fetches int) {
		t.Helper()
		now = now.Add(time.Hour)
		if doc, err := p.Document(t.Context(), s); err != nil || string(doc) != want || whole != fetches {
			t.Errorf("%s, %v, sent whole %d times", doc, err, whole)
		}
	}
	ask(described, 1)
	ask(described, 1)
	etag, text = `"2"`, described+"\n"
	ask(described+"\n", 2)
	text, etag = strings.Repeat(" ", 3<<20)+described, `"3"`
	now = now.Add(time.Hour)
	if doc, err := p.Document(t.Context(), s); err == nil {
		t.Errorf("took %d bytes", len(doc))
	}
	if doc, err := p.Document(t.Context(), dispatch.Service{Application: "ndvi"}); doc != nil || err != nil {
		t.Errorf("of a process of the platform: %s, %v", doc, err)
	}
}

func BenchmarkParametersFromCache(b *testing.B) {
	back := newBackend(&testing.T{})
	defer back.Close()
	back.json("GET /udp.json", 200, described)
	var p *openeo.Platform = back.platform()
	for b.Loop() {
		if _, err := p.Parameters(b.Context(), dispatch.Token{}, dispatch.Service{Application: back.URL +
			"/udp.json"}); err != nil {
			b.Fatal(err)
		}
	}
}

// What a submission needs of the back-end is read while the request is checked, not after it.
func TestCheck_ReadsFormatsMeanwhile(t *testing.T) {
	b := newBackend(t)
	asked := make(chan struct{})
	b.on("GET /file_formats", func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		_, _ = io.WriteString(w, `{"input":{},"output":{"GTiff":{}}}`)
	})
	b.on("GET /processes", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Error("the formats are not read meanwhile")
		}
		_, _ = io.WriteString(w, `{"processes":[{"id":"add","parameters":[]}]}`)
	})
	r := dispatch.Request{Service: dispatch.Service{Application: "add"}, Parameters: json.RawMessage(`{}`),
		Format: "gtiff"}
	if _, err := b.platform().Check(t.Context(), dispatch.Token{}, r, nil); err != nil {
		t.Error(err)
	}
}

// A back-end that does not return its formats delays only the check of the format: faults of the parameters are found
// at once, and the request is accepted when the time for its check has passed.
func TestCheck_WaitsForFormatsLast(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200, `{"id":"u","process_graph":`+oneNode(`"x"`, `{}`)+
		`,"parameters":[{"name":"tile","schema":{"type":"integer"}}]}`)
	b.on("GET /file_formats", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p := b.platform()
	r := dispatch.Request{Service: dispatch.Service{Application: b.URL + "/udp.json"}, Format: "gtiff"}
	for parameters, right := range map[string]bool{`{"tile":"one"}`: false, `{"tile":1}`: true} {
		patience := 10 * time.Second
		if right {
			patience = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r.Parameters = json.RawMessage(parameters)
		_, err := p.Check(ctx, dispatch.Token{}, r, nil)
		if (err == nil) != right || (ctx.Err() != nil) != right {
			t.Errorf("%s: %v, %v", parameters, err, ctx.Err())
		}
	}
	b.CloseClientConnections()
}
