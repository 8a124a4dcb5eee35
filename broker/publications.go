package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Published returns a document that a platform publishes. The user need not be signed in to the platform if the
// document is public there. User "", who has not signed in, gets no others.
func (b *Broker) Published(ctx context.Context, u dispatch.UserID, platform, path string) (dispatch.Publication,
	error) {
	backend, publisher, err := b.publisher(platform)
	if err != nil {
		return dispatch.Publication{}, err
	}
	return callOpenly(ctx, b, u, backend, func(ctx context.Context, t dispatch.Token) (dispatch.Publication, error) {
		return publisher.Published(ctx, t, path)
	})
}

func (b *Broker) publisher(platform string) (*dispatch.Backend, dispatch.Publisher, error) {
	backend := b.BackendNamed(platform)
	if backend == nil {
		return nil, nil, &dispatch.Error{Kind: dispatch.NotFound, Op: "dispatch.publisher",
			Text: "There is no such platform."}
	}
	publisher, can := backend.Platform.(dispatch.Publisher)
	if !can {
		return nil, nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.publisher",
			Text: "This platform does not publish what it offers, and validates no process graphs."}
	}
	return backend, publisher, nil
}

// Validate returns what a platform says about a process, which it does not run: a JSON object with the member errors.
// For user "", who has not signed in, the platform is asked without a token.
func (b *Broker) Validate(ctx context.Context, u dispatch.UserID, platform string, process []byte) ([]byte, error) {
	backend, v, err := b.publisher(platform)
	if err != nil {
		return nil, err
	}
	if u == "" {
		return b.validateOpenly(ctx, backend, v, process)
	}
	if err := backend.CheckEntitled(ctx); err != nil {
		return nil, err
	}
	if err := backend.PermittedProcess(ctx, process); err != nil {
		return nil, err
	}
	return call(ctx, b, u, backend.Account(u), func(ctx context.Context, _ dispatch.Platform, t dispatch.Token) ([]byte,
		error) {
		return v.Validate(ctx, t, process)
	})
}

// validateOpenly validates a process without a token. All strangers together have the limit of one user.
func (b *Broker) validateOpenly(ctx context.Context, backend *dispatch.Backend, v dispatch.Publisher,
	process []byte) ([]byte, error) {
	defer idle(ctx)()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	release, err := b.limits.acquire(ctx, "calls of "+backend.Name+"/", callsOfUser)
	if err != nil {
		return nil, err
	}
	defer release()
	return v.Validate(ctx, dispatch.Token{}, process)
}
