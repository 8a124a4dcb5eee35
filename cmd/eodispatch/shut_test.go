package main

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener for in-memory connections.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A client that does not read its response delays the end by some seconds, which is not an error. Work that does not
// end within the grace period is an error.
func TestShut_DoesNotWaitForSlowClients(t *testing.T) {
	for _, works := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := make(pipes)
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, 1<<20)) // fails when the server closes
			})}
			served := make(chan error)
			go func() { served <- server.Serve(l) }()
			here, there := net.Pipe()
			l <- there
			fmt.Fprint(here, "GET / HTTP/1.1\r\nHost: dispatch\r\n\r\n")
			synctest.Wait()
			stopped, done := false, make(chan struct{})
			if !works {
				close(done)
			}
			began := time.Now()
			err := shutDown(server, func() { stopped = true }, done, 40*time.Second)
			took := time.Since(began)
			if want := map[bool]time.Duration{false: lastAnswers, true: 40 * time.Second}[works]; !stopped ||
				(err != nil) != works || took != want {
				t.Errorf("work goes on: %v: %v after %v", works, err, took)
			}
			here.Close()
			server.Close()
			<-served
		})
	}
}
