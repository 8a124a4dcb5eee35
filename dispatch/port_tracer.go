package dispatch

import "context"

// Tracer connects what the broker does for a job with the request that accepted it. Its methods return at once, and are
// called from many goroutines.
type Tracer interface {
	// Traceparent returns the trace context of the request that ctx belongs to, in the form of the W3C's header; "":
	// the request is not traced.
	Traceparent(ctx context.Context) string
	// Step reports that a visit begins a request to a platform about these jobs. The request is sent with the context
	// that Step returns. end is called once, with what failed.
	Step(ctx context.Context, platform, op string, jobs []Job) (step context.Context, end func(error))
}

// Tracing returns the configured tracer, or one that does nothing.
func (s *Setup) Tracing() Tracer {
	if s.Tracer == nil {
		return untraced{}
	}
	return s.Tracer
}

type untraced struct{}

func (untraced) Traceparent(context.Context) string { return "" }

func (untraced) Step(ctx context.Context, _, _ string, _ []Job) (context.Context, func(error)) {
	return ctx, func(error) {}
}
