// Package detector tells tests whether the race detector is on. It makes them five times as slow.
package detector

import "testing"

// Skip skips, under the race detector, a test that says nothing about concurrency that shorter ones do not: days on a
// fake clock, or programs that are compiled without the detector. make test runs each package that calls it without the
// detector too: PLAIN in the Makefile, which a test checks.
func Skip(t testing.TB) {
	t.Helper()
	if On {
		t.Skip("runs without the race detector only")
	}
}
