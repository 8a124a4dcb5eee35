package grid

import "math"

// The transverse Mercator projection of a UTM zone, by Krüger's series in the third flattening to the fourth order (C.
// F. F. Karney, Transverse Mercator with an accuracy of a few nanometers, 2011), which is exact to a micrometre within
// a zone.
const (
	utmScale  = 0.9996
	utmEast   = 500_000.0 // metres: the easting of the central meridian
	third     = flattening / (2 - flattening)
	third2    = third * third
	third3    = third2 * third
	third4    = third3 * third
	rectified = semiMajor / (1 + third) * (1 + third2/4 + third4/64) // metres for each radian of rectifying latitude
)

var (
	kruegerForward = [4]float64{
		third/2 - 2.0/3*third2 + 5.0/16*third3 + 41.0/180*third4,
		13.0/48*third2 - 3.0/5*third3 + 557.0/1440*third4,
		61.0/240*third3 - 103.0/140*third4,
		49561.0 / 161280 * third4,
	}
	kruegerInverse = [4]float64{
		third/2 - 2.0/3*third2 + 37.0/96*third3 - 1.0/360*third4,
		1.0/48*third2 + 1.0/15*third3 - 437.0/1440*third4,
		17.0/480*third3 - 37.0/840*third4,
		4397.0 / 161280 * third4,
	}
	conformalToGeographic = [4]float64{
		2*third - 2.0/3*third2 - 2*third3 + 116.0/45*third4,
		7.0/3*third2 - 8.0/5*third3 - 227.0/45*third4,
		56.0/15*third3 - 136.0/35*third4,
		4279.0 / 630 * third4,
	}
)

// project returns the easting and the northing in metres of a point in degrees. Northings south of the equator are
// negative.
func project(p Point, central float64) (east, north float64) {
	ecc := math.Sqrt(ecc2)
	phi, lambda := p[1]*math.Pi/180, (p[0]-central)*math.Pi/180
	s := math.Sin(phi)
	t := math.Sinh(math.Atanh(s) - ecc*math.Atanh(ecc*s))
	xi, eta := math.Atan2(t, math.Cos(lambda)), math.Asinh(math.Sin(lambda)/math.Hypot(t, math.Cos(lambda)))
	dxi, deta := series(kruegerForward, xi, eta)
	return utmEast + utmScale*rectified*(eta+deta), utmScale * rectified * (xi + dxi)
}

// unproject is the inverse of project.
func unproject(east, north, central float64) Point {
	xi, eta := north/(utmScale*rectified), (east-utmEast)/(utmScale*rectified)
	dxi, deta := series(kruegerInverse, xi, eta)
	xi, eta = xi-dxi, eta-deta
	sinXi, cosXi := math.Sincos(xi)
	sinhEta := math.Sinh(eta)
	conformal := math.Asin(sinXi / math.Hypot(cosXi, sinhEta) / math.Sqrt(1+sinXi*sinXi/(cosXi*cosXi+sinhEta*sinhEta)))
	more, _ := series(conformalToGeographic, conformal, 0)
	return Point{central + math.Atan2(sinhEta, cosXi)*180/math.Pi, (conformal + more) * 180 / math.Pi}
}

// series returns the sums of c[j] sin(2jx) cosh(2jy) and c[j] cos(2jx) sinh(2jy), j from 1, by addition theorems.
func series(c [4]float64, x, y float64) (dx, dy float64) {
	sin, cos := math.Sincos(2 * x)
	sinh, cosh := 0.0, 1.0
	if y != 0 {
		up := math.Exp(2 * y)
		sinh, cosh = (up-1/up)/2, (up+1/up)/2
	}
	s, k, sh, ch := sin, cos, sinh, cosh
	for _, factor := range c {
		dx, dy = dx+factor*s*ch, dy+factor*k*sh
		s, k = s*cos+k*sin, k*cos-s*sin
		sh, ch = sh*cosh+ch*sinh, ch*cosh+sh*sinh
	}
	return dx, dy
}
