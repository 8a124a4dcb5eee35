package ogcapi

import (
	"encoding/json"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

// submitTask accepts a task with a job for each tile.
func (f *Facade) submitTask(in *request, s catalogue.Service, e execution, key dispatch.Key,
	want facade.Preferences) (*answer, error) {
	r, d, err := f.taskRequest(in, s, e)
	if err != nil {
		return nil, err
	}
	t, err := f.Broker.AcceptTask(in.Context(), in.user, r, *d, key)
	if err != nil {
		return nil, platformLacks(err)
	}
	return created(in, f.taskInfo(in, t), want), nil
}

// wholeRequest returns the request of an execution and, if it is split into tiles, its dimension.
func (f *Facade) wholeRequest(in *request, s catalogue.Service, e execution) (dispatch.Request, *dispatch.Dimension,
	error) {
	if e.has(inputTiles) {
		return f.taskRequest(in, s, e)
	}
	r, err := f.request(in, s, e)
	return r, nil, err
}

// taskRequest splits the area of an execution.
func (f *Facade) taskRequest(in *request, s catalogue.Service, e execution) (r dispatch.Request, d *dispatch.Dimension,
	err error) {
	var name string
	if json.Unmarshal(e.Inputs[inputTiles], &name) != nil {
		return r, nil, badRequest("inputs.%s must be the name of a grid.", inputTiles)
	}
	g, known := grid.Named(name)
	if !known {
		return r, nil, badRequest("inputs.%s: there is no grid %q.", inputTiles, dispatch.Shortened(name))
	}
	parameters, err := f.parameters(in.Context(), in, s)
	if err != nil {
		return r, nil, err
	}
	parameter := facade.AreaOf(parameters)
	if parameter == "" || !e.has(parameter) {
		return r, nil, badRequest(
			"inputs.%s needs an area, which is the value of another input. This request or its process has none.",
			inputTiles)
	}
	split, err := f.split(in, g, parameter, e.Inputs[parameter])
	if err != nil {
		return r, nil, err
	}
	delete(e.Inputs, parameter)
	r, err = f.request(in, s, e)
	r.Placements = f.placements(s)
	return r, &split, err
}

// placements returns the placements of a task with a service that several platforms offer. nil: it runs at the first of
// them, because a rule gives it a budget, which holds for one platform, or because the form of inputs differs between
// protocols.
func (f *Facade) placements(s catalogue.Service) (placements []dispatch.Placement) {
	if len(s.Also) == 0 {
		return nil
	}
	for _, h := range s.Placements() {
		if h.Label != s.Label || f.Broker.Policy(h.Service, h.Label).Budget != (dispatch.Budget{}) {
			return nil
		}
		placements = append(placements, dispatch.Placement{Label: h.Label, Service: h.Service})
	}
	return placements
}

// split returns the dimension whose values are the tiles of an area as GeoJSON.
func (f *Facade) split(in *request, g *grid.Grid, name string, value json.RawMessage) (dispatch.Dimension, error) {
	d := dispatch.Dimension{Name: name}
	plain, err := plainValue(name, value)
	if err != nil {
		return d, err
	}
	tiles, _, err := in.Split(in.Context(), g, plain, f.MostTiles)
	if dispatch.Is(err, dispatch.Invalid) {
		return d, badRequest("inputs.%s: %s", dispatch.Shortened(name), dispatch.TextFor(err))
	}
	for _, tile := range tiles {
		d.Values, d.Names = append(d.Values, tile.Piece.AppendJSON(nil)), append(d.Names, tile.ID)
	}
	return d, err
}
