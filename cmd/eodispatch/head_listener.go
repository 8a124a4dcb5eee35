package main

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	// connections whose client has not sent the head of a request yet; each costs about 6 KB
	mostQuiet   = 12_000
	quietWithin = 10 * time.Second // that a client has for the head
	firstHead   = 4 << 10          // bytes; a longer head is read by the server
)

// headListener gives connections only once their client has sent the head of a request, so that many slow clients cost
// neither the buffers of the server nor a place among limits.connections. When there are too many, the one that has
// waited longest is closed, see [heads].
type headListener struct {
	net.Listener
	whole  func(begun []byte) bool // reports whether the server can go on with what was read
	quiet  heads
	places chan struct{}
	ready  chan net.Conn
	failed chan error
	ended  chan struct{}
	end    func()
}

// newHeadListener takes over a listener. most is how many connections may wait at once.
func newHeadListener(l net.Listener, most int, whole func([]byte) bool) *headListener {
	h := &headListener{Listener: l, whole: whole, quiet: heads{most: most}, places: make(chan struct{}, most+1),
		ready: make(chan net.Conn), failed: make(chan error), ended: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.ended) })
	go h.run()
	return h
}

// Accept implements [net.Listener].
func (h *headListener) Accept() (net.Conn, error) {
	select {
	case c := <-h.ready:
		return c, nil
	case err := <-h.failed:
		return nil, err
	case <-h.ended:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. Connections that wait are closed within quietWithin.
func (h *headListener) Close() error {
	h.end()
	return h.Listener.Close()
}

// run accepts connections until Close. After an error it waits for the next Accept, whose caller knows how long to
// wait.
func (h *headListener) run() {
	for {
		select {
		case h.places <- struct{}{}:
		case <-h.ended:
			return
		}
		c, err := h.Listener.Accept()
		if err == nil {
			h.quiet.opened(c)
			go h.await(c)
			continue
		}
		<-h.places
		select {
		case h.failed <- err:
		case <-h.ended:
			return
		}
	}
}

// await gives a connection to Accept once enough was read from it.
func (h *headListener) await(c net.Conn) {
	defer func() { <-h.places }()
	begun, err := h.read(c)
	h.quiet.done(c)
	if err != nil {
		c.Close()
		return
	}
	select {
	case h.ready <- &begunConn{c, begun}:
	case <-h.ended:
		c.Close()
	}
}

func (h *headListener) read(c net.Conn) (begun []byte, err error) {
	if err := c.SetReadDeadline(time.Now().Add(quietWithin)); err != nil {
		return nil, err
	}
	begun = make([]byte, 0, firstHead/8)
	for !h.whole(begun) && len(begun) < firstHead {
		if len(begun) == cap(begun) {
			begun = append(make([]byte, 0, firstHead), begun...)
		}
		n, err := c.Read(begun[len(begun):cap(begun)])
		if begun = begun[:len(begun)+n]; err != nil {
			return nil, err
		}
	}
	return begun, c.SetReadDeadline(time.Time{})
}

// begunConn is a connection of which some was read.
type begunConn struct {
	net.Conn
	begun []byte
}

// Read implements [io.Reader].
func (b *begunConn) Read(p []byte) (int, error) {
	if len(b.begun) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.begun)
	if b.begun = b.begun[n:]; len(b.begun) == 0 {
		b.begun = nil
	}
	return n, nil
}

const handshake = 22 // the first byte of a record of TLS with which a client begins

// wholeHead reports whether the head of a request in plain text has ended. The server answers clients that speak TLS at
// once.
func wholeHead(begun []byte) bool {
	return len(begun) > 0 && begun[0] == handshake || bytes.Contains(begun, []byte("\r\n\r\n")) ||
		bytes.Contains(begun, []byte("\n\n"))
}

// wholeRecord reports whether the first record of TLS is whole: a type, a version, the length of the rest in two bytes,
// the rest. The server answers clients that speak plain text at once.
func wholeRecord(begun []byte) bool {
	return len(begun) > 0 && begun[0] != handshake || len(begun) >= 5 && len(begun)-5 >= int(begun[3])<<8+int(begun[4])
}
