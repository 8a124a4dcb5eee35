package api

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"
)

// BenchmarkIdleStream measures the memory of a stream that has sent its state: on the heap, and of the stacks. The heap
// has the clients' ends too.
func BenchmarkIdleStream(b *testing.B) {
	const streams = 2000
	w := newWorld()
	c := w.config()
	c.Log, c.Limits.Sockets, c.Limits.UserRequests, c.Limits.UserPace, c.Limits.AddressPace = slog.New(
		slog.DiscardHandler), streams, streams, 1, 1
	h := New(c)
	server := httptest.NewServer(h)
	defer server.Close()
	defer h.Close()
	for b.Loop() {
		heap, stacks := inUse()
		connections := make([]net.Conn, streams)
		for i := range connections {
			connections[i] = openIdle(b, server.Listener.Addr().String())
		}
		heapAfter, stacksAfter := inUse()
		b.ReportMetric((heapAfter-heap)/streams, "heap-B/stream")
		b.ReportMetric((stacksAfter-stacks)/streams, "stack-B/stream")
		for _, one := range connections {
			one.Close()
		}
	}
}

// inUse returns the bytes in use on the heap, and those of stacks.
func inUse() (heap, stacks float64) {
	var m runtime.MemStats
	for range 3 { // a collection halves a stack at most
		debug.FreeOSMemory()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

// openIdle opens a stream and reads its first two messages.
func openIdle(b *testing.B, address string) net.Conn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprint(c, "GET /job_status?interval=3600&changes=true HTTP/1.1\r\nHost: broker\r\nAuthorization: Bearer "+
		"token-anna\r\nConnection: Upgrade\r\n"+
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	from := bufio.NewReader(c)
	answer, err := http.ReadResponse(from, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		b.Fatal(answer, err)
	}
	for range 2 {
		head := make([]byte, 2)
		if _, err := io.ReadFull(from, head); err != nil {
			b.Fatal(err)
		}
		size := int64(head[1])
		if size == 126 {
			io.ReadFull(from, head)
			size = int64(head[0])<<8 | int64(head[1])
		}
		io.CopyN(io.Discard, from, size)
	}
	return c
}
