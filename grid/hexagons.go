package grid

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"strconv"
)

// finest is the highest resolution of H3.
const finest = 15

var _ = func() bool {
	for r := range finest + 1 {
		add(hexagons(r))
	}
	return true
}()

// hexagons returns the grid of the cells of H3 of a resolution.
func hexagons(resolution int) *Grid {
	cells := 2
	for n, seven := 0, 120; n <= resolution; n, seven = n+1, 7*seven {
		cells = 2 + seven
	}
	// The size of the mean cell on the ground: that of the Earth divided by their number.
	side := math.Sqrt(4 * math.Pi * authalic(90) / float64(cells))
	return &Grid{
		Name: fmt.Sprintf("h3-%d", resolution), Width: side, Height: side,
		Description: fmt.Sprintf(
			"Hexagons of H3 of resolution %d, %s on average, and twelve pentagons. Cells at the corners of H3's "+
				"icosahedron are half as large as those in the middle "+
				"of its faces. An id is H3's own, such as 85194e6ffffffff.", resolution, squareSize(side)),
		// The largest cells are 1.22 times as large as the mean.
		tree: &tree{cells: cells, south: -90, north: 90, uneven: 1.25, root: func(buffer float64) branch {
			all := make([]branch, 0, len(baseCells)/2)
			for n := range len(baseCells) / 2 {
				all = append(all, baseCell(n, resolution, buffer))
			}
			return newGroup(all)
		}},
	}
}

// squareSize returns the size of a square in square kilometres or metres.
func squareSize(side float64) string {
	if side < 1000 {
		return inFull(side*side, 3) + " m²"
	}
	return inFull(math.Round(side*side/1e4)/100, 6) + " km²"
}

// inFull writes a number with so many significant digits and without an exponent.
func inFull(x float64, digits int) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		rounded = x
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// baseCells has two letters for each cell of resolution 0: its face, a to t, and where it lies on it: in the centre C,
// in one of the six directions, or, as a pentagon P, at the first corner.
const baseCells = "bIcNbCcIaPbNbKcCaIcJbJbSdIdNlPeIaCgJaKcShKcKaNgKkPgCdClIeNdJaSeCfJaJhJlNhCkImPgEhEeKdKdSeJgIlCiKfKoPfCmIkNeSmNhIlJkCnPkKlKjJiJgPiCjKoIfEqSiEfImChPmJkJjCnIqKpSpJqJoNnNfPiIoCjEoKrKmKqCrSpKqEjIpCnCiPnJrEtJoJtSrJnKrCqIjPpEpIsSsKtKrItCsJsEtPtIsCtEsI"

// directions are the letters of the digits of H3: the centre, and the six directions in which the seven cells of the
// next resolution lie.
const directions = "CKJSIEN"

// direction returns where a digit leads. Counterclockwise they are 4, 6, 2, 3, 1 and 5.
func direction(digit int) complex128 {
	if digit == 0 {
		return 0
	}
	return rotation([]int{0, 4, 2, 3, 0, 5, 1}[digit])
}

// Digits of pentagons: the cells in one direction are missing, and those in the next take their place.
const (
	missing = 1
	after   = 5
)

// hexagon is a cell of H3, and with it the cells of the finest resolution of a grid that descend from it.
type hexagon struct {
	resolution, last int
	index            uint64 // without the bits of the resolution
	home             int    // face
	at               complex128
	pentagon         bool // it is one, or descends from one
	first            int  // the first digit that is not 0
	buffer           float64
}

func baseCell(n, last int, buffer float64) hexagon {
	letter := baseCells[2*n+1]
	h := hexagon{last: last, index: 1<<59 | uint64(n)<<45 | (1<<45 - 1), home: int(baseCells[2*n] - 'a'),
		buffer: buffer, pentagon: letter == 'P'}
	if h.pentagon {
		h.at = corner(0)
		return h
	}
	for digit := range len(directions) {
		if directions[digit] == letter {
			h.at = direction(digit)
		}
	}
	return h
}

// step returns the distance of neighbouring cells of a resolution as a number of the plane. Each resolution is finer by
// the square root of seven, and every other one is turned by 19.1 degrees.
func step(resolution int) complex128 {
	length := complex(math.Pow(7, -float64(resolution)/2), 0)
	if resolution%2 == 0 {
		return length
	}
	return length * (5 + complex(0, math.Sqrt(3))) / complex(math.Sqrt(28), 0)
}

// isPentagon reports whether the cell is one of twelve.
func (h hexagon) isPentagon() bool { return h.pentagon && h.first == 0 }

// branches implements [branch].
func (h hexagon) branches() []branch {
	if h.resolution == h.last {
		return nil
	}
	parts := make([]branch, 0, 7)
	for digit := range 7 {
		if digit == missing && h.isPentagon() {
			continue
		}
		part := h
		part.resolution++
		shift := 45 - 3*part.resolution
		part.index ^= uint64(7^digit) << shift
		part.at += direction(digit) * step(part.resolution)
		if h.first == 0 {
			part.first = digit
		}
		parts = append(parts, part)
	}
	return parts
}

// place returns where the cell lies.
func (h hexagon) place() place {
	if !h.pentagon {
		return place{h.home, h.at}.folded()
	}
	q := h.at - corner(0)
	if h.first == after {
		q *= rotation(-1)
	}
	return around(h.home, q, h.first == after).folded()
}

// bounds implements [branch]. All cells that descend from a cell lie within 0.61 times the distance to its neighbours.
// Corners move by more than the buffer: by 1.5 times that at most, in the corners of the icosahedron.
func (h hexagon) bounds() Box {
	p := h.place()
	centre := icosahedron()[p.face].vector(p.at).position()
	radius := 0.61*gnomonic*math.Pow(7, -float64(h.resolution)/2) + 1.5*h.buffer/polarRadius + 1e-9
	up := radius * 180 / math.Pi
	b := Box{-180, max(-90, centre[1]-up), 180, min(90, centre[1]+up)}
	if narrowest := math.Cos(centre[1] * math.Pi / 180); math.Abs(centre[1])+up < 90 {
		wide := math.Asin(math.Sin(radius)/narrowest) * 180 / math.Pi
		if centre[0]-wide > -180 && centre[0]+wide < 180 {
			b.West, b.East = centre[0]-wide, centre[0]+wide
		}
	}
	return b
}

// polarRadius is less than any radius of curvature of the Earth, in metres.
const polarRadius = semiMajor * (1 - ecc2)

// cell implements [branch].
func (h hexagon) cell() Cell {
	faces, ring := icosahedron(), Ring{}
	for _, p := range h.vertices() {
		at := faces[p.face].vector(p.at).position()
		if at = (Point{snap(at[0]), snap(at[1])}); len(ring) == 0 || at != ring[len(ring)-1] {
			ring = append(ring, at)
		}
	}
	return Cell{ID: fmt.Sprintf("%x", h.index|uint64(h.resolution)<<52),
		outline: onGlobe(append(ring, ring[0]).alongArcs())}
}

// onGlobe returns a ring that may cross the antimeridian or surround a pole.
func onGlobe(r Ring) MultiPolygon {
	for i := 1; i < len(r); i++ {
		if math.Abs(r[i][0]-r[i-1][0]) >= 180 {
			area, err := newArea(MultiPolygon{{r}}, nil)
			if err != nil {
				return MultiPolygon{}
			}
			return area.Polygons()
		}
	}
	return MultiPolygon{{r}}
}

// vertices returns the corners of the cell, counterclockwise, and the points at which its border crosses an edge of the
// icosahedron between them.
func (h hexagon) vertices() (all []place) {
	toCorner := step(h.resolution) * cmplx.Rect(h.scale()/math.Sqrt(3), math.Pi/6)
	if h.isPentagon() {
		return h.pentagonal(toCorner)
	}
	p := h.place()
	for n := range 6 {
		a, b := p.at+toCorner*rotation(n), p.at+toCorner*rotation(n+1)
		all = append(all, place{p.face, a}.folded())
		for _, part := range crossed(a, b) {
			all = append(all, place{p.face, a + (b-a)*complex(part, 0)}.folded())
		}
	}
	return all
}

// crossed returns at which parts of the way from a to b it crosses edges of the face.
func crossed(a, b complex128) (parts []float64) {
	for edge := range 3 {
		if from, to := beyond(a, edge), beyond(b, edge); min(from, to) < -nearEdge && max(from, to) > nearEdge {
			parts = append(parts, from/(from-to))
		}
	}
	slices.Sort(parts)
	return parts
}

// pentagonal returns the corners of a pentagon, which is a hexagon around a corner of the icosahedron without a sixth.
// If the resolution is odd its borders cross the five edges that meet there.
func (h hexagon) pentagonal(toCorner complex128) (all []place) {
	for n := range 5 {
		q := toCorner * rotation(n)
		all = append(all, around(h.home, q, true))
		if h.resolution%2 == 1 {
			edge := cmplx.Rect(1, math.Pi/2) * rotation(n) // between this corner and the next
			middle := q * cmplx.Rect(1, math.Pi/6)
			distance := cmplx.Abs(q) * math.Cos(math.Pi/6) / math.Cos(cmplx.Phase(middle/edge))
			all = append(all, around(h.home, edge*complex(distance, 0), true))
		}
	}
	return all
}

// scale returns how much larger the cell becomes by its buffer.
func (h hexagon) scale() float64 {
	p := h.place()
	z := cmplx.Abs(p.at) * gnomonic
	// metres from the centre to the nearest border
	inner := gnomonic * math.Pow(7, -float64(h.resolution)/2) / 2 / (1 + z*z) * polarRadius
	return 1 + h.buffer/inner
}
