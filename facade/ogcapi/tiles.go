package ogcapi

import (
	"encoding/json"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/facade"
	"github.com/eodispatch/eodispatch/grid"
)

// submitTask splits the area of an execution and accepts a task with a job for each tile.
func (f *Facade) submitTask(in *request, s catalogue.Service, e execution, key dispatch.Key, want facade.Preferences) (*answer, error) {
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
	if parameter == "" || !e.has(parameter) {
		return nil, badRequest("inputs.%s needs an area, which is the value of another input. This request or its process has none.", inputTiles)
	}
	tiles, err := f.split(in, g, parameter, e.Inputs[parameter])
	if err != nil {
		return nil, err
	}
	delete(e.Inputs, parameter)
	r, err := f.request(in, s, e)
	if err != nil {
		return nil, err
	}
	t, err := f.Broker.AcceptTask(in.Context(), in.user, r, dispatch.Dimension{Name: parameter, Values: tiles}, key)
	if err != nil {
		return nil, submissionError(err)
	}
	return created(in, f.taskInfo(in, t), want), nil
}

// split returns the tiles of an area as GeoJSON.
func (f *Facade) split(in *request, g *grid.Grid, name string, value json.RawMessage) ([]json.RawMessage, error) {
	plain, err := plainValue(name, value)
	if err != nil {
		return nil, err
	}
	pieces, _, err := in.Split(in.Context(), g, plain, f.MostTiles)
	if dispatch.Is(err, dispatch.Invalid) {
		return nil, badRequest("inputs.%s: %s", clip(name), dispatch.TextFor(err))
	}
	tiles := make([]json.RawMessage, len(pieces))
	for i, piece := range pieces {
		tiles[i] = piece.AppendJSON(nil)
	}
	return tiles, err
}
