package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// stalled is a broker whose database returns no more jobs of a list after its outline was read.
type stalled struct {
	*world
	freed chan error // why it was given up
}

func (s stalled) Request(ctx context.Context, _ dispatch.Record) (dispatch.Request, error) {
	<-ctx.Done()
	s.freed <- context.Cause(ctx)
	return dispatch.Request{}, ctx.Err()
}

// A list that is sent while it is read stops after the request's deadline, even if the client waits, and the connection
// is cut so that the client does not take a part for the whole.
func TestDeadline_OfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.config()
		broker := stalled{w, make(chan error, 1)}
		c.Broker = broker
		h := New(c)
		defer h.Close()
		// more than an outline of 1,000 jobs reads
		ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, `"<b>&"`, `"`+strings.Repeat("x", 4<<10)+`"`, 1))
		client := talk(t, w, h)
		r, err := http.NewRequest("GET", "http://x/jobs_status?limit=1000", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer token-anna")
		began := time.Now()
		go func() { _ = r.Write(client) }()
		read := make(chan error, 1)
		go func() {
			got, err := http.ReadResponse(bufio.NewReader(client), r)
			if err == nil {
				_, err = io.Copy(io.Discard, got.Body)
			}
			read <- err
		}()
		select {
		case cause := <-broker.freed:
			if took := time.Since(began); took != call.RequestWithin || cause != facade.ErrTooSlow {
				t.Errorf("given up after %v: %v", took, cause)
			}
			if err := <-read; err == nil {
				t.Error("the client takes a part for the whole")
			}
		case <-time.After(time.Hour):
			t.Error("the work goes on for more than an hour")
			client.Close()
		}
	})
}

// A hundred clients that open streams or ask for a list of 10 MiB, and never read, hold at most 150 MB together. All
// are cut off within three minutes: a user's large lists are read a few at a time, and waiting ones have the deadline
// of a request.
func TestDeadline_OfClientsThatNeverRead(t *testing.T) {
	const clients = 100
	head := "Host: x\r\nAuthorization: Bearer token-anna\r\n"
	for name, request := range map[string]string{
		"streams": "GET /job_status?interval=1 HTTP/1.1\r\n" + head +
			"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
			"dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		"lists": "GET /jobs_status HTTP/1.1\r\n" + head + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := listOfMany(t)
				l := make(loopback)
				server := Server(h, newWorld().config().Log)
				served := make(chan error)
				go func() { served <- server.Serve(l) }()
				before, goroutines := alive(), runtime.NumGoroutine()
				var all []net.Conn
				for range clients {
					here, there := net.Pipe()
					l <- there
					fmt.Fprint(here, request)
					if name == "streams" { // what the kernel takes from us though nobody reads
						if r, err := http.ReadResponse(bufio.NewReaderSize(here, 16), nil); err != nil ||
							r.StatusCode != http.StatusSwitchingProtocols {
							t.Fatal(r, err)
						}
					}
					all = append(all, here)
				}
				synctest.Wait()
				if now := alive(); now > before+150e6 {
					t.Errorf("%d clients who do not read hold %d MB", clients, (now-before)/1e6)
				}
				time.Sleep(3 * time.Minute)
				if n := runtime.NumGoroutine() - goroutines; n > 2 {
					t.Errorf("%d goroutines are left", n)
				}
				h.Close()
				server.Close()
				<-served
				for _, c := range all {
					c.Close()
				}
			})
		})
	}
}

// still is a broker whose list does not change and costs nothing to read.
type still struct {
	*world
	mu    sync.Mutex
	known map[int][]dispatch.Record // by how much of each request is read
}

func (s *still) Jobs(ctx context.Context, u dispatch.UserID, p dispatch.Page) iter.Seq2[dispatch.Record, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[p.Most] == nil {
		for j := range s.world.Jobs(ctx, u, p) {
			s.known[p.Most] = append(s.known[p.Most], j)
		}
	}
	return sequence(s.known[p.Most], nil)
}

// listOfMany returns an API whose list is too large to be held encoded.
func listOfMany(t *testing.T) API {
	t.Helper()
	w := newWorld()
	c := w.config()
	c.Broker, c.Limits.Sockets = &still{world: w, known: map[int][]dispatch.Record{}}, 1000
	c.Limits.UserRequests = 1000 // so that all are served that a list may have
	h := New(c)
	body := strings.Replace(goodBody, `"<b>&"`, `"`+strings.Repeat("x", 256<<10)+`"`, 1)
	for range 40 {
		if a := ask(h, "POST", "/unit_jobs", body); a.Code != 201 {
			t.Fatal(a.Code, a.Body)
		}
	}
	return h
}
