package grid

import (
	"fmt"
	"math"
)

var (
	_ = add(squares("20x20km", 20_000))
	_ = add(squares("250x250km", 250_000))
)

// The ellipsoid WGS84 (EPSG:7030).
const (
	semiMajor  = 6378137.0 // metres
	flattening = 1 / 298.257223563
	ecc2       = flattening * (2 - flattening)
)

// squares makes a grid whose cells are nearly squares of size metres. The rows have equal height along the meridian, an
// integer number of them on each hemisphere; a row has an integer number of columns, equally wide along the middle of the
// row. So the equator and the longitude -180 are borders, there is no thin row at the poles, and no cell crosses the
// antimeridian. At a pole the last row has three cells, which are triangles on the ground.
func squares(name string, size float64) *Grid {
	quarter := meridian(math.Pi / 2)
	half := int(math.Round(quarter / size))
	g := &Grid{
		Name: name, Width: size, Height: size,
		Description: fmt.Sprintf("Rectangles in longitude and latitude, %g km high and, along the middle of each, %[1]g km wide. "+
			"Their poleward edge is shorter and their equatorward edge longer, the more so the farther from the equator.", size/1000),
		rows: make([]float64, 2*half+1), cols: make([]int, 2*half),
	}
	for i := range half {
		lower, middle := quarter*float64(i)/float64(half), quarter*(float64(i)+0.5)/float64(half)
		g.rows[half+i] = snap(latitude(lower))
		g.rows[half-i] = -g.rows[half+i]
		n := max(3, int(math.Round(2*math.Pi*parallel(latitude(middle)*math.Pi/180)/size)))
		g.cols[half+i], g.cols[half-1-i] = n, n
	}
	g.rows[half] = 0 // and not its negative
	g.rows[0], g.rows[2*half] = -90, 90
	return g
}

// snap rounds to 1e-7 degree, about a centimetre: bounding boxes print short, and are the same on all machines.
func snap(degrees float64) float64 { return math.Round(degrees*1e7) / 1e7 }

// parallel is the radius of the parallel at latitude phi (radians) in metres.
func parallel(phi float64) float64 {
	s := math.Sin(phi)
	return semiMajor * math.Cos(phi) / math.Sqrt(1-ecc2*s*s)
}

// meridian is the distance in metres from the equator to latitude phi (radians) along the meridian, by Helmert's series
// in the third flattening (F. R. Helmert, Höhere Geodäsie I, 1880).
func meridian(phi float64) float64 {
	n := flattening / (2 - flattening)
	n2, n3, n4 := n*n, n*n*n, n*n*n*n
	return semiMajor / (1 + n) * ((1+n2/4+n4/64)*phi - 1.5*(n-n3/8)*math.Sin(2*phi) +
		15.0/16*(n2-n4/4)*math.Sin(4*phi) - 35.0/48*n3*math.Sin(6*phi) + 315.0/512*n4*math.Sin(8*phi))
}

// latitude is the inverse of meridian, in degrees.
func latitude(distance float64) float64 {
	phi := distance / semiMajor
	for range 6 { // Newton: the radius of curvature of the meridian is the derivative
		s := math.Sin(phi)
		phi -= (meridian(phi) - distance) / (semiMajor * (1 - ecc2) / math.Pow(1-ecc2*s*s, 1.5))
	}
	return phi * 180 / math.Pi
}
