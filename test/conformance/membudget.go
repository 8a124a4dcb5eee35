package conformance

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// rooms are the rooms that the budgets of tasks have for further jobs.
type rooms map[dispatch.TaskID]*room

type room struct {
	left int
	full bool // a job was kept back
}

func (s *MemStore) rooms(jobs []dispatch.Job) rooms {
	all := rooms{}
	for _, j := range jobs {
		if j.Budgeted && j.Phase == dispatch.Waiting && all[j.Task] == nil {
			n, _ := s.roomOf(j.Task)
			all[j.Task] = &room{left: n}
		}
	}
	return all
}

func (s *MemStore) roomOf(id dispatch.TaskID) (int, dispatch.Attention) {
	return s.tasks[id].Budget.Room(s.spending(id))
}

func (r rooms) admit(j dispatch.Job) bool {
	of := r[j.Task]
	if of == nil {
		return true
	}
	of.full = of.full || of.left == 0
	of.left--
	return !of.full
}

// pauseFull pauses the tasks of which jobs were kept back, unless their owners have paused them, or there is room.
func (s *MemStore) pauseFull(of rooms, now time.Time) {
	for id, r := range of {
		if t := s.tasks[id]; !r.full || t.Paused && t.PausedFor != dispatch.Trial {
			continue
		}
		if n, why := s.roomOf(id); n == 0 {
			s.mark(id, true, why, now)
		}
	}
}

// resumeBudgeted resumes the tasks of saved jobs that waited for their first costs, and returns their accounts.
func (s *MemStore) resumeBudgeted(saved []dispatch.Job, now time.Time) (accounts []dispatch.Account) {
	for _, j := range saved {
		t := s.tasks[j.Task]
		if !j.Budgeted || j.Phase.HoldsSlot() || t.PausedFor != dispatch.CostsAwaited {
			continue
		}
		n, why := s.roomOf(t.ID)
		switch {
		case n > 0 && t.Trial > 0:
			t.PausedFor, t.Edited, t.Updated = dispatch.Trial, now, now
			s.tasks[t.ID] = t
			s.markJobs(t.ID, false, t.Trial, now)
		case n > 0:
			s.mark(t.ID, false, dispatch.None, now)
		case why != t.PausedFor:
			t.PausedFor, t.Edited, t.Updated = why, now, now
			s.tasks[t.ID] = t
		}
		if n > 0 {
			accounts = append(accounts, t.Account)
		}
	}
	return accounts
}

// spending returns what the runs of a task cost, see dispatch.Spending.
func (s *MemStore) spending(id dispatch.TaskID) (sum dispatch.Spending) {
	for k, c := range s.spent {
		if k.task == id {
			sum.Charges = append(sum.Charges, dispatch.Charge{Unit: k.unit, Costs: math.Round(c.Costs*1e6) / 1e6,
				Runs: c.Runs})
		}
	}
	slices.SortFunc(sum.Charges, func(a, b dispatch.Charge) int { return cmp.Compare(a.Unit, b.Unit) })
	for _, r := range s.jobs {
		if r.Task != id {
			continue
		}
		if !r.Hidden && (r.Status == dispatch.Finished || r.Status == dispatch.Failed) {
			sum.Ended++
		}
		if r.Phase.HoldsSlot() {
			sum.Running++
			if r.Costs != nil {
				sum.Reported++
				sum.RunningCosts += dispatch.Bookable(r.Costs)
			}
		}
		for _, u := range r.Unmetered {
			if !u.Priced {
				sum.Unmetered++
			}
		}
	}
	sum.RunningCosts = math.Round(sum.RunningCosts*1e6) / 1e6
	if i := slices.IndexFunc(s.jobs, func(r *row) bool { return r.Task == id }); i >= 0 && sum.Unpriced() {
		sum.Earlier = dispatch.SumRuns(s.finishedRuns(s.jobs[i].Owner, s.jobs[i].Account, s.jobs[i].Service,
			dispatch.EstimatedFrom))
	}
	return sum
}

// tried returns a task as its owner sees it: when its first jobs have ended, its trial has.
func (s *MemStore) tried(t dispatch.Task) dispatch.Task {
	runs := func(r *row) bool {
		return r.Task == t.ID && r.Number <= t.Trial && r.Phase != dispatch.Ended && !r.Hidden
	}
	if t.PausedFor == dispatch.Trial && !slices.ContainsFunc(s.jobs, runs) {
		t.PausedFor = dispatch.TrialEnded
	}
	return t
}

// setBudget replaces the budget of a task, unless by is nil, and returns Conflict if a paused task has no room for
// another job.
func (s *MemStore) setBudget(t dispatch.Task, by *dispatch.Budget) error {
	was := maps.Clone(s.tasks)
	if by == nil && (t.Budget == (dispatch.Budget{}) || !t.Paused) {
		return nil
	}
	if by != nil {
		t.Budget = t.Budget.Replaced(*by)
		s.tasks[t.ID] = t
	}
	n, why := s.roomOf(t.ID)
	if n == 0 && why != dispatch.CostsAwaited {
		s.tasks = was
		return dispatch.NoRoom("conformance.ResumeTask", why)
	}
	return nil
}
