package store

import "slices"

// curve gives boxes of some dimensions numbers by which an index finds those that intersect a box, of any size (Böhm,
// Klump, Kriegel: XZ-ordering, 1999). The unit cube is halved in each dimension, depth times. The cells are numbered in
// pre-order, so that a cell and all within it are a range. A box has the number of the smallest cell that contains it
// when it is enlarged to double its size, away from the origin.
type curve struct{ dimensions, depth int }

var (
	placeCurve  = curve{2, 14} // down to 0.02 degrees
	periodCurve = curve{1, 21} // down to 70 minutes
)

// within returns how many cells are within one of a level, with itself.
func (c curve) within(level int) (n int64) {
	for range c.depth - level + 1 {
		n = n<<c.dimensions + 1
	}
	return n
}

// cell is a cell of a curve.
type cell struct {
	level  int
	number int64
	origin [2]float64
	width  float64
}

var rootCell = cell{width: 1}

// inner returns the cells into which a cell is halved.
func (c curve) inner(around cell) (all []cell) {
	for k := range 1 << c.dimensions {
		one := cell{around.level + 1, around.number + 1 + int64(k)*c.within(around.level+1), around.origin,
			around.width / 2}
		for d := range c.dimensions {
			if k>>d&1 == 1 {
				one.origin[d] += one.width
			}
		}
		all = append(all, one)
	}
	return all
}

// number returns the number of a box within the unit cube.
func (c curve) number(low, high [2]float64) int64 {
	at := rootCell
	for at.level < c.depth {
		i := slices.IndexFunc(c.inner(at), func(one cell) bool { return c.holds(one, low, high) })
		if i < 0 {
			break
		}
		at = c.inner(at)[i]
	}
	return at.number
}

// holds reports whether a box begins in a cell, and ends in the cell when that is enlarged.
func (c curve) holds(one cell, low, high [2]float64) bool {
	for d := range c.dimensions {
		end := one.origin[d] + one.width
		if low[d] < one.origin[d] || low[d] >= end && end < 1 || high[d] > end+one.width {
			return false
		}
	}
	return true
}

// numbers is a range of numbers of cells, both included.
type cellRange struct{ first, last int64 }

// fineness is how much smaller than a box the cells are at least that are not read in whole at its border.
const fineness = 8

// ranges returns where the boxes are that may intersect a box, in order.
func (c curve) ranges(low, high [2]float64) (all []cellRange) {
	size := 0.0
	for d := range c.dimensions {
		size = max(size, high[d]-low[d])
	}
	add := func(first, last int64) {
		if n := len(all); n > 0 && all[n-1].last+1 == first {
			all[n-1].last = last
			return
		}
		all = append(all, cellRange{first, last})
	}
	var visit func(cell)
	visit = func(one cell) {
		whole := true
		for d := range c.dimensions {
			from, to := one.origin[d], one.origin[d]+2*one.width
			if to < low[d] || from > high[d] {
				return
			}
			whole = whole && from >= low[d] && to <= high[d]
		}
		if whole || one.level == c.depth || one.width*fineness <= size {
			add(one.number, one.number+c.within(one.level)-1)
			return
		}
		add(one.number, one.number)
		for _, next := range c.inner(one) {
			visit(next)
		}
	}
	visit(rootCell)
	return all
}

// onEarth returns a box of degrees as one of the unit square, in two parts if it crosses the antimeridian.
func onEarth(box []float64) (parts [][2][2]float64) {
	unit := func(v, most float64) float64 { return min(max((v+most)/(2*most), 0), 1) }
	part := func(west, east float64) {
		parts = append(parts, [2][2]float64{{unit(west, 180), unit(box[1], 90)}, {unit(east, 180), unit(box[3], 90)}})
	}
	if box[0] > box[2] {
		part(-180, box[2])
		part(box[0], 180)
		return parts
	}
	part(box[0], box[2])
	return parts
}

// placeOf returns the number of the box of an Item; nil if it has none. One that crosses the antimeridian is as wide
// as the Earth.
func placeOf(box []float64) any {
	if box == nil {
		return nil
	}
	west, east := box[0], box[2]
	if west > east {
		west, east = -180, 180
	}
	p := onEarth([]float64{west, box[1], east, box[3]})[0]
	return placeCurve.number(p[0], p[1])
}

// The times that the curve tells apart, in microseconds since 1970: from 1900 for 284 years.
const (
	firstPeriod = -2208988800e6
	allPeriods  = 1 << 53
)

func inPeriods(us int64) [2]float64 {
	return [2]float64{min(max((float64(us)-firstPeriod)/allPeriods, 0), 1)}
}

// periodOf returns the number of an interval of time.
func periodOf(begins, ends int64) int64 {
	return periodCurve.number(inPeriods(begins), inPeriods(ends))
}
