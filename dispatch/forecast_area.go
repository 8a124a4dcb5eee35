package dispatch

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"
)

const (
	nearFactor   = 2.  // areas are alike if none is more than so many times the other
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
	return max(b.largest(added), b.largest(r.Parameters))
}

// areaOfParameters is areaIn for the parameters of a request.
func (b *Broker) areaOfParameters(parameters json.RawMessage) float64 {
	var values map[string]json.RawMessage
	if b.AreaOf == nil || json.Unmarshal(parameters, &values) != nil {
		return 0
	}
	return b.largest(values)
}

func (b *Broker) largest(values map[string]json.RawMessage) (km2 float64) {
	for _, v := range values {
		km2 = max(km2, b.AreaOf(v))
	}
	return km2
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
func (b *Broker) areaOfTask(ctx context.Context, t TaskRecord) (float64, error) {
	if b.AreaOf == nil {
		return 0, nil
	}
	const some = 20
	jobs, err := b.Store.TaskJobs(ctx, t.Owner, t.ID, Page{Limit: some, Most: PartMost})
	var added []json.RawMessage
	for _, j := range jobs {
		added = append(added, j.Value)
	}
	return b.typicalArea(t.Request.Parameters, added), err
}

// runsWithAreas is Store.FinishedRequests with the areas of the runs in place of their requests.
func (b *Broker) runsWithAreas(ctx context.Context, u UserID, a Account, s ServiceHash) ([]FinishedRun, error) {
	runs, err := b.Store.FinishedRequests(ctx, u, a, s, EstimatedFrom)
	for i := range runs {
		runs[i].Area, runs[i].Body = b.areaIn(runs[i].Body), nil
	}
	return runs, err
}

// near reports whether the area of a run is like another one.
func (r FinishedRun) near(km2 float64) bool {
	return r.Area > 0 && r.Area <= km2*nearFactor && r.Area >= km2/nearFactor
}

// timesNear returns how long the runs over areas like km2 would have taken over exactly that area: they grow with a
// power of the area, which all runs tell.
func timesNear(runs []FinishedRun, km2 float64, send time.Duration) (times []time.Duration) {
	power := growthOf(runs, send)
	for _, r := range runs {
		if took := timesOf([]FinishedRun{r}, send); len(took) > 0 && r.near(km2) {
			times = append(times, time.Duration(float64(took[0])*math.Pow(km2/r.Area, power)))
		}
	}
	return times
}

// growthOf returns with what power of their area the times of runs grow, from 0 to 1, by least squares of the
// logarithms.
func growthOf(runs []FinishedRun, send time.Duration) float64 {
	var areas, times []float64
	for _, r := range runs {
		if took := timesOf([]FinishedRun{r}, send); len(took) > 0 && r.Area > 0 {
			areas, times = append(areas, math.Log(r.Area)), append(times, math.Log(took[0].Seconds()))
		}
	}
	if len(areas) < leastForecast {
		return 0
	}
	area, deviation, _ := moments(areas)
	mean, _, _ := moments(times)
	if deviation < leastSpread {
		return 0
	}
	slope := 0.
	for i := range areas {
		slope += (areas[i] - area) * (times[i] - mean) / (deviation * deviation * float64(len(areas)-1))
	}
	return min(max(slope, 0), 1)
}

// timesLike returns the run times that a forecast for a job or a task is made from: those of its own task if they are
// enough, otherwise those of runs over an area like its own if these are, otherwise all. area is called only if its
// result counts.
func (b *Broker) timesLike(ctx context.Context, runs []FinishedRun, j Job, area func() (float64, error),
	send time.Duration) (times []time.Duration, basis Basis, err error) {
	times, same := timesFor(runs, j.Task, leastForecast, send)
	if same {
		return times, OfTask, nil
	}
	if len(times) < leastForecast || b.AreaOf == nil {
		return times, OfService, nil
	}
	km2, err := area()
	if err != nil || km2 <= 0 {
		return times, OfService, err
	}
	if runs, err = b.runsWithAreas(ctx, j.Owner, j.Account, j.Service); err != nil {
		return nil, "", err
	}
	if near := timesNear(runs, km2, send); len(near) >= leastForecast {
		return near, OfArea, nil
	}
	return times, OfService, nil
}

// nearer replaces what an estimate says of costs and of run times by what runs over areas like km2 say, where these are
// enough.
func nearer(e Estimate, runs []FinishedRun, km2 float64) Estimate {
	near := estimate(slices.DeleteFunc(slices.Clone(runs), func(r FinishedRun) bool { return !r.near(km2) }), e.Jobs)
	if near.Charged >= leastForecast {
		e.Charged, e.Costs, e.Unit, e.CostBasis = near.Charged, near.Costs, near.Unit, OfArea
	}
	if near.Timed >= leastForecast {
		e.Timed, e.Seconds, e.TimeBasis = near.Timed, near.Seconds, OfArea
	}
	return e
}
