package simulator

import (
	"errors"
	"io"
	"net"
	"time"
)

// Distant forwards connections to a server, at the address of the listener that it returns, as from far away: each byte
// takes half of the round trip in each direction, and a new connection a whole one more before its first byte, as TCP's
// handshake does.
func Distant(server string, roundTrip time.Duration) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			connected := time.Now().Add(roundTrip)
			go func() {
				behind, err := net.Dial("tcp", server)
				if err != nil {
					client.Close()
					return
				}
				go carry(behind, client, connected, roundTrip/2)
				carry(client, behind, connected, roundTrip/2)
			}()
		}
	}()
	return l, nil
}

// carry writes to one connection what it reads from another, each part after a delay, and then ends that connection in
// the same way. The first part leaves when they are connected.
func carry(from, to net.Conn, connected time.Time, delay time.Duration) {
	type part struct {
		text []byte
		due  time.Time
		err  error
	}
	parts := make(chan part, 1024)
	go func() {
		defer close(parts)
		for {
			text := make([]byte, 16<<10)
			n, err := from.Read(text)
			left := time.Now()
			if left.Before(connected) {
				left = connected
			}
			parts <- part{text[:n], left.Add(delay), err}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.due))
		to.Write(p.text) // the other direction finds an error
		if p.err != nil && !errors.Is(p.err, io.EOF) {
			to.(*net.TCPConn).SetLinger(0) // which resets
		}
	}
	to.Close()
}
