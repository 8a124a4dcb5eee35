package socket

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
)

const (
	mostControl = 125 // bytes of a control frame
	mostHeard   = 512 // bytes that are read at once
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
	if errors.Is(err, errFault) {
		s.BeginClose(ProtocolError, err.Error())
	}
	s.Drop()
	s.client.Gone()
	s.hearing.Done()
}

var (
	errFault  = errors.New("the client breaks the protocol")
	errClosed = errors.New("the client has closed the connection")
)

// frame reads a frame.
func (s *Socket) frame(from *bufio.Reader) error {
	var b [8]byte
	if _, err := io.ReadFull(from, b[:2]); err != nil {
		return err
	}
	kind, isLast, size := b[0]&0x0f, b[0]&last != 0, int64(b[1]&0x7f)
	if b[0]&0x70 != 0 || b[1]&0x80 == 0 { // an extension, or not masked
		return errFault
	}
	if more := map[int64]int{126: 2, 127: 8}[size]; more > 0 {
		clear(b[:])
		if _, err := io.ReadFull(from, b[8-more:]); err != nil {
			return err
		}
		size = int64(binary.BigEndian.Uint64(b[:]))
	}
	var mask [4]byte
	if _, err := io.ReadFull(from, mask[:]); err != nil {
		return err
	}
	switch {
	case size < 0:
		return errFault
	case kind == continuation && s.within, (kind == text || kind == binaryData) && !s.within:
		return s.part(from, isLast, size)
	case kind >= closing && kind <= pong && isLast && size <= mostControl:
		content := make([]byte, size)
		if _, err := io.ReadFull(from, content); err != nil {
			return err
		}
		for i := range content {
			content[i] ^= mask[i%4]
		}
		return s.control(kind, content)
	}
	return errFault
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

func (s *Socket) control(kind byte, content []byte) error {
	switch kind {
	case ping:
		return s.send(context.Background(), pong|last, content)
	case pong:
		s.client.Ponged()
		return nil
	}
	why := Normal
	if len(content) > 1 {
		why = Status(binary.BigEndian.Uint16(content))
	}
	if len(content) == 1 || why < Normal || why > 4999 || why > 1014 && why < 3000 || why > 1003 && why < 1007 {
		return errFault
	}
	s.BeginClose(why, "")
	return errClosed
}
