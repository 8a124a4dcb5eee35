//go:build race

package histories

// The race detector makes histories five times as slow, and SQL more, and make test plays all of them without it. It
// needs few, as all run the same code.
func init() {
	sameSeeds, everyCall, manyInHand = []uint64{29}, 8, 50
	*n = 10
}
