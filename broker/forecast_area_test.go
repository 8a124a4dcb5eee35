package broker_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// The tests of this file run in a bubble of testing/synctest, see with.

// areas is a platform whose jobs run for a second for each km² of their tile.
type areas struct {
	*varied
}

func newAreas() areas {
	p := areas{newVaried(0)}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var of struct{ Tile float64 }
		_ = json.Unmarshal(s.Parameters, &of) // of this test
		p.ends[s.Tag] = time.Now().Add(time.Duration(of.Tile * float64(time.Second)))
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}
	return p
}

// largestNumber takes the numbers among parameters for areas.
func largestNumber(parameters map[string]json.RawMessage) (km2 float64) {
	for _, v := range parameters {
		var n float64
		_ = json.Unmarshal(v, &n) // 0 of anything else
		km2 = max(km2, n)
	}
	return km2
}

// A job and a task are forecast from the runs over areas like their own, in which they end; estimates likewise. Without
// enough of them all runs count.
func TestForecast_ByArea(t *testing.T) {
	detector.Skip(t)
	with(t, dispatch.AccessShared, newAreas(), func(t *testing.T, h *testBroker) {
		h.AreaOf = largestNumber
		tilesOf := func(km2 string, n int) dispatch.Dimension {
			d := dispatch.Dimension{Name: "tile"}
			for range n {
				d.Values = append(d.Values, json.RawMessage(km2))
			}
			return d
		}
		upscale := func(d dispatch.Dimension) dispatch.TaskRecord {
			task, err := h.AcceptTask(t.Context(), "ann", request("a"), d, dispatch.Key{})
			if err != nil {
				t.Fatal(err)
			}
			return task
		}
		for _, km2 := range []string{"100", "10000"} {
			h.untilEnded(t, upscale(tilesOf(km2, 10)).ID, 10)
		}
		for km2, want := range map[string]struct {
			runs   int
			within time.Duration
		}{"110": {10, time.Hour}, "10100": {10, 12 * time.Hour}, "1000": {0, 1000 * time.Hour}} {
			task := upscale(tilesOf(km2, 3))
			began := time.Now()
			f := h.forecast(t, task.ID).Forecast
			if f == nil || f.Runs != want.runs && (want.runs > 0 || f.Runs < 20) ||
				f.Basis != map[bool]dispatch.Basis{true: dispatch.OfArea, false: dispatch.OfService}[want.runs > 0] ||
				f.End.Late.Sub(began) > want.within {
				t.Errorf("a task over tiles of %s km², at %v: %+v", km2, began, f)
			}
			h.untilEnded(t, task.ID, 3)
			if end := h.taskRecord(t, task.ID).Updated; f != nil && want.runs == 10 &&
				end.After(f.End.Late.Add(f.End.Late.Sub(began)/2)) {
				t.Errorf("a task over tiles of %s km² ended at %v, not before %v", km2, end, f.End.Late)
			}
			r := request("a")
			r.Parameters = json.RawMessage(`{"tile":` + km2 + `}`)
			job, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
			if err == nil {
				time.Sleep(20 * time.Second)
				job, err = h.Read(t.Context(), "ann", job.ID, broker.AsKnown)
			}
			if err == nil {
				job, err = h.ForecastJob(t.Context(), job)
			}
			if err != nil || job.Forecast == nil || job.Forecast.End.Late.Sub(began) > want.within {
				t.Errorf("a job over %s km², at %v: %+v, %v", km2, began, job.Forecast, err)
			}
			time.Sleep(10 * time.Hour)
		}
	})
}

// An estimate is made from runs over areas like that of the request if they are enough.
func TestEstimate_ByArea(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		h.Records = sizedRuns{Store: h.Store}
		h.AreaOf = largestNumber
		for km2, want := range map[string]float64{"1.5": 1, "30": 40, "1000": 20.5} {
			r := request("a")
			r.Parameters = json.RawMessage(`{"x":"y","tile":` + km2 + `}`)
			job, err := h.Estimate(t.Context(), "ann", r, 1)
			if err != nil || job.Costs == nil || job.Costs.Likely != want {
				t.Errorf("a job over %s km²: %+v, %v", km2, job, err)
			}
			task, err := h.Estimate(t.Context(), "ann", request("a"), 2, json.RawMessage(km2), json.RawMessage(km2+
				`,"year":"2000"`), json.RawMessage(`"z"`))
			if km2 != "1000" && (err != nil || task.Costs == nil || task.Costs.Likely != 2*want) {
				t.Errorf("a task over tiles of %s km²: %+v, %v", km2, task, err)
			}
		}
	})
}

// sizedRuns has eight finished runs over 1 km² for one credit each, and eight over 40 km² for 40.
type sizedRuns struct{ conformance.Store }

func (s sizedRuns) FinishedRuns(ctx context.Context, u dispatch.UserID, a dispatch.Account,
	service dispatch.ServiceHash, n int) ([]dispatch.FinishedRun, error) {
	runs, err := s.FinishedRequests(ctx, u, a, service, n)
	for i := range runs {
		runs[i].Body = nil
	}
	return runs, err
}

func (sizedRuns) FinishedRequests(context.Context, dispatch.UserID, dispatch.Account, dispatch.ServiceHash,
	int) (runs []dispatch.FinishedRun, err error) {
	one, forty := 1., 40.
	for range 8 {
		runs = append(runs, dispatch.FinishedRun{Costs: &one, Unit: "credits", Body: json.RawMessage(`1`)},
			dispatch.FinishedRun{Costs: &forty, Unit: "credits",
				Body: json.RawMessage(`{"title":"t","parameters":{"x":"y","tile":40}}`)})
	}
	return runs, nil
}

// purse is a platform that says what its user may still spend.
type purse struct {
	script
	left *dispatch.Amount
	err  error
}

func (p *purse) Balance(context.Context, dispatch.Token) (*dispatch.Amount, error) {
	return p.left, p.err
}

// TestEstimate_Balance: an estimate has what its user may still spend, and does not fail because that is not known. The
// balance of an account that users share is not theirs.
func TestEstimate_Balance(t *testing.T) {
	credits := &dispatch.Amount{Value: 12.5, Unit: "credits"}
	for name, c := range map[string]struct {
		access dispatch.Access
		purse  *purse
		want   *dispatch.Amount
	}{
		"of the user":       {dispatch.AccessUser, &purse{left: credits}, credits},
		"of all":            {dispatch.AccessShared, &purse{left: credits}, nil},
		"no limit":          {dispatch.AccessUser, &purse{}, nil},
		"it is unreachable": {dispatch.AccessUser, &purse{err: &dispatch.Error{Kind: dispatch.Unavailable}}, nil},
	} {
		with(t, c.access, c.purse, func(t *testing.T, h *testBroker) {
			if e, err := h.Estimate(t.Context(), "ann", request("a"), 1); err != nil || e.Balance != c.want {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
		})
	}
}
