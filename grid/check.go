package grid

import (
	"slices"
	"sort"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// check finds the first place where rings cross, overlap or touch themselves, where a hole lies outside its shell or a
// shell inside another, or where holes cut the interior apart (OGC 06-103r4, 6.1.11). Where a ring merely touches an
// edge of another it is valid, and check adds the vertex that is missing there.
//
// It uses a sweep line from west to east (Shamos and Hoey, 1976) and keeps the edges under the line from south to
// north.
func check(parts MultiPolygon, m *bounds.Meter) error {
	s := newSweep(parts)
	s.meter = m
	for s.next < len(s.events) {
		if err := s.step(); err != nil {
			return err
		}
		if m.Err() != nil {
			return m.Err()
		}
	}
	s.addTouches()
	return m.Err()
}

// segment is an edge from its western to its eastern end.
type segment struct {
	a, b    Point
	inside  int // where the interior of the area is: 1 above, -1 below
	part    int
	ring    int
	touched []Point // vertices of other rings on it, from west to east
}

type event struct {
	at  Point
	seg *segment
}

type sweep struct {
	rings    []*Ring
	parts    []int // of each ring
	segments []segment
	events   []event // the ends of all segments, from west to east
	next     int
	status   []*segment // under the line, from south to north
	group    []int      // rings of a part that touch each other, directly or through others: a union-find forest
	touches  bool
	meter    *bounds.Meter
}

func newSweep(parts MultiPolygon) *sweep {
	s := &sweep{}
	for p := range parts {
		for i := range parts[p] {
			s.addRing(p, &parts[p][i])
		}
	}
	s.events = make([]event, 0, 2*len(s.segments))
	for i := range s.segments {
		seg := &s.segments[i]
		s.events = append(s.events, event{seg.a, seg}, event{seg.b, seg})
	}
	slices.SortFunc(s.events, func(x, y event) int { return x.at.compare(y.at) })
	return s
}

func (s *sweep) addRing(part int, r *Ring) {
	for k := 1; k < len(*r); k++ {
		seg := segment{a: (*r)[k-1], b: (*r)[k], inside: 1, part: part, ring: len(s.rings)}
		if seg.a.compare(seg.b) > 0 {
			seg.a, seg.b, seg.inside = seg.b, seg.a, -1
		}
		s.segments = append(s.segments, seg)
	}
	s.group = append(s.group, len(s.rings))
	s.rings, s.parts = append(s.rings, r), append(s.parts, part)
}

// step handles all edges that end, begin or pass at the next point.
func (s *sweep) step() error {
	p := s.events[s.next].at
	lo := sort.Search(len(s.status), func(k int) bool { return orient(s.status[k].a, s.status[k].b, p) <= 0 })
	hi := lo
	var leaving []*segment
	var here []int // the rings through p, once for each of their edges
	for ; hi < len(s.status) && orient(s.status[hi].a, s.status[hi].b, p) == 0; hi++ {
		if seg := s.status[hi]; seg.b != p {
			seg.touched, s.touches = append(seg.touched, p), true
			leaving, here = append(leaving, seg), append(here, seg.ring, seg.ring)
		}
	}
	for ; s.next < len(s.events) && s.events[s.next].at == p; s.next++ {
		seg := s.events[s.next].seg
		here = append(here, seg.ring)
		if seg.a == p {
			leaving = append(leaving, seg)
		}
	}
	if err := s.touching(here, p); err != nil {
		return err
	}
	if overlap(leaving, p) {
		return Fault{"edges overlap", p}
	}
	s.meter.Spend(eventSteps + 8*(hi-lo+len(leaving)) + (len(s.status)-lo)/movedPerStep)
	s.status = slices.Replace(s.status, lo, hi, leaving...)
	return s.neighbours(lo, lo+len(leaving), p)
}

const (
	eventSteps   = 16 // cost of handling one point
	movedPerStep = 32 // edges under the line that are moved in one step
)

// touching checks the rings that meet in p.
func (s *sweep) touching(here []int, p Point) error {
	slices.Sort(here)
	for k := 2; k < len(here); k += 2 {
		x, y := here[k-1], here[k]
		if x == y {
			return Fault{"ring touches itself", p}
		}
		if s.parts[x] != s.parts[y] {
			continue
		}
		if x, y = s.root(x), s.root(y); x == y {
			return Fault{"holes cut the interior apart", p}
		}
		s.group[x] = y
	}
	return nil
}

func (s *sweep) root(i int) int {
	for s.group[i] != i {
		s.group[i] = s.group[s.group[i]]
		i = s.group[i]
	}
	return i
}

// overlap sorts the edges that begin at p from south to north, and reports whether two have the same direction.
func overlap(leaving []*segment, p Point) (same bool) {
	slices.SortFunc(leaving, func(s, t *segment) int {
		side := orient(p, s.b, t.b)
		same = same || side == 0 && s != t
		return -side
	})
	return same
}

// neighbours checks edges that have become neighbours, from the one below lo to the one above hi: they must not cross,
// and inside and outside must alternate.
func (s *sweep) neighbours(lo, hi int, p Point) error {
	for k := lo; k <= hi; k++ {
		var below, above *segment
		if k > 0 {
			below = s.status[k-1]
		}
		if k < len(s.status) {
			above = s.status[k]
		}
		if below != nil && above != nil {
			if at, ok := meet(below.a, below.b, above.a, above.b); ok {
				return Fault{"edges cross", at}
			}
		}
		inside := below != nil && below.inside > 0
		if inside != (above != nil && above.inside < 0) || inside && below.part != above.part {
			return Fault{"rings cross, or one lies on the wrong side of another", p}
		}
	}
	return nil
}

// addTouches adds the vertices of other rings that lie on an edge to that edge.
func (s *sweep) addTouches() {
	if !s.touches {
		return
	}
	i := 0
	for _, r := range s.rings {
		out := Ring{(*r)[0]}
		for _, q := range (*r)[1:] {
			touched := s.segments[i].touched
			if out[len(out)-1].compare(q) > 0 {
				slices.Reverse(touched)
			}
			out = append(append(out, touched...), q)
			i++
		}
		*r = out
	}
}
