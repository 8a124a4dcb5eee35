package openeo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
)

// oneNode returns a process graph with one node.
func oneNode(process, arguments string) string {
	return fmt.Sprintf(`{"n":{"process_id":%s,"arguments":%s,"result":true}}`, process, arguments)
}

// TestPermits_OfAProcessGraph: what reaches the account's own stored things is refused under a shared account, wherever
// in the graph or the parameters it stands, and passes where the operator permits it, or the account is the user's own.
func TestPermits_OfAProcessGraph(t *testing.T) {
	refused := map[string]struct{ graph, parameters, permit string }{
		"a job of the account": {oneNode(`"load_result"`, `{"id":"j-7"}`), `{}`, "load_result"},
		"by an address": {oneNode(`"load_stac"`,
			`{"url":"https://any.example/openeo/1.2/jobs/j-7/results/"}`), `{}`, "load_stac"},
		"by an escaped address": {oneNode(`"load_stac"`,
			`{"url":"https://any.example/%6aobs/j-7/results?a=b"}`), `{}`, "load_stac"},
		"with parameters of a segment": {oneNode(`"load_stac"`,
			`{"url":"https://any.example/openeo/1.2/jobs/j-7/results;x"}`), `{}`, "load_stac"},
		"in a parameter's address": {oneNode(`"load_stac"`, `{"url":{"from_parameter":"p"}}`),
			`{"p":"https://any.example/jobs/j-7/results;"}`, "load_stac"},
		"a model":               {oneNode(`"load_ml_model"`, `{"id":"j-7"}`), `{}`, "load_ml_model"},
		"a computed identifier": {afterNode(`"load_result"`, `{"id":{"from_node":"m"}}`), `{}`, "load_result"},
		"an identifier in a parameter": {oneNode(`"load_result"`, `{"id":{"from_parameter":"p"}}`), `{"p":"j-7"}`,
			"load_result"},
		"a default": {oneNode(`"load_result"`, `{"id":{"from_parameter":"preset"}}`), `{}`,
			"load_result"},
		"a process in a parameter": {oneNode(`{"from_parameter":"p"}`, `{}`), `{"p":"load_uploaded_files"}`, ""},
		"in a callback": {oneNode(`"apply"`,
			`{"process":{"process_graph":{"m":{"process_id":{"from_parameter":"p"},"arguments":{}}}}}`),
			`{"p":"load_uploaded_files"}`, "load_uploaded_files"},
		"arguments in a parameter": {oneNode(`"load_result"`, `{"from_parameter":"p"}`), `{"p":{"id":"j-7"}}`,
			"load_result"},
		"a graph in a parameter": {oneNode(`"apply"`, `{"process":{"from_parameter":"p"}}`),
			`{"p":{"process_graph":{"m":{"process_id":"export_workspace","arguments":{}}}}}`, "export_workspace"},
		"a path of geometries": {oneNode(`"get_geometries"`, `{"filename":"/data/users/a/secret.json"}`), `{}`,
			"get_geometries"},
		"a bucket": {oneNode(`"load_url"`, `{"url":"s3://private/a.geojson","format":"GeoJSON"}`), `{}`,
			"load_url"},
		"a path in a parameter": {oneNode(`"load_url"`, `{"url":{"from_parameter":"p"},"format":"GeoJSON"}`),
			`{"p":"file:///a"}`, "load_url"},
		"a buffer around a path": {oneNode(`"vector_buffer"`, `{"geometry":"/data/a.json","distance":1}`), `{}`,
			"vector_buffer"},
		"a path from a node": {textNode(`"constant"`, `{"x":"/data/a.json"}`, "get_geometries", `"filename"`), `{}`,
			"get_geometries"},
		"a path made of parts": {textNode(`"text_concat"`, `{"data":["/data","a.json"]}`, "vector_buffer",
			`"geometries"`), `{}`, "vector_buffer"},
		"a path that is chosen": {textNode(`"if"`, `{"value":true,"accept":"/data/a.json"}`, "vector_buffer",
			`"geometry"`), `{}`, "vector_buffer"},
		"a path that passes a node": {textNode(`"sleep"`, `{"data":"/data/a.json","seconds":0}`, "vector_buffer",
			`"geometries"`), `{}`, "vector_buffer"},
		"a path as geometries": {textNode(`"get_geometries"`, `{"feature_collection":"/data/a.json"}`, "vector_buffer",
			`"geometries"`), `{}`, "get_geometries"},
		"a node in place of a value": {oneNode(`"vector_buffer"`,
			`{"geometries":{"process_id":"constant","arguments":{"x":"/data/a.json"}}}`), `{}`, "vector_buffer"},
		"a value in a node": {oneNode(`"vector_buffer"`, `{"geometries":{"node":"/data/a.json"}}`), `{}`,
			"vector_buffer"},
		"a node in a parameter": {`{"m":{"process_id":"constant","arguments":{"x":"/data/a.json"}},` +
			oneNode(`"vector_buffer"`, `{"geometries":{"from_parameter":"p"}}`)[1:], `{"p":{"from_node":"m"}}`,
			"vector_buffer"},
		"a path in a callback": {oneNode(`"array_apply"`, `{"data":["/data/a.json"],"process":{"process_graph":`+
			oneNode(`"vector_buffer"`, `{"geometries":{"from_parameter":"x"},"distance":1}`)+`}}`), `{}`,
			"vector_buffer"},
		"a path from a node of a callback": {oneNode(`"array_apply"`, `{"data":[1],"process":{"process_graph":`+
			textNode(`"constant"`, `{"x":"/data/a.json"}`, "vector_buffer", `"geometries"`)+`}}`), `{}`,
			"vector_buffer"},
		"statistics over a path": {afterNode(`"aggregate_spatial"`,
			`{"data":{"from_node":"m"},"geometries":"/data/a.json"}`), `{}`, "aggregate_spatial"},
		"files of users":         {oneNode(`"load_uploaded_files"`, `{"paths":["a"]}`), `{}`, "load_uploaded_files"},
		"a definition elsewhere": {`{"n":{"process_id":"x","namespace":"https://elsewhere.example/x.json","arguments":{},"result":true}}`, `{}`, "namespace"},
	}
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.json("GET /udp.json", 200,
				`{"id":"u","parameters":[{"name":"p","optional":true},{"name":"preset","optional":true,"default":"j-7"}],"process_graph":`+c.graph+`}`)
			s := b.submission()
			s.Parameters = json.RawMessage(c.parameters)
			shared := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits(nil) })
			_, checked := shared.Check(t.Context(), dispatch.Token{}, s.Request, nil)
			if _, err := shared.Submit(t.Context(), token, s); !dispatch.Is(err, dispatch.Invalid) &&
				!dispatch.Is(err, dispatch.DocumentInvalid) || b.body("POST /jobs") != "" {
				t.Errorf("submitted under a shared account: %v", err)
			}
			if c.permit == "" {
				return // the back-end is not sent a graph at all
			}
			if !dispatch.Is(checked, dispatch.Invalid) || !strings.Contains(dispatch.TextFor(checked), c.permit+
				" is not permitted") ||
				!strings.Contains(dispatch.TextFor(checked), "service_account.allow") {
				t.Errorf("checked under a shared account: %v", checked)
			}
			permitting := b.platform(func(config *openeo.Config) {
				config.Permits = dispatch.NewPermits([]string{c.permit})
			})
			for _, p := range []*openeo.Platform{permitting, b.platform()} {
				if _, err := p.Check(t.Context(), dispatch.Token{}, s.Request, nil); err != nil {
					t.Errorf("permitted: %v", err)
				}
			}
		})
	}
}

// afterNode is oneNode with a node m before it.
func afterNode(process, arguments string) string {
	return `{"m":{"process_id":"load_collection","arguments":{}},` +
		strings.TrimPrefix(oneNode(process, arguments), "{")
}

// textNode returns a process graph with a node m that computes a text, and one that opens it.
func textNode(process, arguments, opening, name string) string {
	return fmt.Sprintf(`{"m":{"process_id":%s,"arguments":%s},`, process, arguments) +
		oneNode(`"`+opening+`"`, `{`+name+`:{"from_node":"m"}}`)[1:]
}

// TestPermits_PublicURLs: published processes load public documents, which need no account.
func TestPermits_PublicURLs(t *testing.T) {
	for name, graph := range map[string]string{
		"a STAC collection": oneNode(`"load_stac"`,
			`{"url":"https://planetarycomputer.microsoft.com/api/stac/v1/collections/esa-cci-lc"}`),
		"a model": oneNode(`"load_ml_model"`, `{"id":"https://s3.example/swift/model.json"}`),
		"a signed result": oneNode(`"load_result"`,
			`{"id":"https://openeo.example/jobs/j-7/results/MTA=/5f2a?expires=1"}`),
		"in a parameter": oneNode(`"load_stac"`, `{"url":{"from_parameter":"p"}}`),
		"geometries": oneNode(`"get_geometries"`,
			`{"feature_collection":{"type":"FeatureCollection","features":[]}}`),
		"a buffer":                    afterNode(`"vector_buffer"`, `{"geometries":{"from_node":"m"},"distance":1}`),
		"a URL":                       textNode(`"text_concat"`, `{"data":["https://a.example/","b.json"]}`, "load_url", `"url"`),
		"a buffer around geometries":  textNode(`"load_geojson"`, `{"data":{}}`, "vector_buffer", `"geometries"`),
		"statistics over a buffer":    textNode(`"vector_buffer"`, `{"geometries":{}}`, "aggregate_spatial", `"geometries"`),
		"a buffer around a parameter": oneNode(`"vector_buffer"`, `{"geometries":{"from_parameter":"p"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.json("GET /udp.json", 200, `{"id":"u","parameters":[{"name":"p","optional":true}],"process_graph":`+graph+
				`}`)
			s := b.submission()
			s.Parameters = json.RawMessage(`{"p":"https://stac.example/collections/a"}`)
			shared := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits(nil) })
			if _, err := shared.Check(t.Context(), dispatch.Token{}, s.Request, nil); err != nil {
				t.Error(err)
			}
			if _, err := shared.Submit(t.Context(), token, s); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPermits_WhatRunsIsWhatWasChecked: under a shared account the back-end does not read the definition a second time.
func TestPermits_WhatRunsIsWhatWasChecked(t *testing.T) {
	b := newBackend(t)
	shared := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits(nil) })
	s := b.submission()
	s.Parameters = json.RawMessage(`{"extent":{"west":1}}`)
	if _, err := shared.Submit(t.Context(), token, s); err != nil {
		t.Fatal(err)
	}
	if body := b.body("POST /jobs"); strings.Contains(body, "udp.json") ||
		!strings.Contains(body, `"load_collection"`) {
		t.Errorf("sent %s", body)
	}
}

// TestPermits_OfATask: each value of the dimension is checked, even if the client disabled the check of schemas.
func TestPermits_OfATask(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200, `{"id":"u","parameters":[{"name":"p"}],"process_graph":`+oneNode(`"load_result"`,
		`{"id":{"from_parameter":"p"}}`)+`}`)
	shared := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits(nil) })
	s := b.submission()
	s.Parameters, s.Options = json.RawMessage(`{}`), json.RawMessage(`{"validate":false}`)
	d := dispatch.Dimension{Name: "p", Values: []json.RawMessage{[]byte(`"https://stac.example/a"`), []byte(`"j-7"`)}}
	_, err := shared.Check(t.Context(), dispatch.Token{}, s.Request, &d)
	refusal, is := errors.AsType[*dispatch.Error](err)
	if !is || refusal.Kind != dispatch.Invalid || fmt.Sprint(refusal.Faults[0].Loc) != "[body dimension values 1]" {
		t.Errorf("%v", err)
	}
	d.Values = d.Values[:1]
	if _, err := shared.Check(t.Context(), dispatch.Token{}, s.Request, &d); err != nil {
		t.Error(err)
	}
}

// TestPermits_OfAStoredProcess: the service itself may be a process that accesses stored data.
func TestPermits_OfAStoredProcess(t *testing.T) {
	b := newBackend(t)
	b.on("GET /process_graphs/load_result", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"code":"ProcessGraphNotFound"}`, 404)
	})
	shared := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits(nil) })
	s := b.submission()
	s.Service.Application, s.Parameters = "load_result", json.RawMessage(`{"id":"j-7"}`)
	if _, err := shared.Submit(t.Context(), token, s); !dispatch.Is(err, dispatch.Invalid) ||
		b.body("POST /jobs") != "" {
		t.Errorf("submitted: %v", err)
	}
}

func TestPermits_OfOptions(t *testing.T) {
	b := newBackend(t)
	for name, want := range map[string]bool{"plan": false, "budget": false, "description": true, "log_level": true,
		"executor-memory": true} {
		r := dispatch.Request{Options: json.RawMessage(`{"` + name + `":"5"}`)}
		shared := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits(nil) })
		if err := shared.Permitted(r); (err == nil) != want || err != nil && !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%s under a shared account: %v", name, err)
		}
		allowed := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits([]string{name}) })
		for _, p := range []*openeo.Platform{allowed, b.platform()} {
			if err := p.Permitted(r); err != nil {
				t.Errorf("%s where it is permitted: %v", name, err)
			}
		}
	}
	s := b.submission()
	s.Options = json.RawMessage(`{"plan":"premium"}`)
	shared := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits(nil) })
	if _, err := shared.Submit(t.Context(), token, s); !dispatch.Is(err, dispatch.Invalid) ||
		b.body("POST /jobs") != "" {
		t.Errorf("submitted with a plan: %v", err)
	}
	if _, err := shared.RunSync(t.Context(), token, s); !dispatch.Is(err, dispatch.Invalid) ||
		b.body("POST /result") != "" {
		t.Errorf("run with a plan: %v", err)
	}
}

// TestPermits_Cost: many nodes times many values of a task are given up at a limit on steps.
func TestPermits_Cost(t *testing.T) {
	graph := strings.Repeat(`{"process_id":"load_stac","arguments":{"url":{"from_parameter":"p"}}},`, 5000)
	b := newBackend(t)
	b.json("GET /udp.json", 200, `{"id":"u","parameters":[{"name":"p"}],"process_graph":`+oneNode(`"x"`, `{"all":[`+
		strings.TrimSuffix(graph, ",")+`]}`)+`}`)
	shared := b.platform(func(c *openeo.Config) { c.Permits = dispatch.NewPermits(nil) })
	s := b.submission()
	s.Parameters = json.RawMessage(`{}`)
	d := dispatch.Dimension{Name: "p"}
	for range 10_000 {
		d.Values = append(d.Values, []byte(`"https://stac.example/a"`))
	}
	_, err := shared.Check(t.Context(), dispatch.Token{}, s.Request, &d)
	if !dispatch.Is(err, dispatch.Invalid) || !strings.Contains(dispatch.TextFor(err), "check_steps") {
		t.Errorf("%v", err)
	}
}
