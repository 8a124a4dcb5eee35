package broker

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/forecast"
)

const (
	sampledAreas = 100 // values of a dimension whose areas are computed
)

// areaIn returns the area in km² of a request in JSON, or of what a task's job adds to its parameters: the largest of
// its values. 0: none is known.
func (b *Broker) areaIn(body json.RawMessage) float64 {
	var added map[string]json.RawMessage
	if b.AreaOf == nil || json.Unmarshal(slices.Concat([]byte(`{"":`), body, []byte("}")), &added) != nil {
		return 0
	}
	var r struct{ Parameters map[string]json.RawMessage }
	_ = json.Unmarshal(added[""], &r) // the value of a task's job need not be an object
	return max(b.AreaOf(added), b.AreaOf(r.Parameters))
}

func (b *Broker) areaOfParameters(parameters json.RawMessage) float64 {
	var values map[string]json.RawMessage
	if b.AreaOf == nil || json.Unmarshal(parameters, &values) != nil {
		return 0
	}
	return b.AreaOf(values)
}

// typicalArea returns the median area of what the jobs of a task add to its parameters or, if they add none, the area
// of these.
func (b *Broker) typicalArea(parameters json.RawMessage, added []json.RawMessage) float64 {
	if b.AreaOf == nil {
		return 0
	}
	var all []float64
	for i := 0; i < len(added); i += 1 + len(added)/sampledAreas {
		if km2 := b.areaIn(added[i]); km2 > 0 {
			all = append(all, km2)
		}
	}
	if len(all) == 0 {
		return b.areaOfParameters(parameters)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// areaOfTask returns the typical area of a task's first jobs.
func (b *Broker) areaOfTask(ctx context.Context, t dispatch.TaskRecord) (float64, error) {
	if b.AreaOf == nil {
		return 0, nil
	}
	const sample = 20
	jobs, err := b.Records.TaskJobs(ctx, t.Owner, t.ID, dispatch.Page{Limit: sample, Most: dispatch.PartMost})
	var added []json.RawMessage
	for _, j := range jobs {
		added = append(added, j.Value)
	}
	return b.typicalArea(t.Request.Parameters, added), err
}

// runsWithAreas is Store.FinishedRequests with the areas of the runs in place of their requests.
func (b *Broker) runsWithAreas(ctx context.Context, u dispatch.UserID, a dispatch.Account,
	s dispatch.ServiceHash) ([]dispatch.FinishedRun, error) {
	runs, err := b.Records.FinishedRequests(ctx, u, a, s, dispatch.EstimatedFrom)
	for i := range runs {
		runs[i].Area, runs[i].Body = b.areaIn(runs[i].Body), nil
	}
	return runs, err
}

// timesLike returns the run times that a forecast for a job or a task is made from: those of its own task if they are
// enough, otherwise those of runs over an area like its own if these are, otherwise all. area is called only if its
// result counts.
func (b *Broker) timesLike(ctx context.Context, runs []dispatch.FinishedRun, j dispatch.Job,
	area func() (float64, error), send time.Duration) (times []time.Duration, basis dispatch.Basis, err error) {
	times, same := forecast.TimesFor(runs, j.Task, forecast.LeastForecast, send)
	if same {
		return times, dispatch.OfTask, nil
	}
	if len(times) < forecast.LeastForecast || b.AreaOf == nil {
		return times, dispatch.OfService, nil
	}
	km2, err := area()
	if err != nil || km2 <= 0 {
		return times, dispatch.OfService, err
	}
	if runs, err = b.runsWithAreas(ctx, j.Owner, j.Account, j.Service); err != nil {
		return nil, "", err
	}
	if near := forecast.TimesNear(runs, km2, send); len(near) >= forecast.LeastForecast {
		return near, dispatch.OfArea, nil
	}
	return times, dispatch.OfService, nil
}
