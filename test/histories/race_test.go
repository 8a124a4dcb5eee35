//go:build race

package histories

// The race detector slows SQL down by a factor of 100, so the tests do less with it.
func init() { sameSeeds, everyCall, manyInHand = []uint64{29}, 3, 50 }
