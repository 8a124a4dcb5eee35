package conformance

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// found identifies a job at a platform.
type found struct {
	dispatch.Account
	dispatch.Ref
}

func (s *MemStore) MarkRestored(_ context.Context, r dispatch.Restored) (accounts int, err error) {
	now, unlock := s.lock()
	defer unlock()
	s.lastJob += dispatch.SkippedIDs
	s.lastTask += dispatch.SkippedIDs
	s.unstarted = nil
	for _, r := range s.jobs {
		if r.Phase != dispatch.Ended {
			r.Retries = r.Retried
		}
	}
	for id, t := range s.tasks {
		if len(t.Request.Placements) > 0 && !t.Paused && slices.ContainsFunc(s.jobs, func(r *row) bool {
			return r.Task == id && r.Phase != dispatch.Ended
		}) {
			s.mark(id, true, dispatch.None, now)
		}
	}
	s.renewNumbers()
	for name, acc := range s.accounts {
		if slices.ContainsFunc(s.jobs, func(r *row) bool { return r.Account == name }) {
			acc.restored, acc.hold, acc.due = r, time.Time{}, now
			acc.wakes++
			accounts++
		}
	}
	return accounts, nil
}

func (s *MemStore) ClearRestored(_ context.Context, a dispatch.Account, all []dispatch.Unrecognized) error {
	now, unlock := s.lock()
	defer unlock()
	for _, u := range all {
		if s.found == nil {
			s.found = map[found]dispatch.Unrecognized{}
		}
		u.Account, u.Found = a, now
		s.found[found{a, u.Ref}] = u
	}
	for _, r := range s.jobs {
		if j := &r.Job; j.Account == a && j.Phase == dispatch.Created {
			j.Phase, j.Polls, j.Unmoved, j.Seen, j.SendBy, j.Due, j.Moved, j.Updated = dispatch.Starting, 0, 0, "", now,
				now, now, now
			j.Attention, j.Notice = dispatch.InDoubt, ""
			j.Epoch++
			j.Version++
		}
	}
	acc := s.accounts[a]
	if acc == nil {
		return nil
	}
	acc.restored, acc.hold, acc.why, acc.notice, acc.due = dispatch.NotRestored, time.Time{}, dispatch.None, "", now
	acc.wakes++
	return nil
}

func (s *MemStore) Unrecognized(context.Context) ([]dispatch.Unrecognized, error) {
	_, unlock := s.lock()
	defer unlock()
	return slices.SortedFunc(maps.Values(s.found), func(a, b dispatch.Unrecognized) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Ref.Base, b.Ref.Base),
			cmp.Compare(a.Ref.ID, b.Ref.ID))
	}), nil
}
