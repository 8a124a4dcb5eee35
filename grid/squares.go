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

// squares returns a grid whose cells are nearly squares of size metres. Each hemisphere has an integer number of rows
// of equal height along the meridian. Each row has an integer number of columns of equal width at the middle of the
// row. So the equator and the longitude -180 are borders, there is no thin row at the poles, and no cell crosses the
// antimeridian. The last row at a pole has three cells, which are triangles on the ground.
func squares(name string, size float64) *Grid {
	quarter := meridian(math.Pi / 2)
	half := int(math.Round(quarter / size))
	g := &Grid{
		Name: name, Width: size, Height: size,
		Description: fmt.Sprintf("Rectangles in longitude and latitude, %g km high and %[1]g km wide at their middle. "+
			"Towards the poles, their poleward edge gets shorter and their equatorward edge longer.", size/1000),
		rows: make([]float64, 2*half+1), cols: make([]int, 2*half),
	}
	for i := range half {
		lower, middle := quarter*float64(i)/float64(half), quarter*(float64(i)+0.5)/float64(half)
		g.rows[half+i] = snap(latitude(lower))
		g.rows[half-i] = -g.rows[half+i]
		n := max(3, int(math.Round(2*math.Pi*parallel(latitude(middle)*math.Pi/180)/size)))
		g.cols[half+i], g.cols[half-1-i] = n, n
	}
	g.rows[half] = 0 // avoids -0
	g.rows[0], g.rows[2*half] = -90, 90
	return g
}

// snap rounds to 1e-7 degrees, about 1 cm, so that bounding boxes have few digits and are the same on all machines.
func snap(degrees float64) float64 { return math.Round(degrees*1e7) / 1e7 }

// parallel returns the radius in metres of the parallel at latitude phi (radians).
func parallel(phi float64) float64 {
	s := math.Sin(phi)
	return semiMajor * math.Cos(phi) / math.Sqrt(1-ecc2*s*s)
}

// meridian returns the distance in metres from the equator to latitude phi (radians) along the meridian, by Helmert's
// series in the third flattening (F. R. Helmert, Höhere Geodäsie I, 1880).
func meridian(phi float64) float64 {
	n := flattening / (2 - flattening)
	n2, n3, n4 := n*n, n*n*n, n*n*n*n
	return semiMajor / (1 + n) * ((1+n2/4+n4/64)*phi - 1.5*(n-n3/8)*math.Sin(2*phi) +
		15.0/16*(n2-n4/4)*math.Sin(4*phi) - 35.0/48*n3*math.Sin(6*phi) + 315.0/512*n4*math.Sin(8*phi))
}

// latitude is the inverse of meridian, in degrees.
func latitude(distance float64) float64 {
	phi := distance / semiMajor
	for range 6 { // Newton's method: the radius of curvature of the meridian is the derivative
		s := math.Sin(phi)
		phi -= (meridian(phi) - distance) / (semiMajor * (1 - ecc2) / math.Pow(1-ecc2*s*s, 1.5))
	}
	return phi * 180 / math.Pi
}
