package conformance

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (s *MemStore) Agenda(_ context.Context, a dispatch.Account, n int, stalled time.Duration) (dispatch.Agenda,
	error) {
	now, unlock := s.lock()
	defer unlock()
	acc := s.accounts[a]
	if acc == nil {
		return dispatch.Agenda{}, notFound()
	}
	g := dispatch.Agenda{Now: now, Wakes: acc.wakes, Hold: acc.hold, Why: acc.why, Starts: s.heard[a.Platform()].Starts,
		Restored: acc.restored,
		Operator: s.operatorNotice(a)}
	for _, j := range s.byDue(a) {
		if j.Phase.HoldsSlot() && !j.FreesSlot(stalled, now) {
			g.Held++
		}
		if j.Phase == dispatch.Started {
			g.Active++
		}
		enter(&g, j)
	}
	slices.SortFunc(g.Meter, func(a, b dispatch.Job) int {
		return cmp.Or(a.MeterDue().Compare(b.MeterDue()), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(g.Remove, func(a, b dispatch.Job) int {
		return cmp.Or(a.Removal.Due.Compare(b.Removal.Due), cmp.Compare(a.ID, b.ID))
	})
	for _, list := range []*[]dispatch.Job{&g.Cancel, &g.Settle, &g.Start, &g.Poll, &g.Meter, &g.Remove} {
		*list = (*list)[:min(n, len(*list))]
	}
	if !g.NextWaiting.IsZero() && !g.NextWaiting.After(now) {
		g.Queues, g.NextWaiting = s.dueQueues(a, now)
	}
	return g, nil
}

// dueQueues returns the queues whose first job is due, and when the first job of any queue is.
func (s *MemStore) dueQueues(a dispatch.Account, now time.Time) (due []dispatch.Queue, next time.Time) {
	for _, l := range s.queues(a, dueEver) {
		if next.IsZero() || l.Due.Before(next) {
			next = l.Due
		}
		if l.Waiting = 0; !l.Due.After(now) {
			due = append(due, l)
		}
	}
	return due, next
}

// byDue returns an account's jobs ordered by due time and id.
func (s *MemStore) byDue(a dispatch.Account) (jobs []dispatch.Job) {
	for _, r := range s.jobs {
		if r.Account == a {
			jobs = append(jobs, r.job())
		}
	}
	slices.SortFunc(jobs, func(a, b dispatch.Job) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
	return jobs
}

// enter adds j to its list of the agenda. Jobs must come ordered by due time.
func enter(g *dispatch.Agenda, j dispatch.Job) {
	if due := j.MeterDue(); !due.IsZero() {
		if g.NextMeter.IsZero() || due.Before(g.NextMeter) {
			g.NextMeter = due
		}
		if !due.After(g.Now) {
			g.Meter = append(g.Meter, j)
		}
	}
	if due := j.RemovalDue(); !due.IsZero() {
		if g.NextRemove.IsZero() || due.Before(g.NextRemove) {
			g.NextRemove = due
		}
		if !due.After(g.Now) {
			g.Remove = append(g.Remove, j)
		}
	}
	orphans, canceled := len(j.Orphans) > 0, j.Desired == dispatch.WantCancel
	next, list := &g.NextPoll, &g.Poll
	switch {
	case orphans, canceled && j.Phase.HoldsSlot() && j.Phase != dispatch.Creating:
		next, list = &g.Next, &g.Cancel
	case j.Phase == dispatch.Waiting && !dueEver(j):
		return
	case j.Phase == dispatch.Waiting:
		next, list = &g.NextWaiting, nil
		if j.Attention == dispatch.ApplicationUnreachable && g.NextUnprepared.IsZero() {
			g.NextUnprepared = j.Due
		}
	case j.Phase == dispatch.Ended:
		return
	case j.Phase.InDoubt():
		next, list = &g.Next, &g.Settle
	case j.Phase == dispatch.Created:
		next, list = &g.NextStart, &g.Start
	}
	if next.IsZero() {
		*next = j.Due
	}
	if list != nil && !j.Due.After(g.Now) {
		*list = append(*list, j)
	}
}

// queues returns the queues of an account that have wanted waiting jobs.
func (s *MemStore) queues(a dispatch.Account, wanted func(dispatch.Job) bool) (queues []dispatch.Queue) {
	byQueue, byOwner, waiting := map[dispatch.Queue]int{}, map[dispatch.UserID]int{},
		map[dispatch.Queue][]dispatch.Job{}
	for _, j := range s.byDue(a) {
		queue := dispatch.Queue{Owner: j.Owner, Task: j.Task}
		if j.Phase.HoldsSlot() {
			byQueue[queue]++
			byOwner[j.Owner]++
		}
		if j.Phase == dispatch.Waiting && wanted(j) {
			waiting[queue] = append(waiting[queue], j)
		}
	}
	acc := s.of(a)
	for of, jobs := range waiting {
		l := of
		l.Held, l.OwnerHeld, l.First, l.Due = byQueue[of], byOwner[of.Owner], jobs[0].ID, jobs[0].Due
		for _, j := range jobs {
			if !j.Paused {
				l.Waiting++
			}
		}
		l.Served, l.OwnerServed = acc.turns[of], acc.owners[of.Owner]
		queues = append(queues, l)
	}
	sortQueues(queues)
	return queues
}

func (s *MemStore) Queues(_ context.Context, a dispatch.Account) ([]dispatch.Queue, error) {
	_, unlock := s.lock()
	defer unlock()
	if s.accounts[a] == nil {
		return nil, nil
	}
	return s.queues(a, dueEver), nil
}

// dueEver reports whether a waiting job is due at some time, which one that is paused is not.
func dueEver(j dispatch.Job) bool { return !j.Paused }

func (s *MemStore) Waiting(_ context.Context, a dispatch.Account, l dispatch.Queue, from,
	to dispatch.Rank) (ids []dispatch.JobID, err error) {
	_, unlock := s.lock()
	defer unlock()
	compare := func(j dispatch.Job, r dispatch.Rank) int {
		return cmp.Or(j.Due.Compare(r.Due), cmp.Compare(j.ID, r.ID))
	}
	for _, j := range s.byDue(a) {
		if j.Phase == dispatch.Waiting && j.Owner == l.Owner && j.Task == l.Task && dueEver(j) &&
			compare(j, from) >= 0 && compare(j, to) <= 0 {
			ids = append(ids, j.ID)
		}
	}
	return ids, nil
}

func (s *MemStore) WaitingBefore(ctx context.Context, a dispatch.Account, l dispatch.Queue, to dispatch.Rank) (int,
	error) {
	to.ID--
	ids, err := s.Waiting(ctx, a, l, dispatch.Rank{}, to)
	return len(ids), err
}

func sortQueues(queues []dispatch.Queue) {
	slices.SortFunc(queues, func(a, b dispatch.Queue) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Task, b.Task))
	})
}

func (s *MemStore) Ready(_ context.Context, a dispatch.Account, l dispatch.Queue, n int) (jobs []dispatch.Job,
	err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, j := range s.byDue(a) {
		if j.Owner == l.Owner && j.Task == l.Task && j.Phase == dispatch.Waiting && dueEver(j) && !j.Due.After(now) &&
			len(jobs) < n {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func (s *MemStore) Bases(_ context.Context, a dispatch.Account) ([]string, error) {
	_, unlock := s.lock()
	defer unlock()
	bases := map[string]bool{}
	for _, r := range s.jobs {
		if r.Account == a {
			bases[r.Base] = true
		}
	}
	return slices.Sorted(maps.Keys(bases)), nil
}

func (s *MemStore) Unprepared(_ context.Context, a dispatch.Account, n int) (jobs []dispatch.Job, err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, j := range s.byDue(a) {
		if j.Phase == dispatch.Waiting && len(j.Orphans) == 0 && j.Attention == dispatch.ApplicationUnreachable &&
			!j.Due.After(now) && len(jobs) < n {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func (s *MemStore) Listable(_ context.Context, a dispatch.Account, base string) (jobs []dispatch.Job, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, j := range s.byDue(a) {
		if j.Base == base && (j.Phase == dispatch.Creating || j.Phase == dispatch.Started) {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}
