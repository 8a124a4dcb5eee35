package api

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// call is one request on its way, and the writer of its answer.
type call struct {
	http.ResponseWriter
	id      string          // correlation id
	caller  identity.Caller // zero: nobody is known
	address netip.Addr      // of the client
	status  int             // 0: no answer yet
	turn    *turn           // among the requests under way; nil: it is not counted
}

func (c *call) WriteHeader(status int) {
	if c.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *call) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

const streamBuffer = 512 // bytes, for each direction of a stream

// Hijack gives a connection with small buffers: streams are many, and say and hear little at a time.
func (c *call) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil || buffers.Reader.Buffered() > 0 || buffers.Writer.Buffered() > 0 {
		return conn, buffers, err
	}
	return conn, bufio.NewReadWriter(bufio.NewReaderSize(conn, streamBuffer), bufio.NewWriterSize(conn, streamBuffer)), nil
}

// Unwrap lets [http.ResponseController] reach the connection.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

type callKey struct{}

// callIn gives the call that ctx belongs to; outside a request an empty one.
func callIn(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// user is who makes the request.
func user(ctx context.Context) dispatch.UserID { return callIn(ctx).caller.User }

// CallerIn is whose request ctx belongs to, zero where it belongs to none.
func CallerIn(ctx context.Context) identity.Caller { return callIn(ctx).caller }

// dataPolicy is for answers that are no pages: should a browser show one, it loads and runs nothing.
const dataPolicy = "default-src 'none'; frame-ancestors 'none'"

// track gives each request its correlation id, its headers and its line in the log, and turns a panic into an answer.
func (a *api) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{ResponseWriter: w, id: correlationID(r), address: clientAddress(r, a.Proxies)}
		h := w.Header()
		h.Set("X-Correlation-ID", c.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", dataPolicy)  // pages set their own
		if strings.HasPrefix(a.PublicURL, "https:") { // TLS ends before us, so only the address tells
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		r = r.WithContext(dispatch.WithIdle(context.WithValue(r.Context(), callKey{}, c), c.idle))
		if r.ContentLength != 0 { // also for a body that nobody wants: the server reads it to its end
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.Limits.BodyTime))
		}
		begin := time.Now()
		defer func() {
			broken := a.mend(c, r, recover())
			a.Log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("method", r.Method),
				slog.String("route", routeOf(r)), slog.Int("status", c.status), slog.Duration("duration", time.Since(begin)),
				slog.String("user", pseudonym(c.caller.User)), slog.Bool("broken", broken))
			if broken {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(c, r)
	})
}

// mend answers for a handler that panicked. If an answer had begun it cannot be mended: broken, and the connection is to
// be cut, so that the client does not take a part for the whole.
func (a *api) mend(c *call, r *http.Request, panicked any) (broken bool) {
	if panicked == nil {
		return false
	}
	if panicked != http.ErrAbortHandler {
		a.Log.ErrorContext(r.Context(), "panic", "value", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	}
	if c.status != 0 || panicked == http.ErrAbortHandler {
		return true
	}
	a.refuse(c, r, refusal{status: http.StatusInternalServerError, code: "INTERNAL_ERROR", message: internalText})
	return false
}

// correlationID is the client's if it can stand in a log, else a new one.
func correlationID(r *http.Request) string {
	if id := r.Header.Get("X-Correlation-ID"); id != "" && len(id) <= 64 && printable(id) {
		return id
	}
	return rand.Text()
}

// pseudonym tells users apart in the log without naming them.
func pseudonym(u dispatch.UserID) string {
	if u == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(u))
	return hex.EncodeToString(sum[:8])
}

// routeOf gives the pattern that r was served by; never its path or query, which may hold anything.
func routeOf(r *http.Request) string {
	_, route, _ := strings.Cut(r.Pattern, " ")
	return route
}

// route serves r, or says in JSON that there is no such path or method.
func (a *api) route(w http.ResponseWriter, r *http.Request) {
	handler, pattern := a.mux.Handler(r)
	if pattern == "" && len(r.URL.Path) > 1 && strings.HasSuffix(r.URL.Path, "/") {
		r.URL = withoutSlash(r.URL) // answered as without, so that no client has to repeat a write
		handler, pattern = a.mux.Handler(r)
	}
	switch {
	case pattern != "" && unambiguous(r.URL.Path):
		a.mux.ServeHTTP(w, r)
	case pattern != "":
		a.refuse(w, r, errNoPath)
	default:
		a.unrouted(w, r, handler)
	}
}

// withoutSlash is an address without the slash at the end of its path.
func withoutSlash(u *url.URL) *url.URL {
	v := *u
	v.Path, v.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	return &v
}

// unambiguous reports whether a path is written in the one way that is served, so that nothing is redirected.
func unambiguous(p string) bool {
	return p == path.Clean(p) || strings.HasSuffix(p, "/") && p[:len(p)-1] == path.Clean(p)
}

// unrouted translates what the mux says about a request that it has no handler for.
func (a *api) unrouted(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	said := &verdict{header: http.Header{}}
	mux.ServeHTTP(said, r)
	allow := said.header.Get("Allow")
	if said.status != http.StatusMethodNotAllowed {
		a.refuse(w, r, errNoPath)
		return
	}
	w.Header().Set("Allow", allow+", OPTIONS")
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.refuse(w, r, refusal{status: http.StatusMethodNotAllowed, code: "METHOD_NOT_ALLOWED",
		message: "This address knows " + allow + "."})
}

// verdict keeps the head of an answer and drops its body.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) Write(b []byte) (int, error) { return len(b), nil }
func (v *verdict) WriteHeader(status int)      { v.status = status }

// LogHandler adds the correlation id of the request, where there is one, to each line that is logged with its context, and
// the client's address to audits.
func LogHandler(h slog.Handler) slog.Handler {
	if _, ok := h.(correlated); ok {
		return h
	}
	return correlated{h}
}

type correlated struct{ slog.Handler }

func (h correlated) Handle(ctx context.Context, r slog.Record) error {
	if c := callIn(ctx); c.id != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("correlation_id", c.id))
		if r.Message == "audit" {
			r.AddAttrs(slog.String("address", c.address.String()))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{h.Handler.WithAttrs(attrs)}
}
func (h correlated) WithGroup(name string) slog.Handler { return correlated{h.Handler.WithGroup(name)} }
