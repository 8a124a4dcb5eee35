package ogcapi

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// OpenFile implements [dispatch.FileOpener].
func (p *Platform) OpenFile(ctx context.Context, t dispatch.Token, r dispatch.FileRequest) (*dispatch.File, error) {
	a, err := p.client.Relay(ctx, upstream.Relay{Op: "ogcapi.OpenFile", Head: r.Head, URL: r.URL, Token: t.Secret,
		Origin: p.endpoint.Origin, Header: r.Header})
	if err != nil {
		return nil, err
	}
	return &dispatch.File{Status: a.Status, Header: a.Header, Body: a.Stream}, nil
}
