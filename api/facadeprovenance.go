package api

import (
	"context"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
)

func (s facadeServer) Provenance(ctx context.Context, r dispatch.Record) (any, error) {
	d, err := s.a.Broker.Document(ctx, call.User(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return s.a.provenanceOf(r, d), nil
}
