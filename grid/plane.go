package grid

import (
	"cmp"
	"math"
	"math/big"
	"slices"
)

type (
	// Point is longitude and latitude in degrees.
	Point [2]float64
	// Ring is closed: its last point repeats the first.
	Ring []Point
	// Polygon is a shell, counterclockwise, followed by its holes, clockwise (RFC 7946, section 3.1.6).
	Polygon []Ring
	// MultiPolygon is polygons that touch in points at most.
	MultiPolygon []Polygon
)

// orient returns on which side of the line from a to b the point c lies: 1 left, -1 right, 0 on the line. It is exact:
// if the bound on the rounding error (Shewchuk, Adaptive precision floating-point arithmetic, 1997) does not decide, it
// computes without rounding.
func orient(a, b, c Point) int {
	l, r := float64((a[0]-c[0])*(b[1]-c[1])), float64((a[1]-c[1])*(b[0]-c[0]))
	if sum := math.Abs(l) + math.Abs(r); sum == 0 || math.Abs(l-r) > 3.3306690738754716e-16*sum {
		return cmp.Compare(l, r)
	}
	diff := func(x, y float64) *big.Rat {
		return new(big.Rat).Sub(new(big.Rat).SetFloat64(x), new(big.Rat).SetFloat64(y))
	}
	x, y := diff(a[0], c[0]), diff(a[1], c[1])
	return x.Mul(x, diff(b[1], c[1])).Cmp(y.Mul(y, diff(b[0], c[0])))
}

// crossing returns where an edge meets the line on which axis (0 longitude, 1 latitude) has a value. The result is the
// same for both directions of the edge, so that neighbouring pieces have no gap.
func crossing(a, b Point, axis int, line float64) (p Point) {
	if a[axis] > b[axis] {
		a, b = b, a
	}
	o := 1 - axis
	v := a[o] + float64((b[o]-a[o])*((line-a[axis])/(b[axis]-a[axis])))
	p[axis], p[o] = line, min(max(v, min(a[o], b[o])), max(a[o], b[o]))
	return p
}

// meet returns where two edges cross, each with ends on both sides of the other.
func meet(a, b, c, d Point) (Point, bool) {
	if orient(a, b, c)*orient(a, b, d) >= 0 || orient(c, d, a)*orient(c, d, b) >= 0 {
		return Point{}, false
	}
	dx, dy, ex, ey := b[0]-a[0], b[1]-a[1], d[0]-c[0], d[1]-c[1]
	u := ((c[0]-a[0])*ey - (c[1]-a[1])*ex) / (dx*ey - dy*ex)
	return Point{a[0] + u*dx, a[1] + u*dy}, true
}

// area2 returns twice the signed area in square degrees, positive if counterclockwise. It computes relative to the
// first point, because small rings far from the origin would lose their sign.
func (r Ring) area2() (sum float64) {
	for i := 1; i < len(r); i++ {
		sum += float64((r[i-1][0]-r[0][0])*(r[i][1]-r[0][1])) - float64((r[i][0]-r[0][0])*(r[i-1][1]-r[0][1]))
	}
	return sum
}

// box is a bounding box: least and greatest longitude and latitude.
func (r Ring) box() (west, south, east, north float64) {
	west, south, east, north = r[0][0], r[0][1], r[0][0], r[0][1]
	for _, p := range r {
		west, south, east, north = min(west, p[0]), min(south, p[1]), max(east, p[0]), max(north, p[1])
	}
	return west, south, east, north
}

func (r Ring) width() float64 {
	west, _, east, _ := r.box()
	return east - west
}

// within reports whether a hole lies in a shell that it does not cross.
func (r Ring) within(shell Ring) bool {
	for _, p := range r {
		if inside, on := p.in(shell); !on {
			return inside
		}
	}
	return false
}

// in reports whether p lies inside the ring, by counting edges east of p; on is true if p lies on the ring.
func (p Point) in(r Ring) (inside, on bool) {
	for i := 1; i < len(r); i++ {
		a, b := r[i-1], r[i]
		if a[1] > b[1] {
			a, b = b, a
		}
		if p[1] < a[1] || p[1] > b[1] {
			continue
		}
		side := orient(a, b, p)
		if side == 0 && p[0] >= min(a[0], b[0]) && p[0] <= max(a[0], b[0]) {
			return false, true
		}
		if p[1] < b[1] && side > 0 {
			inside = !inside
		}
	}
	return inside, false
}

// compare orders points from west to east, then from south to north. It is written without cmp.Compare because sorting
// takes much of the time of a check.
func (p Point) compare(q Point) int {
	switch {
	case p[0] < q[0]:
		return -1
	case p[0] > q[0]:
		return 1
	case p[1] < q[1]:
		return -1
	case p[1] > q[1]:
		return 1
	}
	return 0
}

// loops splits a ring that touches itself in vertices into rings that do not.
func (r Ring) loops() (out []Ring) {
	seen := make(map[Point]int, len(r))
	var path Ring
	for _, p := range r {
		at, met := seen[p]
		if !met {
			seen[p] = len(path)
			path = append(path, p)
			continue
		}
		if loop := append(slices.Clone(path[at:]), p); len(loop) > 3 {
			out = append(out, loop)
		}
		for _, q := range path[at+1:] {
			delete(seen, q)
		}
		path = path[:at+1]
	}
	return out
}
