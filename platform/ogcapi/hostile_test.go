package ogcapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

var job7 = dispatch.Ref{ID: "j7"}

var hostileRequest = dispatch.Request{Service: dispatch.Service{Endpoint: "http://hostile.example", Application: "p"},
	Parameters: json.RawMessage(`{}`), Format: "json"}

// operations are the broker's requests to a platform, each with the route that a hostile platform answers.
var operations = map[string]struct {
	route string
	run   func(context.Context, *Platform) error
}{
	"probe": {"GET /processes", func(ctx context.Context, p *Platform) error { return p.Probe(ctx, token) }},
	"describe": {"GET /processes/p", func(ctx context.Context, p *Platform) error {
		_, err := p.Parameters(ctx, token, hostileRequest.Service)
		return err
	}},
	"submit": {"POST /processes/p/execution", func(ctx context.Context, p *Platform) error {
		_, err := p.Submit(ctx, token, dispatch.Submission{Request: hostileRequest})
		return err
	}},
	"status": {"GET /jobs/j7", func(ctx context.Context, p *Platform) error {
		_, err := p.Status(ctx, token, job7)
		return err
	}},
	"complaint": {"GET /jobs/j8/results", func(ctx context.Context, p *Platform) error {
		_, err := p.Status(ctx, token, dispatch.Ref{ID: "j8"})
		return err
	}},
	"list": {"GET /jobs", func(ctx context.Context, p *Platform) error {
		for _, err := range p.List(ctx, token, "") {
			if err != nil {
				return err
			}
		}
		return nil
	}},
	"results": {"GET /jobs/j7/results", func(ctx context.Context, p *Platform) error {
		_, err := p.Results(ctx, token, job7)
		return err
	}},
	"linked results": {"GET /linked.json", func(ctx context.Context, p *Platform) error {
		_, err := p.Results(ctx, token, dispatch.Ref{ID: "j9"})
		return err
	}},
	"logs": {"GET /jobs/j7", func(ctx context.Context, p *Platform) error {
		_, err := p.Logs(ctx, token, job7)
		return err
	}},
	"log file": {"GET /run.log", func(ctx context.Context, p *Platform) error {
		_, err := p.Logs(ctx, token, dispatch.Ref{ID: "j9"})
		return err
	}},
	"cancel": {"DELETE /jobs/j7", func(ctx context.Context, p *Platform) error { return p.Cancel(ctx, token, job7) }},
	"run":    {"POST /processes/p/execution", run},
	"follow": {"GET /jobs/j7", func(ctx context.Context, p *Platform) error {
		_, err := p.follow(ctx, token, job7)
		return err
	}},
}

// tolerant are operations whose result does not depend on the response.
var tolerant = []string{"complaint", "linked results", "log file", "cancel", "run", "submit", "results"}

func run(ctx context.Context, p *Platform) error {
	r, err := p.RunSync(ctx, token, dispatch.Submission{Request: hostileRequest})
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20)) // like a client that has read enough
	return err
}

var behaved = map[string]simulator.Reply{
	"GET /processes/p": simulator.JSONReply(200, "", bothModes),
	"GET /jobs/j7":     simulator.JSONReply(200, "", `{"jobID":"j7","status":"running"}`),
	"GET /jobs/j8":     simulator.JSONReply(200, "", `{"jobID":"j8","status":"failed"}`),
	"GET /jobs/j9": simulator.JSONReply(200, "",
		`{"jobID":"j9","status":"successful","links":[{"rel":"log","href":"/run.log"}]}`),
	"GET /jobs/j9/results": simulator.JSONReply(200, "", `{"out":{"href":"/linked.json","type":"application/json"}}`),
	"DELETE /jobs/j7":      simulator.JSONReply(200, "", `{"jobID":"j7","status":"dismissed"}`),
}

func hostile(route string, answer simulator.Reply) (*simulator.Hostile, *Platform) {
	h := &simulator.Hostile{Answer: func(r *http.Request) simulator.Reply {
		at := r.Method + " " + r.URL.Path
		switch good, known := behaved[at]; {
		case at == route:
			return answer
		case known:
			return good
		}
		return simulator.JSONReply(404, "", `{"type":"no-such-thing","title":"There is no such thing."}`)
	}}
	return h, New(Config{Name: "hostile", Endpoint: "http://hostile.example",
		Client: upstream.New(upstream.Config{Development: true, Dial: h.Dial})})
}

// TestHostilePlatform_CostIsBounded tries every fault with every kind of request: the call ends in time, reads and
// allocates little, and its error has a kind and a text.
func TestHostilePlatform_CostIsBounded(t *testing.T) {
	const within = 30 * time.Second
	for operation, o := range operations {
		for name, reply := range simulator.HostileReplies() {
			if smaller > 1 && simulator.Large(name) && rand.IntN(4) > 0 {
				continue // under the race detector a random fourth of them runs
			}
			t.Run(operation+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, p := hostile(o.route, reply)
					ctx, cancel := context.WithTimeout(t.Context(), within)
					defer cancel()
					begin, used := time.Now(), conformance.Allocated()
					err := o.run(ctx, p)
					if took := time.Since(begin); took > within+cancelTime {
						t.Errorf("it took %v", took)
					}
					if used = conformance.Allocated() - used; used > 128<<20 {
						t.Errorf("%d MiB were allocated", used>>20)
					}
					conformance.WantErrorText(t, err, slices.Contains(tolerant, operation),
						string(token.Secret.Reveal()))
					time.Sleep(2 * time.Hour) // until all connections have ended
					if n := h.Wrote(); n > 24<<20 && operation != "follow" {
						t.Errorf("%d KiB were read", n>>10)
					}
					if n := len(h.Asked()); n > 12 {
						t.Errorf("%d requests", n)
					}
				})
			})
		}
	}
}

// Under the race detector, which slows this test five to ten times, the responses are smaller.
var smaller, mostCPU = 1, 5 * time.Second

// TestHostilePlatform_CostlyResponsesAreBounded: responses within the size limit whose cost would grow with the square
// of their size, or which need many times their size in memory.
func TestHostilePlatform_CostlyResponsesAreBounded(t *testing.T) {
	// of a page: smaller pages are more
	whole := func(k int, piece string) string { return strings.TrimSuffix(strings.Repeat(piece+",", k), ",") }
	n := func(k int, piece string) string { return whole(max(1, k/smaller), piece) }
	for name, c := range map[string]struct{ operation, body string }{
		"700,000 jobs":             {"list", `{"jobs":[` + whole(700_000, `{"id":"j"}`) + `]}`},
		"three million empty jobs": {"list", `{"jobs":[` + whole(3_000_000, `{}`) + `]}`},
		"the next page is this":    {"list", `{"links":[{"rel":"next","href":"?limit=100"}],"jobs":[{"id":"j"}]}`},
		"the next page is elsewhere": {"list",
			`{"links":[{"rel":"next","href":"http://elsewhere.example/"}],"jobs":[{"id":"j"}]}`},
		"a log of empty lines":  {"log file", strings.Repeat("\n", 10<<20/smaller)},
		"a log of five million": {"log file", strings.Repeat("x\n", 5<<20/smaller)},
		"a log as a list":       {"log file", `[` + n(2_500_000, `""`) + `]`},
		"a million log links": {"logs", `{"status":"running","links":[` + whole(300_000, `{"rel":"log","href":"a"}`) +
			`]}`},
		"450,000 members":       {"results", `{` + strings.TrimPrefix(counted(450_000, `,"%d":{}`), ",") + `}`},
		"three million outputs": {"results", `{"outputs":[` + n(3_000_000, `{}`) + `]}`},
		"equal outputs": {"results", `{"outputs":[` + n(200_000, `{"id":"a","value":"https://h.example/b"}`) +
			`]}`},
		"300,000 features": {"results", `{"type":"FeatureCollection","features":[` +
			n(300_000, `{"stac_version":"1"}`) + `]}`},
		"features of one collection": {"results", `{"type":"FeatureCollection","features":[` +
			n(100_000, `{"links":[{"rel":"collection","href":"http://hostile.example/linked.json"}]}`) + `]}`},
		"nested values": {"results", strings.Repeat(`{"value":`, 9_000) + `[` + n(3_000_000, `0`) + `]` +
			strings.Repeat(`}`, 9_000)},
		"a list of empty lists": {"results", `[` + n(3_000_000, `[]`) + `]`},
		"positions without end": {"results", `{"type":"Polygon","coordinates":[[` + n(900_000, `[1,2]`) + `]]}`},
		"empty positions":       {"results", `{"type":"Polygon","coordinates":[` + n(3_000_000, `[]`) + `]}`},
		"a catalog of itself": {"linked results", `{"type":"Catalog","stac_version":"1.0.0","links":[` +
			n(50, `{"rel":"child","href":"linked.json"}`) + `]}`},
		"a large catalog of itself": {"linked results", `{"type":"Catalog","stac_version":"1.0.0","x":"` +
			strings.Repeat("x", 5<<20) + `","links":[` + n(50, `{"rel":"child","href":"linked.json"}`) + `]}`},
		"a collection of itself": {"linked results", `{"type":"Collection","stac_version":"1.0.0","links":[` +
			n(50, `{"rel":"child","href":"linked.json"}`) + `]}`},
		"300,000 links": {"results", `{"type":"Collection","stac_version":"1.0.0","links":[` +
			n(300_000, `{"rel":"a","href":"b"}`) + `]}`},
		"300,000 assets": {"results", `{"type":"Collection","stac_version":"1.0.0","assets":{` +
			strings.TrimPrefix(counted(300_000, `,"%d":{"href":"b"}`), ",") + `}}`},
		"400,000 inputs": {"describe", `{"inputs":{` + strings.TrimPrefix(counted(400_000, `,"%d":{}`), ",") +
			`}}`},
		"a million of them listed": {"describe", `{"inputs":[` + n(1_000_000, `{}`) + `],"outputs":[` +
			n(1_000_000, `{}`) + `]}`},
		"wide and deep schemas": {"describe", `{"inputs":{"a":{"schema":` + strings.Repeat(`{"oneOf":[`, 5) +
			n(900_000, `{}`) + strings.Repeat(`]}`, 5) + `}}}`},
		"a long statusInfo": {"status", `{"status":"failed","message":[` + n(3_000_000, `[]`) + `],"links":[` +
			n(10, `{}`) + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := operations[c.operation]
				h, p := hostile(o.route, simulator.JSONReply(200, "", c.body))
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				used, begin := conformance.Allocated(), conformance.CPU(t)
				err := o.run(ctx, p)
				if used = conformance.Allocated() - used; used > 320<<20 {
					t.Errorf("%d MiB were allocated", used>>20)
				}
				if took := conformance.CPU(t) - begin; took > mostCPU {
					t.Errorf("it took %v of CPU", took)
				}
				t.Logf("%d MiB allocated, %v of CPU: %.200v", used>>20, conformance.CPU(t)-begin, err)
				conformance.WantErrorText(t, err, true, string(token.Secret.Reveal()))
				time.Sleep(2 * time.Hour)
				if n := h.Wrote(); n > 70<<20 {
					t.Errorf("%d KiB were read", n>>10)
				}
			})
		})
	}
}

// TestHostilePlatform_EndlessListsAreBounded: each page links to another, and all are full.
func TestHostilePlatform_EndlessListsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, page := `{"jobs":[`+strings.TrimSuffix(strings.Repeat(`{"jobID":"j","status":"running","message":"`+
			strings.Repeat("x", 1_000)+`"},`, 2_000), ",")+`]`, 0
		h, p := hostile("", nil)
		h.Answer = func(r *http.Request) simulator.Reply {
			page++
			return simulator.JSONReply(200, "", fmt.Sprintf(`%s,"links":[{"rel":"next","href":"?page=%d"}]}`, body,
				page))
		}
		err := operations["list"].run(t.Context(), p)
		wantKind(t, err, dispatch.BadUpstream)
		wantText(t, err, "(bound pages_bytes)")
		time.Sleep(2 * time.Hour)
		if n := h.Wrote(); n > bounds.PagesBytes.Most+16<<20 {
			t.Errorf("%d MiB were read", n>>20)
		}
	})
}

// TestIdentifiers_HaveAMaximumLength: identifiers that are stored with a job and put into URLs are short.
func TestIdentifiers_HaveAMaximumLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, location := range []string{"/jobs/" + strings.Repeat("x", 10_000),
			strings.Repeat("/x", 10_000) + "/jobs/j1"} {
			_, p := hostile("POST /processes/p/execution", simulator.JSONReply(201, "Location: "+location+"\r\n", `{}`))
			step, err := p.Submit(t.Context(), token, dispatch.Submission{Request: hostileRequest})
			if len(step.Ref.ID)+len(step.Ref.Base) > 2_000 ||
				step.Ref.ID == "" && !dispatch.Is(err, dispatch.Uncertain) {
				t.Errorf("got %.100v, %v", step, err)
			}
		}
		time.Sleep(2 * time.Hour)
	})
}

func counted(k int, format string) string {
	var b strings.Builder
	for i := range k / smaller {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
