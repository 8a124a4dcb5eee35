package client_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// world is a broker, without a database, before an openEO back-end and an OGC server that require no sign-in.
type world struct {
	*simulator.World
	url   string
	api   api.API
	close func()
}

func newWorld() (*world, error) {
	platforms, err := simulator.Start(simulator.Options{Seed: 1, Open: true})
	if err != nil {
		return nil, err
	}
	outside := upstream.New(upstream.Config{Development: true})
	limits := dispatch.Limits{Jobs: 100, Requests: 4, Send: 30 * time.Second, MinPoll: 50 * time.Millisecond}
	kept := conformance.NewMemStore(conformance.WallClock{})
	b := conformance.NewBroker(kept, noTokens{},
		&dispatch.Backend{Name: "simulated-openeo", Label: dispatch.OpenEO, Endpoint: platforms.OpenEOURL,
			Access: dispatch.AccessOpen, Limits: limits,
			Platform: openeo.New(openeo.Config{Name: "simulated-openeo", Endpoint: platforms.OpenEOURL,
				Client: outside})},
		&dispatch.Backend{Name: "simulated-ogc", Label: dispatch.OGCProcess, Endpoint: platforms.OGCURL,
			Access: dispatch.AccessOpen, Limits: limits,
			Platform: ogcapi.New(ogcapi.Config{Name: "simulated-ogc", Endpoint: platforms.OGCURL, Client: outside})})
	handler := api.New(api.Config{Broker: b, Verifier: anybody{}, Health: kept.Ping, Log: b.Log})
	server, stop := httptest.NewServer(handler), conformance.RunBroker(b)
	return &world{World: platforms, url: server.URL, api: handler, close: func() {
		stop()
		handler.Close()
		server.Close()
		_ = platforms.Close() // the process ends soon
	}}, nil
}

func start(t *testing.T) (*world, *client.Client) {
	t.Helper()
	w, err := newWorld()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w, w.client()
}

func (w *world) client() *client.Client {
	c, err := client.New(w.url, client.Options{Token: func(context.Context) (string, error) { return "a-token", nil }})
	if err != nil {
		panic(err) // the address is that of a test server
	}
	return c
}

// ndvi is a request for a job on the OGC server.
func (w *world) ndvi() wire.BaseJobRequest {
	return wire.BaseJobRequest{Title: "NDVI", Label: wire.OGCProcess, Format: "json",
		Service:    wire.ServiceChoice{Endpoint: w.OGCURL, Application: "ndvi"},
		Parameters: []byte(`{"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}}`)}
}

// tiled is a request for a task on the OGC server with a job for each of n boxes.
func (w *world) tiled(n int) wire.UpscalingTaskRequest {
	r := wire.UpscalingTaskRequest{BaseJobRequest: w.ndvi(), Dimension: &wire.ParameterDimension{Name: "bbox"}}
	r.Parameters = []byte(`{}`)
	for range n {
		r.Dimension.Values = append(r.Dimension.Values, []byte(`{"bbox": [5.05, 51.2, 5.15, 51.25]}`))
	}
	return r
}

type noTokens struct{}

func (noTokens) Token(context.Context, dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{}, nil
}
func (noTokens) Invalidate(dispatch.Account, dispatch.Token) {}

// anybody accepts every token.
type anybody struct{}

func (anybody) Verify(context.Context, dispatch.Secret) (identity.Caller, error) {
	return identity.Caller{User: "anna", Expires: time.Now().Add(time.Hour)}, nil
}

// openEO is a request for a job on the openEO back-end.
func (w *world) openEO() wire.BaseJobRequest {
	return wire.BaseJobRequest{Title: "composite", Label: wire.OpenEO, Format: "gtiff",
		Service: wire.ServiceChoice{Endpoint: w.OpenEOURL, Application: "ndvi_composite"},
		Parameters: []byte(
			`{"spatial_extent": {"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}, "temporal_extent": ["2024-06-01", "2024-07-01"]}`)}
}
