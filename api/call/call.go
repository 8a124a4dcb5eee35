package call

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// Call is the state of one request. It is also the writer of its response.
type Call struct {
	http.ResponseWriter
	ID      string           // correlation id
	Caller  identity.Caller  // zero: the caller is not known
	Session identity.Session // of the caller's browser; zero: there is none
	Address netip.Addr       // of the client
	Status  int              // 0: no response yet
	Facade  facade.Facade    // that serves the request; nil: the API does
	Turn    *turn            // the request's place among those served at once; nil: the request is not counted
	Streams bool             // it counts among the streams until its end
	AtEnd   []func()         // release what the request holds until its end
}

// End releases what the request held.
func (c *Call) End() {
	for _, release := range c.AtEnd {
		release()
	}
	c.AtEnd = nil
}

func (c *Call) WriteHeader(status int) {
	if c.Status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		c.Status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *Call) Write(b []byte) (int, error) {
	if c.Status == 0 {
		c.Status = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (c *Call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

type callKey struct{}

// In returns the call that ctx belongs to, or an empty call outside a request.
func In(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}

// With returns ctx as the context of a call.
func With(ctx context.Context, c *Call) context.Context { return context.WithValue(ctx, callKey{}, c) }

// User returns the user who made the request.
func User(ctx context.Context) dispatch.UserID { return In(ctx).Caller.User }

// LogHandler returns h with the correlation id of the request added to each line that is logged with a request's
// context, and the client's address added to audit lines.
func LogHandler(h slog.Handler) slog.Handler {
	if _, ok := h.(correlated); ok {
		return h
	}
	return correlated{h}
}

type correlated struct{ slog.Handler }

func (h correlated) Handle(ctx context.Context, r slog.Record) error {
	if c := In(ctx); c.ID != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("correlation_id", c.ID))
		if r.Message == "audit" {
			r.AddAttrs(slog.String("address", c.Address.String()))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{h.Handler.WithAttrs(attrs)}
}
func (h correlated) WithGroup(name string) slog.Handler { return correlated{h.Handler.WithGroup(name)} }
