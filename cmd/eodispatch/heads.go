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
	mostHeads  = 4_000                  // connections that have not sent the whole head of a request yet; each costs about 22 KB
	headWithin = 250 * time.Millisecond // each of these has at least; an honest client sends its head within milliseconds
)

// heads bounds the connections that have not sent the whole head of their first request yet; a TLS handshake counts as part of
// it. When there are too many, the one that has waited longest is closed, after headWithin at the earliest: until then no more
// are accepted. Connections that sent one whole head are not counted here again.
type heads struct {
	most int

	mu      sync.Mutex
	waiting list.List // of head, the longest waiting first
	of      map[net.Conn]*list.Element
}

// head is a connection from which the head of a request is expected.
type head struct {
	net.Conn
	since time.Time
}

type headKey struct{}

// guard sets up a server so that most connections at once wait for the head of their first request. Call it before the server
// is used; it replaces ConnContext and ConnState.
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

// opened counts a connection, and closes the one that has waited longest if there are too many.
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

// close needs the lock.
func (h *heads) close(c net.Conn) {
	h.waiting.Remove(h.of[c])
	delete(h.of, c)
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn() // closing by TLS may wait for the client
	}
	_ = c.Close() // the server reports the end of the connection
}

// done ends the count of a connection. It may be repeated.
func (h *heads) done(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.of[c]; e != nil {
		h.waiting.Remove(e)
		delete(h.of, c)
	}
}
