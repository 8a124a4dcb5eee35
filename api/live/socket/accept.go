package socket

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Requested reports whether a request asks for a WebSocket that Accept can open (RFC 6455, section 4.2.1).
func Requested(r *http.Request) bool {
	keys := r.Header.Values("Sec-WebSocket-Key")
	if len(keys) != 1 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(keys[0])
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor > 0 && err == nil && len(key) == 16 &&
		lists(r.Header, "Connection", "upgrade") && lists(r.Header, "Upgrade", "websocket") &&
		r.Header.Get("Sec-WebSocket-Version") == "13"
}

func lists(h http.Header, name, token string) bool {
	for one := range strings.SplitSeq(strings.Join(h.Values(name), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(one), token) {
			return true
		}
	}
	return false
}

var errHasty = errors.New("the client sends before the response")

// Accept opens the WebSocket that a request asks for, with one of the protocols that it offers, or "". The caller must
// call Listen or Drop.
func Accept(w http.ResponseWriter, r *http.Request, protocol string) (*Socket, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	s := &Socket{conn: conn}
	if buffered.Reader.Buffered() > 0 {
		s.Drop()
		return nil, errHasty
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	header := w.Header()
	header.Set("Upgrade", "websocket")
	header.Set("Connection", "Upgrade")
	header.Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
	if protocol != "" {
		header.Set("Sec-WebSocket-Protocol", protocol)
	}
	var response bytes.Buffer
	response.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = header.Write(&response) // cannot fail in memory
	response.WriteString("\r\n")
	_ = conn.SetWriteDeadline(time.Now().Add(writeWithin)) // fails if the connection is closed, as writing does
	if _, err := conn.Write(response.Bytes()); err != nil {
		s.Drop()
		return nil, err
	}
	return s, nil
}
