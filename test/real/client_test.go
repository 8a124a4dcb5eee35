package real

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/api/pages"
)

// TestOpenAPI_GeneratedPythonClient generates a Python client from the OpenAPI document without warnings, and calls the
// API with it.
func TestOpenAPI_GeneratedPythonClient(t *testing.T) {
	signIn := &pages.DocsSignIn{ClientID: "docs", Endpoints: func(context.Context) (authorizationURL, tokenURL string,
		err error) {
		return "https://sign-in.example.org/authorize", "https://sign-in.example.org/token", nil
	}}
	server := httptest.NewServer(api.New(api.Config{Log: slog.New(slog.DiscardHandler), DocsSignIn: signIn}))
	defer server.Close()
	var found struct {
		Grids     []string
		Tiles     int
		OneStatus bool `json:"one_status"`
	}
	judge(t, "openapi-python-client", "client.py", map[string]string{"address": server.URL, "folder": t.TempDir()},
		&found)
	if !slices.Contains(found.Grids, "20x20km") || found.Tiles == 0 || !found.OneStatus {
		t.Errorf("the client received %+v", found)
	}
}
