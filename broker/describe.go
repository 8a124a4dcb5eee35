package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Formats returns the output formats of a service; none if its platform does not list them. User "", who has not signed
// in, gets those that are public.
func (b *Broker) Formats(ctx context.Context, u dispatch.UserID, s dispatch.Service,
	l dispatch.Label) ([]dispatch.OutputFormat, error) {
	backend, err := b.Backend(s, l)
	if err != nil {
		return nil, err
	}
	f, can := backend.Platform.(dispatch.Formatter)
	if !can {
		return nil, nil
	}
	return callOpenly(ctx, b, u, backend, func(ctx context.Context, t dispatch.Token) ([]dispatch.OutputFormat, error) {
		return f.Formats(ctx, t, s)
	})
}

// Parameters returns the parameters of a service, in the order of its document. If the document is public at the
// platform, the user need not be signed in there. User "", who has not signed in, gets no others.
func (b *Broker) Parameters(ctx context.Context, u dispatch.UserID, s dispatch.Service,
	l dispatch.Label) ([]dispatch.Parameter, error) {
	backend, err := b.Backend(s, l)
	if err != nil {
		return nil, err
	}
	if _, err := backend.Platform.Base(s); err != nil {
		return nil, err
	}
	describer, can := backend.Platform.(dispatch.Describer)
	if !can {
		return nil, &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.Parameters",
			Text: "This platform does not describe its services."}
	}
	defer idleIfSlow(ctx)()
	if err := b.AwaitDocument(ctx, backend, u, s); err != nil {
		return nil, err
	}
	return callOpenly(ctx, b, u, backend, func(ctx context.Context, t dispatch.Token) ([]dispatch.Parameter, error) {
		return describer.Parameters(ctx, t, s)
	})
}

// notChecked is the warning for a request whose parameters could not be checked within CheckWithin.
const notChecked = "The parameters were not checked when the request was accepted, because the description of the " +
	"service could not be read, or their check not be completed, in time. " +
	"They are checked when the job is submitted to the platform; parts that the broker cannot check are then not " +
	"reported."

// check returns an error if a request is wrong, and a warning if it could not be checked completely within CheckWithin.
// The error is Invalid or DocumentInvalid, or Unsupported if the platform cannot run it.
func (b *Broker) check(ctx context.Context, u dispatch.UserID, backend *dispatch.Backend, r dispatch.Request,
	d *dispatch.Dimension) (warning string, err error) {
	checker := backend.Checker(r)
	if checker == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, dispatch.CheckWithin)
	defer cancel()
	warning, err = withTokenIfAsked(ctx, b, u, backend, func(ctx context.Context, t dispatch.Token) (string, error) {
		return checker.Check(ctx, t, r, d)
	})
	switch dispatch.KindOf(err) {
	case dispatch.Invalid, dispatch.DocumentInvalid, dispatch.Unsupported:
		return warning, err
	case dispatch.NotFound:
		// no job is concerned
		e := dispatch.InvalidBody("dispatch.check", dispatch.TextFor(err), "service", "application")
		e.Err = err
		return "", e
	}
	if err != nil {
		return notChecked, nil
	}
	return warning, nil
}
