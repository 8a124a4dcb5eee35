package simulator

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Hostile is a server that sends the responses of Answer byte by byte, including those that no [http.Handler] could
// send. It counts the bytes that clients read. It works on a listener and, by Dial, in memory inside testing/synctest.
type Hostile struct {
	Answer func(*http.Request) Reply // must be safe for concurrent use

	mu    sync.Mutex
	wrote int64
	asked []string
}

// Reply writes one response, head and body, and returns when the other side reads no more. Then the connection is
// closed.
type Reply func(io.Writer)

// most is how many bytes an endless reply sends at most: 1 GiB.
const most = 1 << 30

// Dial connects to the server and ignores the address.
func (h *Hostile) Dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go h.serve(there)
	return here, nil
}

// Serve handles the connections of a listener until it is closed.
func (h *Hostile) Serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go h.serve(conn)
	}
}

// Wrote returns the number of bytes that clients read since the last call.
func (h *Hostile) Wrote() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.wrote
	h.wrote = 0
	return n
}

// Asked returns the requests since the last call: method, path and query.
func (h *Hostile) Asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.asked
	h.asked = nil
	return all
}

func (h *Hostile) serve(conn net.Conn) {
	defer conn.Close()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		return
	}
	h.mu.Lock()
	h.asked = append(h.asked, request.Method+" "+request.URL.RequestURI())
	h.mu.Unlock()
	h.Answer(request)(counting{h, conn})
}

type counting struct {
	to *Hostile
	io.Writer
}

// Write counts the bytes that were read.
func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.to.wrote += int64(n)
	return n, err
}

// JSONReply returns a reply with a JSON body; header holds more header lines, each ending with "\r
// ".
func JSONReply(status int, header, body string) Reply {
	return func(w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nConnection: close\r\n%sContent-Length: "+
			"%d\r\n\r\n%s", status, header, len(body), body)
	}
}

const endlessHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"

// Large reports whether a hostile reply is costly to read even for a client with limits.
func Large(name string) bool {
	return name == "1 GB" || name == "gzip bomb" || name == "empty gzip members"
}

// HostileReplies returns, by name, replies that harm a client that reads them completely. Only the client's limits, or
// 1 GiB, bound them.
func HostileReplies() map[string]Reply {
	return map[string]Reply{
		"1 GB": endless(endlessHead+"\r\n{\"a\":\"", bytes.Repeat([]byte("x"), 32<<10), 0),
		"error of 1 GB": endless(strings.Replace(endlessHead, "200 OK", "500 Odd", 1)+"\r\n{\"message\":\"",
			bytes.Repeat([]byte("x"), 32<<10), 0),
		"gzip bomb": endless(endlessHead+"Content-Encoding: gzip\r\n\r\n", blanks(), 0),
		"empty gzip members": endless(endlessHead+"Content-Encoding: gzip\r\n\r\n", bytes.Repeat(packed(nil), 1<<10),
			0),
		"head without end": endless(endlessHead, bytes.Repeat([]byte("X-More: xxxxxxxxxxxxxxxx\r\n"), 1<<10), 0),
		"line without end": endless(endlessHead+"X-More: ", bytes.Repeat([]byte("x"), 1<<10), 0),
		"early hints for ever": endless("", bytes.Repeat([]byte("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
			1<<10), 0),
		"trickling body": endless(endlessHead+"Content-Length: 1000000\r\n\r\n", []byte(" "), time.Second),
		"trickling head": endless(endlessHead, []byte("X: y\r\n"), time.Second),
		"trickling chunks": endless(endlessHead+"Transfer-Encoding: chunked\r\n\r\n", []byte("1;x=y\r\n \r\n"),
			time.Second),
		"nothing": endless("", nil, time.Hour),
		"another protocol": endless("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
			nil, time.Hour),
		"redirect elsewhere": JSONReply(302, "Location: http://elsewhere.example/jobs/x\r\n", `{}`),
		"redirect to itself": JSONReply(307, "Location: ?\r\n", `{}`),
		"page": func(w io.Writer) {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>")
		},
		"no HTTP": endless("220 mail.example ESMTP\r\n", bytes.Repeat([]byte("250 go on\r\n"), 1<<10), 0),
	}
}

// endless writes a head and then the same piece repeatedly, with a pause before each.
func endless(head string, piece []byte, pause time.Duration) Reply {
	return func(w io.Writer) {
		_, err := io.WriteString(w, head)
		for n := 0; err == nil && n < most; n += max(1, len(piece)) {
			time.Sleep(pause)
			_, err = w.Write(piece)
		}
	}
}

// blanks returns 64 MiB of blanks, compressed.
var blanks = sync.OnceValue(func() []byte { return packed(bytes.Repeat([]byte(" "), 64<<20)) })

func packed(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	_, _ = w.Write(data) // writing to a buffer cannot fail
	_ = w.Close()
	return b.Bytes()
}
