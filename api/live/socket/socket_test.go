package socket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"
)

// Kinds of frames (RFC 6455, section 5.2).
const (
	text       = byte(ws.OpText)
	binaryData = byte(ws.OpBinary)
	closing    = byte(ws.OpClose)
	ping       = byte(ws.OpPing)
	pong       = byte(ws.OpPong)

	last = 0x80 // frame of a message
)

// masked returns a frame of a client with the given first byte.
func masked(first byte, content string) []byte {
	frame := ws.NewFrame(0, false, []byte(content))
	b := ws.MustCompileFrame(ws.MaskFrameInPlaceWith(frame, [4]byte{7, 8, 9, 10}))
	b[0] = first
	return b
}

// closed returns the close that a server sends.
func closed(why Status, reason string) []byte {
	return ws.MustCompileFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(why, reason)))
}

// witness counts what a client does.
type witness struct{ spoke, ponged, gone int }

func (w *witness) Spoke()  { w.spoke++ }
func (w *witness) Ponged() { w.ponged++ }
func (w *witness) Gone()   { w.gone++ }

// open returns a socket that listens, and the client's end.
func open(t testing.TB, w Client) (*Socket, net.Conn) {
	here, there := net.Pipe()
	s := &Socket{conn: there}
	t.Cleanup(func() { here.Close() })
	s.Listen(w)
	return s, here
}

var (
	fault = closed(ProtocolError, faultReason)
	long  = closed(MessageTooBig, "the message is too long")
)

func TestListen_FollowsTheProtocol(t *testing.T) {
	sized := func(size int) []byte { return masked(text|last, strings.Repeat("x", size)) }
	for _, row := range []struct {
		name     string
		frames   [][]byte
		response []byte
		witness
	}{
		{"a message", [][]byte{sized(5), sized(0)}, nil, witness{2, 0, 0}},
		{"of bytes", [][]byte{masked(binaryData|last, "x")}, nil, witness{1, 0, 0}},
		{"in parts", [][]byte{masked(1, "a"), masked(0, ""), masked(last, "b")}, nil, witness{1, 0, 0}},
		{"with a ping between", [][]byte{masked(1, "a"), masked(ping|last, "!"), masked(last, "b")},
			[]byte{pong | last, 1, '!'}, witness{1, 0, 0}},
		{"the longest", [][]byte{sized(Longest)}, nil, witness{1, 0, 0}},
		{"too long", [][]byte{sized(Longest + 1)}, long, witness{1, 0, 0}},
		{"too long together", [][]byte{masked(1, strings.Repeat("x", Longest)), masked(last, "x")}, long,
			witness{1, 0, 0}},
		{"far too long", [][]byte{sized(70_000), sized(3)}, long, witness{2, 0, 0}},
		{"a negative length", [][]byte{{text | last, 0xff}, bytes.Repeat([]byte{0xff}, 8), make([]byte, 4)}, nil,
			witness{0, 0, 1}},
		{"a pong", [][]byte{masked(pong|last, "x")}, nil, witness{0, 1, 0}},
		{"not masked", [][]byte{{ping | last, 0}}, fault, witness{0, 0, 1}},
		{"an extension", [][]byte{masked(1|last|0x40, "x")}, fault, witness{0, 0, 1}},
		{"a ping in parts", [][]byte{masked(ping, "x")}, fault, witness{0, 0, 1}},
		{"a long ping", [][]byte{masked(ping|last, strings.Repeat("x", 126))}, fault, witness{0, 0, 1}},
		{"a kind of data that is not known", [][]byte{masked(3|last, "x")}, fault, witness{0, 0, 1}},
		{"a kind of control", [][]byte{masked(11|last, "x")}, fault, witness{0, 0, 1}},
		{"a part of no message", [][]byte{masked(last, "x")}, fault, witness{0, 0, 1}},
		{"a message in another", [][]byte{masked(1, "x"), sized(1)}, fault, witness{0, 0, 1}},
		{"a close", [][]byte{masked(closing|last, "\x03\xe9bye")}, closed(GoingAway, ""), witness{0, 0, 1}},
		{"a close of its own kind", [][]byte{masked(closing|last, "\x0b\xb8")}, closed(3000, ""), witness{0, 0, 1}},
		{"a close without a reason", [][]byte{masked(closing|last, "")}, closed(Normal, ""), witness{0, 0, 1}},
		{"half a close", [][]byte{masked(closing|last, "\x03")}, fault, witness{0, 0, 1}},
		{"a close by a code that none sends", [][]byte{masked(closing|last, "\x03\xed")}, fault, witness{0, 0, 1}},
	} {
		for _, chunk := range []int{1, 7, 1 << 20} { // bytes that arrive together
			synctest.Test(t, func(t *testing.T) {
				var w witness
				s, here := open(t, &w)
				var got bytes.Buffer
				go io.Copy(&got, here)
				go func() {
					for part := range slices.Chunk(slices.Concat(row.frames...), chunk) {
						here.Write(part)
					}
				}()
				synctest.Wait()
				if !bytes.Equal(got.Bytes(), row.response) || w != row.witness {
					t.Errorf("%s, by %d: %q, %+v; want %q, %+v", row.name, chunk, &got, w, row.response, row.witness)
				}
				here.Close()
				s.Close(Normal, "")
				if w.gone != 1 {
					t.Errorf("%s: gone %d times", row.name, w.gone)
				}
			})
		}
	}
}

// A close waits for the client's, but not for long, whatever else the client sends.
func TestClose_WaitsForTheClient(t *testing.T) {
	for _, row := range []struct {
		name     string
		response []byte
		after    time.Duration
	}{{"it closes", masked(closing|last, "\x03\xe9"), time.Second}, {"it sends", masked(1, "x"), closeWithin},
		{"it is silent", nil, closeWithin}} {
		synctest.Test(t, func(t *testing.T) {
			var w witness
			s, here := open(t, &w)
			var got bytes.Buffer
			go io.Copy(&got, here)
			go func() {
				time.Sleep(time.Second)
				here.Write(row.response)
			}()
			began := time.Now()
			s.Close(GoingAway, "the end")
			if took := time.Since(began); took != row.after || w.gone != 1 {
				t.Errorf("%s: closed after %v, %+v", row.name, took, w)
			}
			if s.Send(t.Context(), nil) == nil || s.Ping(t.Context()) == nil {
				t.Errorf("%s: sent after the close", row.name)
			}
			if synctest.Wait(); !bytes.Equal(got.Bytes(), closed(GoingAway, "the end")) {
				t.Errorf("%s: got %q", row.name, &got)
			}
		})
	}
}

// A client that does not receive is given up in time, or when the context of what it should receive ends.
func TestSend_IsBounded(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var w witness
			s, _ := open(t, &w)
			ctx, stop := context.WithCancel(t.Context())
			context.AfterFunc(ctx, s.Interrupt)
			want := writeWithin
			if stops {
				want = time.Second
				time.AfterFunc(want, stop)
			}
			began := time.Now()
			err := s.Send(ctx, []byte("x"))
			synctest.Wait()
			if took := time.Since(began); took != want || !errors.Is(err, os.ErrDeadlineExceeded) || w.gone != 1 {
				t.Errorf("after %v: %v, %+v", took, err, w)
			}
			stop()
		})
	}
}

// The end of a context does not interrupt what is sent without it, such as the last message.
func TestInterrupt_LetsLastWordsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		s, here := open(t, &w)
		go func() {
			time.Sleep(time.Second)
			s.Interrupt()
			time.Sleep(time.Second)
			io.Copy(io.Discard, here)
		}()
		if err := s.Send(context.Background(), []byte("x")); err != nil {
			t.Error(err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Send(over, []byte("x")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := s.Send(context.Background(), []byte("x")); err != nil {
			t.Error(err)
		}
		here.Close()
		s.Close(Normal, "")
	})
}

// Another implementation reads messages of all lengths, whole and in parts.
func TestSend_IsReadByOthers(t *testing.T) {
	sizes := []int{0, 1, 125, 126, 127, 65535, 65536, 200_000}
	served := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Also", "sent")
		s, err := Accept(w, r, "live")
		if err != nil {
			served <- err
			return
		}
		s.Listen(&witness{})
		for _, n := range sizes {
			message := bytes.Repeat([]byte("m"), n)
			err = errors.Join(err, s.Send(r.Context(), message), s.SendPart(r.Context(), message, true, false),
				s.Ping(r.Context()), s.SendPart(r.Context(), message, false, false),
				s.SendPart(r.Context(), message, false, true))
		}
		s.Close(TryAgainLater, strings.Repeat("r", 200))
		served <- err
	}))
	defer server.Close()
	c, r, err := websocket.Dial(t.Context(), server.URL, &websocket.DialOptions{Subprotocols: []string{"other", "live"},
		CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	if c.Subprotocol() != "live" || r.Header.Get("X-Also") != "sent" {
		t.Errorf("%+v", r.Header)
	}
	for _, n := range sizes {
		for _, times := range []int{1, 3} {
			kind, text, err := c.Read(t.Context())
			if want := bytes.Repeat([]byte("m"), n*times); err != nil || kind != websocket.MessageText ||
				!bytes.Equal(text, want) {
				t.Fatalf("%d times %d: %v, %d bytes, %v", times, n, kind, len(text), err)
			}
		}
	}
	if _, _, err = c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// What asks for a WebSocket in another way than RFC 6455 is found before the connection is taken over, so that the
// server can answer it.
func TestRequested_FindsWhatCannotBeAccepted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Requested(r) {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		if s, err := Accept(w, r, r.Header.Get("Sec-WebSocket-Protocol")); err == nil {
			s.Drop()
		}
	}))
	defer server.Close()
	const good = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for _, row := range []struct {
		name, replaced, by, body string
		want                     int
	}{
		{"all", "", "", "", 101},
		{"of a browser", "Connection: Upgrade", "Connection: keep-alive, Upgrade", "", 101},
		{"in lines", "Connection: Upgrade", "Connection: keep-alive\r\nConnection: upgrade", "", 101},
		{"one of two", "Upgrade: websocket", "Upgrade: h2c, WebSocket", "", 101},
		{"a protocol in odd characters", "Host: x", "Host: x\r\nSec-WebSocket-Protocol: a b;\"", "", 101},
		{"another connection", "Connection: Upgrade", "Connection: keep-alive", "", 426},
		{"another protocol", "Upgrade: websocket", "Upgrade: h2c", "", 426},
		{"HTTP/1.0", "HTTP/1.1", "HTTP/1.0", "", 426},
		{"another method", "GET", "DELETE", "", 426},
		{"a body", "Host: x", "Host: x\r\nContent-Length: 1", "x", 426},
		{"a body in chunks", "Host: x", "Host: x\r\nTransfer-Encoding: chunked", "0\r\n\r\n", 426},
		{"an old version", "Version: 13", "Version: 8", "", 426},
		{"no version", "Sec-WebSocket-Version: 13\r\n", "", "", 426},
		{"no key", "Key: dGhlIHNhbXBsZSBub25jZQ==", "Key:", "", 426},
		{"a short key", "dGhlIHNhbXBsZSBub25jZQ==", "AAAA", "", 426},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(conn, strings.Replace(good, row.replaced, row.by, 1)+"\r\n"+row.body)
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		got.Body.Close()
		if got.StatusCode != row.want {
			t.Errorf("%s: %d, want %d", row.name, got.StatusCode, row.want)
		}
	}
}

// Whatever a client sends ends with its connection, and is answered by frames.
func FuzzListen(f *testing.F) {
	f.Add(masked(text|last, "x"))
	f.Add(masked(closing|last, "\x03\xe9"))
	f.Add(slices.Concat(masked(1, "a"), masked(ping|last, "!"), masked(last, "b")))
	f.Add(masked(text|last, strings.Repeat("x", 200)))
	f.Fuzz(func(t *testing.T, sent []byte) {
		var w witness
		s, here := open(t, &w)
		got := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(here)
			got <- all
		}()
		here.Write(sent)
		s.Drop()
		s.hearing.Wait()
		if w.gone != 1 {
			t.Errorf("gone %d times", w.gone)
		}
		for all := <-got; len(all) > 0; {
			size := 2
			if len(all) > 1 {
				size += int(all[1])
			}
			if kind := all[0]; kind != pong|last && kind != closing|last || len(all) < size {
				t.Fatalf("%q", all)
			}
			all = all[size:]
		}
	})
}
