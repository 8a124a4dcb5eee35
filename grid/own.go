package grid

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// idLength is the greatest length of the id of a user's cell in bytes.
const idLength = 100

// ParseCells reads a user's own grid: a GeoJSON FeatureCollection of Polygons and MultiPolygons, each with an id of its
// own. Cells may overlap. The error names the feature.
func ParseCells(m *bounds.Meter, raw []byte) (*Grid, error) {
	var collection struct {
		Type     string
		Features []json.RawMessage
	}
	switch err := json.Unmarshal(raw, &collection); {
	case err != nil || collection.Type != "FeatureCollection":
		return nil, errors.New("cells: a GeoJSON FeatureCollection is needed")
	case len(collection.Features) == 0:
		return nil, errors.New("cells: it has no features")
	}
	seen := map[string]int{}
	var members []branch
	positions := 0
	for i, feature := range collection.Features {
		at := fmt.Sprintf("cells.features[%d]", i)
		c, err := parseCell(m, feature, at)
		if err != nil {
			return nil, err
		}
		if k, known := seen[c.ID]; known {
			return nil, fmt.Errorf("%s: it has the id of features[%d], %q", at, k, c.ID)
		}
		seen[c.ID], c.Col = i, i
		if positions += c.outline.positions(); bounds.TilesPositions.Check(int64(positions)) != nil {
			return nil, fmt.Errorf("cells: they have %w: simplify them", bounds.TilesPositions.Check(int64(positions)))
		}
		members = append(members, given{c, c.outline.Box()})
	}
	root := newGroup(members)
	return &Grid{Name: "cells", tree: &tree{cells: len(members), south: -90, north: 90, given: true,
		root: func(float64) branch { return root }}}, nil
}

func parseCell(m *bounds.Meter, raw json.RawMessage, at string) (c Cell, err error) {
	var feature struct {
		Type string
		ID   json.RawMessage
	}
	if json.Unmarshal(raw, &feature) != nil || feature.Type != "Feature" {
		return c, fmt.Errorf("%s: a Feature is needed", at)
	}
	if c.ID, err = cellID(feature.ID); err != nil {
		return c, fmt.Errorf("%s.id: %w", at, err)
	}
	polygons, err := parse(raw, at, deepest-2)
	if err != nil {
		return c, err
	}
	if polygons.positions() == 0 {
		return c, fmt.Errorf("%s: it contains no polygon", at)
	}
	area, err := newArea(polygons, m)
	if err != nil {
		return c, fmt.Errorf("%s: %w", at, err)
	}
	c.outline = area.Polygons()
	return c, nil
}

// cellID reads the id of a feature, a text or a number.
func cellID(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) > 0 && raw[0] != '"' && raw[0] != '{' && raw[0] != '[' && raw[0] != 'n' && raw[0] != 't' &&
		raw[0] != 'f' {
		text = string(raw)
	} else if json.Unmarshal(raw, &text) != nil {
		text = ""
	}
	switch {
	case text == "":
		return "", errors.New("each cell needs an id of its own, a text or a number")
	case len(text) > idLength:
		return "", fmt.Errorf("an id has at most %d bytes", idLength)
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", errors.New("an id has no control characters")
	}
	return text, nil
}

// given is one of a user's own cells.
type given struct {
	Cell
	box Box
}

func (g given) bounds() Box        { return g.box }
func (g given) branches() []branch { return nil }
func (g given) cell() Cell         { return g.Cell }
