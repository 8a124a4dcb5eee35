package grid

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/peterstace/simplefeatures/geom"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Area is a valid part of the Earth's surface. Shells are counterclockwise and holes clockwise; the area is cut at the
// antimeridian and closed around the poles. Edges are straight lines in longitude and latitude (RFC 7946, section
// 3.1.1).
type Area struct {
	parts MultiPolygon
	meter *bounds.Meter // counts the work; nil: the work is not counted
}

// Fault describes what is wrong with an area, and where.
type Fault struct {
	What string
	At   Point
}

func (f Fault) Error() string { return fmt.Sprintf("%s, at [%v, %v]", f.What, f.At[0], f.At[1]) }

// newArea returns the area of polygons, or the first [Fault] it finds. Longitudes may exceed 180 degrees or jump across
// the antimeridian, rings may have either orientation, and positions may repeat. Polygons that overlap or share edges
// become one.
func newArea(polygons MultiPolygon, m *bounds.Meter) (*Area, error) {
	a := &Area{meter: m}
	for _, p := range polygons {
		part, err := globe(p, m)
		if err != nil {
			return nil, err
		}
		a.parts = append(a.parts, part)
	}
	err := check(a.parts, m)
	if _, faulty := errors.AsType[Fault](err); faulty && len(a.parts) > 1 {
		err = a.unite()
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// unite joins parts that overlap or share edges. A part that is no valid polygon by itself is an error.
func (a *Area) unite() error {
	largest, sum := 0.0, 0.0
	for _, part := range a.parts {
		if err := check(MultiPolygon{part}, a.meter); err != nil {
			return err
		}
		size := MultiPolygon{part}.area2()
		largest, sum = max(largest, size), sum+size
	}
	all := a.Polygons()
	if !a.meter.Spend(mergeSteps * meetings(all, all, a.meter) / 2) { // each pair is counted twice
		return a.meter.Err()
	}
	united, err := overlay(func(all, _ geom.Geometry) (geom.Geometry, error) { return geom.UnaryUnion(all) }, all, nil,
		a.meter)
	switch size := united.area2(); {
	case a.meter.Err() != nil:
		return a.meter.Err()
	case err != nil, size < largest*(1-1e-9), size > sum*(1+1e-9): // see intersection
		return Fault{"the polygons overlap, and cannot be joined: join or simplify them", all[0][0][0]}
	}
	a.parts = united
	return check(a.parts, a.meter)
}

// Polygons returns the area in the form of RFC 7946.
func (a *Area) Polygons() (all MultiPolygon) {
	for _, part := range a.parts { // a part that was cut at the antimeridian has several shells
		all = append(all, polygons(part, nil)...)
	}
	return all
}

// globe maps a polygon to longitudes from -180 to 180.
func globe(p Polygon, m *bounds.Meter) (Polygon, error) {
	var part Polygon
	west, east := 180.0, -180.0
	for i, r := range p {
		r, err := unwrap(r, i > 0)
		if err != nil {
			return nil, err
		}
		w, _, e, _ := r.box()
		west, east = min(west, w), max(east, e)
		part = append(part, r)
	}
	if west < -180 || east > 180 || east-west == 360 {
		part = cutAtAntimeridian(part, m)
	}
	return part, nil
}

// cutAtAntimeridian maps rings that leave [-180, 180] back: it makes three copies, shifted by 360 degrees, and keeps
// the part within the range.
func cutAtAntimeridian(rings Polygon, m *bounds.Meter) (out Polygon) {
	var copies []Ring
	for _, turn := range []float64{-360, 0, 360} {
		for _, r := range rings {
			moved := slices.Clone(r)
			for i := range moved {
				moved[i][0] += turn
			}
			copies = append(copies, moved)
		}
	}
	for _, r := range half(half(copies, 0, -180, 1, m), 0, 180, -1, m) {
		out = append(out, r.loops()...)
	}
	return out
}

// unwrap checks a ring's numbers, removes its jumps across the antimeridian, closes it around a pole and orients it.
func unwrap(r Ring, hole bool) (Ring, error) {
	r, err := closed(r)
	if err != nil {
		return nil, err
	}
	out, turn, err := unjump(r)
	switch {
	case err != nil:
		return nil, err
	case turn != 0:
		out, err = closePole(out, turn)
	case !slices.Equal(out, r):
		out, err = chooseReading(r, out, hole)
	}
	if err != nil {
		return nil, err
	}
	if (out.area2() < 0) != hole {
		slices.Reverse(out)
	}
	return out, nil
}

// closed returns a ring without repeated positions, or a Fault.
func closed(r Ring) (Ring, error) {
	for _, p := range r {
		if !(math.Abs(p[0]) <= 540 && math.Abs(p[1]) <= 90) { // NaN fails both comparisons
			return nil, Fault{"position out of range: longitudes are from -540 to 540 degrees, latitudes from -90 to " +
				"90", p}
		}
	}
	switch r = slices.Compact(slices.Clone(r)); {
	case len(r) == 0:
		return nil, Fault{What: "ring has no positions"}
	case r[0] != r[len(r)-1]:
		return nil, Fault{"ring is not closed: its last position must repeat the first", r[len(r)-1]}
	case len(r) < 4:
		return nil, Fault{"ring has fewer than four positions", r[0]}
	}
	return r, nil
}

// unjump removes the jumps of a ring across the antimeridian. turn is 360 or -360 if the ring then leads once around
// the globe.
func unjump(r Ring) (out Ring, turn float64, err error) {
	out = slices.Clone(r)
	for i := 1; i < len(r); i++ {
		step := r[i][0] - r[i-1][0]
		if s := math.Abs(step); s > 360 {
			return nil, 0, Fault{"edge is longer than 360 degrees", r[i-1]}
		} else if s > 180 && s < 360 {
			turn -= math.Copysign(360, step)
		}
		out[i][0] += turn
	}
	return out, turn, nil
}

// chooseReading decides whether a ring with long edges is meant as written or as crossing the antimeridian. It crosses
// if that is both narrower and correctly oriented (RFC 7946); it is as written if neither; otherwise it is ambiguous.
func chooseReading(written, unjumped Ring, hole bool) (Ring, error) {
	narrower := unjumped.width() < written.width()
	oriented := (unjumped.area2() < 0) == hole
	if narrower != oriented && unjumped.area2()*written.area2() < 0 {
		return nil, Fault{"an edge of more than 180 degrees is ambiguous: cut the area at the antimeridian, or add " +
			"positions", written[0]}
	}
	if narrower {
		return unjumped, nil
	}
	return slices.Clone(written), nil
}

// closePole closes a ring around a pole along the antimeridian. It begins at the ring's crossing that is nearest to the
// pole, because from any other the closing line could cross the ring.
func closePole(r Ring, turn float64) (Ring, error) {
	pole := math.Copysign(90, r[0][1])
	for _, p := range r {
		if p[1]*pole <= 0 || math.Abs(turn) != 360 {
			return nil, Fault{"ring around the globe on both sides of the equator: the side that it encloses is " +
				"ambiguous", p}
		}
	}
	at, best := polarmost(r, pole)
	if at == 0 {
		return nil, Fault{"ring around the globe", r[0]}
	}
	start := Point{math.Copysign(180, -turn), best[1]}
	shift := start[0] - best[0]
	out := Ring{start}
	for i := range len(r) - 1 {
		k, more := at+i, shift
		if k >= len(r) {
			k, more = k-len(r)+1, shift+turn
		}
		out = append(out, Point{r[k][0] + more, r[k][1]})
	}
	return slices.Compact(append(out, Point{-start[0], best[1]}, Point{-start[0], pole}, Point{start[0], pole}, start)),
		nil
}

// polarmost returns the ring's crossing of the antimeridian that is nearest to the pole, and the index of the next
// position; 0 if there is none.
func polarmost(r Ring, pole float64) (at int, best Point) {
	for i := 1; i < len(r); i++ {
		a, b := r[i-1], r[i]
		line := 360*math.Floor((max(a[0], b[0])+180)/360) - 180
		if line < min(a[0], b[0]) || a[0] == b[0] {
			continue
		}
		if c := crossing(a, b, 0, line); at == 0 || c[1]*pole > best[1]*pole {
			at, best = i, c
		}
	}
	return at, best
}
