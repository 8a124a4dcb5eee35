package openeo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

// The job options that ask for a task: a job for each tile of an area.
const (
	optionGrid      = ownOption + "tile_grid"       // name of a grid
	optionParameter = ownOption + "split_parameter" // name of the argument that has the area
)

const (
	usualParameter = "spatial_extent"
	splitWithin    = 20 * time.Second
	mostTiles      = 10_000
)

// asksForTask reports whether a batch job is to become a task.
func asksForTask(members map[string]json.RawMessage) bool {
	options := map[string]json.RawMessage{}
	_ = json.Unmarshal(members["job_options"], &options)
	return options[optionGrid] != nil && !isNull(options[optionGrid])
}

// taskFor returns the request and the dimension of a task: where the nodes of the graph have the area that is split, the request has a parameter.
func (f *Facade) taskFor(ctx context.Context, members map[string]json.RawMessage, r dispatch.Request) (dispatch.Request, *dispatch.Dimension, error) {
	g, parameter, err := splitOptions(members)
	if err != nil {
		return r, nil, err
	}
	var process map[string]json.RawMessage
	if err := json.Unmarshal(r.Process, &process); err != nil {
		return r, nil, err
	}
	parameter = cmp.Or(parameter, usualParameter)
	area, graph, err := parametrized(process["process_graph"], parameter)
	if err != nil {
		return r, nil, err
	}
	process["process_graph"] = graph
	if r.Process, err = dispatch.Encode(process); err != nil {
		return r, nil, err
	}
	values, err := f.split(ctx, g, area)
	return r, &dispatch.Dimension{Name: parameter, Values: values}, err
}

// splitOptions returns the grid, and the name of the argument that has the area; "": no option names it.
func splitOptions(members map[string]json.RawMessage) (*grid.Grid, string, error) {
	options := map[string]json.RawMessage{}
	_ = json.Unmarshal(members["job_options"], &options)
	var name string
	_ = json.Unmarshal(options[optionGrid], &name)
	g, known := grid.Named(name)
	if !known {
		return nil, "", refused(http.StatusBadRequest, "ProcessParameterInvalid", "The job option "+optionGrid+" must be the name of a grid: "+gridNames()+".")
	}
	parameter := ""
	if v := options[optionParameter]; v != nil && (json.Unmarshal(v, &parameter) != nil || parameter == "") {
		return nil, "", refused(http.StatusBadRequest, "ProcessParameterInvalid", "The job option "+optionParameter+" must be the name of an argument.")
	}
	return g, parameter, nil
}

func gridNames() (names string) {
	for g := range grid.All() {
		if names != "" {
			names += ", "
		}
		names += g.Name
	}
	return names
}

// parametrized returns the area that is the value of an argument in a process graph, and the graph with a reference to a parameter of that name in
// its place. All nodes with that argument must have the same area.
func parametrized(data json.RawMessage, argument string) (area, graph json.RawMessage, err error) {
	var nodes map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &nodes); err != nil {
		return nil, nil, refused(http.StatusBadRequest, "ProcessGraphInvalid", "The process graph is no object of nodes.")
	}
	reference, err := dispatch.Encode(map[string]string{"from_parameter": argument})
	if err != nil {
		return nil, nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		var arguments map[string]json.RawMessage
		if json.Unmarshal(nodes[id]["arguments"], &arguments) != nil || arguments[argument] == nil || isNull(arguments[argument]) {
			continue
		}
		value, err := dispatch.Encode(arguments[argument])
		if err != nil {
			return nil, nil, err
		}
		if area != nil && string(area) != string(value) {
			return nil, nil, refused(http.StatusBadRequest, "ProcessParameterInvalid",
				"The nodes of the process graph have different values of "+argument+". A job that is split into tiles needs one area.")
		}
		area, arguments[argument] = value, reference
		if nodes[id]["arguments"], err = dispatch.Encode(arguments); err != nil {
			return nil, nil, err
		}
	}
	if area == nil {
		return nil, nil, refused(http.StatusBadRequest, "ProcessParameterRequired",
			"No node of the process graph has an argument "+argument+". Name the one with the area in the job option "+optionParameter+".")
	}
	graph, err = dispatch.Encode(nodes)
	return area, graph, err
}

// boundingBox is openEO's form of a box in longitude and latitude.
type boundingBox struct {
	West  *float64        `json:"west"`
	South *float64        `json:"south"`
	East  *float64        `json:"east"`
	North *float64        `json:"north"`
	CRS   json.RawMessage `json:"crs,omitempty"`
}

// parseBox returns the box that a value is; ok is false for any other value, and for a box in another reference system.
func parseBox(value json.RawMessage) (b boundingBox, ok bool) {
	if json.Unmarshal(value, &b) != nil || b.West == nil || b.South == nil || b.East == nil || b.North == nil {
		return b, false
	}
	crs := string(b.CRS)
	return b, crs == "" || crs == "null" || crs == "4326" || crs == `"EPSG:4326"`
}

// polygons returns a box as GeoJSON. One across the antimeridian becomes two polygons.
func (b boundingBox) polygons() (json.RawMessage, error) {
	ring := func(west, east float64) [][][]float64 {
		s, n := *b.South, *b.North
		return [][][]float64{{{west, s}, {east, s}, {east, n}, {west, n}, {west, s}}}
	}
	all := [][][][]float64{ring(*b.West, *b.East)}
	if *b.East < *b.West {
		all = [][][][]float64{ring(*b.West, 180), ring(-180, *b.East)}
	}
	return dispatch.Encode(map[string]any{"type": "MultiPolygon", "coordinates": all})
}

// split returns the tiles of an area, in its own form: boxes of a box, GeoJSON of GeoJSON. One area is split at a time.
func (f *Facade) split(ctx context.Context, g *grid.Grid, value json.RawMessage) (tiles []json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, splitWithin)
	defer cancel()
	select {
	case f.splitting <- struct{}{}:
		defer func() { <-f.splitting }()
	case <-ctx.Done():
		return nil, &dispatch.Error{Kind: dispatch.LimitReached, Op: "openeo.split", Text: "Too many areas are being split. Repeat the request in a few seconds.", RetryAfter: 5 * time.Second}
	}
	b, isBox := parseBox(value)
	if isBox {
		if value, err = b.polygons(); err != nil {
			return nil, err
		}
	}
	m := budget.TilesSteps.Meter(ctx)
	area, err := grid.ParseWithin(m, value)
	if err != nil {
		return nil, refused(http.StatusBadRequest, "ProcessParameterInvalid", "The area cannot be split into tiles: "+err.Error()+".")
	}
	if n := g.Estimate(area, mostTiles); n > mostTiles {
		return nil, errTooManyTiles
	}
	for _, piece := range g.Tiles(area) {
		if len(tiles) == mostTiles {
			return nil, errTooManyTiles
		}
		tile := json.RawMessage(piece.AppendJSON(nil))
		if isBox {
			if tile, err = dispatch.Encode(boxAround(piece)); err != nil {
				return nil, err
			}
		}
		tiles = append(tiles, tile)
	}
	return tiles, splitError(m.Err())
}

var errTooManyTiles = refused(http.StatusBadRequest, "ProcessParameterInvalid",
	fmt.Sprintf("The area has more than %d tiles. Take a smaller area or a coarser grid.", mostTiles))

func splitError(err error) error {
	if _, over := errors.AsType[*budget.Exceeded](err); over {
		return refused(http.StatusBadRequest, "ProcessParameterInvalid", "Splitting the area costs too much: "+err.Error()+". Simplify it, take a smaller area, or a coarser grid.")
	}
	return err
}

// boxAround returns the box around a tile. The tiles of a box are boxes.
func boxAround(tile grid.MultiPolygon) boundingBox {
	first := tile[0][0][0]
	west, south, east, north := first[0], first[1], first[0], first[1]
	for _, polygon := range tile {
		for _, p := range polygon[0] {
			west, east = min(west, p[0]), max(east, p[0])
			south, north = min(south, p[1]), max(north, p[1])
		}
	}
	return boundingBox{West: &west, South: &south, East: &east, North: &north}
}

// jobParameters are the broker's own job options, in the form of the processing parameters extension.
func (f *Facade) jobParameters() []json.RawMessage {
	var names []string
	for g := range grid.All() {
		names = append(names, g.Name)
	}
	var all []json.RawMessage
	for _, p := range []map[string]any{
		{"name": optionGrid, "description": "Splits the batch job into one for each tile of its area, and shows them as one.",
			"schema": map[string]any{"type": "string", "enum": names}, "optional": true},
		{"name": optionParameter, "description": "The argument of the process graph that has the area.",
			"schema": map[string]any{"type": "string"}, "optional": true, "default": usualParameter},
		{"name": ownOption + "max_duration", "description": "Seconds that the batch job may take at its platform, from its start. It is canceled after that.",
			"schema": map[string]any{"type": "integer", "minimum": 1}, "optional": true},
	} {
		text, err := dispatch.Encode(p)
		if err != nil {
			panic(err) // strings and numbers
		}
		all = append(all, text)
	}
	return all
}
