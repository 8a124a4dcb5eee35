package socket

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gobwas/ws"
)

// Requested reports whether a request asks for a WebSocket. Accept refuses one that asks in a wrong way.
func Requested(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

var errHasty = errors.New("the client sends before the response")

// Accept opens the WebSocket that a request asks for, with one of the protocols that it offers, or "". The caller must
// call Listen or Drop.
func Accept(w http.ResponseWriter, r *http.Request, protocol string) (*Socket, error) {
	upgrader := ws.HTTPUpgrader{Timeout: writeWithin, Header: w.Header(),
		Protocol: func(offered string) bool { return offered == protocol }}
	conn, buffered, _, err := upgrader.Upgrade(r, w)
	if err == nil && buffered.Reader.Buffered() > 0 {
		err = errHasty
	}
	if err != nil && conn != nil {
		_ = conn.Close()
	}
	if err != nil {
		return nil, err
	}
	return &Socket{conn: conn}, nil
}
