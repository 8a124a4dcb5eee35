package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// topology is the outlines of countries in TopoJSON: borders that two countries share are there once.
type topology struct {
	Transform struct {
		Scale     [2]float64 `json:"scale"`
		Translate [2]float64 `json:"translate"`
	} `json:"transform"`
	Arcs    [][][2]float64 `json:"arcs"` // each position is relative to the one before it
	Objects struct {
		Countries struct {
			Geometries []country `json:"geometries"`
		} `json:"countries"`
	} `json:"objects"`
}

type country struct {
	Type       string          `json:"type"`
	Arcs       json.RawMessage `json:"arcs"`
	Properties struct {
		Name string `json:"name"`
	} `json:"properties"`
}

// polygonsOfCountry returns the outline of a country, by its English name.
func (a *app) polygonsOfCountry(name string) ([]polygon, error) {
	var text []byte
	if a.Outlines != nil {
		text = a.Outlines()
	}
	if text == nil {
		return nil, errors.New("and this program was built without the page, so it knows no countries (make build " +
			"adds it)")
	}
	var all topology
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the outlines of the countries cannot be read: %w", err)
	}
	var similar []string
	for _, c := range all.Objects.Countries.Geometries {
		if plain(c.Properties.Name) == plain(name) {
			return all.polygons(c)
		}
		if begin := []rune(plain(name)); len(begin) >= 3 &&
			strings.Contains(plain(c.Properties.Name), string(begin[:3])) {
			similar = append(similar, c.Properties.Name)
		}
	}
	if len(similar) == 0 {
		return nil, errors.New("nor the name of a country (as in Natural Earth: Belgium)")
	}
	slices.Sort(similar)
	return nil, fmt.Errorf("nor the name of a country. Did you mean: %s", strings.Join(similar, ", "))
}

// plain returns a name in lower case without accents, as people type it.
func plain(name string) string {
	without, _, err := transform.String(transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn))), name)
	if err != nil {
		without = name
	}
	return strings.ToLower(strings.TrimSpace(without))
}

func (t *topology) polygons(c country) (all []polygon, err error) {
	var arcs [][][]int
	if c.Type == "Polygon" {
		arcs = make([][][]int, 1)
		err = json.Unmarshal(c.Arcs, &arcs[0])
	} else {
		err = json.Unmarshal(c.Arcs, &arcs)
	}
	if err != nil {
		return nil, fmt.Errorf("the outline of %s cannot be read: %w", c.Properties.Name, err)
	}
	for _, rings := range arcs {
		var p polygon
		for _, ring := range rings {
			whole, err := unrolled(t.ring(ring))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Properties.Name, err)
			}
			p = append(p, whole)
		}
		all = append(all, p)
	}
	return all, nil
}

// ring joins arcs. The complement of an index, which is negative, stands for an arc in the other direction.
func (t *topology) ring(arcs []int) (ring [][]float64) {
	for _, index := range arcs {
		part := t.arc(max(index, ^index))
		if index < 0 {
			slices.Reverse(part)
		}
		if len(ring) > 0 && len(part) > 0 {
			part = part[1:] // the end of the arc before
		}
		ring = append(ring, part...)
	}
	return ring
}

func (t *topology) arc(index int) [][]float64 {
	if index >= len(t.Arcs) {
		return nil
	}
	x, y, positions := 0.0, 0.0, make([][]float64, len(t.Arcs[index]))
	for i, step := range t.Arcs[index] {
		x, y = x+step[0], y+step[1]
		positions[i] = []float64{x*t.Transform.Scale[0] + t.Transform.Translate[0], y*t.Transform.Scale[1] +
			t.Transform.Translate[1]}
	}
	return positions
}

// unrolled returns a ring whose longitudes go on beyond 180 degrees where it crosses the antimeridian.
func unrolled(ring [][]float64) ([][]float64, error) {
	turn := 0.0
	for i := range ring {
		if i > 0 {
			switch step := ring[i][0] + turn - ring[i-1][0]; {
			case step > 180:
				turn -= 360
			case step < -180:
				turn += 360
			}
		}
		ring[i] = []float64{ring[i][0] + turn, ring[i][1]}
	}
	if turn != 0 {
		return nil, errors.New("its outline surrounds a pole. Give polygons in a file")
	}
	return ring, nil
}

// saysWhere names the country in the middle of a box, because its numbers are easily given in another order.
func (a *app) saysWhere(box json.RawMessage) {
	var shape struct{ Coordinates polygon } // of one across the antimeridian it is none
	var all topology
	if a.quiet || a.Outlines == nil || json.Unmarshal(box, &shape) != nil || len(shape.Coordinates[0]) < 4 ||
		json.Unmarshal(a.Outlines(), &all) != nil {
		return
	}
	one, other := shape.Coordinates[0][0], shape.Coordinates[0][2] // opposite corners
	x, y := (one[0]+other[0])/2, (one[1]+other[1])/2
	for _, c := range all.Objects.Countries.Geometries {
		polygons, err := all.polygons(c)
		if err == nil && slices.ContainsFunc(polygons, func(p polygon) bool { return inside(p, x, y) }) {
			a.hint("The middle of the area is in %s.", c.Properties.Name)
			return
		}
	}
	a.hint("The middle of the area, %.4g north and %.4g east, is in no country. A box is west,south,east,north.", y, x)
}

// inside reports whether a position is in a polygon: a ray from it crosses the rings an odd number of times.
func inside(p polygon, x, y float64) (in bool) {
	for _, ring := range p {
		in = in != surrounds(ring, []float64{x, y})
	}
	return in
}
