package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
)

// allowOrigins lets pages of the configured origins call the API, and answers their preflight requests (Fetch standard,
// CORS protocol). The origin * allows all; browsers then send no cookies or certificates.
func (a *api) allowOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
		switch {
		case a.listsOrigin(origin):
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
		case origin != "" && slices.Contains(a.CORSOrigins, "*"):
			h.Set("Access-Control-Allow-Origin", "*")
		case origin != "" && preflight:
			a.noteOrigin(r)
			a.Refuse(w, r, errForeignOrigin)
			return
		default:
			next.ServeHTTP(w, r)
			return
		}
		if !preflight {
			h.Set("Access-Control-Expose-Headers",
				"X-Correlation-ID, Location, Retry-After, WWW-Authenticate, Link, ETag, Preference-Applied")
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
		// a page that is allowed can send tokens; no other header lets it do more
		h.Set("Access-Control-Allow-Headers", strings.Join(r.Header.Values("Access-Control-Request-Headers"), ","))
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}

// listsOrigin reports whether the configuration lists an origin, or any port of its host.
func (a *api) listsOrigin(origin string) bool {
	if origin == "" || strings.Contains(origin, "*") {
		return false
	}
	if slices.Contains(a.CORSOrigins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && slices.Contains(a.CORSOrigins, u.Scheme+"://"+u.Hostname()+":*")
}

// errForeignOrigin is the response to pages of origins that are not configured. Browsers hide it from the page, but
// show it to its developer.
var errForeignOrigin = call.Refusal{Status: http.StatusForbidden, Code: "FORBIDDEN",
	Message: "Pages of this origin may not call this service. Its operator can allow the origin with " +
		"cors.allowed_origins (EODISPATCH_CORS_ALLOWED_ORIGINS or CORS_ALLOWED_ORIGINS)."}

// noteOrigin logs an origin whose page was refused, so that an operator learns what to allow.
func (a *api) noteOrigin(r *http.Request) {
	origin := r.Header.Get("Origin")
	origin = origin[:min(len(origin), 200)]
	if n := a.foreignOrigins.Count(origin, time.Now()); n > 0 {
		a.Log.InfoContext(r.Context(), "page refused: its origin is not in cors.allowed_origins",
			"origin", origin, "refused", n)
	}
}
