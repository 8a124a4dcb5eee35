package conformance

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// wakeTask wakes the account of a task, or those of all its placements.
func (s *MemStore) wakeTask(t dispatch.Task, now time.Time) {
	if len(t.Request.Placements) == 0 {
		s.wake(t.Account, now)
		return
	}
	s.spread[t.ID]++
	for _, h := range placementsOf(t) {
		s.wake(h.Account, now)
	}
}

// placementsOf returns the placements that jobs of a task may run at.
func placementsOf(t dispatch.Task) []dispatch.Placement {
	return slices.DeleteFunc(slices.Clone(t.Request.Placements),
		func(h dispatch.Placement) bool { return h.Unused != "" })
}

func (s *MemStore) SpreadTasks(context.Context) (all []dispatch.SpreadTask, err error) {
	now, unlock := s.lock()
	defer unlock()
	for id, t := range s.tasks {
		if len(t.Request.Placements) == 0 || !slices.ContainsFunc(s.jobs, func(r *row) bool {
			return r.Task == id && r.Phase != dispatch.Ended
		}) {
			continue
		}
		spread := dispatch.SpreadTask{ID: id, Owner: t.Owner, Seen: s.spread[id]}
		for _, h := range placementsOf(t) {
			spread.Placements = append(spread.Placements, s.load(t, h, now))
		}
		all = append(all, spread)
	}
	slices.SortFunc(all, func(a, b dispatch.SpreadTask) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

func (s *MemStore) load(t dispatch.Task, h dispatch.Placement, now time.Time) dispatch.PlacementLoad {
	l := dispatch.PlacementLoad{Placement: dispatch.Placement{Account: h.Account, Base: h.Base, Hash: h.Hash}}
	var finished time.Time
	for _, r := range s.jobs {
		if r.Owner == t.Owner && r.Account == h.Account && r.Service == h.Hash && r.Status == dispatch.Finished {
			finished = latest(finished, r.Moved)
		}
	}
	failures := 0
	for _, r := range s.jobs {
		if r.Account != h.Account {
			continue
		}
		if r.Task == t.ID && r.Status == dispatch.Failed && !r.Hidden && r.Moved.After(finished) {
			failures++
			l.Failing = failures >= dispatch.FailuresInRow
		}
		if r.Phase.HoldsSlot() {
			l.Held++
		}
		if r.Task == t.ID && r.Phase == dispatch.Waiting && !r.Paused {
			l.Waiting++
			if _, can := r.MovedTo(h, now); can && r.Attention == dispatch.Retrying {
				l.Retrying++
			}
		}
	}
	acc := s.of(h.Account)
	switch _, account := s.operators[string(h.Account)]; {
	case account || s.operators[h.Account.Platform()] != "":
		l.Why = dispatch.HeldByOperator
	case acc.hold.After(now):
		l.Why = acc.why
	case acc.restored != dispatch.NotRestored:
		l.Why = dispatch.Unreachable
	}
	return l
}

func (s *MemStore) MoveJobs(_ context.Context, m dispatch.JobMove, within ...dispatch.Quota) (moved int, seen int64,
	err error) {
	now, unlock := s.lock()
	defer unlock()
	if s.spread[m.Task] != m.Seen || s.of(m.From.Account).restored != dispatch.NotRestored {
		return 0, m.Seen, nil
	}
	if err := s.admit(s.tasks[m.Task].Owner, m.N, 0, within, now); err != nil {
		return 0, m.Seen, err
	}
	var chosen []*row
	for _, r := range s.jobs {
		if _, can := r.MovedTo(m.To, now); can && r.Task == m.Task && r.Account == m.From.Account && !r.Paused &&
			(r.Attention == dispatch.Retrying) == m.Retrying {
			chosen = append(chosen, r)
		}
	}
	slices.SortFunc(chosen, func(a, b *row) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
	chosen = chosen[min(m.Skip, len(chosen)):]
	for _, r := range chosen[:min(m.N, len(chosen))] {
		r.Job, _ = r.MovedTo(m.To, now)
		r.Version++
		moved++
	}
	if moved == 0 {
		return 0, m.Seen, nil
	}
	s.spread[m.Task]++
	s.wake(m.To.Account, now)
	return moved, s.spread[m.Task], nil
}

// firstHold returns the account of a task or, of several placements, the one whose hold ends first.
func (s *MemStore) firstHold(t dispatch.Task) *account {
	first := s.of(t.Account)
	for _, h := range placementsOf(t) {
		if acc := s.of(h.Account); acc.hold.Before(first.hold) {
			first = acc
		}
	}
	return first
}
