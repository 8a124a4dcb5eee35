package upstream

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Texts about a server name the platform of the call; what a server itself says is left as it is.
func TestDo_NamesThePlatform(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
			panic(http.ErrAbortHandler)
		case "/cut":
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("{"))
		case "/says":
			http.Error(w, "The server is full", 500)
		default:
			w.WriteHeader(502)
		}
	}))
	defer server.Close()
	c := New(Config{Development: true})
	for url, want := range map[string]string{
		"http://127.0.0.1:1":   "The platform cdse cannot be reached.",
		server.URL + "/silent": "The platform cdse did not respond.",
		server.URL + "/cut": "The connection to the platform cdse was lost before the response was " +
			"complete.",
		server.URL + "/says": "The server is full",
		server.URL + "/":     "The platform cdse responded with HTTP status 502 Bad Gateway.",
	} {
		_, err := c.Do(t.Context(), Call{Op: "test", Server: "platform cdse", Method: http.MethodGet, URL: url})
		if err == nil || textOf(err) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func textOf(err error) string {
	e, _ := errors.AsType[*dispatch.Error](err)
	return e.Text
}
