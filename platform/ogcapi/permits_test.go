package ogcapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// TestPermits: under a shared account options may set the members of a standard request, and what the operator permits.
func TestPermits(t *testing.T) {
	sent := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
			w.Header().Set("Location", "/jobs/1")
			w.WriteHeader(http.StatusCreated)
			return
		}
		_, _ = io.WriteString(w, `{"id":"p","jobControlOptions":["async-execute","sync-execute"],"inputs":{}}`)
	}))
	defer server.Close()
	for _, c := range []struct {
		options string
		permits dispatch.Permits
		passes  bool
	}{
		{`{"subscriber":{"successUri":"https://third.example/"}}`, dispatch.NewPermits(nil), false},
		{`{"unknown":1}`, dispatch.NewPermits([]string{"subscriber"}), false},
		{`{"subscriber":{"successUri":"https://third.example/"}}`, dispatch.NewPermits([]string{"subscriber"}), true},
		{`{"subscriber":{"successUri":"https://third.example/"}}`, nil, true},
		{`{"outputs":{"a":{}},"mode":"async","response":"raw","validate":false,"max_duration":60}`,
			dispatch.NewPermits(nil), true},
	} {
		p := New(Config{Endpoint: server.URL, Client: upstream.New(upstream.Config{Development: true}),
			Permits: c.permits})
		r := dispatch.Request{Service: dispatch.Service{Endpoint: server.URL, Application: "p"},
			Parameters: json.RawMessage(`{}`), Options: json.RawMessage(c.options)}
		sent = ""
		_, err := p.Submit(t.Context(), token, dispatch.Submission{Request: r})
		if (err == nil) != c.passes || (sent != "") != c.passes || err != nil && !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%s with %v: %v, sent %q", c.options, c.permits, err, sent)
		}
		if checked := p.Permitted(r); (checked == nil) != c.passes || checked != nil &&
			!strings.Contains(dispatch.TextFor(checked), "service_account.allow") {
			t.Errorf("%s with %v, at acceptance: %v", c.options, c.permits, checked)
		}
		if !c.passes {
			if _, err := p.RunSync(t.Context(), token, dispatch.Submission{Request: r}); !dispatch.Is(err,
				dispatch.Invalid) || sent != "" {
				t.Errorf("%s with %v, synchronously: %v, sent %q", c.options, c.permits, err, sent)
			}
		}
	}
}
