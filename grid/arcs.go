package grid

import "math"

// borderWithin is how many metres the border of a hexagon may lie beside that of H3, which consists of great circles.
// Borders of the grids are straight in longitude and latitude, so that long ones have further vertices.
const borderWithin = 100

// mostHalvings bounds the vertices of a border. An edge is at most 1,400 km long, of which 100 m are the half of a half
// for the fourteenth time.
const mostHalvings = 14

// vectorAt is the inverse of [vector.position].
func vectorAt(p Point) vector {
	sinLat, cosLat := math.Sincos(p[1] * math.Pi / 180)
	sinLon, cosLon := math.Sincos(p[0] * math.Pi / 180)
	return vector{cosLat * cosLon, cosLat * sinLon, sinLat}
}

// alongArcs returns a ring with further vertices on the great circles between its own, so that no point of its border
// is more than borderWithin beside them. The vertices between two positions do not depend on the direction, so that
// neighbours have the same ones.
func (r Ring) alongArcs() Ring {
	out := Ring{r[0]}
	for i := 1; i < len(r); i++ {
		a, b := r[i-1], r[i]
		backwards := a[0] > b[0] || a[0] == b[0] && a[1] > b[1]
		if backwards {
			a, b = b, a
		}
		between := appendArc(nil, a, b, mostHalvings)
		for n := range between {
			if backwards {
				n = len(between) - 1 - n
			}
			out = append(out, between[n])
		}
		out = append(out, r[i])
	}
	return out
}

// appendArc appends the vertices that the border between two positions needs.
func appendArc(to []Point, a, b Point, halvings int) []Point {
	if halvings == 0 || besideArc(a, b) <= 0.8*borderWithin { // between the three places it can be a little more
		return to
	}
	middle := vectorAt(a).plus(vectorAt(b), 1).unit().position()
	middle = Point{snap(middle[0]), snap(middle[1])}
	return appendArc(append(appendArc(to, a, middle, halvings-1), middle), middle, b, halvings-1)
}

// besideArc returns how many metres the straight line in longitude and latitude is beside the great circle between two
// positions, at most. It is measured in three places, because a line over the equator crosses the arc.
func besideArc(a, b Point) (most float64) {
	east, north := math.Remainder(b[0]-a[0], 360), b[1]-a[1]
	// For short lines with the differences e and n in radians it is at most e²/16 + e n/4 radians. This saves most
	// cells the rest.
	if e, n := math.Abs(east)*math.Pi/180, math.Abs(north)*math.Pi/180; semiMajor*e*(e/16+n/4) <= borderWithin/2 {
		return 0
	}
	pole := vectorAt(a).cross(vectorAt(b)).unit()
	for _, part := range []float64{0.25, 0.5, 0.75} {
		most = max(most, math.Abs(math.Asin(pole.dot(vectorAt(Point{a[0] + part*east, a[1] + part*north}))))*semiMajor)
	}
	return most
}
