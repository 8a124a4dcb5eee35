package socket

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gobwas/ws"
)

// Requested reports whether a request asks for a WebSocket as RFC 6455 prescribes (section 4.2.1). Others must be
// answered before Accept, which can only cut the connection.
func Requested(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor >= 1 && r.ContentLength == 0 &&
		lists(r.Header, "Upgrade", "websocket") && lists(r.Header, "Connection", "upgrade") &&
		r.Header.Get("Sec-WebSocket-Version") == "13" && len(r.Header.Get("Sec-WebSocket-Key")) == keySize
}

const keySize = 24 // characters of 16 bytes in base64

// lists reports whether one of the lines of a header names a word.
func lists(h http.Header, name, word string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(h.Values(name), ","), ","),
		func(listed string) bool { return strings.EqualFold(strings.TrimSpace(listed), word) })
}

var errHasty = errors.New("the client sends before the response")

// Accept opens the WebSocket that a request asks for, with one of the protocols that it offers, or "". The caller must
// call Listen or Drop.
func Accept(w http.ResponseWriter, r *http.Request, protocol string) (*Socket, error) {
	if protocol != "" {
		w.Header().Set("Sec-WebSocket-Protocol", protocol)
	}
	r.Header.Set("Upgrade", "websocket") // the library reads one line
	r.Header.Set("Connection", "Upgrade")
	conn, buffered, _, err := ws.HTTPUpgrader{Timeout: writeWithin, Header: w.Header()}.Upgrade(r, w)
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
