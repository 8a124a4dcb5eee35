package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api"
)

// dial returns the client's end of a new connection.
func (p pipes) dial(t *testing.T) net.Conn {
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close() })
	p <- server
	synctest.Wait()
	return client
}

// guarded starts the program's server with a bound of two heads.
func guarded(t *testing.T, secure bool) (pipes, *heads) {
	p, h := make(pipes), &heads{most: 2}
	server := api.Server(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), slog.New(slog.DiscardHandler))
	h.guard(server)
	var listener net.Listener = p
	if secure {
		listener = tls.NewListener(p, &tls.Config{})
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return p, h
}

// open reports whether a connection without pending data is open.
func open(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// TestHeads_TheLongestWaitingIsClosed: more connections than the bound have not sent a complete head, in plain text or
// by TLS.
func TestHeads_TheLongestWaitingIsClosed(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := guarded(t, secure)
				var all []net.Conn
				begun := time.Now()
				for i := range 4 {
					c := p.dial(t)
					all = append(all, c)
					if !secure {
						fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: %d", i)
					}
				}
				if took := time.Since(begun); took != headWithin {
					t.Errorf("the first was closed after %v, want %v", took, headWithin)
				}
				time.Sleep(time.Second)
				for i, c := range all {
					if got, want := open(c), i >= 2; got != want {
						t.Errorf("connection %d of 4 is open: %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

// TestHeads_WhoSentAHeadStays: a connection that has sent a complete head is not closed for others, and ended ones are
// forgotten.
func TestHeads_WhoSentAHeadStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := guarded(t, false)
		honest := p.dial(t)
		answer := bufio.NewReader(honest)
		get := func() {
			fmt.Fprint(honest, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if r, err := http.ReadResponse(answer, nil); err != nil || r.StatusCode != http.StatusOK {
				t.Fatal(r, err)
			}
		}
		get()
		for range 5 {
			p.dial(t)
		}
		get()
		time.Sleep(time.Minute) // the server closes connections that send no head
		synctest.Wait()
		if n := h.waiting.Len() + len(h.of); n != 0 {
			t.Errorf("%d ended connections are kept", n)
		}
	})
}
