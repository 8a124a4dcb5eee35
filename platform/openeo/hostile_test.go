package openeo_test

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
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// operations are the broker's requests to a platform, each with the route that a hostile platform answers.
var operations = map[string]struct {
	route string // method and path of the request, without the query
	run   func(context.Context, *openeo.Platform) error
}{
	"discover": {"GET /.well-known/openeo", func(ctx context.Context, p *openeo.Platform) error {
		return p.Probe(ctx, token)
	}},
	"capabilities": {"GET /", func(ctx context.Context, p *openeo.Platform) error { return p.Probe(ctx, token) }},
	"probe":        {"GET /me", func(ctx context.Context, p *openeo.Platform) error { return p.Probe(ctx, token) }},
	"issuer": {"GET /credentials/oidc", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.ProviderIssuer(ctx, "CDSE")
		return err
	}},
	"formats": {"GET /file_formats", create},
	"process": {"GET /process_graphs/ndvi", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.Parameters(ctx, token, dispatch.Service{Application: "ndvi"})
		return err
	}},
	"processes": {"GET /processes", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.Parameters(ctx, dispatch.Token{}, dispatch.Service{Application: "ndvi"})
		return err
	}},
	"document": {"GET /udp.json", func(ctx context.Context, p *openeo.Platform) error {
		return p.Prepare(ctx, hostileRequest.Service)
	}},
	"create": {"POST /jobs", create},
	"start": {"POST /jobs/j-1/results", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.Submit(ctx, token, dispatch.Submission{Request: hostileRequest, Ref: job1})
		return err
	}},
	"status": {"GET /jobs/j-1", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.Status(ctx, token, job1)
		return err
	}},
	"complaint": {"GET /jobs/j-2/logs", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.Status(ctx, token, dispatch.Ref{ID: "j-2"})
		return err
	}},
	"verdict": {"GET /jobs/j-2/results", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.Status(ctx, token, dispatch.Ref{ID: "j-2"})
		return err
	}},
	"list": {"GET /jobs", func(ctx context.Context, p *openeo.Platform) error {
		for _, err := range p.List(ctx, token, "") {
			if err != nil {
				return err
			}
		}
		return nil
	}},
	"results": {"GET /jobs/j-1/results", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.Results(ctx, token, job1)
		return err
	}},
	"logs": {"GET /jobs/j-1/logs", func(ctx context.Context, p *openeo.Platform) error {
		_, err := p.Logs(ctx, token, job1)
		return err
	}},
	"look before a cancel": {"GET /jobs/j-1", func(ctx context.Context, p *openeo.Platform) error {
		return p.Cancel(ctx, token, job1)
	}},
	"cancel": {"DELETE /jobs/j-1/results", func(ctx context.Context, p *openeo.Platform) error {
		return p.Cancel(ctx, token, job1)
	}},
	"run": {"POST /result", func(ctx context.Context, p *openeo.Platform) error {
		r, err := p.RunSync(ctx, token, dispatch.Submission{Request: hostileRequest})
		if err != nil {
			return err
		}
		defer r.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20)) // like a client that has read enough
		return err
	}},
}

// tolerant are operations whose result does not depend on the response.
var tolerant = []string{"discover", "complaint", "verdict", "process", "start", "cancel", "create", "run", "probe"}

var hostileRequest = dispatch.Request{Title: "T", Format: "gtiff",
	Service:    dispatch.Service{Application: "http://documents.example/udp.json"},
	Parameters: json.RawMessage(`{"extent":1}`)}

func create(ctx context.Context, p *openeo.Platform) error {
	_, err := p.Submit(ctx, token, dispatch.Submission{Tag: "i.1.1", Request: hostileRequest})
	return err
}

// behaved holds the responses of a correct platform.
var behaved = map[string]simulator.Reply{
	"GET /":                 simulator.JSONReply(200, "", `{"api_version":"1.2.0"}`),
	"GET /credentials/oidc": simulator.JSONReply(200, "", `{"providers":[{"id":"CDSE","issuer":"`+issuer+`"}]}`),
	"GET /file_formats":     simulator.JSONReply(200, "", `{"output":{"GTiff":{}}}`),
	"GET /udp.json": simulator.JSONReply(200, "",
		`{"id":"ndvi","parameters":[{"name":"extent"}],"process_graph":{"n":{"process_id":"x","arguments":{"v":{"from_parameter":"extent"}},"result":true}}}`),
	"POST /jobs":               simulator.JSONReply(201, "OpenEO-Identifier: j-1\r\n", ``),
	"POST /jobs/j-1/results":   simulator.JSONReply(202, "", ``),
	"GET /jobs/j-1":            simulator.JSONReply(200, "", `{"id":"j-1","status":"running"}`),
	"GET /jobs/j-2":            simulator.JSONReply(200, "", `{"id":"j-2","status":"error"}`),
	"DELETE /jobs/j-1/results": simulator.JSONReply(204, "", ``),
}

// hostile is a platform that gives one response on one route, and correct ones on all others.
func hostile(route string, answer simulator.Reply) (*simulator.Hostile, *openeo.Platform) {
	h := &simulator.Hostile{Answer: func(r *http.Request) simulator.Reply {
		at := r.Method + " " + r.URL.Path
		switch good, known := behaved[at]; {
		case at == route:
			return answer
		case known:
			return good
		}
		return simulator.JSONReply(404, "", `{"code":"JobNotFound","message":"There is no such thing."}`)
	}}
	return h, openeo.New(openeo.Config{Name: "hostile", Endpoint: "http://hostile.example", TokenPrefix: "oidc/CDSE",
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
					if took := time.Since(begin); took > within {
						t.Errorf("it took %v", took)
					}
					if used = conformance.Allocated() - used; used > 128<<20 {
						t.Errorf("%d MiB were allocated", used>>20)
					}
					conformance.WantErrorText(t, err, slices.Contains(tolerant, operation), canary)
					time.Sleep(2 * time.Hour) // until all connections have ended
					if n := h.Wrote(); n > 12<<20 {
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

// TestHostilePlatform_CostlyResponsesAreBounded: answers that are short enough, and cost what grows with the square of
// their size or take many times their size in memory. The platform gives the same to each request of the route.
func TestHostilePlatform_CostlyResponsesAreBounded(t *testing.T) {
	// of a page: smaller pages are more
	whole := func(k int, piece string) string { return strings.TrimSuffix(strings.Repeat(piece+",", k), ",") }
	n := func(k int, piece string) string { return whole(max(1, k/smaller), piece) }
	numbered := func(k int, format string) string {
		var b strings.Builder
		for i := range k / smaller {
			fmt.Fprintf(&b, format+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for name, c := range map[string]struct{ operation, body string }{
		"700,000 jobs":             {"list", `{"jobs":[` + whole(700_000, `{"id":"j"}`)},
		"three million empty jobs": {"list", `{"jobs":[` + whole(3_000_000, `{}`)},
		"jobs with odd members":    {"list", `{"jobs":[{"id":"j","title":[` + whole(3_000_000, `[]`) + `]}`},
		"the next page is this":    {"list", `{"links":[{"rel":"next","href":"?limit=1000"}],"jobs":[{"id":"j"}`},
		"the next page is elsewhere": {"list",
			`{"links":[{"rel":"next","href":"http://elsewhere.example/"}],"jobs":[{"id":"j"}`},
		"three million empty lines": {"logs", `{"logs":[` + whole(3_000_000, `{}`)},
		"100,000 different complaints": {"complaint",
			`{"logs":[` + numbered(100_000, `{"level":"error","message":"%d"}`)},
		"100,000 extensions": {"results", `{"type":"Collection","stac_extensions":[` +
			numbered(100_000, `"http://%d"`)},
		"three million links":  {"results", `{"type":"Collection","links":[` + n(3_000_000, `{}`)},
		"300,000 links":        {"results", `{"type":"Collection","links":[` + n(300_000, `{"rel":"a","href":"b"}`)},
		"links that lead back": {"results", `{"type":"Collection","links":[` + n(1_000, `{"rel":"next","href":"?"}`)},
		"300,000 keywords and too deep": {"results", `{"type":"Collection","keywords":[` + n(300_000, `"k"`) +
			`],"x":[` + strings.Repeat("[", 20_000)},
		"900,000 providers":            {"issuer", `{"providers":[` + n(900_000, `{}`)},
		"900,000 processes":            {"processes", `{"processes":[` + n(900_000, `{}`)},
		"a process of many parameters": {"process", `{"parameters":[` + n(900_000, `{}`)},
		"900,000 formats":              {"formats", `{"x":[` + n(900_000, `{}`)},
		"900,000 versions":             {"discover", `{"versions":[` + n(900_000, `{}`)},
		"900,000 endpoints":            {"capabilities", `{"api_version":"1.2.0","endpoints":[` + n(900_000, `{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := operations[c.operation]
				h, p := hostile(o.route, simulator.JSONReply(200, "", c.body+`]}`))
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
				t.Logf("%v, %d MiB allocated, %v of CPU", err, used>>20, conformance.CPU(t)-begin)
				conformance.WantErrorText(t, err, true, canary)
				time.Sleep(2 * time.Hour)
				if n := h.Wrote(); n > 70<<20 {
					t.Errorf("%d KiB were read", n>>10)
				}
			})
		})
	}
}

// TestHostilePlatform_EndlessPagesAreBounded: each page links to another, and all are full.
func TestHostilePlatform_EndlessPagesAreBounded(t *testing.T) {
	for operation, body := range map[string]string{
		"list": `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`{"id":"j","status":"running","title":"`+
			strings.Repeat("x", 1_000)+`"},`, 2_000), ",") + `]`,
		"logs": `{"logs":[{"id":"1","message":"` + strings.Repeat("x", 2<<20) + `"}]`,
	} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, page := operations[operation], 0
				h, p := hostile("", nil)
				good := h.Answer
				h.Answer = func(r *http.Request) simulator.Reply {
					if r.Method+" "+r.URL.Path != o.route {
						return good(r)
					}
					page++
					return simulator.JSONReply(200, "", fmt.Sprintf(`%s,"links":[{"rel":"next","href":"?page=%d"}]}`,
						body, page))
				}
				err := o.run(t.Context(), p)
				conformance.WantErrorText(t, err, false, canary)
				if !dispatch.Is(err, dispatch.BadUpstream) ||
					!strings.Contains(dispatch.TextFor(err), "(bound pages_bytes)") {
					t.Errorf("got %v", err)
				}
				time.Sleep(2 * time.Hour)
				if n := h.Wrote(); n > bounds.PagesBytes.Most+16<<20 {
					t.Errorf("%d MiB were read", n>>20)
				}
			})
		})
	}
}

// TestIdentifiers_HaveAMaximumLength: identifiers that are stored with a job and put into URLs are short.
func TestIdentifiers_HaveAMaximumLength(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	synctest.Test(t, func(t *testing.T) {
		_, p := hostile("POST /jobs", simulator.JSONReply(201, "OpenEO-Identifier: "+long+"\r\n", `{"id":"`+long+`"}`))
		step, err := p.Submit(t.Context(), token, dispatch.Submission{Tag: "i.1.1", Request: hostileRequest})
		if !dispatch.Is(err, dispatch.Uncertain) || step.Ref.ID != "" {
			t.Errorf("got %.100v, %v", step, err)
		}
		_, p = hostile("GET /jobs", simulator.JSONReply(200, "",
			`{"jobs":[{"id":"`+long+`"},{"id":"../x"},{"id":"j-1"}]}`))
		var ids []string
		for l, err := range p.List(t.Context(), token, "") {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, l.Ref.ID)
		}
		if !slices.Equal(ids, []string{"j-1"}) {
			t.Errorf("got %.300v", ids)
		}
		time.Sleep(2 * time.Hour)
	})
}
