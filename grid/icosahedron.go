package grid

import (
	"math"
	"math/cmplx"
	"slices"
	"sync"
)

// The Earth of H3 is an icosahedron whose faces are planes: a point of a face is a complex number, with the origin at
// the centre of the face, its real axis towards the first corner, and the distance of neighbouring cells of resolution
// 0 as the unit. The gnomonic projection of each face leads to the sphere, whose latitudes and longitudes count as
// those of WGS84 (K. Sahr, D. White, A. J. Kimerling, Geodesic Discrete Global Grid Systems, 2003;
// https://h3geo.org/docs/core-library/overview).

// vector is a point of the sphere, or a direction.
type vector [3]float64

func (v vector) plus(w vector, factor float64) vector {
	return vector{v[0] + factor*w[0], v[1] + factor*w[1], v[2] + factor*w[2]}
}

func (v vector) dot(w vector) float64 { return v[0]*w[0] + v[1]*w[1] + v[2]*w[2] }

func (v vector) cross(w vector) vector {
	return vector{v[1]*w[2] - v[2]*w[1], v[2]*w[0] - v[0]*w[2], v[0]*w[1] - v[1]*w[0]}
}

// unit returns v with the length 1.
func (v vector) unit() vector { return vector{}.plus(v, 1/math.Sqrt(v.dot(v))) }

// turned rotates v about a unit vector, counterclockwise as seen from its tip.
func (v vector) turned(about vector, angle float64) vector {
	sin, cos := math.Sincos(angle)
	return vector{}.plus(v, cos).plus(about.cross(v), sin).plus(about, about.dot(v)*(1-cos))
}

// position returns longitude and latitude in degrees.
func (v vector) position() Point {
	return Point{math.Atan2(v[1], v[0]) * 180 / math.Pi, math.Atan2(v[2], math.Hypot(v[0], v[1])) * 180 / math.Pi}
}

// face is a face of the icosahedron.
type face struct {
	centre     vector // a unit vector
	real, imag vector // unit vectors along the axes of the plane
	across     [3]passage
}

// passage is the way over the edge between the corners n and n + 1 of a face.
type passage struct {
	face        int
	turn, shift complex128 // lead to the plane of that face: z turn + shift
}

// place is a point of the plane of a face; it may lie beyond the face.
type place struct {
	face int
	at   complex128
}

// gnomonic is the unit of the planes on the sphere of radius 1: the centre of a face is 37.377 degrees from its
// corners, which are at 2.
var gnomonic = (3 - math.Sqrt(5)) / 2

// thirdTurn and sixthTurn are rotations by 120 and by 60 degrees.
var thirdTurn, sixthTurn = cmplx.Rect(1, 2*math.Pi/3), cmplx.Rect(1, math.Pi/3)

// corner returns a corner of a face: 0, 1 or 2, and so on.
func corner(n int) complex128 { return 2 * rotation(2*n) }

// rotation returns a rotation by so many times 60 degrees.
func rotation(n int) complex128 {
	return [6]complex128{1, sixthTurn, thirdTurn, -1, -sixthTurn, -thirdTurn}[(n%6+6)%6]
}

func (f face) vector(z complex128) vector {
	return f.centre.plus(f.real, gnomonic*real(z)).plus(f.imag, gnomonic*imag(z)).unit()
}

// Orientation of the icosahedron: centre and direction of the first corner of face 0, in radians.
const (
	firstLat, firstLon = 0.803582649718989942, 1.248397419617396099
	firstAzimuth       = 5.619958268523939882
)

// icosahedron returns the faces with the numbers that H3 gives them: 0 to 4 around a corner, 5 to 9 across the edges
// opposite to it, 10 to 14 beside these, and 15 to 19 around the corner at the other side.
var icosahedron = sync.OnceValue(func() (all [20]face) {
	sinLat, cosLat := math.Sincos(firstLat)
	sinLon, cosLon := math.Sincos(firstLon)
	up := vector{cosLat * cosLon, cosLat * sinLon, sinLat}
	north := vector{-sinLat * cosLon, -sinLat * sinLon, cosLat}
	first := face{centre: up, real: north.turned(up, -firstAzimuth)}
	top := first.vectorOfCorner(0)
	for n := range 5 {
		all[n] = first.moved(top, float64(n)*2*math.Pi/5)
		all[5+n] = all[n].neighbour(1)
		all[10+n] = all[5+n].neighbour(0)
		all[15+n] = all[10+n].neighbour(1)
	}
	for n := range all {
		for edge := range 3 {
			all[n].across[edge] = passageOf(&all, n, edge)
		}
	}
	return all
})

func (f *face) vectorOfCorner(n int) vector {
	g := *f
	g.imag = g.centre.cross(g.real)
	return g.vector(corner(n))
}

// moved returns a face rotated about a point.
func (f *face) moved(about vector, angle float64) face {
	g := face{centre: f.centre.turned(about, angle), real: f.real.turned(about, angle)}
	g.imag = g.centre.cross(g.real)
	return g
}

// neighbour returns a face turned by half about the middle of an edge.
func (f *face) neighbour(edge int) face {
	return f.moved(f.vectorOfCorner(edge).plus(f.vectorOfCorner(edge+1), 1).unit(), math.Pi)
}

// passageOf finds the face with the same two corners.
func passageOf(all *[20]face, start, edge int) passage {
	a, b := all[start].vector(corner(edge)), all[start].vector(corner(edge+1))
	for n := range all {
		if n == start {
			continue
		}
		at := func(v vector) int {
			return slices.IndexFunc([]int{0, 1, 2}, func(c int) bool {
				return all[n].vector(corner(c)).dot(v) > 1-1e-9
			})
		}
		if i, k := at(a), at(b); i >= 0 && k >= 0 {
			turn := (corner(k) - corner(i)) / (corner(edge+1) - corner(edge))
			return passage{n, turn, corner(i) - turn*corner(edge)}
		}
	}
	panic("grid: the icosahedron is not closed")
}

// nearEdge is by how much a point may lie beyond the edge of its face: cells are larger than a millionth.
const nearEdge = 1e-12

// beyond returns how far a point lies beyond an edge of its face; less than 0 if it is on the side of the face.
func beyond(z complex128, edge int) float64 { return real(z*cmplx.Conj(rotation(2*edge+1))) - 1 }

// folded returns a place that is the same point and lies in its face. p lies at most around one corner of edges.
func (p place) folded() place {
	faces := icosahedron()
	for {
		edge := 0
		for other := 1; other < 3; other++ {
			if beyond(p.at, other) > beyond(p.at, edge) {
				edge = other
			}
		}
		if beyond(p.at, edge) <= nearEdge {
			return p
		}
		p = faces[p.face].across[edge].lead(p.at)
	}
}

func (c passage) lead(z complex128) place { return place{c.face, z*c.turn + c.shift} }

// around returns the point that lies at q from the first corner of a face if the plane is unrolled around this corner:
// the face itself lies at angles from 150 to 210 degrees, and one more follows in each 60 degrees. There is none
// between 270 and 330 degrees. Points there belong beyond the next face, in the direction in which the plane is
// unrolled.
func around(home int, q complex128, counterclockwise bool) place {
	angle := cmplx.Phase(q) * 180 / math.Pi // from -180 to 180
	switch {                                // a point at the end of the gap belongs beyond it, too
	case counterclockwise && angle > -90 && angle < -30+1e-6:
		q, angle = q*sixthTurn, angle+60
	case !counterclockwise && angle > -90 && angle < -30:
		q, angle = q/sixthTurn, angle-60
	}
	faces := icosahedron()
	now, at := home, 0 // a face, and which of its corners is the common one
	wedge := 0         // how many faces the point lies from home
	switch {
	case angle <= -90 && angle > -150:
		wedge = -1
		c := faces[now].across[2]
		now, at = c.face, cornerAt(c.lead(corner(0)).at)
	case angle > -150 && angle < 150:
		for wedge = 0; angle < 150-60*float64(wedge); wedge++ {
			c := faces[now].across[at]
			now, at = c.face, cornerAt(c.lead(corner(at)).at)
		}
	}
	return place{now, corner(at) + q*rotation(2*at+wedge)}
}

// cornerAt returns which corner of a face lies at z.
func cornerAt(z complex128) int { return (int(math.Round(cmplx.Phase(z)/(2*math.Pi/3))) + 3) % 3 }
