// Package detector tells tests whether the race detector is on. It makes them five times as slow.
package detector

import "testing"

// Skip skips a test that says nothing about concurrency that shorter ones do not, such as a long simulation, under the
// race detector and with -short. make test runs the tests that call it without the detector: LEFT_OUT in the Makefile,
// which a test checks.
func Skip(t testing.TB) {
	t.Helper()
	if On || testing.Short() {
		t.Skip("runs neither under the race detector nor with -short")
	}
}
