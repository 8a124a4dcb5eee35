package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/simulator"
)

const (
	active  = 1000
	readers = 100
	sockets = 10_000
)

// BenchmarkPerformanceOfLiveStatus measures what it costs to look at many jobs, at a platform that answers after 50 ms.
func BenchmarkPerformanceOfLiveStatus(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true, Life: simulator.Life{Run: time.Hour}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	row := func(what, measured, aim string) { fmt.Fprintf(table, "%s\t%s\t%s\n", what, measured, aim) }
	row("live status", "measured", "aim")

	platforms, _ := json.Marshal([]map[string]any{ // of texts and numbers: no error
		{"name": "openeo", "protocol": "openeo", "endpoint": w.OpenEOURL, "access": "open",
			"limits": map[string]any{"jobs": 1_000_000, "requests": 64}},
	})
	p := startProgram(b, append(benchmarked(w), "EODISPATCH_PLATFORMS="+string(platforms), "EODISPATCH_FRESHNESS=3s",
		"EODISPATCH_LIMITS_STREAMS=20000")...)
	c := fast{signedIn(b, w, p.address)}
	idle := memoryOf(b, p)
	conns := openStreams(b, c, p, sockets)
	row(fmt.Sprintf("memory of each of %d idle WebSockets", sockets), fmt.Sprintf("%.1f kB", (memoryOf(b, p)-idle)/sockets), "< 30 kB")
	for _, conn := range conns {
		conn.Close()
	}

	body, _ := json.Marshal(openEORequest(w))
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range active / 32 {
				c.mustPost(b, body, nil)
			}
		})
	}
	all.Wait()
	w.OpenEO.Faults.Set(simulator.Fault{Latency: 50 * time.Millisecond})
	_, asked := watched(b, w, func() {
		<-time.After(4 * time.Second) // statuses grow stale; the broker asks now and then by itself
	})
	row("requests of the broker by itself in 4 s", asked, "")
	took, again := watched(b, w, func() { c.must(b, http.MethodGet, "/jobs_status", nil, nil) })
	row(fmt.Sprintf("GET /jobs_status, %d active jobs, stale", active/32*32), took.Round(time.Millisecond).String()+", "+again, "< 200 ms")
	var warm []time.Duration
	for range 21 {
		took, _ := watched(b, w, func() { c.must(b, http.MethodGet, "/jobs_status", nil, nil) })
		warm = append(warm, took)
	}
	row("GET /jobs_status, fresh, median", median(warm).Round(time.Millisecond/10).String(), "< 15 ms")
	took, asked = watched(b, w, func() {
		var all sync.WaitGroup
		for range readers {
			all.Go(func() { c.must(b, http.MethodGet, "/jobs_status", nil, nil) })
		}
		all.Wait()
	})
	row(fmt.Sprintf("%d readers at once, fresh", readers), took.Round(time.Millisecond).String()+", "+asked, "")
	<-time.After(4 * time.Second)
	took, asked = watched(b, w, func() {
		var all sync.WaitGroup
		for range readers {
			all.Go(func() { c.must(b, http.MethodGet, "/jobs_status", nil, nil) })
		}
		all.Wait()
	})
	row(fmt.Sprintf("%d readers at once, stale", readers), took.Round(time.Millisecond).String()+", "+asked, "one visit")
}

// watched tells how long do takes, and what the platform is asked meanwhile.
func watched(b *testing.B, w *simulator.World, do func()) (time.Duration, string) {
	before := w.OpenEO.Oracle.Tally().Routes
	begin := time.Now()
	do()
	took := time.Since(begin)
	after := w.OpenEO.Oracle.Tally().Routes
	lists, reads := 0, 0
	for route, n := range after {
		switch d := n - before[route]; {
		case strings.HasSuffix(route, "/jobs"):
			lists += d
		case strings.HasSuffix(route, "/jobs/{id}"):
			reads += d
		}
	}
	return took, fmt.Sprintf("%d listings and %d single reads", lists, reads)
}

// memoryOf is the resident size of a program, in kB.
func memoryOf(b *testing.B, p *program) (kilobytes float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(between(string(text), "VmRSS:", "kB"), &kilobytes)
	}
	if err != nil {
		b.Skip("the memory of a process is not known on this system")
	}
	return kilobytes
}

// openStreams opens so many WebSockets, and reads of each no more than that it is open.
func openStreams(b *testing.B, c fast, p *program, n int) []net.Conn {
	conns := make([]net.Conn, n)
	var all sync.WaitGroup
	for part := range 20 {
		all.Go(func() {
			for i := part; i < n && !b.Failed(); i += 20 {
				conns[i] = openStream(b, c, p)
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return conns
}

func openStream(b *testing.B, c fast, p *program) net.Conn {
	host := strings.TrimPrefix(p.address, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		b.Error(err)
		return nil
	}
	fmt.Fprintf(conn, "GET /job_status?interval=3600 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", host, c.token)
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		b.Errorf("%v %v", answer, err)
	}
	return conn
}
