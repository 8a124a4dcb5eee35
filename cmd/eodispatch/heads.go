package main

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	mostHeads  = 4_000                  // connections whose first request head is incomplete; each costs about 22 KB
	headWithin = 250 * time.Millisecond // minimum time for a head; an honest client sends it within milliseconds
)

// heads bounds the connections whose first request head is incomplete; a TLS handshake counts as part of it. Above the
// bound, the connection that has waited longest is closed, but not before headWithin; until then no more connections
// are accepted. A connection that has sent one whole head is not counted again.
type heads struct {
	most int

	mu      sync.Mutex
	waiting list.List // of head, longest waiting first
	of      map[net.Conn]*list.Element
}

// head is a connection whose first request head is incomplete.
type head struct {
	net.Conn
	since time.Time
}

type headKey struct{}

// guard bounds a server to h.most connections that wait for their first request head. Call it before the server is
// used; it replaces ConnContext and ConnState.
func (h *heads) guard(s *http.Server) {
	handler := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		h.opened(c)
		return context.WithValue(ctx, headKey{}, c)
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateIdle, http.StateHijacked, http.StateClosed:
			h.done(c)
		}
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(headKey{}).(net.Conn); ok {
			h.done(c)
		}
		handler.ServeHTTP(w, r)
	})
}

// opened counts a connection and, above the bound, closes the one that has waited longest.
func (h *heads) opened(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[net.Conn]*list.Element{}
	}
	h.of[c] = h.waiting.PushBack(head{c, time.Now()})
	for h.waiting.Len() > h.most {
		oldest := h.waiting.Front().Value.(head)
		early := headWithin - time.Since(oldest.since)
		if early <= 0 {
			h.close(oldest.Conn)
			return
		}
		h.mu.Unlock()
		time.Sleep(early)
		h.mu.Lock()
	}
}

// close needs h.mu.
func (h *heads) close(c net.Conn) {
	h.waiting.Remove(h.of[c])
	delete(h.of, c)
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn() // closing at the TLS level may wait for the client
	}
	_ = c.Close() // the server reports the end of the connection
}

// done ends the count of a connection. It may be called again.
func (h *heads) done(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.of[c]; e != nil {
		h.waiting.Remove(e)
		delete(h.of, c)
	}
}
