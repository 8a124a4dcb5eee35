package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Server gives h the limits that keep slow and greedy clients from holding connections: for the head of a request, for
// an answer, and between requests. The handler itself sets those for bodies and streams.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      2*time.Minute + 2*turnOfRequest, // for waiting, and for the answer
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
