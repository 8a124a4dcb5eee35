package socket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/gobwas/ws"
)

const (
	mostHeard   = 512 // bytes that are read at once
	faultReason = "the client breaks the protocol"
)

// Listen begins to receive.
func (s *Socket) Listen(c Client) {
	s.client = c
	s.hearing.Add(1)
	go s.wait()
}

// wait waits for the client. What reads more runs in a new goroutine, because a stack that has grown stays.
func (s *Socket) wait() {
	n, err := s.conn.Read(s.first[:])
	go s.receive(n, err)
}

// receive reads the frames of which the first n bytes have arrived.
func (s *Socket) receive(n int, err error) {
	if err == nil {
		from := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(s.first[:n]), s.conn), mostHeard)
		for err = s.frame(from); err == nil && from.Buffered() > 0; {
			err = s.frame(from)
		}
	}
	if err == nil {
		go s.wait()
		return
	}
	if _, ok := errors.AsType[ws.ProtocolError](err); ok {
		s.BeginClose(ProtocolError, faultReason)
	}
	s.Drop()
	s.client.Gone()
	s.hearing.Done()
}

var errClosed = errors.New("the client has closed the connection")

// frame reads a frame. What breaks the protocol is a [ws.ProtocolError].
func (s *Socket) frame(from *bufio.Reader) error {
	h, err := ws.ReadHeader(from)
	if err != nil {
		return err
	}
	state := ws.StateServerSide
	if s.within {
		state = state.Set(ws.StateFragmented)
	}
	if err := ws.CheckHeader(h, state); err != nil {
		return err
	}
	if h.OpCode.IsData() || h.OpCode == ws.OpContinuation {
		return s.part(from, h.Fin, h.Length)
	}
	content := make([]byte, h.Length)
	if _, err := io.ReadFull(from, content); err != nil {
		return err
	}
	ws.Cipher(content, h.Mask, 0)
	return s.control(h.OpCode, content)
}

// part discards a part of a message.
func (s *Socket) part(from io.Reader, isLast bool, size int64) error {
	if s.size += size; s.size > Longest || s.size < 0 {
		s.BeginClose(MessageTooBig, "the message is too long")
	}
	if _, err := io.CopyN(io.Discard, from, size); err != nil {
		return err
	}
	if s.within = !isLast; isLast {
		s.size = 0
		s.client.Spoke()
	}
	return nil
}

func (s *Socket) control(kind ws.OpCode, content []byte) error {
	switch kind {
	case ws.OpPing:
		return s.send(context.Background(), ws.NewPongFrame(content))
	case ws.OpPong:
		s.client.Ponged()
		return nil
	}
	why := Normal
	if len(content) > 0 {
		var reason string
		why, reason = ws.ParseCloseFrameData(content)
		if err := ws.CheckCloseFrameData(why, reason); err != nil {
			return err
		}
	}
	s.BeginClose(why, "")
	return errClosed
}
