//go:build race

package histories

// The race detector slows the SQL down a hundredfold.
func init() { sameSeeds = []uint64{29} }
