package ogcapi_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestPlatform(t *testing.T) {
	for name, namespace := range map[string]*string{"without a namespace": nil, "in a namespace": new("f00d")} {
		t.Run(name, func(t *testing.T) {
			conformance.TestPlatform(t, func(t *testing.T) (dispatch.Platform, conformance.Remote) {
				r := &remote{namespace: namespace, sim: &simulator.OGC{PageMax: 10, Check: check}}
				server := httptest.NewServer(r.sim)
				t.Cleanup(server.Close)
				r.url = server.URL
				return ogcapi.New(ogcapi.Config{
					Name: "suite", Endpoint: server.URL, Client: upstream.New(upstream.Config{Development: true,
						Trust: []string{server.URL}}),
				}), r
			})
		})
	}
}

const secret = "s3cr3t-bearer"

func check(token string) (string, error) {
	if token != secret {
		return "", errors.New("another token")
	}
	return "suite", nil
}

// remote is a simulated server for the suite.
type remote struct {
	sim       *simulator.OGC
	url       string
	namespace *string
	mishaps   map[conformance.Call]conformance.Failure
}

func (*remote) Token() dispatch.Token { return dispatch.Token{Secret: secret} }

func (r *remote) Service() dispatch.Service {
	return dispatch.Service{Endpoint: r.url, Namespace: r.namespace, Application: "echo"}
}

func (*remote) Abilities() []string {
	return []string{"cancel", "list", "logs", "probe", "remove", "sync"}
}

func (*remote) Words() map[string]dispatch.Status {
	return map[string]dispatch.Status{"accepted": dispatch.Queued, "running": dispatch.Running,
		"successful": dispatch.Finished, "failed": dispatch.Failed, "dismissed": dispatch.Canceled}
}

// Sent unwraps values from the objects that the standard requires.
func (r *remote) Sent(ref dispatch.Ref) map[string]json.RawMessage {
	var body struct {
		Inputs map[string]json.RawMessage `json:"inputs"`
	}
	json.Unmarshal(r.sim.Sent(ref.ID), &body)
	for name, input := range body.Inputs {
		var qualified struct {
			Value json.RawMessage `json:"value"`
		}
		if json.Unmarshal(input, &qualified) == nil && qualified.Value != nil {
			body.Inputs[name] = qualified.Value
		}
	}
	return body.Inputs
}

func (r *remote) Counts() (created, started, canceled int) {
	sum := r.sim.Oracle.Sum()
	return sum.Creates, sum.Runs, sum.Cancels
}

func (r *remote) RunForAnHour() { r.sim.SetLife(simulator.Life{Run: time.Hour}) }

func (r *remote) SetStatus(ref dispatch.Ref, word string) { r.sim.SetStatus(ref.ID, word) }

// routes has no start, since there is only one step. A synchronous run is the same request as a submit.
var routes = map[conformance.Call]string{
	conformance.CallAny:     "",
	conformance.CallSubmit:  "POST /processes/{id}/execution",
	conformance.CallStatus:  "GET /jobs/{id}",
	conformance.CallResults: "GET /jobs/{id}/results",
	conformance.CallList:    "GET /jobs",
	conformance.CallCancel:  "DELETE /jobs/{id}",
	conformance.CallSync:    "POST /processes/{id}/execution",
}

// Fail adds one fault for each kind of call that fails.
func (r *remote) Fail(call conformance.Call, m conformance.Failure) {
	if r.mishaps == nil {
		r.mishaps = map[conformance.Call]conformance.Failure{}
	}
	r.mishaps[call] = m
	var faults []simulator.Fault
	for call, m := range r.mishaps {
		faults = append(faults, fault(routes[call], m))
	}
	r.sim.Faults.Set(faults...)
}

func fault(route string, m conformance.Failure) simulator.Fault {
	f := simulator.Fault{Route: route, Status: m.Status, RetryAfter: m.RetryAfter, Cut: m.Cut, After: m.After,
		Latency: m.Latency}
	if m.Redirect != "" || m.Nameless {
		f.Header = map[string]string{"Location": m.Redirect}
	}
	if m.Page {
		f.Form = simulator.HTML
	}
	if m.Endless {
		f.Form = simulator.Endless
	}
	return f
}
