package store

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unacknowledged is how long sent data may stay without acknowledgement.
const unacknowledged = 10_000 // milliseconds

// boundUnacknowledged makes the kernel abort a TCP connection whose peer acknowledges nothing.
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
