package openeo

import (
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// usage is what a batch job used.
type usage struct {
	CPU      *metric `json:"cpu,omitempty"`
	Memory   *metric `json:"memory,omitempty"`
	Duration *metric `json:"duration,omitempty"`
	Input    *metric `json:"input_pixel,omitempty"`
}

type metric struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// usageOf returns what a job used; nil if its platform reported nothing.
func usageOf(j dispatch.Job) *usage {
	u := usage{CPU: (*metric)(j.Metered.CPU), Memory: (*metric)(j.Metered.Memory), Input: (*metric)(j.Metered.Input)}
	if j.Duration > 0 {
		u.Duration = &metric{j.Duration.Seconds(), "s"}
	}
	if u == (usage{}) {
		return nil
	}
	return &u
}

// total is what the jobs of a task used together. Amounts in another unit than that of the first job with one are not
// comparable; then that sum is not known.
type total struct {
	costs              *float64
	unit               string
	mixed              bool // costs are in several units
	cpu, memory, input sum
	duration           time.Duration
}

type sum struct {
	*metric
	mixed bool
}

func (s *sum) add(a *dispatch.Amount) {
	switch {
	case a == nil || s.mixed:
	case s.metric == nil:
		s.metric = &metric{a.Value, a.Unit}
	case s.Unit != a.Unit:
		s.metric, s.mixed = nil, true
	default:
		s.Value = dispatch.RoundAmount(s.Value + a.Value)
	}
}

func (t *total) add(j dispatch.Job) {
	t.cpu.add(j.Metered.CPU)
	t.memory.add(j.Metered.Memory)
	t.input.add(j.Metered.Input)
	t.duration += j.Duration
	costs := j.AllCosts()
	switch {
	case costs == nil || t.mixed:
	case t.costs == nil:
		t.costs, t.unit = costs, j.Unit
	case t.unit != j.Unit:
		t.costs, t.mixed = nil, true
	default:
		t.costs = new(dispatch.RoundAmount(*t.costs + *costs))
	}
}

func (t *total) usage() *usage {
	u := usage{CPU: t.cpu.metric, Memory: t.memory.metric, Input: t.input.metric}
	if t.duration > 0 {
		u.Duration = &metric{t.duration.Seconds(), "s"}
	}
	if u == (usage{}) {
		return nil
	}
	return &u
}

// taskTotals keeps what the jobs of ended tasks used, because a task has thousands of jobs and is read again and again.
// Costs may still come after the end, and jobs be deleted: then the task has changed, and its jobs are read once more.
// The zero value is ready.
type taskTotals struct {
	mu   sync.Mutex
	kept map[dispatch.TaskID]keptTotal
}

type keptTotal struct {
	updated time.Time // of the task
	jobs    int
	total
}

const mostTotals = 1_000 // tasks; more than that at once are rare

func (k *taskTotals) get(t dispatch.TaskRecord) (total, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one, ok := k.kept[t.ID]
	return one.total, ok && one.updated.Equal(t.Updated) && one.jobs == t.Counts.Jobs()
}

func (k *taskTotals) keep(t dispatch.TaskRecord, all total) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= mostTotals {
		k.kept = map[dispatch.TaskID]keptTotal{}
	}
	k.kept[t.ID] = keptTotal{t.Updated, t.Counts.Jobs(), all}
}

// taskTotal returns what the jobs of an ended task used together.
func (f *Facade) taskTotal(r *request, t dispatch.TaskRecord) (all total, err error) {
	if all, ok := f.totals.get(t); ok {
		return all, nil
	}
	for j, err := range r.InTurns(r.Context(), r.user,
		f.Broker.TaskJobs(r.Context(), r.user, t.ID, dispatch.Page{Most: -1})) {
		if err != nil {
			return all, err
		}
		all.add(j.Job)
	}
	f.totals.keep(t, all)
	return all, nil
}

// costsOf returns the costs of a batch job that was started; nil if they are not known, as those of a task until it
// ends.
func (f *Facade) costsOf(r *request, e entry) (*float64, error) {
	switch {
	case e.Job != nil:
		return e.Job.AllCosts(), nil
	case !ended(e.status()):
		return nil, nil
	}
	all, err := f.taskTotal(r, *e.Task)
	return all.costs, err
}
