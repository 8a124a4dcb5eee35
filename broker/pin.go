package broker

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
)

// pin returns what the request is pinned to, see [dispatch.Pinner].
func (b *Broker) pin(ctx context.Context, u dispatch.UserID, backend *dispatch.Backend, r dispatch.Request,
	d *dispatch.Dimension, document *dispatch.Document) (string, error) {
	// a process that was sent is a part of the request
	if r.Process != nil || !r.MustPin() && (document == nil || !r.MayPin(d)) {
		return "", nil
	}
	pinner, can := backend.Platform.(dispatch.Pinner)
	if !can {
		if r.MustPin() {
			return "", dispatch.InvalidBody("dispatch.pin",
				"This platform cannot pin services to their current definition. Leave out the option pin.", "options",
				dispatch.OptionPin)
		}
		return "", nil
	}
	if document != nil && (!utf8.Valid(document.Body) || bytes.IndexByte(document.Body, 0) >= 0) {
		document = nil // databases do not keep it byte for byte
	}
	ctx, cancel := context.WithTimeout(ctx, dispatch.CheckWithin)
	defer cancel()
	pin, err := withTokenIfAsked(ctx, b, u, backend, func(ctx context.Context, t dispatch.Token) (string, error) {
		return pinner.Pin(ctx, t, r, d, document)
	})
	if err != nil && !r.MustPin() {
		return "", nil
	}
	return pin, err
}
