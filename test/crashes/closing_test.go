package crashes

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// server serves a handler, and counts the requests that a client cannot know about.
type server func(t *testing.T, h http.Handler, struck *atomic.Int64) *httptest.Server

// closing is a server in front of a platform that ends connections when it is worst for a client that keeps them.
type closing struct {
	name  string
	start server
	pause time.Duration // between tasks
}

// seldom is how many requests such a server answers until it strikes.
const seldom = 100

var closings = []closing{
	{name: "closes right after an answer", start: closeOn(http.StateIdle, 1, 16)},
	{name: "closes while a request arrives", start: closeOn(http.StateActive, seldom, math.MaxInt)},
	{name: "keeps connections for a second, and says so", pause: time.Second,
		start: closeIdle(time.Second, "timeout=1", false)},
	{name: "announces the end after each 100th answer", start: func(_ *testing.T, h http.Handler, _ *atomic.Int64,
	) *httptest.Server {
		var answers atomic.Int64
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if answers.Add(1)%seldom == 0 {
				w.Header().Set("Connection", "close")
			}
			h.ServeHTTP(w, r)
		}))
	}},
	{name: "resets connections that are idle for 2 s", pause: 2 * time.Second,
		start: closeIdle(2*time.Second, "", true)},
	{name: "HTTP2, GOAWAY before a stream is read", start: frameServer(func(f *frames, stream uint32, _ func()) {
		f.WriteGoAway(stream-2, http2.ErrCodeNo, nil)
		f.end = true
	}, false)},
	{name: "HTTP2, GOAWAY after a stream is answered",
		start: frameServer(func(f *frames, stream uint32, answer func()) {
			f.WriteGoAway(stream, http2.ErrCodeNo, nil)
			answer()
			f.end = true
		}, false)},
	{name: "HTTP2, GOAWAY for a stream that is never answered",
		start: frameServer(func(f *frames, stream uint32, _ func()) {
			f.WriteGoAway(stream, http2.ErrCodeNo, nil)
			f.end = true
		}, true)},
	{name: "HTTP2, refuses streams",
		start: frameServer(func(f *frames, stream uint32, _ func()) {
			f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}, false)},
	{name: "HTTP2, resets a stream that is processed",
		start: frameServer(func(f *frames, stream uint32, answer func()) {
			f.mute = true
			answer()
			f.mute = false
			f.WriteRSTStream(stream, http2.ErrCodeProtocol)
		}, true)},
	{name: "HTTP2, falls silent", start: frameServer(func(f *frames, _ uint32, _ func()) { f.mute = true }, true)},
}

// closeOn closes each nth connection that reaches a state. Only the first times can surprise a client that learns from
// it.
func closeOn(state http.ConnState, nth, surprises int64) server {
	return func(_ *testing.T, h http.Handler, struck *atomic.Int64) *httptest.Server {
		var reached atomic.Int64
		s := httptest.NewUnstartedServer(h)
		s.Config.ConnState = func(c net.Conn, now http.ConnState) {
			if now != state {
				return
			}
			if n := reached.Add(1); n%nth == 0 {
				if n <= surprises {
					struck.Add(1)
				}
				c.Close()
			}
		}
		s.Start()
		return s
	}
}

// closeIdle closes, or resets, connections that have been idle for a while. A busy machine may lose requests to that.
func closeIdle(after time.Duration, says string, reset bool) server {
	return func(_ *testing.T, h http.Handler, struck *atomic.Int64) *httptest.Server {
		var idle sync.Map // timers by connection
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if says != "" {
				w.Header().Set("Keep-Alive", says)
			}
			h.ServeHTTP(w, r)
		}))
		s.Config.ConnState = func(c net.Conn, now http.ConnState) {
			if timer, waits := idle.LoadAndDelete(c); waits {
				timer.(*time.Timer).Stop()
			}
			if now == http.StateIdle {
				idle.Store(c, time.AfterFunc(after, func() {
					struck.Add(1)
					if reset {
						_ = c.(*net.TCPConn).SetLinger(0)
					}
					c.Close()
				}))
			}
		}
		s.Start()
		return s
	}
}

// frames is a connection of HTTP/2 whose frames a test chooses.
type frames struct {
	*http2.Framer
	text      bytes.Buffer
	hpack     *hpack.Encoder
	mute, end bool // it writes nothing any more; it closes
}

// frameServer serves HTTP/2, and does something else at each hundredth request that is not the first of its
// connection, unless it only reads.
func frameServer(strike func(f *frames, stream uint32, answer func()), strikes bool) server {
	return func(_ *testing.T, h http.Handler, struck *atomic.Int64) *httptest.Server {
		var requests atomic.Int64
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = true
		speak := func(_ *http.Server, c *tls.Conn, _ http.Handler) {
			serveFrames(c, h, func(f *frames, r *http.Request, stream uint32, answer func()) {
				if f.mute && r.Method == http.MethodPost {
					struck.Add(1)
					return
				}
				if r.Method != http.MethodPost || stream == 1 || requests.Add(1)%seldom != 0 {
					answer()
					return
				}
				if strikes {
					struck.Add(1)
				}
				strike(f, stream, answer)
			})
		}
		s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": speak}
		s.StartTLS()
		return s
	}
}

// serveFrames reads the requests of a connection, one after the other, and has them served.
func serveFrames(c *tls.Conn, h http.Handler, serve func(f *frames, r *http.Request, stream uint32, answer func())) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := &frames{Framer: http2.NewFramer(c, c)}
	f.hpack = hpack.NewEncoder(&f.text)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.WriteSettings()
	open := map[uint32]*http.Request{}
	bodies := map[uint32]*bytes.Buffer{}
	for !f.end {
		got, err := f.ReadFrame()
		if err != nil {
			return
		}
		stream, ended := got.Header().StreamID, false
		switch got := got.(type) {
		case *http2.SettingsFrame:
			if !got.IsAck() {
				f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !got.IsAck() && !f.mute {
				f.WritePing(true, got.Data)
			}
		case *http2.MetaHeadersFrame:
			open[stream], bodies[stream], ended = request(got), &bytes.Buffer{}, got.StreamEnded()
		case *http2.DataFrame:
			bodies[stream].Write(got.Data())
			f.WriteWindowUpdate(0, max(1, uint32(len(got.Data()))))
			ended = got.StreamEnded()
		}
		if ended {
			r := open[stream]
			r.Body, r.ContentLength = io.NopCloser(bodies[stream]), int64(bodies[stream].Len())
			serve(f, r, stream, func() { f.answer(h, r, stream) })
		}
	}
	<-time.After(time.Second) // so that it does not reset the connection
}

func request(f *http2.MetaHeadersFrame) *http.Request {
	r := httptest.NewRequest(f.PseudoValue("method"), "https://"+f.PseudoValue("authority")+f.PseudoValue("path"), nil)
	for _, field := range f.RegularFields() {
		r.Header.Add(field.Name, field.Value)
	}
	return r
}

// answer has a request served, and writes the response unless the connection is mute.
func (f *frames) answer(h http.Handler, r *http.Request, stream uint32) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if f.mute {
		return
	}
	f.text.Reset()
	f.hpack.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(w.Code)})
	for name, values := range w.Header() {
		for _, value := range values {
			f.hpack.WriteField(hpack.HeaderField{Name: strings.ToLower(name), Value: value})
		}
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.text.Bytes(), EndHeaders: true})
	for body := w.Body; ; {
		part := body.Next(16 << 10)
		f.WriteData(stream, body.Len() == 0, part)
		if body.Len() == 0 {
			return
		}
	}
}

// TestClosing_NothingTwiceNothingLost submits jobs to platforms behind servers that end connections at the worst
// moments. What the broker could not know about is at most what they struck, and the platform ran each job once. With
// -full these are 2,000 jobs each.
func TestClosing_NothingTwiceNothingLost(t *testing.T) {
	for _, c := range closings {
		for _, ogc := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %s", c.name, map[bool]string{false: "openEO", true: "OGC"}[ogc]),
				func(t *testing.T) {
					t.Parallel()
					c.play(t, ogc)
				})
		}
	}
}

// fewAtOnce bounds how many of these tests run at once, so that requests get their answers in time.
var fewAtOnce = make(chan struct{}, 4)

func (c closing) play(t *testing.T, ogc bool) {
	tasks, values, within := 2, 40, 10*time.Minute
	if *full {
		tasks, values, within = 10, 200, 30*time.Minute
	}
	fewAtOnce <- struct{}{}
	defer func() { <-fewAtOnce }()
	kind := crash{ogc: ogc, life: simulator.Life{Run: time.Second}}
	s := kind.scene(t)
	var struck atomic.Int64
	server := c.start(t, s.handler, &struck)
	t.Cleanup(server.Close)
	far, err := simulator.Distant(server.Listener.Addr().String(), 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	s.at(strings.Replace(server.URL, server.Listener.Addr().String(), far.Addr().String(), 1))
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "closing.db")
	p := launch(t, mortal, kind.environment(t, s, dsn), "SSL_CERT_FILE="+certificateOf(t, server))
	s.overMany(values)
	db := database(t, dsn)
	for range tasks {
		if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", s.job, nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(c.pause)
	}
	var finished, unknown int
	if !until(within, func() bool {
		finished, unknown = 0, 0
		for _, r := range rowsOf(t, db) {
			switch {
			case r.status == dispatch.Finished:
				finished++
			case r.attention == dispatch.SubmissionUnknown:
				unknown++
			}
		}
		return finished+unknown == tasks*values
	}) {
		t.Errorf("of %d jobs %d finish, and the outcome of %d is unknown", tasks*values, finished, unknown)
	}
	p.stop(t)
	sum, doubts, busy := s.oracle.Sum(), 0, 0
	for _, doubt := range regexp.MustCompile(`"error":"[^"]*: uncertain: [^"]*"`).FindAllString(p.Log.String(), -1) {
		// on a busy machine, or because the server is silent
		if doubts++; strings.Contains(doubt, "context deadline exceeded") {
			busy++
		}
		t.Log(doubt)
	}
	t.Logf("%d jobs, %d requests struck, %d in doubt, of which %d got no answer in time, %d unknown; there %+v",
		tasks*values, struck.Load(), doubts, busy, unknown, sum)
	if int64(doubts-busy) > struck.Load() || unknown > doubts || !ogc && unknown > 0 {
		t.Errorf("%d requests are in doubt and %d jobs unknown, of %d that the server struck", doubts-busy, unknown,
			struck.Load())
	}
	if sum.Runs < finished || sum.Runs > finished+unknown ||
		!ogc && (sum.Creates != tasks*values || sum.Starts != tasks*values) {
		t.Errorf("%d jobs finish, and the platform has %+v", finished, sum)
	}
}

// certificateOf writes the certificate of a server to a file; none if it has none.
func certificateOf(t *testing.T, s *httptest.Server) string {
	file := filepath.Join(t.TempDir(), "authority.pem")
	var text []byte
	if c := s.Certificate(); c != nil {
		text = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
