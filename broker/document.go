package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Definition returns the document that defines a service now; nil if its platform keeps the service itself.
func (b *Broker) Definition(ctx context.Context, u dispatch.UserID, s dispatch.Service, l dispatch.Label) ([]byte,
	error) {
	backend, err := b.Backend(s, l)
	if err != nil {
		return nil, err
	}
	documenter, can := backend.Platform.(dispatch.Documenter)
	if !can {
		return nil, nil
	}
	defer idleIfSlow(ctx)()
	if err := b.AwaitDocument(ctx, backend, u, s); err != nil {
		return nil, err
	}
	return documenter.Document(ctx, s)
}

// Document returns the document that defined the service of a job when it was accepted; nil if none was stored.
func (b *Broker) Document(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (*dispatch.Document, error) {
	r, err := b.Records.Record(ctx, u, id)
	if err != nil {
		return nil, err
	}
	body, err := b.Records.Document(ctx, u, id)
	if err != nil || body == nil {
		return nil, err
	}
	return &dispatch.Document{Origin: dispatch.Origin{Platform: r.Account.Platform(), Service: r.Request.Service},
		Body: body}, nil
}
