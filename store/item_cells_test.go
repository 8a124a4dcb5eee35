package store

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCells_HoldAllThatMeet: whatever meets a box is in one of its cells.
func TestCells_HoldAllThatMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (low, high [2]float64) {
			for d := range low {
				low[d] = rapid.Float64Range(0, 1<<11).Draw(t, name)
				size := rapid.SampledFrom([]float64{0, 1e-6, 1, 2, 64, 1 << 11}).Draw(t, "size")
				high[d] = min(1<<11, low[d]+size*rapid.Float64Range(0, 1).Draw(t, name))
			}
			return low, high
		}
		low, high := draw("item")
		from, to := draw("query")
		n, cells := cellOf(low, high), cellsOf(from, to)
		meets := true
		for d := range low {
			meets = meets && low[d] <= to[d] && high[d] >= from[d]
		}
		if meets && cells != nil && !slices.Contains(cells, n) {
			t.Fatalf("%v-%v is in cell %d, which is not among %v of %v-%v", low, high, n, cells, from, to)
		}
		if len(cells) > mostCells {
			t.Fatalf("%d cells", len(cells))
		}
	})
}
