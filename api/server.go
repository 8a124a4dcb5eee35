package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
)

// Server returns a server for h whose limits keep slow clients from holding connections: for request headers (10 s),
// for responses, and for idle connections (2 min). The handler itself bounds request bodies and streams.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		// for a request that waits for its turn twice, and for its response
		WriteTimeout:   2*time.Minute + 2*call.TurnOfRequest,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
