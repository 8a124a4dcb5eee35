package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// dataPolicy is the Content-Security-Policy of responses that are not pages: a browser that shows one loads and runs
// nothing.
const dataPolicy = "default-src 'none'; frame-ancestors 'none'"

// track sets a request's correlation id and response headers, logs the request, and answers for a handler that panics.
func (a *api) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call.Call{ResponseWriter: w, ID: correlationID(r), Address: limits.ClientAddress(r, a.Proxies),
			Facade: a.facadeAt(r.URL.Path)}
		h := w.Header()
		h.Set("X-Correlation-ID", c.ID)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", dataPolicy) // pages set their own
		// TLS ends before this process, so only the configured URL shows it
		if strings.HasPrefix(a.PublicURL, "https:") {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		ctx, traced := a.Trace(r)
		r = r.WithContext(broker.WithIdle(call.With(ctx, c), c.PauseTurn))
		if r.ContentLength != 0 { // the server reads a body to its end even if no handler wants it
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.Limits.BodyTime))
		}
		begin := time.Now()
		defer c.End()
		defer func() {
			broken := a.recoverPanic(c, r, recover())
			a.OnServed(routeOf(r), r.Method, c.Status, time.Since(begin))
			level := slog.LevelInfo
			if routeOf(r) == "/health" && c.Status < http.StatusInternalServerError {
				level = slog.LevelDebug // orchestrators and load balancers ask every few seconds
			}
			a.Log.LogAttrs(r.Context(), level, "request", slog.String("method", r.Method),
				slog.String("route", routeOf(r)), slog.Int("status", c.Status),
				slog.Duration("duration", time.Since(begin)),
				slog.String("user", pseudonym(c.Caller.User)), slog.Bool("broken", broken))
			traced(routeOf(r), c.Status)
			if broken {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(c, r)
	})
}

// recoverPanic answers for a handler that panicked. If the response had begun, it returns broken: the connection must
// be cut, so that the client does not take a part for the whole.
func (a *api) recoverPanic(c *call.Call, r *http.Request, panicked any) (broken bool) {
	if panicked == nil {
		return false
	}
	if panicked != http.ErrAbortHandler {
		a.Log.ErrorContext(r.Context(), "panic", "value", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	}
	if c.Status != 0 || panicked == http.ErrAbortHandler {
		return true
	}
	a.Refuse(c, r,
		call.Refusal{Status: http.StatusInternalServerError, Code: "INTERNAL_ERROR", Message: call.InternalText})
	return false
}

// correlationID returns the client's correlation id if it is safe to log, else a new one.
func correlationID(r *http.Request) string {
	if id := r.Header.Get("X-Correlation-ID"); id != "" && len(id) <= 64 && openapi.Printable(id) {
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
		a.Refuse(w, r, call.ErrNoPath)
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

// unrouted answers a request that no pattern matches.
func (a *api) unrouted(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	allow, text := facade.Allowed(mux, r)
	if allow == "" {
		a.Refuse(w, r, call.ErrNoPath)
		return
	}
	w.Header().Set("Allow", allow+", OPTIONS")
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.Refuse(w, r, call.Refusal{Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Message: text})
}
