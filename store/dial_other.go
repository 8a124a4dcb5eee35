//go:build !linux

package store

import "syscall"

// boundUnacknowledged does nothing: the kernel has no such bound, and the statements' deadlines remain.
func boundUnacknowledged(string, string, syscall.RawConn) error { return nil }
