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

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// call is the state of one request. It is also the writer of its response.
type call struct {
	http.ResponseWriter
	id      string           // correlation id
	caller  identity.Caller  // zero: the caller is not known
	session identity.Session // of the caller's browser; zero: there is none
	address netip.Addr       // of the client
	status  int              // 0: no response yet
	facade  facade.Facade    // that serves the request; nil: the API does
	turn    *turn            // the request's place among those served at once; nil: the request is not counted
	streams bool             // it counts among the streams until its end
	atEnd   []func()         // release what the request holds until its end
}

// end releases what the request held.
func (c *call) end() {
	for _, release := range c.atEnd {
		release()
	}
	c.atEnd = nil
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

// Bytes of a stream's buffers. Clients send next to nothing; the message about a change of one job is sent at once.
const (
	heardBuffer = 128
	sentBuffer  = 768
)

// Hijack returns a connection with small buffers, because streams are many and their messages are few.
func (c *call) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil || buffers.Reader.Buffered() > 0 || buffers.Writer.Buffered() > 0 {
		return conn, buffers, err
	}
	return conn, bufio.NewReadWriter(bufio.NewReaderSize(conn, heardBuffer), bufio.NewWriterSize(conn, sentBuffer)), nil
}

// Unwrap lets [http.ResponseController] reach the connection.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

type callKey struct{}

// callIn returns the call that ctx belongs to, or an empty call outside a request.
func callIn(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// user returns the user who made the request.
func user(ctx context.Context) dispatch.UserID { return callIn(ctx).caller.User }

// CallerIn returns the caller of the request that ctx belongs to; zero outside a request.
func CallerIn(ctx context.Context) identity.Caller { return callIn(ctx).caller }

// dataPolicy is the Content-Security-Policy of responses that are not pages: a browser that shows one loads and runs
// nothing.
const dataPolicy = "default-src 'none'; frame-ancestors 'none'"

// track sets a request's correlation id and response headers, logs the request, and answers for a handler that panics.
func (a *api) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{ResponseWriter: w, id: correlationID(r), address: clientAddress(r, a.Proxies),
			facade: a.facadeAt(r.URL.Path)}
		h := w.Header()
		h.Set("X-Correlation-ID", c.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", dataPolicy)  // pages set their own
		if strings.HasPrefix(a.PublicURL, "https:") { // TLS ends before this process, so only the configured URL shows it
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		ctx, traced := a.Trace(r)
		r = r.WithContext(broker.WithIdle(context.WithValue(ctx, callKey{}, c), c.pauseTurn))
		if r.ContentLength != 0 { // the server reads a body to its end even if no handler wants it
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.Limits.BodyTime))
		}
		begin := time.Now()
		defer c.end()
		defer func() {
			broken := a.recoverPanic(c, r, recover())
			a.OnServed(routeOf(r), r.Method, c.status, time.Since(begin))
			level := slog.LevelInfo
			if routeOf(r) == "/health" && c.status < http.StatusInternalServerError {
				level = slog.LevelDebug // orchestrators and load balancers ask every few seconds
			}
			a.Log.LogAttrs(r.Context(), level, "request", slog.String("method", r.Method),
				slog.String("route", routeOf(r)), slog.Int("status", c.status), slog.Duration("duration", time.Since(begin)),
				slog.String("user", pseudonym(c.caller.User)), slog.Bool("broken", broken))
			traced(routeOf(r), c.status)
			if broken {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(c, r)
	})
}

// recoverPanic answers for a handler that panicked. If the response had begun, it returns broken: the connection must
// be cut, so that the client does not take a part for the whole.
func (a *api) recoverPanic(c *call, r *http.Request, panicked any) (broken bool) {
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

// correlationID returns the client's correlation id if it is safe to log, else a new one.
func correlationID(r *http.Request) string {
	if id := r.Header.Get("X-Correlation-ID"); id != "" && len(id) <= 64 && printable(id) {
		return id
	}
	return rand.Text()
}

// pseudonym returns a short hash, which distinguishes users in the log without naming them.
func pseudonym(u dispatch.UserID) string {
	if u == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(u))
	return hex.EncodeToString(sum[:8])
}

// routeOf returns the pattern that served r. Paths and queries are never logged because they may hold anything.
func routeOf(r *http.Request) string {
	_, route, _ := strings.Cut(r.Pattern, " ")
	return route
}

// route serves r, or answers 404 or 405 in JSON.
func (a *api) route(w http.ResponseWriter, r *http.Request) {
	handler, pattern := a.mux.Handler(r)
	if pattern == "" && len(r.URL.Path) > 1 && strings.HasSuffix(r.URL.Path, "/") {
		r.URL = withoutSlash(r.URL) // served as if without the slash: a redirect would make clients repeat a write
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

// withoutSlash returns u without the slash at the end of its path.
func withoutSlash(u *url.URL) *url.URL {
	v := *u
	v.Path, v.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	return &v
}

// unambiguous reports whether p is the canonical form of a path, so that the mux redirects nothing.
func unambiguous(p string) bool {
	return p == path.Clean(p) || strings.HasSuffix(p, "/") && p[:len(p)-1] == path.Clean(p)
}

// unrouted answers a request that no pattern matches. The mux knows whether the path or only the method is wrong.
func (a *api) unrouted(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	said := &discardBody{header: http.Header{}}
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
		message: "Method not allowed. Use " + strings.ReplaceAll(allow, ", ", " or ") + "."})
}

// discardBody records the status and headers of a response and drops its body.
type discardBody struct {
	header http.Header
	status int
}

func (v *discardBody) Header() http.Header         { return v.header }
func (v *discardBody) Write(b []byte) (int, error) { return len(b), nil }
func (v *discardBody) WriteHeader(status int)      { v.status = status }

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
