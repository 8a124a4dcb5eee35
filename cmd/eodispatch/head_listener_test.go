package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// accepting listens with a bound of two connections, and returns the accepted ones.
func accepting(t *testing.T, whole func([]byte) bool) (pipes, chan net.Conn) {
	p, accepted := make(pipes), make(chan net.Conn, 10)
	l := newHeadListener(p, 2, whole)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	return p, accepted
}

// TestHeadListener_GivesWholeHeads: a connection is accepted when its client has sent a complete head, with everything
// sent so far, or so much that the server has to judge it.
func TestHeadListener_GivesWholeHeads(t *testing.T) {
	record := "\x16\x03\x01\x00\x03abc"
	for name, row := range map[string]struct {
		whole func([]byte) bool
		sent  []string // the last one completes it
	}{
		"plain text":      {wholeHead, []string{"GET / HTTP/1.1\r\nHost: a\r\n", "X: y\r\n\r\nbody"}},
		"bare line feeds": {wholeHead, []string{"GET / HTTP/1.1\nHost: a\n", "\n"}},
		"a long head": {wholeHead, []string{"GET / HTTP/1.1\r\n", "X: " +
			strings.Repeat("y", firstHead)}},
		"TLS where plain text is expected": {wholeHead, []string{record}},
		"plain text where TLS is expected": {wholeRecord, []string{"GET / HTTP/1.1\r\n"}},
		"TLS":                              {wholeRecord, []string{record[:4], record[4:7], record[7:]}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, accepted := accepting(t, row.whole)
				client := p.dial(t)
				all := strings.Join(row.sent, "")
				for i, text := range row.sent {
					go func() { _, _ = io.WriteString(client, text) }() // an error shows in what is read
					synctest.Wait()
					if is, want := len(accepted) == 1, i == len(row.sent)-1; is != want {
						t.Fatalf("accepted after %d of %d parts: %v", i+1, len(row.sent), is)
					}
				}
				got := make([]byte, len(all))
				if _, err := io.ReadFull(<-accepted, got); err != nil || string(got) != all {
					t.Errorf("got %.100q, %v", got, err)
				}
			})
		})
	}
}

// TestHeadListener_ClosesSlowClients: a client has ten seconds, and less when too many wait: then the one that has
// waited longest is closed.
func TestHeadListener_ClosesSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, accepted := accepting(t, wholeHead)
		var all []net.Conn
		for range 4 {
			c := p.dial(t)
			all = append(all, c)
			fmt.Fprint(c, "GET / HTTP/1.1\r\nX-Slow: ")
		}
		time.Sleep(time.Second)
		for i, c := range all {
			if got, want := open(c), i >= 2; got != want {
				t.Errorf("connection %d of 4 is open: %v, want %v", i, got, want)
			}
		}
		fmt.Fprint(all[3], "y\r\n\r\n")
		time.Sleep(quietWithin)
		if len(accepted) != 1 || !open(all[3]) || open(all[2]) {
			t.Errorf("accepted %d; the one that sent its head is open: %v, the slow one: %v", len(accepted),
				open(all[3]), open(all[2]))
		}
		p.dial(t) // there is room again
		synctest.Wait()
	})
}
