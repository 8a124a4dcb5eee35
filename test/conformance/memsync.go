package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// syncRun is a synchronous run in a [MemStore].
type syncRun struct {
	dispatch.SyncRun
	lapses time.Time
}

// at returns the run at a time: a lapsed run counts as lost.
func (r *syncRun) at(now time.Time) dispatch.SyncRun {
	run := r.SyncRun
	if run.Ended.IsZero() && !r.lapses.After(now) {
		run.Status, run.Ended = dispatch.Unknown, r.lapses
	}
	return run
}

func (s *MemStore) BeginSyncRun(_ context.Context, r *dispatch.SyncRun, lapse time.Duration,
	within ...dispatch.Quota) error {
	now, unlock := s.lock()
	defer unlock()
	if err := dispatch.RefuseHeld(s.operatorNotice(r.Account)); err != nil {
		return err
	}
	if err := s.admit(r.Owner, 1, sizeOf(r.Request), within, now); err != nil {
		return err
	}
	s.lastJob++
	r.ID, r.Created = s.lastJob, now
	s.runs = append(s.runs, &syncRun{*r, micros(now.Add(lapse))})
	return nil
}

func (s *MemStore) RenewSyncRun(_ context.Context, id dispatch.JobID, lapse time.Duration) error {
	now, unlock := s.lock()
	defer unlock()
	r := s.live(id)
	if r == nil {
		return conflict()
	}
	r.lapses = micros(now.Add(lapse))
	return nil
}

func (s *MemStore) ClaimRef(_ context.Context, id dispatch.JobID, ref dispatch.Ref) error {
	_, unlock := s.lock()
	defer unlock()
	r := s.live(id)
	if r == nil {
		return conflict()
	}
	if holder := s.refHolder(r.Account, ref); holder != 0 && holder != id {
		return conflict()
	}
	r.Ref = ref
	return nil
}

func (s *MemStore) EndSyncRun(_ context.Context, is dispatch.SyncRun) error {
	now, unlock := s.lock()
	defer unlock()
	if r := s.live(is.ID); r != nil {
		r.Status, r.Failure, r.Ended = is.Status, is.Failure, now
	}
	return nil
}

// live returns a run that has not ended; nil if there is none.
func (s *MemStore) live(id dispatch.JobID) *syncRun {
	i := slices.IndexFunc(s.runs, func(r *syncRun) bool { return r.ID == id && r.Ended.IsZero() })
	if i < 0 {
		return nil
	}
	return s.runs[i]
}

func (s *MemStore) SyncRuns(_ context.Context, u dispatch.UserID, p dispatch.Page) (runs []dispatch.SyncRun,
	err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, kept := range slices.Backward(s.runs) {
		r := kept.at(now)
		if r.Owner == u && p.Follows(dispatch.Place{Created: r.Created, ID: int64(r.ID)}) &&
			latest(r.Created, r.Ended).After(p.Since) &&
			(len(p.Statuses) == 0 || slices.Contains(p.Statuses, r.Status)) && (len(p.Accounts) == 0 ||
			slices.Contains(p.Accounts, r.Account)) {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b dispatch.SyncRun) int { return b.Created.Compare(a.Created) })
	if p.Limit > 0 && len(runs) > p.Limit {
		runs = runs[:p.Limit]
	}
	return runs, nil
}

// countRuns counts a user's synchronous runs within a quota of jobs.
func (s *MemStore) countRuns(u dispatch.UserID, q dispatch.Quota, now time.Time) (live, lately int) {
	for _, r := range s.runs {
		if r.Owner != u || q.Account != "" && r.Account != q.Account {
			continue
		}
		if r.at(now).Ended.IsZero() && live < q.Live {
			live++
		}
		if r.Created.After(now.Add(-dispatch.Day)) && lately < q.Daily {
			lately++
		}
	}
	return live, lately
}

// addRuns adds a user's synchronous runs to their usage.
func (s *MemStore) addRuns(by map[dispatch.Account]*dispatch.Usage, u dispatch.UserID, now time.Time, d time.Duration) {
	for _, r := range s.runs {
		if r.Owner != u {
			continue
		}
		if by[r.Account] == nil {
			by[r.Account] = &dispatch.Usage{Account: r.Account}
		}
		use := by[r.Account]
		use.Jobs++
		if r.at(now).Ended.IsZero() {
			use.Live++
		}
		if r.Created.After(now.Add(-d)) {
			use.Lately++
		}
	}
}
