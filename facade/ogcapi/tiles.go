package ogcapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

// inputTiles is the input that makes a task: the name of a grid.
const inputTiles = "eodispatch:tiles"

const splitWithin = 20 * time.Second

// submitTask splits the area of an execution and accepts a task with a job for each tile.
func (f *Facade) submitTask(in *request, s catalogue.Service, e execution, key dispatch.Key) (*answer, error) {
	var name string
	if json.Unmarshal(e.Inputs[inputTiles], &name) != nil {
		return nil, badRequest("inputs.%s must be the name of a grid.", inputTiles)
	}
	g, known := grid.Named(name)
	if !known {
		return nil, badRequest("inputs.%s: there is no grid %q.", inputTiles, clip(name))
	}
	parameters, err := f.parameters(in, s)
	if err != nil {
		return nil, err
	}
	parameter := areaOf(parameters)
	if parameter == "" || e.Inputs[parameter] == nil {
		return nil, badRequest("inputs.%s needs an area, which is the value of another input. This request or its process has none.", inputTiles)
	}
	tiles, err := f.split(in.Context(), g, parameter, e.Inputs[parameter])
	if err != nil {
		return nil, err
	}
	delete(e.Inputs, parameter)
	r, err := f.request(s, e)
	if err != nil {
		return nil, err
	}
	t, err := f.Broker.AcceptTask(in.Context(), in.user, r, dispatch.Dimension{Name: parameter, Values: tiles}, key)
	if err != nil {
		return nil, submissionError(err)
	}
	return created(in, f.taskInfo(in, t)), nil
}

// split returns the tiles of an area as GeoJSON. One area is split at a time, within the limits of the interface's own tiles.
func (f *Facade) split(ctx context.Context, g *grid.Grid, name string, value json.RawMessage) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, splitWithin)
	defer cancel()
	select {
	case f.splitting <- struct{}{}:
		defer func() { <-f.splitting }()
	case <-ctx.Done():
		return nil, &dispatch.Error{Kind: dispatch.LimitReached, Op: "ogcapi.split", Text: "Too many areas are being split. Repeat the request in a few seconds.", RetryAfter: 5 * time.Second}
	}
	plain, err := plainValue(name, value)
	if err != nil {
		return nil, err
	}
	m := budget.TilesSteps.Meter(ctx)
	area, err := grid.ParseWithin(m, polygonOf(plain))
	if err != nil {
		return nil, badRequest("inputs.%s is no area that can be split: %s.", clip(name), err)
	}
	if n := g.Estimate(area, f.MostTiles); n > f.MostTiles {
		return nil, badRequest("The area in inputs.%s has about %d tiles; at most %d are allowed. Take a smaller area or a coarser grid.", clip(name), n, f.MostTiles)
	}
	var tiles []json.RawMessage
	for _, piece := range g.Tiles(area) {
		tiles = append(tiles, piece.AppendJSON(nil))
		if len(tiles) > f.MostTiles {
			return nil, badRequest("The area in inputs.%s has more than %d tiles. Take a smaller area or a coarser grid.", clip(name), f.MostTiles)
		}
	}
	if err := m.Err(); err != nil {
		return nil, tooCostly(err)
	}
	return tiles, nil
}

func tooCostly(err error) error {
	if _, over := errors.AsType[*budget.Exceeded](err); over {
		return badRequest("Splitting the area costs too much: %s. Simplify it, take a smaller area, or a coarser grid.", err)
	}
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "ogcapi.split", Text: "Splitting the area took too long. Simplify it, or take a part of it.", Err: err}
}

// polygonOf returns a bounding box in longitude and latitude as GeoJSON, and any other value as it is. A box across the antimeridian becomes
// two polygons.
func polygonOf(value json.RawMessage) json.RawMessage {
	b, ok := parseBox(value)
	if !ok {
		return value
	}
	if b.east < b.west {
		return fmt.Appendf(nil, `{"type":"MultiPolygon","coordinates":[%s,%s]}`, box{b.west, b.south, 180, b.north}.rings(), box{-180, b.south, b.east, b.north}.rings())
	}
	return fmt.Appendf(nil, `{"type":"Polygon","coordinates":%s}`, b.rings())
}

type box struct{ west, south, east, north float64 }

func parseBox(value json.RawMessage) (box, bool) {
	var v struct {
		West, South, East, North *float64
		Bbox                     []float64
		CRS                      json.RawMessage
		Type                     string
	}
	if json.Unmarshal(value, &v.Bbox) != nil {
		v.Bbox = nil
		if json.Unmarshal(value, &v) != nil || v.Type != "" {
			return box{}, false
		}
	}
	switch crs := string(v.CRS); {
	case crs != "" && crs != "null" && crs != "4326" && crs != `"EPSG:4326"`:
		return box{}, false
	case v.West != nil && v.South != nil && v.East != nil && v.North != nil:
		return box{*v.West, *v.South, *v.East, *v.North}, true
	case len(v.Bbox) == 4:
		return box{v.Bbox[0], v.Bbox[1], v.Bbox[2], v.Bbox[3]}, true
	case len(v.Bbox) == 6:
		return box{v.Bbox[0], v.Bbox[1], v.Bbox[3], v.Bbox[4]}, true
	}
	return box{}, false
}

func (b box) rings() []byte {
	text, _ := json.Marshal([][][]float64{{{b.west, b.south}, {b.east, b.south}, {b.east, b.north}, {b.west, b.north}, {b.west, b.south}}}) // numbers read from JSON are finite
	return text
}
