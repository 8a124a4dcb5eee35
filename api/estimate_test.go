package api

import (
	"math"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/client/wire"
)

// A request for a job or for a task is estimated, nothing is stored, and faults are reported as for its submission.
func TestEstimate_OfJobsAndTasks(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	job := strings.TrimSuffix(strings.TrimSpace(goodBody), "}")
	is := decode[wire.Estimate](t, ask(h, "POST", "/estimate", goodBody), 200)
	if is.Jobs != 1 || is.Costs == nil || *is.Costs != (wire.Spread{Low: 1, Likely: 2, High: 4}) ||
		is.CostUnit != "credits" || is.CostRuns != 7 || is.Seconds != nil || is.SecondsRuns != 2 {
		t.Errorf("job %+v", is)
	}
	if none := decode[wire.Estimate](t, ask(h, "POST", "/estimate", job+`, "dimension": null, "dimensions": null}`),
		200); none.Jobs != 1 {
		t.Errorf("job without a dimension %+v", none)
	}
	is = decode[wire.Estimate](t, ask(h, "POST", "/estimate",
		job+`, "dimension": {"name": "tile", "values": [1, 2, 3]}}`), 200)
	if is.Jobs != 3 || len(w.jobs) != 0 {
		t.Errorf("task %+v, %d jobs stored", is, len(w.jobs))
	}
	failed(t, ask(h, "POST", "/estimate", job+`, "dimension": {"name": "tile", "values": []}}`), 422, "VALIDATION_ERROR")
}

// What would be refused if it were submitted is not estimated.
func TestEstimate_OfWhatIsRefused(t *testing.T) {
	h := newRealAPI(t, &platform{})
	const job = `{"title": "a", "label": "openeo", "format": "json", "service": {"endpoint": "https://openeo.example.org", "application": "ndvi"}, "parameters": {"year": 2024}`
	for name, dimensions := range map[string]string{
		"also a parameter": `"dimension": {"name": "year", "values": [1, 2]}`,
		"unequal lengths":  `"combine": "zip", "dimensions": [{"name": "tile", "values": [1, 2]}, {"name": "month", "values": [1]}]`,
		"the same twice":   `"dimensions": [{"name": "tile", "values": [1, 2]}, {"name": "tile", "values": [1]}]`,
	} {
		submitted := ask(h, "POST", "/upscale_tasks", job+`, `+dimensions+`}`)
		failed(t, submitted, 422, "VALIDATION_ERROR")
		got := ask(h, "POST", "/estimate", job+`, `+dimensions+`}`)
		if failed(t, got, 422, "VALIDATION_ERROR"); !strings.Contains(got.Body.String(), "dimension") {
			t.Errorf("%s: %s", name, got.Body)
		}
	}
	decode[wire.Estimate](t, ask(h, "POST", "/estimate", job+`, "dimension": {"name": "tile", "values": [1, 2]}}`), 200)
	decode[wire.Estimate](t, ask(h, "POST", "/estimate", job+`}`), 200)
}

// TestExceeds: there is a warning before a request whose likely costs are above the balance, in the same unit.
func TestExceeds(t *testing.T) {
	costs := &wire.Spread{Low: 8, Likely: 10, High: 12}
	for name, c := range map[string]struct {
		costs *wire.Spread
		left  wire.Amount
		warns bool
	}{
		"it is enough":     {costs, wire.Amount{Value: 10, Unit: "credits"}, false},
		"it is not enough": {costs, wire.Amount{Value: 9, Unit: "credits"}, true},
		"another unit":     {costs, wire.Amount{Value: 9, Unit: "EUR"}, false},
		"no estimate":      {nil, wire.Amount{Value: 9, Unit: "credits"}, false},
	} {
		if got := exceeds(c.costs, "credits", c.left); (got != "") != c.warns {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestEstimate_ByNotes: what a record states of costs is an estimate only if it is an amount for each run.
func TestEstimate_ByNotes(t *testing.T) {
	for name, c := range map[string]struct {
		cost catalogue.Cost
		want float64 // 0: none
	}{
		"for each run":  {catalogue.Cost{Estimate: new(1.5), Unit: "credits"}, 4.5},
		"no unit":       {catalogue.Cost{Estimate: new(1.5)}, 4.5},
		"for an area":   {catalogue.Cost{Estimate: new(1.5), Unit: "credits per km²"}, 0},
		"wrong text":    {catalogue.Cost{Unit: "credits"}, 0},
		"below nothing": {catalogue.Cost{Estimate: new(-1.5), Unit: "credits"}, 0},
		"no number":     {catalogue.Cost{Estimate: new(math.NaN()), Unit: "credits"}, 0},
		"too much":      {catalogue.Cost{Estimate: new(1e300), Unit: "credits"}, 0},
	} {
		a, e := &api{Config: Config{Services: shelf{{ID: "ndvi", Cost: c.cost}}}}, wire.Estimate{Jobs: 3}
		if a.estimateByNote(&e, []byte(`{"service": {"id": "ndvi"}}`)); (e.Costs != nil) != (c.want != 0) || e.Costs != nil &&
			*e.Costs != (wire.Spread{Low: c.want, Likely: c.want, High: c.want}) {
			t.Errorf("%s: %+v", name, e.Costs)
		}
	}
}
