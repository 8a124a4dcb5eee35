package openeo

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
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
	mostTiles      = 10_000
)

// asksForTask reports whether a batch job is to become a task.
func asksForTask(members map[string]json.RawMessage) bool {
	return given(members)[optionGrid] != nil
}

// taskFor returns the request and the dimension of a task: where the nodes of the graph have the area that is split,
// the request has a parameter.
func (f *Facade) taskFor(in *request, members map[string]json.RawMessage, r dispatch.Request) (dispatch.Request,
	*dispatch.Dimension, error) {
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
	d, err := split(in, g, parameter, area)
	return r, d, err
}

// splitOptions returns the grid, and the name of the argument that has the area; "": no option names it.
func splitOptions(members map[string]json.RawMessage) (*grid.Grid, string, error) {
	options := optionsOf(members)
	var name string
	_ = json.Unmarshal(options[optionGrid], &name)
	g, known := grid.Named(name)
	if !known {
		return nil, "", refused(http.StatusBadRequest, "ProcessParameterInvalid", "The job option "+optionGrid+
			" must be the name of a grid: "+strings.Join(facade.GridNames(), ", ")+".")
	}
	parameter := ""
	if v := options[optionParameter]; v != nil && (json.Unmarshal(v, &parameter) != nil || parameter == "") {
		return nil, "", refused(http.StatusBadRequest, "ProcessParameterInvalid", "The job option "+optionParameter+
			" must be the name of an argument.")
	}
	return g, parameter, nil
}

// parametrized returns the area that is the value of an argument in a process graph, and the graph with a reference to
// a parameter of that name in its place. All nodes with that argument must have the same area.
func parametrized(data json.RawMessage, argument string) (area, graph json.RawMessage, err error) {
	var nodes map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &nodes); err != nil {
		return nil, nil, refused(http.StatusBadRequest, "ProcessGraphInvalid",
			"The process graph is no object of nodes.")
	}
	reference, err := dispatch.Encode(map[string]string{"from_parameter": argument})
	if err != nil {
		return nil, nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		var arguments map[string]json.RawMessage
		if json.Unmarshal(nodes[id]["arguments"], &arguments) != nil || arguments[argument] == nil ||
			isNull(arguments[argument]) {
			continue
		}
		value, err := dispatch.Encode(arguments[argument])
		if err != nil {
			return nil, nil, err
		}
		if area != nil && string(area) != string(value) {
			return nil, nil, refused(http.StatusBadRequest, "ProcessParameterInvalid",
				"The nodes of the process graph have different values of "+quoted(argument)+
					". A job that is split into tiles needs one area.")
		}
		area, arguments[argument] = value, reference
		if nodes[id]["arguments"], err = dispatch.Encode(arguments); err != nil {
			return nil, nil, err
		}
	}
	if area == nil {
		return nil, nil, refused(http.StatusBadRequest, "ProcessParameterRequired",
			"No node of the process graph has an argument "+quoted(argument)+". Name the one with the area in the "+
				"job option "+optionParameter+".")
	}
	graph, err = dispatch.Encode(nodes)
	return area, graph, err
}

// split returns the dimension whose values are the tiles of an area, in its own form: boxes of a box, GeoJSON of
// GeoJSON. openEO has no boxes across the antimeridian, so that a tile there becomes two boxes.
func split(in *request, g *grid.Grid, parameter string, value json.RawMessage) (*dispatch.Dimension, error) {
	d := &dispatch.Dimension{Name: parameter}
	tiles, isBox, err := in.Split(in.Context(), g, value, mostTiles)
	if dispatch.Is(err, dispatch.Invalid) {
		return nil, refused(http.StatusBadRequest, "ProcessParameterInvalid", "The area cannot be split into tiles. "+
			dispatch.TextFor(err))
	}
	if err != nil {
		return nil, err
	}
	for _, tile := range tiles {
		if !isBox {
			d.Values, d.Names = append(d.Values, tile.Piece.AppendJSON(nil)), append(d.Names, tile.ID)
			continue
		}
		for _, box := range tile.Piece.Boxes() {
			value, err := dispatch.Encode(rounded(box))
			if err != nil {
				return nil, err
			}
			d.Values, d.Names = append(d.Values, value), append(d.Names, tile.ID)
		}
	}
	return d, nil
}

// rounded returns a box without rounding errors: to 1e-9 degrees, a tenth of a millimetre. A box that is not larger
// than that stays as it is.
func rounded(b grid.Box) grid.Box {
	r := b
	for _, side := range []*float64{&r.West, &r.South, &r.East, &r.North} {
		*side = math.Round(*side*1e9) / 1e9
	}
	if r.West >= r.East || r.South >= r.North {
		return b
	}
	return r
}
