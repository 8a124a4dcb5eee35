package conformance

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Allocated is how many bytes this process allocated so far, those that are free again included.
func Allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// CPU is the CPU time that this process took so far; in a synctest bubble the clock does not tell it.
func CPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// WantTold wants an error that says what happened, and does not tell the secret; or, where that is right too, none.
func WantTold(t *testing.T, err error, tolerated bool, secret string) {
	t.Helper()
	if err == nil && tolerated {
		return
	}
	if dispatch.KindOf(err) == dispatch.Internal || len(dispatch.TextFor(err)) < 10 || len(dispatch.TextFor(err)) > 4_000 {
		t.Errorf("got %v", err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v", err, dispatch.TextFor(err)), secret) {
		t.Errorf("the token is told: %v", err)
	}
}
