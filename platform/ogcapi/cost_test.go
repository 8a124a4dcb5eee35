package ogcapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// FuzzAnswers: any response of a server, to any request, costs memory in proportion to its size and causes few further
// requests, and what is stored of it is short.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"jobID":"j","status":"failed","progress":"7%","message":"m","links":[{"rel":"log","href":"a.log"}],"exception":{"detail":"d"}}`,
		`{"jobs":["a",{"id":"b","status":"running"},{}],"links":[{"rel":"next","href":"?a"}]}`,
		`{"type":"Catalog","stac_version":"1.0.0","links":[{"rel":"child","href":"a.json"},{"rel":"item","href":"?"}]}`,
		`{"type":"FeatureCollection","features":[{"stac_version":"1","assets":{"a":{"href":"b"}}}]}`,
		`{"outputs":[{"id":"a","value":{"value":"https://h.example/a.json"}}],"inputs":{"a":{"schema":{"oneOf":[{"type":"array"}]}}}}`,
		`{"type":"Polygon","coordinates":[[[1,2],[3,4]]]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var asked atomic.Int64 // linked documents are read at once
		p := New(Config{Endpoint: "https://s.example",
			Client: upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) *http.Response {
				asked.Add(1)
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
					Request: r, Body: io.NopCloser(bytes.NewReader(data))}
			})})})
		ctx, used := context.Background(), conformance.Allocated()
		r, _ := p.Status(ctx, token, job7)
		_, _ = p.Logs(ctx, token, job7)
		_, _ = p.Parameters(ctx, token, dispatch.Service{Endpoint: "https://s.example", Application: "p"})
		step, _ := p.Submit(ctx, token,
			dispatch.Submission{Request: dispatch.Request{Service: dispatch.Service{Endpoint: "https://s.example",
				Application: "p"}, Parameters: []byte(`{}`)}})
		results, _ := p.Results(ctx, token, job7)
		for range p.List(ctx, token, "") {
		}
		if used = conformance.Allocated() - used; used > 8<<20+5_000*int64(len(data)) {
			t.Errorf("%d bytes cost %d", len(data), used)
		}
		if asked.Load() > 200 || len(r.Message) > 4_000 || len(step.Ref.ID)+len(step.Ref.Base) > 2_000 ||
			len(results) > 1_000*(len(data)+10) {
			t.Errorf("%d requests, %d bytes of a message, %+.100v, %d bytes of results, of %d bytes", asked.Load(),
				len(r.Message), step.Ref, len(results), len(data))
		}
	})
}
