package performance

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

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	sockets = 10_000 // one for each user
	tiles   = 3000   // number of jobs in the task
)

// clock is the clock of a platform. A test can advance it.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// platform is a simulated openEO platform with its own clock.
type platform struct {
	simulator.OpenEO
	url  string
	time clock
	sent atomic.Int64 // time when the last page of jobs was sent, in microseconds since 1970
}

// newPlatform starts a platform that responds after 50 ms.
func newPlatform(b *testing.B, life simulator.Life) *platform {
	p := &platform{}
	p.Open, p.Life, p.Now = true, life, p.time.now
	p.Faults.Set(simulator.Fault{Latency: 50 * time.Millisecond})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.ServeHTTP(w, r)
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/jobs") {
			p.sent.Store(time.Now().UnixMicro())
		}
	}))
	b.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// audience is a broker with its platforms and users.
type audience struct {
	*simulator.World
	program   *executable.Program
	platforms []*platform
}

func newAudience(b *testing.B, life simulator.Life, jobs, platforms int) *audience {
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	w.IdP.TokenLife = time.Hour
	a := &audience{World: w}
	var configured []map[string]any
	for i := range platforms {
		p := newPlatform(b, life)
		a.platforms = append(a.platforms, p)
		configured = append(configured, map[string]any{"name": fmt.Sprint("p", i), "protocol": "openeo",
			"endpoint": p.url, "access": "open",
			"limits": map[string]any{"jobs": jobs, "requests": 64, "min_poll": "100ms"}})
	}
	setting, _ := json.Marshal(configured) // cannot fail: only strings and numbers
	a.program = program.Start(b, append(benchmarked(w), "EODISPATCH_FRESHNESS=1s",
		fmt.Sprint("EODISPATCH_LIMITS_CONNECTIONS=", sockets+1000), "EODISPATCH_PLATFORMS="+string(setting))...)
	return a
}

// request returns the request of a job at a platform.
func (a *audience) request(p *platform) dispatch.Request {
	r := program.OpenEO(a.World)
	r.Service.Endpoint = p.url
	return r
}

func (a *audience) client(user string) fast {
	return fast{program.As(a.World, a.program.Address, user, nil)}
}

// stream is a minimal WebSocket client. It reads frames with little overhead, because a benchmark opens thousands of
// them.
type stream struct {
	net.Conn
	from *bufio.Reader
}

func openStream(b *testing.B, c fast, path string) *stream {
	host := strings.TrimPrefix(c.Broker, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		b.Error(err)
		return nil
	}
	fmt.Fprintf(conn,
		"GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, host, c.Token)
	s := &stream{conn, bufio.NewReaderSize(conn, 1024)}
	answer, err := http.ReadResponse(s.from, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		b.Errorf("%v %v", answer, err)
		return nil
	}
	return s
}

// next returns the next message. It responds to pings in between.
func (s *stream) next() (message []byte, err error) {
	for {
		kind, last, text, err := s.frame()
		if kind != ping {
			if message = append(message, text...); err != nil || last {
				return message, err
			}
			continue
		}
		if _, err := s.Write(append([]byte{0x80 | pong, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)); err != nil {
			return nil, err
		}
	}
}

const ping, pong = 9, 10 // RFC 6455 section 5.2

// frame reads one frame, and whether it is the last of its message.
func (s *stream) frame() (kind byte, last bool, text []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(s.from, head[:]); err != nil {
		return 0, false, nil, err
	}
	size := int(head[1])
	if more := map[int]int{126: 2, 127: 8}[size]; more > 0 {
		size = 0
		for range more {
			b, err := s.from.ReadByte()
			if err != nil {
				return 0, false, nil, err
			}
			size = size<<8 | int(b)
		}
	}
	text = make([]byte, size)
	_, err = io.ReadFull(s.from, text)
	return head[0] & 0x0f, head[0]&0x80 != 0, text, err
}

// until reads messages until one contains a status, and returns the time of its arrival.
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

// BenchmarkPerformanceOfPush measures how soon 10,000 users, each with a WebSocket and a job, learn that their job has
// ended. All jobs end within a second, on one platform after the other.
func BenchmarkPerformanceOfPush(b *testing.B) {
	table := newTable(b, fmt.Sprintf("%d WebSockets of as many users", sockets), "measured", "aim")
	const waves = 10
	a := newAudience(b, simulator.Life{Run: time.Hour}, 1_000_000, waves)
	users := make([]fast, sockets)
	inParallel(sockets, 4, func(i int) { users[i] = a.client(fmt.Sprint("user-", i)) })
	users[0].must(b, http.MethodGet, "/jobs_status", nil, nil)
	idle := memoryOf(b, a.program)
	streams := make([]*stream, sockets)
	inParallel(sockets, 20, func(i int) {
		streams[i] = openStream(b, users[i], "/job_status?interval=3600&changes=true")
	})
	if b.Failed() {
		b.FailNow()
	}
	table("memory of each, idle", fmt.Sprintf("%.1f kB", (memoryOf(b, a.program)-idle)/sockets), "< 30 kB")

	bodies := make([][]byte, waves)
	for i, p := range a.platforms {
		bodies[i], _ = json.Marshal(a.request(p)) // cannot fail: only strings and numbers
	}
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
	inParallel(sockets, 64, func(i int) { users[i].mustPost(b, bodies[i%waves], nil) })
	started.Wait()
	table("each user submits a job and sees it run", fmt.Sprintf("%v, %.0f/s", time.Since(begin).Round(time.Second),
		sockets/time.Since(begin).Seconds()), "")

	for i, p := range a.platforms {
		listening.Go(func() {
			<-time.After(2*time.Second + time.Duration(i)*time.Second/waves)
			p.time.ahead.Store(int64(2 * time.Hour))
			// enough users that the broker lists the jobs instead of reading each
			inParallel(8, 8, func(n int) { users[i+n*waves].must(b, http.MethodGet, "/jobs_status", nil, nil) })
		})
	}
	listening.Wait()
	took := make([]time.Duration, sockets)
	for i, s := range streams {
		s.Close()
		took[i] = ended[i].Sub(time.UnixMicro(a.platforms[i%waves].sent.Load())).Round(time.Millisecond)
	}
	slices.Sort(took)
	slices.SortFunc(ended, time.Time.Compare)
	table("all jobs end within a second; from the platform's response to the message, p50, p99, max",
		fmt.Sprint(took[sockets/2], took[sockets*99/100], took[sockets-1]), "p99 < 1 s")
	table("from the first message of an end to the last",
		ended[sockets-1].Sub(ended[0]).Round(time.Millisecond).String(), "")
}

// BenchmarkPerformanceOfChanges compares the number and size of the messages of three kinds of streams, while all 3,000
// jobs of a task run to their end.
func BenchmarkPerformanceOfChanges(b *testing.B) {
	table := newTable(b, fmt.Sprintf("a task of %d jobs, run to its end", tiles), "messages", "sent",
		"relative to the first row")
	a := newAudience(b, simulator.Life{Run: 2 * time.Second}, 100, 1)
	c := a.client("user")
	request := a.request(a.platforms[0])
	request.Parameters = json.RawMessage(`{"temporal_extent": ` + program.Span + `}`)
	body, _ := json.Marshal(request) // cannot fail: only strings and numbers
	dimension, _ := json.Marshal(map[string]any{"name": "spatial_extent",
		"values": slices.Repeat([]json.RawMessage{json.RawMessage(program.Area)}, tiles)})
	body = append(append(bytes.TrimSuffix(body, []byte("}")), `,"dimension":`...), append(dimension, '}')...)
	var task program.Job
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
		table(fmt.Sprintf("%s, %v", way, time.Since(begin).Round(time.Second)), fmt.Sprint(messages[i]),
			fmt.Sprintf("%.1f MB", float64(bytes[i])/1e6), fmt.Sprintf("%.3f", float64(bytes[i])/float64(bytes[0])))
	}
}

// over reports whether a message says that all jobs of its task have ended.
func over(text []byte) bool {
	var m struct {
		Data struct {
			program.Job
			UpscalingTasks []program.Job `json:"upscaling_tasks"`
		}
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return false
	}
	for _, t := range append(m.Data.UpscalingTasks, m.Data.Job) {
		if t.Counts != nil && t.Ended() {
			return true
		}
	}
	return false
}
