package dispatch

import (
	"context"
	"fmt"
)

// Base returns the URL below which the platform lists the job of a request, see Platform.Base. A process that was sent
// with the request belongs to the endpoint itself.
func (b *Backend) Base(r Request) (string, error) {
	if r.Process == nil {
		return b.Platform.Base(r.Service)
	}
	if _, can := b.Platform.(GraphRunner); !can {
		return "", &Error{Kind: Unsupported, Op: "dispatch.Accept",
			Text: "This platform runs named processes only, not process graphs."}
	}
	return "", nil
}

// Checker returns the Checker for the parameters of r, nil if the platform has none or the parameters are not to be
// checked.
func (b *Backend) Checker(r Request) Checker {
	c, can := b.Platform.(Checker)
	if !can || !r.Checked() && b.Access != AccessShared {
		return nil
	}
	return c
}

// TokenError returns err, or Misconfigured in place of SignInRequired where the token is the broker's and not the
// user's.
func (b *Backend) TokenError(err error) error {
	if b.Access == AccessUser || !Is(err, SignInRequired) {
		return err
	}
	return &Error{Kind: Misconfigured, Op: "dispatch.token",
		Text: "The platform rejected the broker's service-account token. The operator must check its configuration.",
		Err:  err}
}

// PermittedProcess checks a process that is sent with the token of an account that users share, as if it were to be
// run: to validate it, a platform may read what the process refers to.
func (b *Backend) PermittedProcess(ctx context.Context, process []byte) error {
	runner, can := b.Platform.(GraphRunner)
	if !can || b.Access != AccessShared {
		return nil
	}
	r := Request{Label: b.Label, Service: Service{Endpoint: b.Endpoint}, Process: process}.Complete()
	return runner.CheckGraph(ctx, r, nil)
}

// CheckEntitled returns Forbidden if the requesting user may not run jobs at the backend.
func (b *Backend) CheckEntitled(ctx context.Context) error {
	if b.Entitled == nil || b.Entitled(ctx) {
		return nil
	}
	return &Error{Kind: Forbidden, Op: "dispatch.admit",
		Text: fmt.Sprintf("You are not permitted to use %s. Ask the operator of this service.", b.Name)}
}
