package openeo_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// amplifying returns a definition that refers to its parameter n times.
func amplifying(n int) string {
	var b strings.Builder
	b.WriteString(
		`{"id":"ndvi","parameters":[{"name":"p","schema":{"type":"string"}}],"process_graph":{"n":{"process_id":"array_create","result":true,"arguments":{"data":[`)
	b.WriteString(strings.TrimSuffix(strings.Repeat(`{"from_parameter":"p"},`, n), ","))
	return b.String() + `]}}}}`
}

// TestExpand_RefusesAmplifyingGraphs: 100 KB and 15,000 references would be 1.5 GB, which must be neither built nor
// sent.
func TestExpand_RefusesAmplifyingGraphs(t *testing.T) {
	b := newBackend(t)
	b.capabilities(`"https://api.openeo.org/1.2.0"`) // no remote definitions: the graph itself is sent
	b.json("GET /udp.json", 200, amplifying(15_000))
	value := fmt.Sprintf("%q", strings.Repeat("x", 100_000))
	s := b.submission()
	s.Parameters = json.RawMessage(`{"p":` + value + `}`)
	p := b.platform()
	_, err := p.Submit(t.Context(), token, s)
	wantBound(t, err, "graph_bytes")
	_, err = p.Check(t.Context(), dispatch.Token{}, s.Request, nil)
	wantBound(t, err, "graph_bytes")
	s.Parameters = json.RawMessage(`{}`)
	d := &dispatch.Dimension{Name: "p", Values: []json.RawMessage{[]byte(`"x"`), []byte(value)}}
	_, err = p.Check(t.Context(), dispatch.Token{}, s.Request, d)
	wantBound(t, err, "graph_bytes")
	d.Values = d.Values[:1]
	if _, err := p.Check(t.Context(), dispatch.Token{}, s.Request, d); err != nil {
		t.Errorf("15,000 small values: %v", err)
	}
	b.capabilities(`"https://api.openeo.org/1.2.0","https://api.openeo.org/extensions/remote-process-definition/0.1.0"`)
	s.Parameters = json.RawMessage(`{"p":` + value + `}`)
	if _, err := b.platform().Check(t.Context(), dispatch.Token{}, s.Request, nil); err != nil {
		t.Errorf("a definition that the platform reads itself: %v", err)
	}
}

// TestExpand_ManyCallbacksWithManyParameters: the names that callbacks hide are not copied for each callback.
func TestExpand_ManyCallbacksWithManyParameters(t *testing.T) {
	const n = 4_000
	var b strings.Builder
	b.WriteString(`{"id":"ndvi","parameters":[`)
	for i := range n {
		fmt.Fprintf(&b, `{"name":"p%d","optional":true},`, i)
	}
	b.WriteString(
		`{"name":"last","optional":true}],"process_graph":{"n":{"process_id":"x","result":true,"arguments":{"data":[`)
	for i := range n {
		fmt.Fprintf(&b, `{"process_graph":{"a":{"process_id":"y","arguments":{"v":{"from_parameter":"p%d"}}}}},`, i)
	}
	b.WriteString(`0]}}}}`)
	back := newBackend(t)
	back.capabilities(`"https://api.openeo.org/1.2.0"`)
	back.json("GET /udp.json", 200, b.String())
	s := back.submission()
	s.Parameters = json.RawMessage(`{"p7":"seven"}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := back.platform().Submit(t.Context(), token, s); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 200 {
		t.Errorf("%d MiB allocated", mib)
	}
	if sent := back.body("POST /jobs"); !strings.Contains(sent, `"v":"seven"`) {
		t.Errorf("p7 is not put in: %.300s", sent)
	}
}

func wantBound(t *testing.T, err error, bound string) {
	t.Helper()
	if e := wantKind(t, err, dispatch.Invalid); !strings.Contains(e.Text, "(bound "+bound+")") {
		t.Errorf("got %q", e.Text)
	}
}

// TestHugeNumbers_AreRefused: the text names the limit.
func TestHugeNumbers_AreRefused(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200,
		`{"id":"ndvi","parameters":[{"name":"p","schema":{"maximum":1e999999}}],"process_graph":{"n":{"process_id":"x"}}}`)
	_, err := b.platform().Parameters(t.Context(), dispatch.Token{}, dispatch.Service{Application: b.URL + "/udp.json"})
	if e := wantKind(t, err, dispatch.DocumentInvalid); !strings.Contains(e.Text, "(bound number_exponent)") {
		t.Errorf("got %q", e.Text)
	}
	b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"running","progress":1e999999}`)
	_, err = b.platform().Status(t.Context(), token, dispatch.Ref{ID: "j-1"})
	if !dispatch.Is(err, dispatch.BadUpstream) || !strings.Contains(err.Error(), "(bound number_exponent)") {
		t.Errorf("got %v", err)
	}
}
