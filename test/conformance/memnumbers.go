package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// numbers are the numbers of the changes that an owner saw. The model takes none while something changes: whenever it
// is asked, it compares what the owner sees with what the owner saw when it was last asked, and gives all that differs
// the next number.
type numbers struct {
	number, floor int64
	jobs          map[dispatch.JobID]*seen
	tasks         map[dispatch.TaskID]*seen
}

// seen is a job or a task as its owner saw it.
type seen struct {
	task           dispatch.TaskID // of a job
	shown, service string
	deleted        bool
	number, floor  int64
}

// shownOf returns what the owner sees of a job, without what its account or its phase alone show.
func (s *MemStore) shownOf(j dispatch.Job) (shown, service string) {
	if d := s.defined[owned{job: j.ID}]; d != nil {
		service = d.current
	}
	rest, _ := dispatch.Encode(map[string]any{"annotations": j.Annotations, "metered": j.Metered,
		"versions": j.Versions})
	amount := func(f *float64) float64 {
		if f == nil {
			return -1
		}
		return *f
	}
	return fmt.Sprint(j.Status, j.Ref, j.Attention, j.Notice, j.Failure, amount(j.Progress), amount(j.Costs), j.Unit,
		j.Spent, j.Duration, j.Updated.UnixMicro(), j.Started.UnixMicro(), j.Ended.UnixMicro(), j.Account, j.Desired,
		j.Retried, string(rest)), service
}

// shownOfTask returns what the owner sees of a task itself.
func (s *MemStore) shownOfTask(t dispatch.Task) (shown, service string) {
	for _, h := range t.Request.Placements {
		if d := s.defined[owned{task: t.ID, placement: h.Account}]; d != nil {
			service += " " + d.current
		}
	}
	if d := s.defined[owned{task: t.ID}]; d != nil {
		service += "; " + d.current
	}
	return fmt.Sprint(t.Paused, s.tried(t).PausedFor, t.Trial, t.Budget, t.Edited.UnixMicro(), t.Annotations), service
}

// renumber gives the next number of an owner to all that has changed, and returns the owner's numbers.
func (s *MemStore) renumber(u dispatch.UserID, now time.Time) *numbers {
	n := s.numbers[u]
	if n == nil {
		n = &numbers{jobs: map[dispatch.JobID]*seen{}, tasks: map[dispatch.TaskID]*seen{}}
		s.numbers[u] = n
	}
	next := n.number + 1
	if n.number == 0 {
		next = now.UnixMicro()
	}
	differs := n.compareTasks(s, u, next)
	differs = n.compareJobs(s, u, next) || differs
	if differs {
		if n.number == 0 {
			n.floor = next
		}
		n.number = next
	}
	return n
}

func (n *numbers) compareTasks(s *MemStore, u dispatch.UserID, next int64) (differs bool) {
	for id, t := range s.tasks {
		if t.Owner != u {
			continue
		}
		shown, service := s.shownOfTask(t)
		e, known := n.tasks[id]
		switch {
		case !known && !t.Hidden:
			n.tasks[id] = &seen{shown: shown, service: service, number: next, floor: next}
		case !known || e.deleted:
			continue
		case t.Hidden:
			e.deleted, e.number = true, next
		case e.service != service:
			e.shown, e.service, e.number, e.floor = shown, service, next, next
		case e.shown != shown:
			e.shown, e.number = shown, next
		default:
			continue
		}
		differs = true
	}
	for id, e := range n.tasks {
		if _, stored := s.tasks[id]; !stored {
			n.floor = max(n.floor, e.number)
			delete(n.tasks, id)
		}
	}
	return differs
}

func (n *numbers) compareJobs(s *MemStore, u dispatch.UserID, next int64) (differs bool) {
	stored := map[dispatch.JobID]bool{}
	for _, r := range s.jobs {
		if r.Owner != u {
			continue
		}
		stored[r.ID] = true
		shown, service := s.shownOf(r.Job)
		e, known := n.jobs[r.ID]
		switch {
		case !known && !r.Hidden:
			e = &seen{task: r.Task, shown: shown, service: service, number: next}
			if n.jobs[r.ID] = e; r.Task != 0 {
				e.number = 0
			}
		case !known || e.deleted:
			continue
		case r.Hidden:
			e.deleted, e.number = true, next
		case e.shown != shown || e.service != service:
			e.shown, e.service, e.number = shown, service, next
		default:
			continue
		}
		differs = true
		if t := n.tasks[r.Task]; t != nil {
			t.number = next
		}
	}
	for id, e := range n.jobs {
		if stored[id] {
			continue
		}
		delete(n.jobs, id)
		if e.task == 0 {
			n.floor = max(n.floor, e.number)
		} else if t := n.tasks[e.task]; t != nil {
			t.floor = max(t.floor, e.number)
		}
	}
	return differs
}

func (s *MemStore) ChangesSince(
	_ context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ChangedPlace, p dispatch.Page,
) (c dispatch.ChangedPage, err error) {
	now, unlock := s.lock()
	defer unlock()
	n := s.renumber(u, now)
	c.Number = n.number
	floor := n.floor
	if id != 0 {
		t, err := s.task(u, id)
		if err != nil {
			return c, err
		}
		c.Number, floor = n.tasks[id].number, n.tasks[id].floor
		if whole := s.counted(t, now); after != dispatch.AfterNumber(c.Number) {
			c.Task = &whole
		}
	}
	c.Live, c.Accounts = s.accountsOf(u, now)
	c.Anew = after.Number < floor || after.Number > c.Number
	if c.Anew {
		c.Task = nil
		return c, nil
	}
	for _, e := range n.changed(id) {
		if e.Place().Compare(after) <= 0 {
			continue
		}
		if len(c.Changed) == cmp.Or(p.Limit, dispatch.MostChanged) {
			c.More = true
			break
		}
		if err := s.complete(&e, p, now); err != nil {
			return c, err
		}
		c.Changed = append(c.Changed, e)
	}
	return c, nil
}

// changed returns the jobs of a task or, of none, all other jobs and tasks, by their numbers.
func (n *numbers) changed(id dispatch.TaskID) (all []dispatch.Changed) {
	for job, e := range n.jobs {
		if e.task == id {
			all = append(all, dispatch.Changed{Number: e.number, Job: job, Task: id, Deleted: e.deleted})
		}
	}
	for task, e := range n.tasks {
		if id == 0 {
			all = append(all, dispatch.Changed{Number: e.number, Task: task, Deleted: e.deleted})
		}
	}
	slices.SortFunc(all, func(a, b dispatch.Changed) int { return a.Place().Compare(b.Place()) })
	return all
}

// complete adds the job or the task that changed.
func (s *MemStore) complete(c *dispatch.Changed, p dispatch.Page, now time.Time) error {
	switch {
	case c.Deleted:
	case c.Job == 0:
		whole := s.counted(s.tasks[c.Task], now)
		whole.Request = head(whole.Request, p)
		c.Whole = &whole
	default:
		r, err := s.find(c.Job)
		if err != nil {
			return err
		}
		record, err := s.record(r, now)
		if err != nil {
			return err
		}
		record = s.bounded(record, r, p)
		c.Record = &record
	}
	return nil
}

// accountsOf returns whether an owner has jobs that have not ended, and what these show of their accounts.
func (s *MemStore) accountsOf(u dispatch.UserID, now time.Time) (any bool, all []dispatch.AccountState) {
	for name, a := range s.accounts {
		live := slices.ContainsFunc(s.jobs, func(r *row) bool {
			return r.Owner == u && r.Account == name && r.Phase != dispatch.Ended
		})
		is := dispatch.AccountState{Account: name, Silent: s.silent(name)}
		if a.hold.After(now) {
			is.Why, is.Notice = a.why, a.notice
		}
		if any = any || live; live && (is.Silent || a.hold.After(now)) {
			all = append(all, is)
		}
	}
	slices.SortFunc(all, func(a, b dispatch.AccountState) int { return cmp.Compare(a.Account, b.Account) })
	return any, all
}

// renewNumbers has all readers begin anew.
func (s *MemStore) renewNumbers() {
	for _, n := range s.numbers {
		if n.number == 0 {
			continue
		}
		n.number++
		n.floor = n.number
		for _, t := range n.tasks {
			t.number, t.floor = n.number, n.number
		}
	}
}
