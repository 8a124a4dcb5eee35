package grid

import (
	"fmt"
	"math"
	"sync"

	"github.com/peterstace/simplefeatures/geom"
)

var (
	_ = add(utmSquares(20_000, 1_317_807))
	_ = add(utmSquares(50_000, 224_345))
	_ = add(utmSquares(100_000, 62_747))
	_ = add(mgrsSquares(69_450))
)

// Latitudes between which UTM is defined, in degrees.
const (
	utmSouth = -80
	utmNorth = 84
)

// utmSquares returns the grid of the squares of UTM, cut at the borders of zones. cells is their number on the globe.
func utmSquares(size float64, cells int) *Grid {
	return &Grid{
		Name: fmt.Sprintf("utm-%gkm", size/1000), Width: size, Height: size,
		Description: fmt.Sprintf(
			"Squares of %g km in the UTM projection of their zone, with the zones of Norway and Svalbard, cut at the "+
				"borders of zones. An id "+
				"names zone, hemisphere, and easting and northing of the south-west corner in km. Latitudes from -80 "+
				"to 84.", size/1000),
		tree: &tree{cells: cells, south: utmSouth, north: utmNorth,
			root: func(buffer float64) branch { return zonesIn(size, buffer, zoneRegions(), squareName(size)) }},
	}
}

// mgrsSquares returns the grid of the squares of 100 km of the Military Grid Reference System.
func mgrsSquares(cells int) *Grid {
	const size = 100_000
	return &Grid{
		Name: "mgrs-100km", Width: size, Height: size,
		Description: "Squares of 100 km of the Military Grid Reference System, which name the tiles of Sentinel-2, " +
			"such as 31UFS, cut at the borders of zones and bands. " +
			"A tile of Sentinel-2 reaches 9.8 km further to the south and the east. Latitudes from -80 to 84.",
		tree: &tree{cells: cells, south: utmSouth, north: utmNorth,
			root: func(buffer float64) branch { return zonesIn(size, buffer, zoneFields(), mgrsName) }},
	}
}

// field is one field of UTM's zones and bands: zones are six degrees wide and bands eight degrees high, except around
// Norway and Svalbard.
type field struct {
	zone int
	band byte
	box  Box
}

const bandLetters = "CDEFGHJKLMNPQRSTUVWX"

// fields returns all fields, from south to north and from west to east.
var fields = sync.OnceValue(func() (all []field) {
	for i := range len(bandLetters) {
		band, south := bandLetters[i], float64(8*i-80)
		north := south + 8
		if band == 'X' {
			north = utmNorth
		}
		for zone := 1; zone <= 60; zone++ {
			if west, east := bordersOf(zone, band); west < east {
				all = append(all, field{zone, band, Box{west, south, east, north}})
			}
		}
	}
	return all
})

// bordersOf returns the meridians between which a zone lies in a band.
func bordersOf(zone int, band byte) (west, east float64) {
	west = float64(6*zone - 186)
	east = west + 6
	switch {
	case band == 'V' && zone == 31: // Norway: zone 32 is wider
		east = 3
	case band == 'V' && zone == 32:
		west = 3
	case band == 'X' && zone >= 31 && zone <= 37: // Svalbard: the zones 32, 34 and 36 are missing
		borders := []float64{0, 9, 9, 21, 21, 33, 33, 42}
		west, east = borders[zone-31], borders[zone-30]
	}
	return west, east
}

func central(zone int) float64 { return float64(6*zone - 183) }

// region is a part of a zone whose squares are named alike: boxes that touch, on one side of the equator.
type region struct {
	zone  int
	north bool
	band  byte // 0: several
	boxes []Box
	box   Box // around them
}

// zoneFields returns each field as a region.
func zoneFields() (all []region) {
	for _, f := range fields() {
		all = append(all, region{f.zone, f.box.South >= 0, f.band, []Box{f.box}, f.box})
	}
	return all
}

// zoneRegions returns the two halves of each zone. Fields of equal width are joined.
func zoneRegions() (all []region) {
	for zone := 1; zone <= 60; zone++ {
		for _, north := range []bool{false, true} {
			r := region{zone: zone, north: north}
			for _, f := range fields() {
				if f.zone == zone && north == (f.box.South >= 0) {
					r.add(f.box)
				}
			}
			all = append(all, r)
		}
	}
	return all
}

func (r *region) add(b Box) {
	last := len(r.boxes) - 1
	switch {
	case last < 0:
		r.boxes, r.box = []Box{b}, b
		return
	case r.boxes[last].West == b.West && r.boxes[last].East == b.East && r.boxes[last].North == b.South:
		r.boxes[last].North = b.North
	default:
		r.boxes = append(r.boxes, b)
	}
	r.box = r.box.around(b)
}

// zonesIn returns the squares of regions. buffer is how many metres each reaches beyond its borders.
func zonesIn(size, buffer float64, regions []region, name func(*region, int, int) string) branch {
	var all []branch
	for i := range regions {
		all = append(all, zoneBranch{&regions[i], size, buffer, name})
	}
	return newGroup(all)
}

// zoneBranch is all squares of a region.
type zoneBranch struct {
	*region
	size, buffer float64
	name         func(r *region, col, row int) string
}

func (z zoneBranch) bounds() Box        { return z.box.grown(z.buffer) }
func (z zoneBranch) cell() Cell         { return Cell{} }
func (z zoneBranch) branches() []branch { return []branch{newSquares(z)} }

// squareRange is neighbouring squares of a region: columns from west and rows from south, counted from easting and
// northing 0.
type squareRange struct {
	zoneBranch
	west, south, east, north int // squares; east and north are the first beyond
}

// newSquares returns the range of all squares of a region.
func newSquares(z zoneBranch) squareRange {
	r, size := z.region, z.size
	low, high := min(math.Abs(r.box.South), math.Abs(r.box.North)), max(math.Abs(r.box.South), math.Abs(r.box.North))
	least, most := math.Inf(1), math.Inf(-1) // eastings
	for _, b := range r.boxes {
		near := min(math.Abs(b.South), math.Abs(b.North))
		for _, lon := range []float64{b.West, b.East} {
			east, _ := project(Point{lon, near}, central(r.zone))
			least, most = min(least, east), max(most, east)
		}
	}
	_, first := project(Point{central(r.zone), low}, central(r.zone))
	last := 0.0
	for _, lon := range []float64{r.box.West, r.box.East, central(r.zone)} {
		_, north := project(Point{lon, high}, central(r.zone))
		last = max(last, north)
	}
	s := squareRange{zoneBranch: z,
		west: int(math.Floor(least / size)), east: int(math.Ceil(most / size)), south: int(math.Floor(first / size)),
		north: int(math.Ceil(last / size))}
	if !r.north {
		s.south, s.north = -s.north, -s.south
	}
	return s
}

// bounds implements [branch]. Of a line of equal northing, the point on the central meridian is nearest to the pole,
// and an end is farthest; of one of equal easting, both ends are extreme.
func (s squareRange) bounds() Box {
	west, south, east, north := s.metres()
	eastings := []float64{west, east}
	if west < utmEast && east > utmEast {
		eastings = append(eastings, utmEast)
	}
	b := Box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, x := range eastings {
		for _, y := range []float64{south, north} {
			p := unproject(x, y, central(s.zone))
			b = b.around(Box{p[0], p[1], p[0], p[1]})
		}
	}
	const rounding = 1e-6 // more than snap moves a vertex
	limit := s.box.grown(s.buffer)
	return Box{max(b.West-rounding, limit.West), max(b.South-rounding, limit.South), min(b.East+rounding, limit.East),
		min(b.North+rounding, limit.North)}
}

// metres returns the borders of the squares with their buffer.
func (s squareRange) metres() (west, south, east, north float64) {
	return float64(s.west)*s.size - s.buffer, float64(s.south)*s.size - s.buffer, float64(s.east)*s.size + s.buffer,
		float64(s.north)*s.size + s.buffer
}

func (s squareRange) branches() []branch {
	first, second := s, s
	switch width, height := s.east-s.west, s.north-s.south; {
	case width == 1 && height == 1:
		return nil
	case width >= height:
		first.east, second.west = s.west+width/2, s.west+width/2
	default:
		first.north, second.south = s.south+height/2, s.south+height/2
	}
	return []branch{first, second}
}

func (s squareRange) cell() Cell {
	return Cell{ID: s.name(s.region, s.west, s.south), Row: s.south, Col: 1000*s.zone + s.west, outline: s.outline()}
}

// longestEdge is the greatest distance in metres between two vertices of a square. Between them its border is straight
// in longitude and latitude.
const longestEdge = 12_500

// outline returns the square, cut at the borders of its region.
func (s squareRange) outline() MultiPolygon {
	west, south, east, north := s.metres()
	n := max(1, int(math.Ceil((east-west)/longestEdge)))
	ring := make(Ring, 0, 4*n+1)
	corners := []Point{{west, south}, {east, south}, {east, north}, {west, north}, {west, south}}
	for i, from := range corners[:4] {
		for k := range n {
			// the same sums for both squares that have the edge
			part := func(axis int) float64 {
				return (from[axis]*float64(n-k) + corners[i+1][axis]*float64(k)) / float64(n)
			}
			p := unproject(part(0), part(1), central(s.zone))
			ring = append(ring, Point{snap(p[0]), snap(p[1])})
		}
	}
	return s.within(append(ring, ring[0]))
}

// within cuts a ring at the borders of the region.
func (s squareRange) within(ring Ring) (all MultiPolygon) {
	for _, b := range s.boxes {
		limit := b.grown(s.buffer)
		if west, south, east, north := ring.box(); west >= limit.West && south >= limit.South && east <= limit.East &&
			north <= limit.North {
			return MultiPolygon{{ring}}
		}
		part := polygons(cutOut([]Ring{ring}, limit, nil), nil)
		switch {
		case len(part) == 0:
		case len(all) == 0:
			all = part
		default: // it lies where the zone changes its width
			if joined, err := overlay(geom.Union, all, part, nil); err == nil {
				all = joined
			}
		}
	}
	return all
}

// grown returns the box with a border of some metres. It does not reach over the antimeridian.
func (b Box) grown(metres float64) Box {
	if metres == 0 {
		return b
	}
	up := metres / meridian(math.Pi/2) * 90 * 1.01 // a degree of latitude is shorter at the equator
	far := max(math.Abs(b.South), math.Abs(b.North)) + up
	if far >= 90 {
		return Box{-180, max(-90, b.South-up), 180, min(90, b.North+up)}
	}
	wide := metres / parallel(far*math.Pi/180) * 180 / math.Pi
	return Box{max(-180, b.West-wide), max(-90, b.South-up), min(180, b.East+wide), min(90, b.North+up)}
}

// squareName returns the names of squares: zone and hemisphere, and the kilometres of their south-west corner.
// Northings south of the equator are counted from 10,000 km, as UTM does.
func squareName(size float64) func(r *region, col, row int) string {
	km := int(size / 1000)
	return func(r *region, col, row int) string {
		half, north := 's', row*km+10_000
		if r.north {
			half, north = 'n', row*km
		}
		return fmt.Sprintf("utm-%dkm-%02d%c-e%04d-n%05d", km, r.zone, half, col*km, north)
	}
}

// mgrsName returns the name of a square in the Military Grid Reference System (NGA.STND.0037).
func mgrsName(r *region, col, row int) string {
	columns, rows := [3]string{"ABCDEFGH", "JKLMNPQR", "STUVWXYZ"}, "ABCDEFGHJKLMNPQRSTUV"
	row += 200 // the letters repeat every 2,000 km, also south of the equator
	if r.zone%2 == 0 {
		row += 5
	}
	return string([]byte{'0' + byte(r.zone/10), '0' + byte(r.zone%10), r.band, columns[(r.zone-1)%3][col-1],
		rows[row%20]})
}

// tree is what a grid has whose cells are not rows of rectangles.
type tree struct {
	cells        int                         // on the globe
	south, north float64                     // latitudes that it covers
	root         func(buffer float64) branch // buffer in metres
	given        bool                        // by a user
	uneven       float64                     // how many times as large as the nominal cell the largest one is; 0: 1.05
}

// check returns a [Fault] if an area lies beyond the latitudes of the grid.
func (t *tree) check(a *Area) error {
	for _, part := range a.parts {
		for _, r := range part { // one that was cut at the antimeridian has several shells
			for _, p := range r {
				if p[1] < t.south || p[1] > t.north {
					return Fault{fmt.Sprintf("the grid covers latitudes from %g to %g degrees", t.south, t.north), p}
				}
			}
		}
	}
	return nil
}

// tiles calls yield with the cells that overlap the area, each with its piece of it.
func (t *tree) tiles(a *Area, buffer float64, yield func(Cell, MultiPolygon) bool) error {
	d := &descent{meter: a.meter, yield: yield}
	d.visit(t.root(buffer), a.parts, false)
	return d.err
}
