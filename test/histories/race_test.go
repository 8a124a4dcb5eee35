//go:build race

package histories

// The race detector slows the SQL down a hundredfold.
func init() { sameSeeds, everyCall, manyInHand = []uint64{29}, 3, 50 }
