package openapi

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Register adds an operation. Its query is checked before handle is called, whose errors are translated by RefusalFor.
func Register[O any](a *Document, op huma.Operation, handle func(context.Context, *Request) (*O, error)) {
	huma.Register(a.API, op, func(ctx context.Context, in *Request) (*O, error) {
		address := in.HTTP.URL()
		if faults := CheckQuery(op.Parameters, address.RawQuery); len(faults) > 0 {
			return nil, a.AnswerFor(ctx, call.Invalid(faults))
		}
		limited, cancel := withDeadline[O](ctx)
		out, err := handle(limited, in)
		if err != nil && errors.Is(context.Cause(limited), facade.ErrTooSlow) {
			err = call.TooSlow
		}
		if err != nil {
			cancel()
			return nil, a.AnswerFor(ctx, err)
		}
		a.DatabaseAnswered(ctx, a.Health)
		return out, nil
	})
}

// withDeadline returns ctx with the deadline of a request. The deadline ends with the HTTP request, not when the
// handler returns, because a body may be written, and read from the database, after that.
func withDeadline[O any](ctx context.Context) (context.Context, context.CancelFunc) {
	if _, streamed := any(new(O)).(*huma.StreamResponse); streamed {
		return ctx, func() {}
	}
	return facade.WithDeadline(ctx)
}

// Request gives operations the raw HTTP request. They read it themselves because huma reports faults in another form
// than the contract.
type Request struct{ HTTP huma.Context }

// Resolve implements [huma.Resolver].
func (r *Request) Resolve(ctx huma.Context) []error {
	r.HTTP = ctx
	return nil
}

// Respond returns a response in JSON.
func (a *Document) Respond(status int, header map[string]string, v any) (*huma.StreamResponse, error) {
	text, err := dispatch.Encode(v)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) { a.Write(ctx, status, header, text) }}, nil
}

// Write writes a response whose body is a text of JSON.
func (a *Document) Write(ctx huma.Context, status int, header map[string]string, text []byte) {
	ctx.SetHeader("Content-Type", "application/json")
	for name, value := range header {
		ctx.SetHeader(name, value)
	}
	ctx.SetStatus(status)
	if _, err := ctx.BodyWriter().Write(text); err != nil {
		a.Log.DebugContext(ctx.Context(), "answer not written", "error", err)
	}
}
