package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/simulator"
)

const (
	sockets = 10_000 // each of a user of its own
	tiles   = 3000   // of the task that is drained
)

// clock is a platform's, which can be set forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// audience is a broker whose one openEO platform has a clock of its own, and users.
type audience struct {
	*simulator.World
	program  *program
	platform *simulator.OpenEO
	url      string
	time     clock
	told     atomic.Int64 // when a page of jobs was last sent, in microseconds since 1970
}

// newAudience has a platform that answers after 50 ms.
func newAudience(b *testing.B, life simulator.Life, jobs int) *audience {
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	a := &audience{World: w}
	a.platform = &simulator.OpenEO{Open: true, Life: life, Now: a.time.now}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.platform.ServeHTTP(w, r)
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/jobs") {
			a.told.Store(time.Now().UnixMicro())
		}
	}))
	b.Cleanup(server.Close)
	a.url = server.URL
	w.IdP.TokenLife = time.Hour
	platforms, _ := json.Marshal([]map[string]any{ // of texts and numbers: no error
		{"name": "p", "protocol": "openeo", "endpoint": a.url, "access": "open", "limits": map[string]any{"jobs": jobs, "requests": 64}},
	})
	a.program = startProgram(b, append(benchmarked(w), "EODISPATCH_PLATFORMS="+string(platforms))...)
	a.platform.Faults.Set(simulator.Fault{Latency: 50 * time.Millisecond})
	return a
}

func (a *audience) client(user string) fast {
	return fast{client{a.program.address, a.IdP.Mint(simulator.BrokerRealm, user, a.Credentials.Client, simulator.Odd{})}}
}

// stream is one WebSocket as it comes over the wire. What it is told costs its reader little, for there are many.
type stream struct {
	net.Conn
	from *bufio.Reader
}

func openStream(b *testing.B, c fast, path string) *stream {
	host := strings.TrimPrefix(c.broker, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		b.Error(err)
		return nil
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, host, c.token)
	s := &stream{conn, bufio.NewReaderSize(conn, 1024)}
	answer, err := http.ReadResponse(s.from, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		b.Errorf("%v %v", answer, err)
		return nil
	}
	return s
}

// next is a message. Pings on the way are answered.
func (s *stream) next() ([]byte, error) {
	for {
		kind, text, err := s.frame()
		if err != nil || kind != ping {
			return text, err
		}
		if _, err := s.Write(append([]byte{0x80 | pong, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)); err != nil {
			return nil, err
		}
	}
}

const ping, pong = 9, 10 // RFC 6455 section 5.2

// frame reads one: the broker sends a message whole.
func (s *stream) frame() (kind byte, text []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(s.from, head[:]); err != nil {
		return 0, nil, err
	}
	size := int(head[1])
	if more := map[int]int{126: 2, 127: 8}[size]; more > 0 {
		size = 0
		for range more {
			b, err := s.from.ReadByte()
			if err != nil {
				return 0, nil, err
			}
			size = size<<8 | int(b)
		}
	}
	text = make([]byte, size)
	_, err = io.ReadFull(s.from, text)
	return head[0] & 0x0f, text, err
}

// until reads on until it is told a status, and gives the time then.
func (s *stream) until(b *testing.B, status string) time.Time {
	for {
		text, err := s.next()
		if err != nil {
			b.Error(err)
		}
		if err != nil || bytes.Contains(text, []byte(`"status":"`+status+`"`)) {
			return time.Now()
		}
	}
}

// BenchmarkPerformanceOfPush has as many users as there are sockets each watch a job of theirs, all of which end at once.
func BenchmarkPerformanceOfPush(b *testing.B) {
	table := newTable(b, fmt.Sprintf("%d WebSockets of as many users", sockets), "measured", "aim")
	a := newAudience(b, simulator.Life{Run: time.Hour}, 1_000_000)
	users := make([]fast, sockets)
	inParallel(sockets, 4, func(i int) { users[i] = a.client(fmt.Sprint("user-", i)) })
	users[0].must(b, http.MethodGet, "/jobs_status", nil, nil)
	idle := memoryOf(b, a.program)
	streams := make([]*stream, sockets)
	inParallel(sockets, 20, func(i int) { streams[i] = openStream(b, users[i], "/job_status?interval=3600&changes=true") })
	if b.Failed() {
		b.FailNow()
	}
	table("memory of each, idle", fmt.Sprintf("%.1f kB", (memoryOf(b, a.program)-idle)/sockets), "< 30 kB")

	request := openEORequest(a.World)
	request.Service.Endpoint = a.url
	body, _ := json.Marshal(request) // of texts and numbers
	var listening, started sync.WaitGroup
	started.Add(sockets)
	ended := make([]time.Time, sockets)
	for i, s := range streams {
		listening.Go(func() {
			s.until(b, "running")
			started.Done()
			ended[i] = s.until(b, "finished")
		})
	}
	begin := time.Now()
	inParallel(sockets, 64, func(i int) { users[i].mustPost(b, body, nil) })
	started.Wait()
	table("a job of each is submitted, and seen to run", fmt.Sprintf("%v, %.0f/s", time.Since(begin).Round(time.Second), sockets/time.Since(begin).Seconds()), "")
	a.time.ahead.Store(int64(2 * time.Hour))
	users[0].must(b, http.MethodGet, "/jobs_status", nil, nil)
	listening.Wait()
	for _, s := range streams {
		s.Close()
	}
	slices.SortFunc(ended, time.Time.Compare)
	at := func(part float64) string {
		return ended[int(part*float64(sockets-1))].Sub(time.UnixMicro(a.told.Load())).Round(time.Millisecond).String()
	}
	table("all jobs end at once; from the platform's answer to the watchers, p50, p99, the last", strings.Join([]string{at(0.5), at(0.99), at(1)}, ", "), "p99 < 1 s")
}

// BenchmarkPerformanceOfChanges compares what streams send of a task of 3,000 jobs that is drained.
func BenchmarkPerformanceOfChanges(b *testing.B) {
	table := newTable(b, fmt.Sprintf("a task of %d jobs, drained", tiles), "messages", "sent", "of that, whole lists = 1")
	a := newAudience(b, simulator.Life{Run: 2 * time.Second}, 100)
	c := a.client("user")
	request := openEORequest(a.World)
	request.Service.Endpoint, request.Parameters = a.url, json.RawMessage(`{"temporal_extent": `+demoSpan+`}`)
	body, _ := json.Marshal(request) // of texts and numbers
	dimension, _ := json.Marshal(map[string]any{"name": "spatial_extent", "values": slices.Repeat([]json.RawMessage{json.RawMessage(demoArea)}, tiles)})
	body = append(append(bytes.TrimSuffix(body, []byte("}")), `,"dimension":`...), append(dimension, '}')...)
	var task job
	c.must(b, http.MethodPost, "/upscale_tasks", body, &task)
	begin := time.Now()
	ways := []string{"interval=10", "interval=1", "changes=true"}
	messages, bytes := make([]int, len(ways)), make([]int, len(ways))
	inParallel(len(ways), len(ways), func(i int) {
		s := openStream(b, c, fmt.Sprintf("/ws/upscale_tasks/%d?%s", task.ID, ways[i]))
		defer s.Close()
		for {
			text, err := s.next()
			if err != nil {
				b.Error(err)
				return
			}
			messages[i]++
			bytes[i] += len(text)
			if over(text) {
				return
			}
		}
	})
	for i, way := range ways {
		table(fmt.Sprintf("%s, %v", way, time.Since(begin).Round(time.Second)), fmt.Sprint(messages[i]), fmt.Sprintf("%.1f MB", float64(bytes[i])/1e6),
			fmt.Sprintf("%.3f", float64(bytes[i])/float64(bytes[0])))
	}
}

// over reports whether a message says that all jobs of its task have ended.
func over(text []byte) bool {
	var m struct {
		Data struct {
			job
			UpscalingTasks []job `json:"upscaling_tasks"`
		}
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return false
	}
	for _, t := range append(m.Data.UpscalingTasks, m.Data.job) {
		if t.Counts != nil && t.over() {
			return true
		}
	}
	return false
}
