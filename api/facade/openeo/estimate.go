package openeo

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/grid"
)

// estimate is what a batch job is expected to cost at most, and how long it is expected to run at most, as the standard
// recommends.
type estimate struct {
	Costs    *float64 `json:"costs,omitempty"`
	Duration string   `json:"duration,omitempty"` // ISO 8601
	Basis    string   `json:"eodispatch:basis"`
}

var errNoEstimate = refused(http.StatusInternalServerError, "EstimateComplexity",
	"The costs and the duration of this batch job cannot be estimated.")

// estimateJob estimates a batch job from the user's finished jobs of the same service, or of the same process. Without
// them the costs of a service of the catalogue are what its provider says: for each run, or for each square kilometre
// of its area.
func (f *Facade) estimateJob(r *request) (*answer, error) {
	found, err := f.find(r, broker.AsKnown)
	if err != nil {
		return nil, err
	}
	request, jobs, err := f.estimated(r, found)
	if err != nil {
		return nil, err
	}
	runs, err := f.Broker.Estimate(r.Context(), r.user, request, jobs)
	if err != nil {
		return nil, err
	}
	e := ofRuns(runs)
	if e.Costs == nil {
		f.addStated(r, &e, found, request, jobs)
	}
	if e.Costs == nil && e.Duration == "" {
		return nil, errNoEstimate
	}
	return &answer{Body: e}, nil
}

// ofRuns returns the estimate from finished jobs. How long many jobs take depends on how many run at once, which is not
// known.
func ofRuns(runs dispatch.Estimate) (e estimate) {
	var basis []string
	if c := runs.Costs.Rounded(); c != nil {
		e.Costs = &c.High
		basis = append(basis, fmt.Sprintf("By your %d finished jobs the costs are %.4g to %.4g, likely %.4g %s.",
			runs.Charged, c.Low, c.High, c.Likely, runs.Unit))
	}
	if s := runs.Seconds; s != nil && runs.Jobs == 1 {
		e.Duration = fmt.Sprintf("PT%.0fS", math.Ceil(s.High))
		basis = append(basis, fmt.Sprintf("By your %d finished jobs it runs for %.0f to %.0f seconds.", runs.Timed,
			s.Low, s.High))
	}
	e.Basis = strings.Join(basis, " ")
	return e
}

// estimated returns the request of a batch job, and how many jobs it is or will be.
func (f *Facade) estimated(r *request, e entry) (request dispatch.Request, jobs int, err error) {
	if e.Unstarted == nil {
		request, _, err = f.requestOf(r, e)
		if e.Task != nil {
			return request, e.Task.Counts.Jobs(), err
		}
		return request, 1, err
	}
	request, d, err := f.requestToStart(r, e.Unstarted)
	if d != nil {
		return request, d.Jobs(), err
	}
	return request, 1, err
}

// addStated adds the costs that the provider of a service states for each run or for each square kilometre.
func (f *Facade) addStated(r *request, e *estimate, job entry, request dispatch.Request, jobs int) {
	s, known := f.identified(request)
	if !known || s.Cost.Estimate == nil {
		return
	}
	costs, basis := *s.Cost.Estimate, fmt.Sprintf("The provider of the service %s states %g %s.", s.ID,
		*s.Cost.Estimate, s.Cost.Unit)
	_, each, shared := strings.Cut(s.Cost.Unit, " per ")
	switch {
	case !shared: // for each run
		costs *= float64(jobs)
	case slices.Contains([]string{"km²", "km2", "km^2", "square kilometre", "square kilometer"},
		strings.TrimSpace(each)):
		km2, ok := f.areaIn(r, s, f.argumentsOf(job, request))
		if !ok {
			return
		}
		costs *= km2
		basis += fmt.Sprintf(" The area has %.3g km².", km2)
	default:
		return
	}
	costs = dispatch.RoundAmount(costs)
	e.Costs, e.Basis = &costs, strings.TrimSpace(basis+" "+e.Basis)
}

// argumentsOf returns the arguments with which a batch job calls a service; those of a task of another interface lack
// what is split.
func (f *Facade) argumentsOf(e entry, request dispatch.Request) json.RawMessage {
	process := sentProcess(request)
	if e.Unstarted != nil {
		var body struct{ Process json.RawMessage }
		_ = json.Unmarshal(e.Unstarted.Body, &body) // it was checked when it was stored
		process = body.Process
	}
	if c, ok := f.callIn(process); ok {
		return c.arguments
	}
	return request.Parameters
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
	return areaOfValue(r.Context(), values[facade.AreaOf(described)])
}

// areaOfValue returns the area of a bounding box or GeoJSON.
func areaOfValue(ctx context.Context, value json.RawMessage) (km2 float64, ok bool) {
	if value == nil {
		return 0, false
	}
	area, _, err := grid.ParseAnyWithin(bounds.TilesSteps.Meter(ctx), value)
	if err != nil {
		return 0, false
	}
	return area.SquareMetres() / 1e6, true
}
