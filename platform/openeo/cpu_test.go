package openeo_test

import (
	"syscall"
	"testing"
	"time"
)

// cpu is the CPU time that this process took so far: time stands still in a bubble.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
