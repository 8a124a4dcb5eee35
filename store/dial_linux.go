package store

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unacknowledged is how long what was sent may stay without acknowledgement.
const unacknowledged = 10_000 // milliseconds

// boundUnacknowledged lets the kernel give up a TCP connection whose other end acknowledges nothing.
func boundUnacknowledged(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unacknowledged)
	})
	return errors.Join(err, failed)
}
