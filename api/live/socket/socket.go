// Package socket is the server's end of WebSockets (RFC 6455) that mostly wait. It sends messages, discards those of
// the client, and keeps no buffer. It waits for the client in few and small frames, so that a stack of 2 kB holds them.
package socket

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// Status is why a connection closes (RFC 6455, section 7.4.1).
type Status = ws.StatusCode

// The reasons that a server has.
const (
	Normal          = ws.StatusNormalClosure
	GoingAway       = ws.StatusGoingAway
	ProtocolError   = ws.StatusProtocolError
	PolicyViolation = ws.StatusPolicyViolation
	MessageTooBig   = ws.StatusMessageTooBig
	InternalError   = ws.StatusInternalServerError
	TryAgainLater   = Status(1013)
)

const (
	writeWithin = 30 * time.Second // for a client to receive a frame
	closeWithin = 5 * time.Second  // for a client to answer a close
	mostReason  = 123              // bytes of the reason of a close
)

// Longest is how many bytes a message of a client may have.
const Longest = 4 << 10

// Client is called about what the client of a socket does, by one goroutine.
type Client interface {
	Spoke()  // sent a message
	Ponged() // responded to a ping
	Gone()   // is disconnected; nothing more follows
}

// Socket is an open connection.
type Socket struct {
	conn    net.Conn
	client  Client
	hearing sync.WaitGroup // until the client is disconnected
	first   [16]byte       // bytes of the next frame
	size    int64          // bytes of the client's present message
	within  bool           // a message of the client has begun

	sending sync.Mutex // one frame at a time
	over    bool       // no more frames can be sent

	limiting sync.Mutex
	limited  bool // Interrupt ends the frame that is sent
}

// Send sends a message.
func (s *Socket) Send(ctx context.Context, message []byte) error {
	return s.send(ctx, ws.NewTextFrame(message))
}

// SendPart sends a part of a message of several.
func (s *Socket) SendPart(ctx context.Context, part []byte, isFirst, isLast bool) error {
	kind := ws.OpContinuation
	if isFirst {
		kind = ws.OpText
	}
	return s.send(ctx, ws.NewFrame(kind, isLast, part))
}

// Ping asks the client to respond.
func (s *Socket) Ping(ctx context.Context) error { return s.send(ctx, ws.NewPingFrame(nil)) }

// send sends a frame. The connection closes if part of it may have been sent.
func (s *Socket) send(ctx context.Context, f ws.Frame) error {
	var whole bytes.Buffer
	whole.Grow(ws.MaxHeaderSize + len(f.Payload))
	_ = ws.WriteFrame(&whole, f) // cannot fail in memory
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.over {
		return net.ErrClosed
	}
	s.limit(ctx.Done() != nil)
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := s.conn.Write(whole.Bytes())
	if s.over = err != nil || f.Header.OpCode == ws.OpClose; err != nil {
		s.Drop()
	}
	return err
}

func (s *Socket) limit(interruptible bool) {
	s.limiting.Lock()
	defer s.limiting.Unlock()
	s.limited = interruptible
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeWithin)) // fails if the connection is closed, as writing does
}

// Interrupt ends the sending of a frame whose context has ended.
func (s *Socket) Interrupt() {
	s.limiting.Lock()
	defer s.limiting.Unlock()
	if s.limited {
		_ = s.conn.SetWriteDeadline(time.Now()) // fails if the connection is closed, as writing does
	}
}

// Close says why the connection closes, and returns when the client has answered, or is late.
func (s *Socket) Close(why Status, reason string) {
	s.BeginClose(why, reason)
	s.hearing.Wait()
}

// BeginClose says why the connection closes, unless that was done. It does not wait for the client.
func (s *Socket) BeginClose(why Status, reason string) {
	body := ws.NewCloseFrameBody(why, reason[:min(len(reason), mostReason)])
	if s.send(context.Background(), ws.NewCloseFrame(body)) == nil {
		_ = s.conn.SetReadDeadline(time.Now().Add(closeWithin)) // fails if the connection is closed, as reading does
	}
}

// Drop closes the connection without a word.
func (s *Socket) Drop() { _ = s.conn.Close() }
