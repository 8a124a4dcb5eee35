package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// estimateBroker estimates requests.
type estimateBroker interface {
	// Estimate estimates a request for a number of jobs, from the user's finished runs.
	Estimate(ctx context.Context, u dispatch.UserID, r dispatch.Request, jobs int,
		added ...json.RawMessage) (dispatch.Estimate, error)
	// CheckRequest checks a request or, with a dimension, a task's as its acceptance would, and stores nothing.
	CheckRequest(ctx context.Context, u dispatch.UserID, r dispatch.Request, d *dispatch.Dimension) error
}

// estimateRoutes registers the estimate of a request.
func (a *api) estimateRoutes() {
	openapi.Register(a.Document,
		huma.Operation{OperationID: "estimate", Method: http.MethodPost, Path: "/estimate", Tags: openapi.JobTags,
			Summary: "Estimate the costs and the run time of a request",
			Description: "Takes a request for a job or, with a dimension, for a task, and submits nothing. A " +
				"request that would be refused on submission is refused here, too. The estimate is made from your " +
				"own finished jobs of the same service on the same platform: from those over an area of half to " +
				"twice the size if there are eight, otherwise from all, whatever their parameters. GET " +
				"/services/{service_id} has the costs that the provider states.",
			Responses: a.Errors(401, 403, 409, 422, 501, 502, 503, 504)}, a.estimate)
	either := a.JobBody()
	either.Content["application/json"].Schema = &huma.Schema{AnyOf: []*huma.Schema{
		either.Content["application/json"].Schema, a.TaskBody().Content["application/json"].Schema}}
	document := a.OpenAPI()
	a.Takes(document.Paths["/estimate"].Post, either)
	openapi.AllowNull(document.Components.Schemas.Map()["Estimate"].Properties, "costs", "seconds")
}

func (a *api) estimate(ctx context.Context, in *openapi.Request) (*openapi.Plain[wire.Estimate], error) {
	body, err := a.ReadBody(in)
	if err != nil {
		return nil, err
	}
	r, d, faults := a.parseEstimate(ctx, body)
	if len(faults) > 0 {
		return nil, call.Invalid(faults)
	}
	var dimension *dispatch.Dimension
	if d.Name != "" {
		dimension = &d
	}
	if err := a.Broker.CheckRequest(ctx, call.User(ctx), r, dimension); err != nil {
		return nil, call.RequestError(err)
	}
	e, err := a.Broker.Estimate(ctx, call.User(ctx), r, max(1, d.Jobs()), d.Sample()...)
	if err != nil {
		return nil, call.RequestError(err)
	}
	shown := wire.Estimate{Jobs: e.Jobs, Costs: (*wire.Spread)(e.Costs.Rounded()), CostUnit: e.Unit,
		CostRuns: e.Charged, Seconds: (*wire.Spread)(e.Seconds.Rounded()), SecondsRuns: e.Timed}
	if e.Costs != nil {
		shown.CostBasis = basisOf(e.CostBasis)
	} else {
		a.estimateByNote(&shown, body)
	}
	if e.Seconds != nil {
		shown.SecondsBasis = basisOf(e.TimeBasis)
	}
	if e.Balance != nil {
		left := wire.Amount(*e.Balance)
		shown.Balance, shown.Warning = &left, exceeds(shown.Costs, shown.CostUnit, left)
	}
	return &openapi.Plain[wire.Estimate]{Body: shown}, nil
}

// exceeds returns the warning for costs that a balance does not cover; "" if it does, or if they have different units.
func exceeds(costs *wire.Spread, unit string, left wire.Amount) string {
	if costs == nil || unit != left.Unit || costs.Likely <= left.Value {
		return ""
	}
	return fmt.Sprintf("This is likely to cost %g %s, and your account at the platform has %g left. The platform may "+
		"refuse jobs, or end them, when nothing is left.", costs.Likely, unit, left.Value)
}

// basisOf returns what an estimate says of the jobs that it is made from.
func basisOf(b dispatch.Basis) string {
	if b == dispatch.OfArea {
		return "area"
	}
	return "runs"
}

// estimateByNote fills in what the provider of a service of the catalogue states that each run costs. A price for
// something else, such as an area, or none that can be read, gives no estimate.
func (a *api) estimateByNote(e *wire.Estimate, body []byte) {
	var named struct{ Service struct{ ID string } }
	_ = json.Unmarshal(body, &named) // it was parsed before; an endpoint in place of an id is none of the catalogue's
	s, listed := a.Services.Find(named.Service.ID)
	if !listed || named.Service.ID == "" || s.Cost.Estimate == nil || strings.Contains(s.Cost.Unit, " per ") {
		return
	}
	if each := *s.Cost.Estimate; each >= 0 && each <= dispatch.HighestCosts {
		all := dispatch.RoundAmount(each * float64(e.Jobs))
		e.Costs, e.CostUnit, e.CostBasis = &wire.Spread{Low: all, Likely: all, High: all}, s.Cost.Unit, "catalogue"
	}
}

// parseEstimate reads the request for a job or a task and returns all its faults.
func (a *api) parseEstimate(ctx context.Context, body []byte) (dispatch.Request, dispatch.Dimension, []dispatch.Fault) {
	var given map[string]json.RawMessage
	if json.Unmarshal(body, &given) == nil {
		for _, name := range []string{"dimension", "dimensions"} {
			if v := given[name]; v != nil && !openapi.IsNull(v) {
				return a.parseTask(ctx, body)
			}
		}
	}
	r, faults := a.parse(ctx, body)
	return r, dispatch.Dimension{}, faults
}
