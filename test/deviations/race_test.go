//go:build race

package deviations

// make test plays all scenes without the race detector, which makes them five times as slow.
func init() { everyScene = 4 }
