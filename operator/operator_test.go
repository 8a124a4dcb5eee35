package operator_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/operator"
)

// nothing is a store without content.
type nothing struct{ dispatch.Operations }

func (nothing) OperatorHolds(context.Context) ([]dispatch.OperatorHold, error) { return nil, nil }
func (nothing) HoldScope(context.Context, dispatch.OperatorHold) error         { return nil }

func TestHandler_ServesThisMachineOnly(t *testing.T) {
	h := operator.Handler(operator.Config{Store: nothing{}, Log: slog.New(slog.DiscardHandler), Platforms: []string{"p"}})
	for _, row := range []struct {
		from, to, who string
		want          int
	}{
		{"127.0.0.1:4711", "127.0.0.1:9090", "ann", http.StatusOK},
		{"[::1]:4711", "localhost:9090", "ann", http.StatusOK},
		{"10.0.0.7:4711", "127.0.0.1:9090", "ann", http.StatusForbidden},
		{"127.0.0.1:4711", "evil.example:9090", "ann", http.StatusForbidden}, // a page whose name leads here
		{"127.0.0.1:4711", "10.0.0.7:9090", "ann", http.StatusForbidden},
		{"127.0.0.1:4711", "127.0.0.1:9090", "", http.StatusUnprocessableEntity}, // a page in a browser sends no such header
	} {
		r := httptest.NewRequest(http.MethodGet, "/operator/holds", nil)
		r.RemoteAddr, r.Host = row.from, row.to
		r.Header.Set(operator.Header, row.who)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != row.want {
			t.Errorf("from %s to %s as %q: %d %s", row.from, row.to, row.who, w.Code, w.Body)
		}
	}
}

func TestHandler_IsNotServedThroughAProxy(t *testing.T) {
	h := operator.Handler(operator.Config{Store: nothing{}, Log: slog.New(slog.DiscardHandler)})
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"} {
		r := httptest.NewRequest(http.MethodGet, "/operator/holds", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:9090"
		r.Header.Set(operator.Header, "ann")
		r.Header.Set(name, "10.0.0.7")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("with %s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestHandler_RefusesWhatIsWrong(t *testing.T) {
	var log strings.Builder
	h := operator.Handler(operator.Config{Store: nothing{}, Log: slog.New(slog.NewTextHandler(&log, nil)), Platforms: []string{"p"}})
	for body, want := range map[string]int{
		`{"scope": "p", "notice": "updates"}`:               http.StatusOK,
		`{"scope": "p/shared", "notice": "updates"}`:        http.StatusOK,
		`{"scope": "q", "notice": "updates"}`:               http.StatusUnprocessableEntity,
		`{"scope": "p", "notice": " "}`:                     http.StatusUnprocessableEntity,
		`{`:                                                 http.StatusUnprocessableEntity,
		`{"notice": "` + strings.Repeat("a", 70_000) + `"}`: http.StatusUnprocessableEntity,
	} {
		r := httptest.NewRequest(http.MethodPost, "/operator/holds", strings.NewReader(body))
		r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:9090"
		r.Header.Set(operator.Header, "ann")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%.40s: %d %s", body, w.Code, w.Body)
		}
	}
	if n := strings.Count(log.String(), "msg=audit action=hold operator=ann"); n != 2 {
		t.Errorf("%d changes are audited:\n%s", n, &log)
	}
}
