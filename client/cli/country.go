package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/peterstace/simplefeatures/geom"
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
func (a *app) polygonsOfCountry(name string) ([]geom.Polygon, error) {
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

func (t *topology) polygons(c country) (all []geom.Polygon, err error) {
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
		var outline []geom.LineString
		for _, ring := range rings {
			whole, err := unrolled(t.ring(ring))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Properties.Name, err)
			}
			outline = append(outline, whole)
		}
		all = append(all, geom.NewPolygon(outline))
	}
	return all, nil
}

// ring joins arcs. The complement of an index, which is negative, stands for an arc in the other direction.
func (t *topology) ring(arcs []int) (ring []geom.XY) {
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

func (t *topology) arc(index int) []geom.XY {
	if index >= len(t.Arcs) {
		return nil
	}
	x, y, positions := 0.0, 0.0, make([]geom.XY, len(t.Arcs[index]))
	for i, step := range t.Arcs[index] {
		x, y = x+step[0], y+step[1]
		positions[i] = geom.XY{X: x*t.Transform.Scale[0] + t.Transform.Translate[0],
			Y: y*t.Transform.Scale[1] + t.Transform.Translate[1]}
	}
	return positions
}

// unrolled returns a ring whose longitudes go on beyond 180 degrees where it crosses the antimeridian.
func unrolled(positions []geom.XY) (geom.LineString, error) {
	turn, numbers := 0.0, make([]float64, 0, 2*len(positions))
	for i, at := range positions {
		if i > 0 {
			switch step := at.X - positions[i-1].X; {
			case step > 180:
				turn -= 360
			case step < -180:
				turn += 360
			}
		}
		numbers = append(numbers, at.X+turn, at.Y)
	}
	if turn != 0 {
		return geom.LineString{}, errors.New("its outline surrounds a pole. Give polygons in a file")
	}
	return ringOf(numbers), nil
}

// saysWhere names the country in the middle of a box, because its numbers are easily given in another order.
func (a *app) saysWhere(box geom.Geometry) {
	var all topology
	at, ok := box.Envelope().Center().XY()
	if a.quiet || a.Outlines == nil || !ok || !box.IsPolygon() || json.Unmarshal(a.Outlines(), &all) != nil {
		return
	}
	for _, c := range all.Objects.Countries.Geometries {
		polygons, err := all.polygons(c)
		if err == nil && geom.Intersects(geom.NewMultiPolygon(polygons).AsGeometry(), at.AsPoint().AsGeometry()) {
			a.hint("The middle of the area is in %s.", c.Properties.Name)
			return
		}
	}
	a.hint("The middle of the area, %.4g north and %.4g east, is in no country. A box is west,south,east,north.",
		at.Y, at.X)
}
