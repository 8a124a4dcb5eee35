package openeo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

// estimate is what a batch job is expected to cost.
type estimate struct {
	Costs float64 `json:"costs"`
	Basis string  `json:"eodispatch:basis"`
}

var errNoEstimate = refused(http.StatusInternalServerError, "EstimateComplexity", "The costs and the duration of this batch job cannot be estimated.")

// estimateJob estimates the costs of a batch job that calls a service of the catalogue, from what its provider says that it costs: for each run, or
// for each square kilometre of its area. Neither platforms nor the broker know beforehand what a process graph costs.
func (f *Facade) estimateJob(r *request) (*answer, error) {
	s, arguments, err := f.serviceOf(r)
	if err != nil {
		return nil, err
	}
	if s.Cost.Estimate == nil {
		return nil, errNoEstimate
	}
	e := estimate{Costs: *s.Cost.Estimate, Basis: fmt.Sprintf("The provider of the service %s states %g %s.", s.ID, *s.Cost.Estimate, s.Cost.Unit)}
	_, each, shared := strings.Cut(s.Cost.Unit, " per ")
	switch {
	case !shared: // for each run
	case shared && slices.Contains([]string{"km²", "km2", "km^2", "square kilometre", "square kilometer"}, strings.TrimSpace(each)):
		km2, ok := f.areaIn(r, s, arguments)
		if !ok {
			return nil, errNoEstimate
		}
		e.Costs *= km2
		e.Basis += fmt.Sprintf(" The area has %.3g km².", km2)
	default:
		return nil, errNoEstimate
	}
	return &answer{body: e}, nil
}

// serviceOf returns the service that the batch job of a request calls, and the arguments.
func (f *Facade) serviceOf(r *request) (s catalogue.Service, arguments json.RawMessage, err error) {
	is, err := f.find(r, dispatch.AsKnown)
	if err != nil {
		return s, nil, err
	}
	if is.unstarted != nil {
		var body struct{ Process json.RawMessage }
		if err := json.Unmarshal(is.unstarted.Body, &body); err != nil {
			return s, nil, err
		}
		c, called := f.callIn(body.Process)
		if !called || is.unstarted.ID.Task != 0 && !strings.Contains(c.service.Cost.Unit, " per ") {
			return s, nil, errNoEstimate
		}
		return c.service, c.arguments, nil
	}
	request, _, err := f.requestOf(r, is)
	if err != nil {
		return s, nil, err
	}
	s, known := f.identified(request)
	if !known || is.task != nil {
		return s, nil, errNoEstimate
	}
	return s, request.Parameters, nil
}

// areaIn returns the area of the arguments of a service in square kilometres.
func (f *Facade) areaIn(r *request, s catalogue.Service, arguments json.RawMessage) (km2 float64, ok bool) {
	described, err := f.Broker.Parameters(r.Context(), r.user, s.Service, s.Label)
	if err != nil {
		return 0, false
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(arguments, &values) != nil {
		return 0, false
	}
	return areaOfValue(r.Context(), values[areaOf(described)])
}

// areaOfValue returns the area of a bounding box or GeoJSON.
func areaOfValue(ctx context.Context, value json.RawMessage) (km2 float64, ok bool) {
	if value == nil {
		return 0, false
	}
	area, _, err := grid.ParseAnyWithin(budget.TilesSteps.Meter(ctx), value)
	if err != nil {
		return 0, false
	}
	return area.SquareMetres() / 1e6, true
}
