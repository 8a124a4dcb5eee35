package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// A redirect to another port of the same host would take the token along.
func TestClient_SendsNothingToTheTargetOfARedirect(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer other.Close()
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer broker.Close()
	w, err := client.New(broker.URL, client.Options{Token: func(context.Context) (string, error) {
		return "a-token", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, requested := w.Usage(t.Context())
	_, submitted := w.Submit(t.Context(), wire.BaseJobRequest{}, "")
	var watched error
	for _, err := range w.WatchTask(t.Context(), 1) {
		watched = err
	}
	for name, err := range map[string]error{"a request": requested, "a submission": submitted, "a stream": watched} {
		if !client.IsCode(err, client.NotABroker) || !strings.Contains(err.Error(), "redirects to \""+other.URL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if reached.Load() {
		t.Error("the target of the redirect was called")
	}
}
