// Package socket is the server's end of WebSockets (RFC 6455) that mostly wait. It sends messages, discards those of
// the client, and keeps no buffer. It waits for the client in few and small frames, so that a stack of 2 kB holds them,
// which libraries exceed.
package socket

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// Status is why a connection closes (RFC 6455, section 7.4.1).
type Status uint16

// The reasons that a server has.
const (
	Normal          Status = 1000
	GoingAway       Status = 1001
	ProtocolError   Status = 1002
	PolicyViolation Status = 1008
	MessageTooBig   Status = 1009
	InternalError   Status = 1011
	TryAgainLater   Status = 1013
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

// Kinds of frames (RFC 6455, section 5.2).
const (
	continuation = 0
	text         = 1
	binaryData   = 2
	closing      = 8
	ping         = 9
	pong         = 10

	last = 0x80 // frame of a message
)

// Send sends a message.
func (s *Socket) Send(ctx context.Context, message []byte) error {
	return s.send(ctx, text|last, message)
}

// SendPart sends a part of a message of several.
func (s *Socket) SendPart(ctx context.Context, part []byte, isFirst, isLast bool) error {
	kind := byte(continuation)
	if isFirst {
		kind = text
	}
	if isLast {
		kind |= last
	}
	return s.send(ctx, kind, part)
}

// Ping asks the client to respond.
func (s *Socket) Ping(ctx context.Context) error { return s.send(ctx, ping|last, nil) }

// send sends a frame. The connection closes if part of it may have been sent.
func (s *Socket) send(ctx context.Context, kind byte, content []byte) error {
	frame := append(head(kind, len(content)), content...)
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.over {
		return net.ErrClosed
	}
	s.limit(ctx.Done() != nil)
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := s.conn.Write(frame)
	if s.over = err != nil || kind == closing|last; err != nil {
		s.Drop()
	}
	return err
}

// head returns the first bytes of a frame, with room for its content.
func head(kind byte, size int) []byte {
	b := make([]byte, 0, 10+size)
	switch {
	case size <= mostControl:
		return append(b, kind, byte(size))
	case size <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, kind, 126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(b, kind, 127), uint64(size))
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
	content := append(binary.BigEndian.AppendUint16(nil, uint16(why)), reason[:min(len(reason), mostReason)]...)
	if s.send(context.Background(), closing|last, content) == nil {
		_ = s.conn.SetReadDeadline(time.Now().Add(closeWithin)) // fails if the connection is closed, as reading does
	}
}

// Drop closes the connection without a word.
func (s *Socket) Drop() { _ = s.conn.Close() }
