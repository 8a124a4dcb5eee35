package dispatch

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	forecastFor   = 10 * time.Second // how long the forecast of a task is reused while its state is the same
	manyForecasts = 10_000           // in the cache; it is emptied when it has more
)

// undecided are the attentions of work that does not go on by itself.
var undecided = []Attention{NeedsSignIn, SubmissionUnknown, NeedsOperator, HeldByOperator, NoPlatform, Stalled}

// ForecastTask returns a task with its Forecast or, if it waits for its owner after a trial or because of its budget,
// with its Rest. A task with several homes gets neither: its jobs move between platforms as slots become free. It reads
// two lists of finished jobs, and at most four further lists, and sends no request.
func (b *Broker) ForecastTask(ctx context.Context, t TaskRecord) (TaskRecord, error) {
	waiting, running := t.Counts[Accepted], t.Counts[Submitted]+t.Counts[Queued]+t.Counts[Running]
	rests := t.Paused && waiting > 0 && (t.Attention == TrialEnded || t.Attention == BudgetReached)
	backend := b.backendNamed(t.Account.Platform())
	if backend == nil || len(t.Request.Homes) > 0 || waiting+running == 0 || !rests && (t.Paused && waiting > 0 ||
		slices.Contains(undecided, t.Attention)) {
		return t, nil
	}
	if rests {
		waiting -= beingSubmitted(t)
	}
	state := forecastState{t.ID, waiting, running, t.Counts.ended(), rests}
	if known, ok := b.forecasts.get(state); ok {
		t.Forecast, t.Rest = known.forecast, known.rest
		return t, nil
	}
	least := leastForecast
	if rests {
		least = 1
	}
	runs, err := b.runsFor(ctx, Job{Owner: t.Owner, Account: t.Account, Service: t.Request.Service.hash(), Task: t.ID},
		least, backend.Limits.Send)
	if err != nil {
		return t, err
	}
	w := work{waiting: waiting}
	if waiting > 0 && len(runs) > 0 {
		if w.slots, err = b.slotsOf(ctx, backend, t, running); err != nil {
			return t, err
		}
	}
	if rests {
		t.Rest = restOf(runs, w, t.ID, backend.Limits.Send)
	} else if t.Forecast, err = b.forecastOf(ctx, runs, w, t, backend.Limits.Send); err != nil {
		return t, err
	}
	b.forecasts.put(state, forecast{t.Forecast, t.Rest, time.Now()})
	return t, nil
}

// runsFor returns the runs from which a job of a task is forecast: the latest of its task if these are enough, or else
// those of its owner with the service. Among the latest of the owner there may be few of the task, because others
// finish meanwhile.
func (b *Broker) runsFor(ctx context.Context, j Job, least int, send time.Duration) ([]FinishedRun, error) {
	if j.Task != 0 {
		own, err := b.Store.FinishedRunsOfTask(ctx, j.Task, EstimatedFrom)
		if err != nil || len(timesOf(own, send)) >= least {
			return own, err
		}
	}
	return b.Store.FinishedRuns(ctx, j.Owner, j.Account, j.Service, EstimatedFrom)
}

// beingSubmitted returns how many jobs of a task with a budget show that they are accepted, and are being submitted.
func beingSubmitted(t TaskRecord) int {
	if t.Spending == nil {
		return 0
	}
	shown := t.Counts[Submitted] + t.Counts[Queued] + t.Counts[Running] + t.Counts[Unknown]
	return min(max(0, t.Spending.Running-shown), t.Counts[Accepted])
}

// forecastOf returns when a task ends; nil if it is not known.
func (b *Broker) forecastOf(ctx context.Context, runs []FinishedRun, w work, t TaskRecord,
	send time.Duration) (*Forecast, error) {
	of := Job{Owner: t.Owner, Account: t.Account, Service: t.Request.Service.hash(), Task: t.ID}
	times, basis, err := b.timesLike(ctx, runs, of, func() (float64, error) { return b.areaOfTask(ctx, t) }, send)
	if err != nil || len(times) < leastForecast || w.waiting > 0 && w.slots == 0 {
		return nil, err
	}
	begun, err := b.Store.Underway(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, sendBy := range begun {
		w.ages = append(w.ages, max(0, now.Sub(sendBy.Add(-send))))
	}
	f := w.futures(lawOf(times, w.ages), seedOf(int64(t.ID)))
	return &Forecast{End: rangeFrom(now, f.ends), Runs: len(times), Basis: basis}, nil
}

// restOf returns what the waiting jobs of a task are expected to cost, and how long they take. Fewer than three runs
// give no range: the mean is the whole of it.
func restOf(runs []FinishedRun, w work, id TaskID, send time.Duration) *Rest {
	own := runsOf(runs, id)
	r := &Rest{Basis: OfService}
	if len(own) > 0 {
		runs, r.Basis = own, OfTask
	}
	r.Estimate = estimate(runs, w.waiting)
	if costs, _ := pricesOf(runs); r.Costs == nil && len(costs) > 0 {
		mean, _, _ := moments(costs)
		all := mean * float64(w.waiting)
		r.Costs = &Spread{all, all, all}
	}
	times := timesOf(runs, send)
	r.Timed = len(times)
	switch {
	case w.slots == 0:
	case len(times) >= leastRuns:
		ends := w.futures(lawOf(times, nil), seedOf(int64(id))).ends
		low, high := tenths(ends)
		r.Took = &Spread{low, ends[len(ends)/2], high}
	case len(times) > 0:
		sum := 0.
		for _, t := range times {
			sum += t.Seconds() / float64(len(times))
		}
		all := sum * math.Ceil(float64(w.waiting)/float64(w.slots))
		r.Took = &Spread{all, all, all}
	}
	return r
}

// slotsOf returns how many jobs of a task run at once while some of them wait, as others wait at present; 0: not known.
func (b *Broker) slotsOf(ctx context.Context, backend *Backend, t TaskRecord, running int) (int, error) {
	limit := backend.Limits.Jobs
	if limit == 0 {
		return running, nil
	}
	lines, err := b.queues.lines(ctx, b.Store, t.Account)
	if err != nil {
		return 0, err
	}
	owners, own, others := map[UserID]bool{t.Owner: true}, 1, 0
	for _, l := range lines {
		if l.Waiting == 0 || l.Owner == t.Owner && l.Task == t.ID {
			continue
		}
		owners[l.Owner] = true
		others += l.Waiting
		if l.Owner == t.Owner {
			own++
		}
	}
	waiting := t.Counts[Accepted]
	fair := limit / len(owners) / own
	return max(1, fair, limit*waiting/(waiting+others)), nil
}

// ForecastJob returns a job with its Forecast, in the same way.
func (b *Broker) ForecastJob(ctx context.Context, r Record) (Record, error) {
	backend := b.backendNamed(r.Account.Platform())
	if backend == nil || r.Phase == Ended || r.Status.Final() || r.Status == Unknown ||
		slices.Contains(undecided, r.Attention) {
		return r, nil
	}
	limits, waits := backend.Limits, r.Phase == Waiting
	if waits && (r.Ahead == nil || limits.Jobs == 0) {
		return r, nil
	}
	runs, err := b.runsFor(ctx, r.Job, leastForecast, limits.Send)
	if err != nil {
		return r, err
	}
	area := func() (float64, error) { return b.areaOfParameters(r.Request.Parameters), nil }
	times, basis, err := b.timesLike(ctx, runs, r.Job, area, limits.Send)
	if err != nil || len(times) < leastForecast {
		return r, err
	}
	now := time.Now()
	r.Forecast = &Forecast{Runs: len(times), Basis: basis}
	if !waits {
		w := work{ages: []time.Duration{max(0, now.Sub(r.SendBy.Add(-limits.Send)))}}
		r.Forecast.End = rangeFrom(now, w.futures(lawOf(times, nil), seedOf(int64(r.ID))).ends)
		return r, nil
	}
	w := work{others: limits.Jobs, waiting: *r.Ahead + 1, slots: limits.Jobs}
	f := w.futures(lawOf(times, nil), seedOf(int64(r.ID)))
	start := rangeFrom(now, f.starts)
	r.Forecast.Start, r.Forecast.End = &start, rangeFrom(now, f.last)
	return r, nil
}

// forecastState is a state of a task for which a forecast is reused.
type forecastState struct {
	task                    TaskID
	waiting, running, ended int
	rests                   bool
}

type forecast struct {
	forecast *Forecast
	rest     *Rest
	made     time.Time
}

// forecasts caches those of tasks. To make one takes some milliseconds, and many clients may watch the same task.
type forecasts struct {
	mu sync.Mutex
	of map[forecastState]forecast
}

func (c *forecasts) get(s forecastState) (f forecast, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok = c.of[s]
	return f, ok && time.Since(f.made) < forecastFor
}

func (c *forecasts) put(s forecastState, f forecast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= manyForecasts {
		c.of = map[forecastState]forecast{}
	}
	c.of[s] = f
}
