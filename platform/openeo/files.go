package openeo

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// OpenFile implements [dispatch.FileOpener].
func (p *Platform) OpenFile(ctx context.Context, t dispatch.Token, r dispatch.FileRequest) (*dispatch.File, error) {
	bearer, err := p.bearer(ctx, t)
	if err != nil {
		return nil, err
	}
	a, err := p.client.Relay(ctx, upstream.Relay{Op: "openeo.OpenFile", Head: r.Head, URL: r.URL, Token: bearer,
		Origin: p.endpoint, Header: r.Header})
	if err != nil {
		return nil, err
	}
	return &dispatch.File{Status: a.Status, Header: a.Header, Body: a.Stream}, nil
}
