package stac

import "encoding/json"

// area is a GeoJSON geometry.
type area struct {
	polygons [][][]point // of rings
	lines    [][]point
	points   []point
}

type point [2]float64

const mostPositions = 10_000

// parseArea reads a geometry.
func parseArea(raw json.RawMessage) (*area, bool) {
	a, left := &area{}, mostPositions
	return a, a.add(raw, &left, 0)
}

func (a *area) add(raw json.RawMessage, left *int, depth int) bool {
	var g struct {
		Type        string
		Coordinates json.RawMessage
		Geometries  []json.RawMessage
	}
	if json.Unmarshal(raw, &g) != nil || depth > 4 {
		return false
	}
	read := func(into any) bool { return json.Unmarshal(g.Coordinates, into) == nil }
	var one []float64
	var line, more [][]float64
	var lines [][][]float64
	var polygons [][][][]float64
	switch {
	case g.Type == "Point" && read(&one):
		more = [][]float64{one}
	case g.Type == "MultiPoint" && read(&more):
	case g.Type == "LineString" && read(&line):
		lines = [][][]float64{line}
	case g.Type == "MultiLineString" && read(&lines):
	case g.Type == "Polygon" && read(&lines):
		polygons, lines = [][][][]float64{lines}, nil
	case g.Type == "MultiPolygon" && read(&polygons):
	case g.Type == "GeometryCollection":
		for _, inner := range g.Geometries {
			if !a.add(inner, left, depth+1) {
				return false
			}
		}
		return len(g.Geometries) > 0
	default:
		return false
	}
	points, ok := positions(more, left)
	a.points = append(a.points, points...)
	for _, l := range lines {
		points, valid := positions(l, left)
		a.lines, ok = append(a.lines, points), ok && valid && len(points) > 1
	}
	for _, rings := range polygons {
		var all [][]point
		for _, r := range rings {
			points, valid := positions(r, left)
			all, ok = append(all, points), ok && valid && len(points) > 3
		}
		a.polygons = append(a.polygons, all)
	}
	return ok
}

func positions(all [][]float64, left *int) (points []point, ok bool) {
	if *left -= len(all); *left < 0 {
		return nil, false
	}
	for _, p := range all {
		if len(p) < 2 {
			return nil, false
		}
		points = append(points, point{p[0], p[1]})
	}
	return points, true
}

// meets reports whether the area intersects a box, which may cross the antimeridian.
func (a *area) meets(box []float64) bool {
	if box == nil {
		return false
	}
	if box[0] > box[2] {
		return a.meets([]float64{box[0], box[1], 180, box[3]}) || a.meets([]float64{-180, box[1], box[2], box[3]})
	}
	for _, p := range a.points {
		if crosses(p, p, box) {
			return true
		}
	}
	for _, l := range a.lines {
		if lineMeets(l, box) {
			return true
		}
	}
	for _, rings := range a.polygons {
		inside := false
		for _, r := range rings {
			if lineMeets(r, box) {
				return true
			}
			inside = inside != encloses(r, point{box[0], box[1]})
		}
		if inside {
			return true
		}
	}
	return false
}

func lineMeets(line []point, box []float64) bool {
	for i := range line[1:] {
		if crosses(line[i], line[i+1], box) {
			return true
		}
	}
	return false
}

// crosses reports whether a segment has a point within a box (Liang and Barsky, 1984).
func crosses(a, b point, box []float64) bool {
	from, to := 0.0, 1.0
	for d := range 2 {
		step := b[d] - a[d]
		low, high := box[d]-a[d], box[d+2]-a[d]
		if step == 0 {
			if low > 0 || high < 0 {
				return false
			}
			continue
		}
		if step < 0 {
			low, high = high, low
		}
		from, to = max(from, low/step), min(to, high/step)
	}
	return from <= to
}

// encloses reports whether a point is within a ring.
func encloses(ring []point, p point) (inside bool) {
	for i := range ring[1:] {
		a, b := ring[i], ring[i+1]
		if (a[1] > p[1]) != (b[1] > p[1]) && p[0] < (b[0]-a[0])*(p[1]-a[1])/(b[1]-a[1])+a[0] {
			inside = !inside
		}
	}
	return inside
}
