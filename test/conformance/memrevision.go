package conformance

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (s *MemStore) TaskRevision(_ context.Context, u dispatch.UserID, id dispatch.TaskID,
	late time.Duration) (dispatch.TaskRevision, error) {
	now, unlock := s.lock()
	defer unlock()
	return s.revision(u, id, late, now)
}

func (s *MemStore) revision(u dispatch.UserID, id dispatch.TaskID, late time.Duration,
	now time.Time) (r dispatch.TaskRevision, err error) {
	t, err := s.task(u, id)
	if err != nil {
		return r, err
	}
	if !t.Edited.IsZero() {
		r.Edited = t.Edited.UnixMicro()
	}
	acc := s.of(t.Account)
	if r.Wakes = acc.wakes; !acc.hold.IsZero() {
		r.Hold = acc.hold.UnixMicro()
	}
	if acc.hold.After(now) {
		r.Why, r.Notice = acc.why, acc.notice
	}
	r.ServiceChanged, r.HomesChanged = s.changedAt(t, t.Account), s.changedHomes(t)
	for _, j := range s.jobs {
		if j.Task != id || j.Hidden {
			continue
		}
		if r.ServiceChanged || r.HomesChanged != 0 || acc.hold.After(now) {
			r.Epochs += int64(j.Epoch)
		}
		updated := j.Updated.UnixMicro()
		r.Jobs, r.Updated, r.Sums = r.Jobs+1, max(r.Updated, updated), dispatch.SumUpdated(r.Sums, updated)
		if j.Phase == dispatch.Started && j.Looks == 0 && (j.Tries > 0 || j.Awaited && now.Sub(j.Due) >= late) {
			r.TimeDependent++
		}
	}
	return r, nil
}

func (s *MemStore) TaskChanges(_ context.Context, u dispatch.UserID, id dispatch.TaskID, p dispatch.Page,
	late time.Duration) (c dispatch.TaskChanges, err error) {
	now, unlock := s.lock()
	defer unlock()
	if c.Revision, err = s.revision(u, id, late, now); err != nil {
		return c, err
	}
	c.Task = s.counted(s.tasks[id], now)
	c.Jobs, err = s.taskJobs(u, id, p, now)
	return c, err
}
