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

// Allocated returns how many bytes this process has allocated so far, including freed ones.
func Allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// CPU returns the CPU time of this process so far, which the fake clock of a synctest bubble does not show, and other
// programs lengthen less than the time of the clock.
func CPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// WantErrorText fails the test unless err explains what happened without showing the secret. With tolerated, nil is
// accepted too.
func WantErrorText(t *testing.T, err error, tolerated bool, secret string) {
	t.Helper()
	if err == nil && tolerated {
		return
	}
	if dispatch.KindOf(err) == dispatch.Internal || len(dispatch.TextFor(err)) < 10 ||
		len(dispatch.TextFor(err)) > 4_000 {
		t.Errorf("got %v", err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v", err, dispatch.TextFor(err)), secret) {
		t.Errorf("the error shows the token: %v", err)
	}
}
