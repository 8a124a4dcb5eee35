package broker

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/forecast"
)

// undecided are the attentions of work that does not go on by itself.
var undecided = []dispatch.Attention{dispatch.NeedsSignIn, dispatch.SubmissionUnknown, dispatch.NeedsOperator,
	dispatch.HeldByOperator, dispatch.NoPlatform, dispatch.Stalled}

// ForecastTask returns a task with its Forecast or, if it waits for its owner after a trial or because of its budget,
// with its Rest. A task with several placements gets neither: its jobs move between platforms as slots become free. It
// reads two lists of finished jobs, and at most four further lists, and sends no request.
func (b *Broker) ForecastTask(ctx context.Context, t dispatch.TaskRecord) (dispatch.TaskRecord, error) {
	waiting, running := t.Counts[dispatch.Accepted],
		t.Counts[dispatch.Submitted]+t.Counts[dispatch.Queued]+t.Counts[dispatch.Running]
	rests := t.Paused && waiting > 0 && (t.Attention == dispatch.TrialEnded || t.Attention == dispatch.BudgetReached)
	backend := b.BackendNamed(t.Account.Platform())
	if backend == nil || len(t.Request.Placements) > 0 || waiting+running == 0 || !rests && (t.Paused && waiting > 0 ||
		slices.Contains(undecided, t.Attention)) {
		return t, nil
	}
	if rests {
		waiting -= beingSubmitted(t)
	}
	least := forecast.LeastForecast
	if rests {
		least = 1
	}
	like := dispatch.Job{Identity: dispatch.Identity{Owner: t.Owner, Task: t.ID},
		Target: dispatch.Target{Account: t.Account, Service: t.Request.Service.Hash()}}
	runs, err := b.runsFor(ctx, like, least, backend.Limits.Send)
	if err != nil {
		return t, err
	}
	w := forecast.Work{Waiting: waiting}
	if waiting > 0 && len(runs) > 0 {
		if w.Slots, err = b.slotsOf(ctx, backend, t, running); err != nil {
			return t, err
		}
	}
	if rests {
		t.Rest = forecast.RestOf(runs, w, t.ID, backend.Limits.Send)
		return t, nil
	}
	t.Forecast, err = b.forecastOf(ctx, runs, w, t, like, backend.Limits.Send)
	return t, err
}

// runsFor returns the runs from which a job of a task is forecast: the latest of its task if these are enough, or else
// those of its owner with the service. Among the latest of the owner there may be few of the task, because others
// finish meanwhile.
func (b *Broker) runsFor(ctx context.Context, j dispatch.Job, least int, send time.Duration) ([]dispatch.FinishedRun,
	error) {
	if j.Task != 0 {
		own, err := b.Records.FinishedRunsOfTask(ctx, j.Task, dispatch.EstimatedFrom)
		if err != nil || len(forecast.TimesOf(own, send)) >= least {
			return own, err
		}
	}
	return b.Records.FinishedRuns(ctx, j.Owner, j.Account, j.Service, dispatch.EstimatedFrom)
}

// beingSubmitted returns how many jobs of a task with a budget show that they are accepted, and are being submitted.
func beingSubmitted(t dispatch.TaskRecord) int {
	if t.Spending == nil {
		return 0
	}
	shown := t.Counts[dispatch.Submitted] + t.Counts[dispatch.Queued] + t.Counts[dispatch.Running] +
		t.Counts[dispatch.Unknown]
	return min(max(0, t.Spending.Running-shown), t.Counts[dispatch.Accepted])
}

// forecastOf returns when a task ends; nil if it is not known.
func (b *Broker) forecastOf(ctx context.Context, runs []dispatch.FinishedRun, w forecast.Work, t dispatch.TaskRecord,
	like dispatch.Job, send time.Duration) (*dispatch.Forecast, error) {
	times, basis, err := b.timesLike(ctx, runs, like, func() (float64, error) { return b.areaOfTask(ctx, t) }, send)
	if err != nil || len(times) < forecast.LeastForecast || w.Waiting > 0 && w.Slots == 0 {
		return nil, err
	}
	begun, err := b.Records.Underway(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, sendBy := range begun {
		w.Ages = append(w.Ages, max(0, now.Sub(sendBy.Add(-send))))
	}
	f := w.Futures(times, forecast.SeedOf(int64(t.ID)))
	return &dispatch.Forecast{End: forecast.RangeFrom(now, f.Ends), Runs: len(times), Basis: basis}, nil
}

// slotsOf returns how many jobs of a task run at once while some of them wait, shared with others as now; 0: not known.
func (b *Broker) slotsOf(ctx context.Context, backend *dispatch.Backend, t dispatch.TaskRecord, running int) (int,
	error) {
	limit := backend.Limits.Jobs
	if limit == 0 {
		return running, nil
	}
	queues, err := b.queuesOf(ctx, t.Account)
	if err != nil {
		return 0, err
	}
	owners, own, others := map[dispatch.UserID]bool{t.Owner: true}, 1, 0
	for _, l := range queues {
		if l.Waiting == 0 || l.Owner == t.Owner && l.Task == t.ID {
			continue
		}
		owners[l.Owner] = true
		others += l.Waiting
		if l.Owner == t.Owner {
			own++
		}
	}
	waiting := t.Counts[dispatch.Accepted]
	fair := limit / len(owners) / own
	return max(1, fair, limit*waiting/(waiting+others)), nil
}

// ForecastJob returns a job with its Forecast, in the same way.
func (b *Broker) ForecastJob(ctx context.Context, r dispatch.Record) (dispatch.Record, error) {
	backend := b.BackendNamed(r.Account.Platform())
	if backend == nil || r.Phase == dispatch.Ended || r.Status.Final() || r.Status == dispatch.Unknown ||
		slices.Contains(undecided, r.Attention) {
		return r, nil
	}
	limits, waits := backend.Limits, r.Phase == dispatch.Waiting
	if waits && (r.Ahead == nil || limits.Jobs == 0) {
		return r, nil
	}
	runs, err := b.runsFor(ctx, r.Job, forecast.LeastForecast, limits.Send)
	if err != nil {
		return r, err
	}
	area := func() (float64, error) { return b.areaOfParameters(r.Request.Parameters), nil }
	times, basis, err := b.timesLike(ctx, runs, r.Job, area, limits.Send)
	if err != nil || len(times) < forecast.LeastForecast {
		return r, err
	}
	now := time.Now()
	r.Forecast = &dispatch.Forecast{Runs: len(times), Basis: basis}
	if !waits {
		w := forecast.Work{Ages: []time.Duration{max(0, now.Sub(r.SendBy.Add(-limits.Send)))}}
		r.Forecast.End = forecast.RangeFrom(now, w.Futures(times, forecast.SeedOf(int64(r.ID))).Ends)
		return r, nil
	}
	w := forecast.Work{Others: limits.Jobs, Waiting: *r.Ahead + 1, Slots: limits.Jobs}
	f := w.Futures(times, forecast.SeedOf(int64(r.ID)))
	start := forecast.RangeFrom(now, f.Starts)
	r.Forecast.Start, r.Forecast.End = &start, forecast.RangeFrom(now, f.Last)
	return r, nil
}
