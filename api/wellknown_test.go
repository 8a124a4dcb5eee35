package api

import (
	"net/http/httptest"
	"testing"

	"github.com/eodispatch/eodispatch/api/pages"
)

func TestMetadata_SaysWhereUsersSignIn(t *testing.T) {
	for _, row := range []struct{ public, resource string }{{"", "http://example.com"},
		{"https://broker.example.org/eo", "https://broker.example.org/eo"}} {
		a := New(Config{PublicURL: row.public,
			PublicSignIn: &pages.PublicSignIn{Issuer: "https://auth.example.org/realms/apex",
				ClientID: "programs"}})
		response := asNobody(a)
		got := decode[pages.ResourceMetadata](t, response, 200)
		if kept := response.Header().Get("Cache-Control"); kept != "no-store" {
			t.Errorf("Cache-Control %q", kept)
		}
		if got.Resource != row.resource || len(got.Servers) != 1 ||
			got.Servers[0] != "https://auth.example.org/realms/apex" || got.ClientID != "programs" {
			t.Errorf("%+v", got)
		}
		a.Close()
	}
	a := New(Config{})
	defer a.Close()
	failed(t, asNobody(a), 404, "NOT_FOUND")
}

func asNobody(a API) *httptest.ResponseRecorder {
	return ask(a, "GET", "/.well-known/oauth-protected-resource", "", "Authorization", "")
}
