package openeo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

func TestBase(t *testing.T) {
	strict := openeo.New(openeo.Config{Endpoint: "https://openeo.example", AllowHosts: []string{"raw.example"},
		Client: upstream.New(upstream.Config{Transport: never{t}})})
	text := func(s string) *string { return &s }
	cases := []struct {
		application string
		namespace   *string
		fault       string
	}{
		{"https://raw.example/ndvi.json", nil, ""},
		{"https://raw.example/ndvi.json", text("anything"), ""},
		{"ndvi", nil, ""},
		{"plant-senescence_1.2", text("vito"), ""},
		{"ndvi", text(""), ""},
		{"ndvi", text("u:alice"), ""},
		{"ndvi", text("https://raw.example/processes"), ""},
		{"", nil, "application"},
		{"a process", nil, "application"},
		{"../jobs", nil, "application"},
		{"http://raw.example/ndvi.json", nil, "application"},
		{"https://other.example/ndvi.json", nil, "application"},
		{"https://127.0.0.1/ndvi.json", nil, "application"},
		{"https://user:pw@raw.example/ndvi.json", nil, "application"},
		{"ftp://raw.example/ndvi.json", nil, "application"},
		{"ndvi", text("https://other.example/processes"), "namespace"},
		{"ndvi", text("a/b"), "namespace"},
	}
	for _, c := range cases {
		base, err := strict.Base(dispatch.Service{Endpoint: "https://openeo.example", Application: c.application,
			Namespace: c.namespace})
		if c.fault == "" {
			if base != "" || err != nil {
				t.Errorf("%q: got %q, %v", c.application, base, err)
			}
			continue
		}
		e := wantKind(t, err, dispatch.Invalid)
		if len(e.Faults) != 1 || fmt.Sprint(e.Faults[0].Loc) != "[body service "+c.fault+"]" || e.Text == "" {
			t.Errorf("%q: got %+v", c.application, e)
		}
	}
}

// never is a network that must not be used.
type never struct{ t *testing.T }

func (n never) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("%s was asked", r.URL)
	return nil, io.ErrUnexpectedEOF
}

// save_result is added if and only if the process does not end in one.
func TestSaveResult(t *testing.T) {
	const saves = `"process_graph":{"a":{"process_id":"load_collection","arguments":{}},"b":{"process_id":"save_result","arguments":{},"result":true}}`
	const elsewhere = `"process_graph":{"a":{"process_id":"save_result","arguments":{}},"b":{"process_id":"inspect","arguments":{},"result":true}}`
	user := "user"
	vito := "vito"
	cases := []struct {
		name    string
		service func(*backend) dispatch.Service
		route   string
		doc     string
		added   bool
	}{
		{"by URL, saves", nil, "GET /udp.json", `{"id":"p",` + saves + `}`, false},
		{"by URL, saves by the platform's own process", nil, "GET /udp.json", `{"id":"p",` + strings.Replace(saves,
			`"save_result"`, `"save_result","namespace":"backend"`, 1) + `}`, false},
		{"by URL, ends in another process of that name", nil, "GET /udp.json", `{"id":"p",` + strings.Replace(saves,
			`"save_result"`, `"save_result","namespace":"vito"`, 1) + `}`, true},
		{"the platform's own, not the user's", func(*backend) dispatch.Service {
			return dispatch.Service{Application: "p",
				Namespace: new("backend")}
		}, "GET /process_graphs/p", `{"id":"p",` + saves + `}`, true},
		{"by URL, saves in between", nil, "GET /udp.json", `{"id":"p",` + elsewhere + `}`, true},
		{"the user's own, saves", func(*backend) dispatch.Service { return dispatch.Service{Application: "p"} },
			"GET /process_graphs/p", `{"id":"p",` + saves + `}`, false},
		{"the user's own, named so", func(*backend) dispatch.Service {
			return dispatch.Service{Application: "p",
				Namespace: &user}
		}, "GET /process_graphs/p", `{"id":"p",` + elsewhere + `}`, true},
		{"predefined", func(*backend) dispatch.Service { return dispatch.Service{Application: "p"} }, "GET /none", ``,
			true},
		{"of a namespace, saves", func(*backend) dispatch.Service {
			return dispatch.Service{Application: "p",
				Namespace: &vito}
		}, "GET /processes/vito/p", `{"id":"p",` + saves + `}`, false},
		{"of a namespace, not shown", func(*backend) dispatch.Service {
			return dispatch.Service{Application: "p",
				Namespace: &vito}
		}, "GET /none", ``, true},
		{"an id at a URL", func(b *backend) dispatch.Service {
			at := b.URL + "/udp.json"
			return dispatch.Service{Application: "p", Namespace: &at}
		}, "GET /udp.json", `{"id":"p",` + saves + `}`, false},
		{"an id in a list at a URL", func(b *backend) dispatch.Service {
			at := b.URL + "/udp.json"
			return dispatch.Service{Application: "p", Namespace: &at}
		}, "GET /udp.json", `{"processes":[{"id":"q",` + elsewhere + `},{"id":"p",` + saves + `}]}`, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			b.json(c.route, 200, c.doc)
			s := b.submission()
			if c.service != nil {
				s.Service = c.service(b)
			}
			if _, err := b.platform().Submit(t.Context(), token, s); err != nil {
				t.Fatal(err)
			}
			var body struct {
				Process struct {
					Graph map[string]struct {
						ID        string `json:"process_id"`
						Namespace string
						Result    bool
					} `json:"process_graph"`
				}
			}
			if err := json.Unmarshal([]byte(b.body("POST /jobs")), &body); err != nil {
				t.Fatal(err)
			}
			run, save := body.Process.Graph["run"], body.Process.Graph["save"]
			if run.ID != "p" || run.Result == c.added || save.Result != c.added ||
				(save.ID == "save_result") != c.added {
				t.Errorf("got %s", b.body("POST /jobs"))
			}
			if want := s.Service.Namespace; want != nil && run.Namespace != *want || want == nil && c.service != nil &&
				run.Namespace != "" {
				t.Errorf("got namespace %q", run.Namespace)
			}
		})
	}
}

func TestStoredProcess_OfNobody(t *testing.T) {
	b := newBackend(t)
	s := b.submission()
	s.Service = dispatch.Service{Application: "ndvi"}
	if _, err := b.platform().Submit(t.Context(), dispatch.Token{}, s); err != nil {
		t.Fatal(err)
	}
	for _, call := range b.takeCalls() {
		if strings.Contains(call, "process_graphs") {
			t.Error("without a token there is no own process to ask for")
		}
	}
}

func TestSubmit_StoredProcessErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   dispatch.Kind
	}{
		{500, `{"code":"Internal","message":"x"}`, dispatch.Unavailable},
		{503, ``, dispatch.Busy},
		{403, `{"code":"TokenInvalid","message":"expired"}`, dispatch.SignInRequired},
	} {
		b := newBackend(t)
		b.json("GET /process_graphs/p", c.status, c.body)
		s := b.submission()
		s.Service = dispatch.Service{Application: "p"}
		_, err := b.platform().Submit(t.Context(), token, s)
		wantKind(t, err, c.want)
	}
}

func TestSubmit_BadDefinitions(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   dispatch.Kind
		says   string
	}{
		"not there":      {404, `nothing`, dispatch.DocumentInvalid, "404"},
		"a web page":     {200, `<html><body>Sign in</body></html>`, dispatch.DocumentInvalid, "JSON"},
		"a list":         {200, `[]`, dispatch.DocumentInvalid, "JSON"},
		"no id":          {200, `{"process_graph":{"a":{"process_id":"x"}}}`, dispatch.DocumentInvalid, "no id"},
		"a number as id": {200, `{"id":7,"process_graph":{}}`, dispatch.DocumentInvalid, "JSON"},
		"no graph":       {200, `{"id":"p"}`, dispatch.DocumentInvalid, "process_graph"},
		"an empty graph": {200, `{"id":"p","process_graph":{}}`, dispatch.DocumentInvalid, "process_graph"},
		"no process_id":  {200, `{"id":"p","process_graph":{"a":{}}}`, dispatch.DocumentInvalid, "process_id"},
		"no result": {200, `{"id":"p","process_graph":{"a":{"process_id":"x"},"b":{"process_id":"y"}}}`,
			dispatch.DocumentInvalid, "result"},
		"two results": {200,
			`{"id":"p","process_graph":{"a":{"process_id":"x","result":true},"b":{"process_id":"y","result":true}}}`,
			dispatch.DocumentInvalid, "2 nodes of the process graph are marked as its result"},
		"a missing node": {200,
			`{"id":"p","process_graph":{"a":{"process_id":"x","arguments":{"data":{"from_node":"b"}},"result":true}}}`,
			dispatch.DocumentInvalid, "node b"},
		"too long":           {200, `{"id":"` + strings.Repeat("x", 3<<20) + `"}`, dispatch.DocumentInvalid, "longer"},
		"its server is down": {502, ``, dispatch.DocumentUnreachable, "127.0.0.1"},
		"its server is busy": {429, ``, dispatch.DocumentUnreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.json("GET /udp.json", c.status, c.body)
			_, err := b.platform().Submit(t.Context(), token, b.submission())
			e := wantKind(t, err, c.want)
			if !strings.Contains(e.Text, c.says) {
				t.Errorf("got %q, want it to say %q", e.Text, c.says)
			}
			if c.want == dispatch.DocumentInvalid && (len(e.Faults) != 1 ||
				fmt.Sprint(e.Faults[0].Loc) != "[body service application]") {
				t.Errorf("got faults %v", e.Faults)
			}
		})
	}
	b := newBackend(t)
	s, at := b.submission(), b.URL+"/udp.json"
	s.Service = dispatch.Service{Application: "other", Namespace: &at}
	_, err := b.platform().Submit(t.Context(), token, s)
	if e := wantKind(t, err, dispatch.DocumentInvalid); !strings.Contains(e.Text, "ndvi") ||
		e.Faults[0].Loc[2] != "namespace" {
		t.Errorf("got %+v", e)
	}
}

func TestDefinition_IsCached(t *testing.T) {
	b, now := newBackend(t), time.Now()
	status := 200
	b.on("GET /udp.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		switch {
		case status != 200:
			w.WriteHeader(status)
		case r.Header.Get("If-None-Match") == `"1"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			_, _ = io.WriteString(w, `{"id":"ndvi","process_graph":{"a":{"process_id":"x"}}}`)
		}
	})
	p := b.platform(func(c *openeo.Config) { c.Now = func() time.Time { return now } })
	submit := func() error { _, err := p.Submit(t.Context(), token, b.submission()); return err }
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := submit(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	asked := func() (n int) {
		for _, c := range b.takeCalls() {
			if c == "GET /udp.json" {
				n++
			}
		}
		return n
	}
	if n := asked(); n != 1 {
		t.Errorf("20 jobs at once asked %d times", n)
	}
	now = now.Add(2 * time.Minute)
	if err := submit(); err != nil || asked() != 1 {
		t.Errorf("when it is old it is asked for again: %v", err)
	}
	status = 502
	now = now.Add(2 * time.Minute)
	if err := submit(); err != nil || asked() != 1 {
		t.Errorf("while its server is down it still serves: %v", err)
	}
	status = 404
	now = now.Add(2 * time.Minute)
	wantKind(t, submit(), dispatch.DocumentInvalid)
	wantKind(t, submit(), dispatch.DocumentInvalid)
	if n := asked(); n != 1 {
		t.Errorf("a failure was asked for %d times in a row", n)
	}
	status = 200
	now = now.Add(10 * time.Second)
	if err := submit(); err != nil {
		t.Errorf("a failure is not kept long: %v", err)
	}
}

func TestDefinition_StaleIsUsedWhileTheServerIsSlow(t *testing.T) {
	b := newBackend(t)
	held := make(chan struct{})
	arrived := make(chan struct{}, 1)
	b.on("GET /udp.json", func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-held })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := b.platform().Submit(ctx, token, b.submission())
	wantKind(t, err, dispatch.DocumentUnreachable)
	close(held)
}

// A back-end that does not accept definitions by URL is sent the graph itself.
func TestInline(t *testing.T) {
	const definition = `{"id":"p","parameters":[{"name":"extent"},{"name":"cloud","optional":true,"default":80},{"name":"bands","optional":true},{"name":"data"},{"name":"own"}],
		"default_job_options":{"driver-memory":"1g","image":"x"},"default_synchronous_options":{"driver-memory":"2g"},
		"process_graph":{
			"save":{"process_id":"load_collection","arguments":{"spatial_extent":{"from_parameter":"extent"},"bands":[{"from_parameter":"bands"},"B04"],
				"properties":{"cloud":{"process_graph":{"c":{"process_id":"lte","arguments":{"x":{"from_parameter":"value"},"y":{"from_parameter":"cloud"}},"result":true}}}}}},
			"r":{"process_id":"reduce_dimension","description":"d","arguments":{"data":{"from_node":"save"},"outer":{"from_parameter":"data"},"n":1.50,
				"reducer":{"process_graph":{"m":{"process_id":"max","arguments":{"data":{"from_parameter":"data"},"z":{"from_parameter":"own"},"deep":{"process_graph":{"q":{"process_id":"x","arguments":{"e":{"from_parameter":"extent"}},"result":true}}}},"result":true}},
					"parameters":[{"name":"own"}]}},"result":true}}}`
	const saved = `{"process_id":"save_result","arguments":{"data":{"from_node":"r"},"format":"GTiff"},"result":true}`
	b := newBackend(t)
	b.capabilities(`"https://api.openeo.org/1.2.0"`)
	b.json("GET /udp.json", 200, definition)
	s := b.submission()
	s.Parameters = json.RawMessage(`{"extent":{"west":1.10,"from_parameter_of":2},"data":"outer","own":7,"unknown":1}`)
	s.Options = json.RawMessage(`{"image":"y","validate":false}`)
	if _, err := b.platform().Submit(t.Context(), token, s); err != nil {
		t.Fatal(err)
	}
	wantJSON(t, b.body("POST /jobs"),
		`{"title":"Field 12 [inst.7.1]","job_options":{"driver-memory":"1g","image":"y"},"process":{"process_graph":{
		"save":{"process_id":"load_collection","arguments":{"spatial_extent":{"west":1.10,"from_parameter_of":2},"bands":[null,"B04"],
			"properties":{"cloud":{"process_graph":{"c":{"process_id":"lte","arguments":{"x":{"from_parameter":"value"},"y":80},"result":true}}}}}},
		"r":{"process_id":"reduce_dimension","description":"d","arguments":{"data":{"from_node":"save"},"outer":"outer","n":1.50,
			"reducer":{"process_graph":{"m":{"process_id":"max","arguments":{"data":{"from_parameter":"data"},"z":{"from_parameter":"own"},"deep":{"process_graph":{"q":{"process_id":"x","arguments":{"e":{"west":1.10,"from_parameter_of":2}},"result":true}}}},"result":true}},
				"parameters":[{"name":"own"}]}}},
		"save1":`+saved+`}}}`)
	if !strings.Contains(b.body("POST /jobs"), "1.50") {
		t.Error("a number has changed on its way")
	}

	b.json("POST /result", 200, "{}")
	if _, err := b.platform().RunSync(t.Context(), token, s); err != nil {
		t.Fatal(err)
	}
	if sent := b.body("POST /result"); !strings.Contains(sent, `"job_options":{"driver-memory":"2g","image":"y"}`) {
		t.Errorf("a run has the options of runs: %s", sent)
	}

	s.Parameters = json.RawMessage(`{"cloud":1}`)
	_, err := b.platform().Submit(t.Context(), token, s)
	e := wantKind(t, err, dispatch.Invalid)
	if len(e.Faults) != 3 || fmt.Sprint(e.Faults[0].Loc) != "[body parameters extent]" {
		t.Errorf("want all that is missing at once, got %+v", e.Faults)
	}

	b.json("GET /udp.json", 200,
		`{"id":"p","default_job_options":null,"process_graph":{"s":{"process_id":"save_result","arguments":{}}}}`)
	s.Parameters, s.Options = json.RawMessage(`{}`), json.RawMessage(`{"image":"y"}`)
	if _, err := b.platform().Submit(t.Context(), token, s); err != nil {
		t.Fatal(err)
	}
	wantJSON(t, b.body("POST /jobs"),
		`{"title":"Field 12 [inst.7.1]","job_options":{"image":"y"},"process":{"process_graph":{"s":{"process_id":"save_result","arguments":{}}}}}`)
}

func TestSubmit_OptionsAreAnObject(t *testing.T) {
	b := newBackend(t)
	s := b.submission()
	s.Options = json.RawMessage(`[1]`)
	_, err := b.platform().Submit(t.Context(), token, s)
	wantKind(t, err, dispatch.Invalid)
	for _, call := range b.takeCalls() {
		if call == "POST /jobs" {
			t.Error("it was sent")
		}
	}
}
