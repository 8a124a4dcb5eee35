//go:build unix

package main

import (
	"math"
	"syscall"
)

// openFiles returns how many files the process may have open, or 0 if that is unknown or unlimited. Go raises the soft
// limit to the hard limit at start.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
