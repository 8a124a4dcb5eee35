package ogcapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// A request that is pinned runs while its process is described as it was, whatever its links are and however it is
// written. Then it is refused, and nothing is sent.
func TestPin_AChangedProcessIsRefused(t *testing.T) {
	const now = `{"id":"p","version":"1","jobControlOptions":["async-execute"],"inputs":{"x":{"schema":{"type":"number"}}},"links":[{"href":"https://a.example"}]}`
	const same = `{"version":"1", "id":"p","jobControlOptions":["async-execute"], "inputs":{"x":{"schema":{"type":"number"}}},"links":[]}`
	const other = `{"id":"p","version":"2","jobControlOptions":["async-execute"],"inputs":{"x":{"schema":{"type":"number"}}}}`
	for name, c := range map[string]struct {
		later  string
		asked  bool
		refuse bool
	}{
		"the same":              {now, true, false},
		"written differently":   {same, true, false},
		"changed":               {other, true, true},
		"changed and not asked": {other, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string][]reply{"GET /processes/p": {ok(now)},
				"POST /processes/p/execution": {job("HOST/jobs/1")}})
			r := dispatch.Request{Service: dispatch.Service{Endpoint: s.URL, Application: "p"},
				Parameters: json.RawMessage(`{"x":1}`)}
			if c.asked {
				r.Options = json.RawMessage(`{"pin":true}`)
			}
			var err error
			if r.Pin, err = s.platform().Pin(t.Context(), dispatch.Token{}, r, nil, nil); err != nil ||
				(r.Pin == "") == c.asked {
				t.Fatalf("pinned to %q, %v", r.Pin, err)
			}
			s.mu.Lock()
			s.script["GET /processes/p"], s.asked = []reply{ok(c.later)}, nil
			s.mu.Unlock()
			step, err := s.platform().Submit(t.Context(), dispatch.Token{}, dispatch.Submission{Request: r})
			executed := false
			for _, one := range s.asked {
				executed = executed || one.method == "POST"
			}
			if c.refuse != dispatch.Is(err, dispatch.Invalid) || executed == c.refuse ||
				c.refuse != strings.Contains(dispatch.TextFor(err), "has changed") {
				t.Errorf("%+v, %v; executed: %v", step, err, executed)
			}
		})
	}
}
