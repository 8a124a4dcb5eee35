package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (s *MemStore) CreateUnstarted(_ context.Context, n *dispatch.Unstarted, task bool, life time.Duration,
	within ...dispatch.Quota) error {
	now, unlock := s.lock()
	defer unlock()
	if err := acceptable([]dispatch.Draft{{Body: n.Body}}); err != nil {
		return err
	}
	var id dispatch.UnstartedID
	if task {
		s.lastTask++
		id.Task = s.lastTask
	} else {
		s.lastJob++
		id.Job = s.lastJob
	}
	if r, err := s.used(n.Key, n.Owner, now); err != nil || r != (dispatch.KeyTarget{}) {
		n.ID = dispatch.UnstartedID{Job: r.Job, Task: r.Task}
		return err
	}
	if err := s.admit(n.Owner, 1, int64(len(n.Body)), submittedLater(within), now); err != nil {
		return err
	}
	s.use(n.Key, n.Owner, id.Task, id.Job, now)
	n.Key = dispatch.Key{}
	n.ID, n.Created, n.Updated, n.Expires, n.Version = id, now, now, micros(now.Add(life)), 1
	s.unstarted = append(s.unstarted, cloneUnstarted(*n))
	return nil
}

// submittedLater returns the quotas without their limits on the jobs that are submitted in a day.
func submittedLater(within []dispatch.Quota) (later []dispatch.Quota) {
	for _, q := range within {
		q.Daily = 0
		later = append(later, q)
	}
	return later
}

func cloneUnstarted(n dispatch.Unstarted) dispatch.Unstarted {
	n.Body = slices.Clone(n.Body)
	return n
}

// findUnstarted returns the index of an unstarted job.
func (s *MemStore) findUnstarted(u dispatch.UserID, id dispatch.UnstartedID, now time.Time) (int, error) {
	i := slices.IndexFunc(s.unstarted, func(n dispatch.Unstarted) bool {
		return n.ID == id && n.Owner == u && n.Expires.After(now)
	})
	if i < 0 {
		return i, notFound()
	}
	return i, nil
}

func (s *MemStore) Unstarted(_ context.Context, u dispatch.UserID, id dispatch.UnstartedID) (dispatch.Unstarted,
	error) {
	now, unlock := s.lock()
	defer unlock()
	i, err := s.findUnstarted(u, id, now)
	if err != nil {
		return dispatch.Unstarted{}, err
	}
	return cloneUnstarted(s.unstarted[i]), nil
}

func (s *MemStore) UnstartedJobs(_ context.Context, u dispatch.UserID, p dispatch.Page) (all []dispatch.Unstarted,
	err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, n := range s.unstarted {
		if n.Owner == u && n.Expires.After(now) && p.Follows(dispatch.Place{Created: n.Created, ID: n.ID.Number()}) &&
			(len(p.Accounts) == 0 || slices.Contains(p.Accounts, n.Account)) {
			begin := []rune(string(n.Body))
			n.Body = []byte(string(begin[:min(len(begin), dispatch.UnstartedBeginning)]))
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b dispatch.Unstarted) int {
		if d := b.Created.Compare(a.Created); d != 0 {
			return d
		}
		return int(b.ID.Number() - a.ID.Number())
	})
	return limited(all, p), nil
}

func (s *MemStore) ChangeUnstarted(_ context.Context, n *dispatch.Unstarted, within ...dispatch.Quota) error {
	now, unlock := s.lock()
	defer unlock()
	if err := acceptable([]dispatch.Draft{{Body: n.Body}}); err != nil {
		return err
	}
	i, err := s.findUnstarted(n.Owner, n.ID, now)
	if err != nil {
		return err
	}
	if more := len(n.Body) - len(s.unstarted[i].Body); more > 0 {
		if err := s.admit(n.Owner, 0, int64(more), submittedLater(within), now); err != nil {
			return err
		}
	}
	if s.unstarted[i].Version != n.Version {
		return conflict()
	}
	s.unstarted[i].Title, s.unstarted[i].Body, s.unstarted[i].Updated = n.Title, slices.Clone(n.Body), now
	s.unstarted[i].Version++
	*n = cloneUnstarted(s.unstarted[i])
	return nil
}

func (s *MemStore) DeleteUnstarted(_ context.Context, u dispatch.UserID, id dispatch.UnstartedID) error {
	now, unlock := s.lock()
	defer unlock()
	i, err := s.findUnstarted(u, id, now)
	if err == nil {
		s.unstarted = slices.Delete(s.unstarted, i, i+1)
	}
	return err
}

func (s *MemStore) Start(_ context.Context, n dispatch.Unstarted, t *dispatch.Task, jobs []dispatch.Draft,
	within ...dispatch.Quota) error {
	now, unlock := s.lock()
	defer unlock()
	drafts, jobs := jobs, slices.Collect(dispatch.EachJob(jobs))
	if err := acceptable(jobs); err != nil {
		return err
	}
	i, err := s.findUnstarted(n.Owner, n.ID, now)
	if err != nil {
		return err
	}
	if s.unstarted[i].Version != n.Version {
		return conflict()
	}
	kept := s.unstarted
	s.unstarted = slices.Delete(slices.Clone(kept), i, i+1)
	if err := s.admit(n.Owner, len(jobs), bytesOf(t, jobs), within, now); err != nil {
		s.unstarted = kept
		return err
	}
	first := n.ID.Job
	if t != nil {
		first = s.lastJob + 1
		s.lastJob += dispatch.JobID(len(jobs))
	}
	s.insert(t, jobs, n.ID.Task, first, now)
	fillIn(drafts, jobs)
	slices.SortFunc(s.jobs, func(a, b *row) int { return int(a.ID - b.ID) })
	return nil
}

// countUnstarted counts a user's unstarted jobs at an account, or all of them, and the bytes of their bodies.
func (s *MemStore) countUnstarted(u dispatch.UserID, a dispatch.Account, now time.Time) (live int, bytes int64) {
	for _, n := range s.unstarted {
		if n.Owner == u && n.Expires.After(now) && (a == "" || n.Account == a) {
			live++
			bytes += int64(len(n.Body))
		}
	}
	return live, bytes
}
