// Package tracing records what the broker does as traces of OpenTelemetry, and sends them to a receiver by OTLP over
// HTTP: a trace for each request of a client, with its statements and its requests to platforms, and one for each
// visit, whose steps are linked to the requests that accepted their jobs.
//
// A span names no user, no parameter and no token, and of a URL it has no query.
package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Tracing records spans. A nil *Tracing records nothing.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	incoming bool
}

// header reads and writes the headers traceparent and tracestate.
var header propagation.TraceContext

func ignore(error) {}

// begin begins a span of what ctx belongs to. If that is not recorded, neither is the span.
func (t *Tracing) begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context,
	func(error)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, ignore
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	return ctx, func(err error) { end(span, err) }
}

// end ends a span. Of an error it has the kind only: texts may be those of platforms and of users.
func end(span trace.Span, err error) {
	if err != nil {
		kind := dispatch.KindOf(err).String()
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, kind)
	}
	span.End()
}

// Request begins the span of a client's request. The function that it returns ends it. A WebSocket has none: it may
// last for days.
func (t *Tracing) Request(r *http.Request) (context.Context, func(route string, status int)) {
	if t == nil || r.Header.Get("Upgrade") != "" {
		return r.Context(), func(string, int) {}
	}
	ctx, method := r.Context(), methodOf(r)
	if t.incoming {
		ctx = header.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	ctx, span := t.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", method)))
	return ctx, func(route string, status int) {
		if route != "" {
			span.SetName(method + " " + route)
			span.SetAttributes(attribute.String("http.route", route))
		}
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
		span.End()
	}
}

// methodOf returns the method of a request, which a client can choose, if it is one of HTTP's.
func methodOf(r *http.Request) string {
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, r.Method) {
		return r.Method
	}
	return "HTTP"
}

// Statements returns what the store is to call with its transactions and statements. system is the kind of the
// database: sqlite or postgresql.
func (t *Tracing) Statements(system string) func(context.Context, string) (context.Context, func(error)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, name string) (context.Context, func(error)) {
		return t.begin(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(attribute.String("db.system.name", system),
				attribute.String("db.operation.name", name)))
	}
}

// Visits returns visit with a trace for each call.
func (t *Tracing) Visits(visit func(context.Context, dispatch.Lease) error) func(context.Context,
	dispatch.Lease) error {
	if t == nil {
		return visit
	}
	return func(ctx context.Context, l dispatch.Lease) (err error) {
		ctx, span := t.tracer.Start(ctx, "visit "+l.Account.Platform(), trace.WithNewRoot(),
			trace.WithAttributes(platformIs(l.Account.Platform())))
		ended := false
		defer func() {
			if !ended {
				span.SetStatus(codes.Error, "panic")
				span.End()
			}
		}()
		err = visit(ctx, l)
		ended = true
		end(span, err)
		return err
	}
}

func platformIs(name string) attribute.KeyValue { return attribute.String("eodispatch.platform", name) }

// Traceparent implements [dispatch.Tracer].
func (t *Tracing) Traceparent(ctx context.Context) string {
	if t == nil {
		return ""
	}
	to := propagation.MapCarrier{}
	header.Inject(ctx, to)
	return to["traceparent"]
}

// Step implements [dispatch.Tracer]. A step is a part of its visit, and linked with the requests that accepted its
// jobs.
func (t *Tracing) Step(ctx context.Context, platform, op string, jobs []dispatch.Job) (context.Context, func(error)) {
	if t == nil {
		return ctx, ignore
	}
	attributes := []attribute.KeyValue{platformIs(platform), attribute.Int("eodispatch.jobs", len(jobs))}
	if len(jobs) == 1 {
		attributes = append(attributes, attribute.Int64("eodispatch.job", int64(jobs[0].ID)))
	}
	return t.begin(ctx, op+" "+platform, trace.WithLinks(linksOf(jobs)...), trace.WithAttributes(attributes...))
}

// mostLinks is how many links a span has. The SDK keeps 128 of each.
const mostLinks = 100

// linksOf returns links with the requests that accepted jobs, with each once.
func linksOf(jobs []dispatch.Job) (links []trace.Link) {
	seen := map[string]bool{"": true}
	for _, j := range jobs {
		if seen[j.Traceparent] || len(links) == mostLinks {
			continue
		}
		seen[j.Traceparent] = true
		ctx := header.Extract(context.Background(), propagation.MapCarrier{"traceparent": j.Traceparent})
		if parent := trace.SpanContextFromContext(ctx); parent.IsValid() {
			links = append(links, trace.Link{SpanContext: parent})
		}
	}
	return links
}

// Outgoing returns what a client is to call with its requests: it records those that belong to what is recorded. Those
// for which passesOn returns true are sent with the trace context. Paths may hold secrets, such as those of signed
// links, so the host alone is recorded.
func (t *Tracing) Outgoing(passesOn func(*url.URL) bool) func(context.Context, string, *http.Request) (context.Context,
	func(*http.Response, error)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, op string, r *http.Request) (context.Context, func(*http.Response, error)) {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return ctx, func(*http.Response, error) {}
		}
		ctx, span := t.tracer.Start(ctx, op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Hostname()),
			attribute.String("url.scheme", r.URL.Scheme)))
		if passesOn(r.URL) {
			header.Inject(ctx, propagation.HeaderCarrier(r.Header))
		}
		return ctx, func(response *http.Response, err error) { answered(span, response, err) }
	}
}

// answered ends the span of a request with the header of its response.
func answered(span trace.Span, response *http.Response, err error) {
	switch {
	case err != nil:
		span.SetStatus(codes.Error, "no response")
	case response.StatusCode >= http.StatusBadRequest:
		span.SetStatus(codes.Error, http.StatusText(response.StatusCode))
		fallthrough
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	}
	span.End()
}

// LogHandler returns h with the trace and the span added to each line that is logged with a context that belongs to
// one.
func (t *Tracing) LogHandler(h slog.Handler) slog.Handler {
	if t == nil {
		return h
	}
	return logHandler{h}
}

type logHandler struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if parent := trace.SpanContextFromContext(ctx); parent.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", parent.TraceID().String()), slog.String("span_id", parent.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
