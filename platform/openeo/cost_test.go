package openeo

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// fixed answers all requests with one body.
type fixed []byte

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte(f)
	if strings.HasSuffix(r.URL.Path, "/") || strings.HasSuffix(r.URL.Path, "/openeo") {
		body = []byte(`{"api_version":"1.2.0"}`)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// FuzzAnswers: any response of a back-end about its jobs costs memory in proportion to its size, and what is stored of
// it is short.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"id":"j","status":"error","progress":1e3,"costs":[],"usage":{"duration":{"value":1,"unit":"h"}}}`,
		`{"jobs":[{"id":"a","title":"t [x.1.1]","created":"2026-01-01T00:00:00Z"},{"id":"../b"},{}],"links":[{"rel":"next","href":"?a"}]}`,
		`{"logs":[{"id":1,"level":"error","message":"<b>x","time":7},{}],"links":[{"rel":"next","href":""}]}`,
		`{"processes":[{"id":"p","parameters":[{"name":"a","schema":{"type":"string"}}]}],"parameters":[{}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := New(Config{Endpoint: "https://b.example", TokenPrefix: "oidc/x",
			Client: upstream.New(upstream.Config{Transport: fixed(data)})})
		ctx, ref, token := context.Background(), dispatch.Ref{ID: "j"}, dispatch.Token{Secret: "t"}
		used := conformance.Allocated()
		r, _ := p.Status(ctx, token, ref)
		entries, _ := p.Logs(ctx, token, ref)
		_, _ = p.Parameters(ctx, dispatch.Token{}, dispatch.Service{Application: "p"})
		jobs := 0
		for l, err := range p.List(ctx, token, "") {
			if jobs++; err == nil && !validID(l.Ref.ID) {
				t.Errorf("listed %q", l.Ref.ID)
			}
		}
		if used = conformance.Allocated() - used; used > 4<<20+2_000*int64(len(data)) {
			t.Errorf("%d bytes cost %d", len(data), used)
		}
		if len(r.Message) > 4_000 || jobs > len(data)+1 || len(entries) > len(data) {
			t.Errorf("%d bytes of a message, %d jobs, %d entries of %d bytes", len(r.Message), jobs, len(entries),
				len(data))
		}
	})
}
