package openeo_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// definition is a process that accepts the parameters of the suite.
const definition = `{"id":"suite","parameters":[
	{"name":"integer","description":"","optional":true,"schema":{"type":"integer"}},
	{"name":"number","description":"","optional":true,"schema":{"type":"number"}},
	{"name":"nothing","description":"","optional":true,"default":null,"schema":{"type":["string","null"]}},
	{"name":"string","description":"","optional":true,"schema":{"type":"string"}},
	{"name":"geometry","description":"","optional":true,"schema":{"type":"object","subtype":"geojson"}}],
	"process_graph":{"load":{"process_id":"load_collection","arguments":{"id":"S2","spatial_extent":{"from_parameter":"geometry"},"temporal_extent":null},"result":true}}}`

func TestPlatform(t *testing.T) {
	conformance.TestPlatform(t, func(t *testing.T) (dispatch.Platform, conformance.Remote) {
		definitions := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, definition)
		}))
		t.Cleanup(definitions.Close)
		r := &remote{sim: &simulator.OpenEO{Namespaces: definitions.Client(), PageMax: 10},
			application: definitions.URL + "/suite.json"}
		server := httptest.NewServer(r.sim)
		t.Cleanup(server.Close)
		r.url = server.URL
		return openeo.New(openeo.Config{
			Name: "suite", Endpoint: server.URL, Client: upstream.New(upstream.Config{Development: true,
				Trust: []string{server.URL}}),
		}), r
	})
}

// remote is a simulated back-end for the suite.
type remote struct {
	sim              *simulator.OpenEO
	url, application string
	mishaps          map[conformance.Call]conformance.Failure
}

func (*remote) Token() dispatch.Token {
	return dispatch.Token{Secret: "s3cr3t-bearer", Issuer: "https://idp.invalid/realms/platform"}
}

func (r *remote) Service() dispatch.Service {
	return dispatch.Service{Endpoint: r.url, Application: r.application}
}

func (*remote) Abilities() []string {
	return []string{"cancel", "list", "logs", "probe", "remove", "sync"}
}

func (*remote) Words() map[string]dispatch.Status {
	return map[string]dispatch.Status{"created": dispatch.Accepted, "queued": dispatch.Queued,
		"running":  dispatch.Running,
		"finished": dispatch.Finished, "error": dispatch.Failed, "canceled": dispatch.Canceled}
}

func (r *remote) Sent(ref dispatch.Ref) map[string]json.RawMessage {
	var body struct {
		Process struct {
			Graph map[string]struct {
				Process   string                     `json:"process_id"`
				Arguments map[string]json.RawMessage `json:"arguments"`
			} `json:"process_graph"`
		} `json:"process"`
	}
	json.Unmarshal(r.sim.Sent(ref.ID), &body)
	for _, node := range body.Process.Graph {
		if node.Process == "suite" {
			return node.Arguments
		}
	}
	return nil
}

func (r *remote) Counts() (created, started, canceled int) {
	sum := r.sim.Oracle.Sum()
	return sum.Creates, sum.Runs, sum.Cancels
}

func (r *remote) RunForAnHour() { r.sim.SetLife(simulator.Life{Run: time.Hour}) }

func (r *remote) SetStatus(ref dispatch.Ref, word string) { r.sim.SetStatus(ref.ID, word) }

var routes = map[conformance.Call][]string{
	conformance.CallAny:     {""},
	conformance.CallSubmit:  {"POST /jobs"},
	conformance.CallStart:   {"POST /jobs/{id}/results"},
	conformance.CallStatus:  {"GET /jobs/{id}"},
	conformance.CallResults: {"GET /jobs/{id}/results"},
	conformance.CallList:    {"GET /jobs"},
	conformance.CallCancel:  {"DELETE /jobs/{id}/results", "DELETE /jobs/{id}"},
	conformance.CallSync:    {"POST /result"},
}

// Fail adds one fault for each kind of call that fails.
func (r *remote) Fail(call conformance.Call, m conformance.Failure) {
	if r.mishaps == nil {
		r.mishaps = map[conformance.Call]conformance.Failure{}
	}
	r.mishaps[call] = m
	var faults []simulator.Fault
	for call, m := range r.mishaps {
		for _, route := range routes[call] {
			faults = append(faults, fault(route, m))
		}
	}
	r.sim.Faults.Set(faults...)
}

func fault(route string, m conformance.Failure) simulator.Fault {
	f := simulator.Fault{Route: route, Status: m.Status, RetryAfter: m.RetryAfter, Cut: m.Cut, After: m.After,
		Latency: m.Latency}
	if m.Redirect != "" || m.Nameless {
		f.Header = map[string]string{"Location": m.Redirect}
	}
	if m.Nameless {
		f.Header["OpenEO-Identifier"] = ""
	}
	if m.Page {
		f.Form = simulator.HTML
	}
	if m.Endless {
		f.Form = simulator.Endless
	}
	return f
}
