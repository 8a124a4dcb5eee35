package api

import (
	"net/http"
	"slices"
)

// allowOrigins lets pages of the configured origins call the API, and answers their preflight requests (Fetch standard,
// CORS protocol). The origin * allows all; browsers then send no cookies or certificates.
func (a *api) allowOrigins(next http.Handler) http.Handler {
	everybody := slices.Contains(a.CORSOrigins, "*")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		switch {
		case origin != "" && origin != "*" && slices.Contains(a.CORSOrigins, origin):
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
		case origin != "" && everybody:
			h.Set("Access-Control-Allow-Origin", "*")
		default:
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			h.Set("Access-Control-Expose-Headers", "X-Correlation-ID, Location, Retry-After, WWW-Authenticate, Link, ETag, Preference-Applied")
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-None-Match, Prefer, X-Correlation-ID")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}
