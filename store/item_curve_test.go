package store

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCurve_FindsAllThatIntersect: whatever intersects a box has a number in its ranges, which are in order.
func TestCurve_FindsAllThatIntersect(t *testing.T) {
	for _, c := range []curve{placeCurve, periodCurve} {
		rapid.Check(t, func(t *rapid.T) {
			draw := func(name string) (low, high [2]float64) {
				for d := range c.dimensions {
					low[d] = rapid.Float64Range(0, 1).Draw(t, name)
					size := rapid.SampledFrom([]float64{0, 1e-6, 1e-3, 0.1, 1}).Draw(t, "size")
					high[d] = min(1, low[d]+size*rapid.Float64Range(0, 1).Draw(t, name))
				}
				return low, high
			}
			low, high := draw("item")
			from, to := draw("query")
			n, ranges := c.number(low, high), c.ranges(from, to)
			meets := true
			for d := range c.dimensions {
				meets = meets && low[d] <= to[d] && high[d] >= from[d]
			}
			found := slices.ContainsFunc(ranges, func(r cellRange) bool { return r.first <= n && n <= r.last })
			if meets && !found {
				t.Fatalf("%v-%v has number %d, which is not in %v of %v-%v", low, high, n, ranges, from, to)
			}
			if !slices.IsSortedFunc(ranges, func(a, b cellRange) int { return int(a.last - b.first) }) ||
				len(ranges) > 200 {
				t.Fatalf("%d ranges: %v", len(ranges), ranges)
			}
		})
	}
}
