package conformance

import (
	"maps"
	"slices"
)

// Clone returns a copy of the stored jobs, tasks, keys and accounts: a backup, for tests of restores.
func (s *MemStore) Clone() *MemStore {
	_, unlock := s.lock()
	defer unlock()
	c := NewMemStore(s.clock)
	c.lastJob, c.lastTask, c.tasks, c.keys = s.lastJob, s.lastTask, maps.Clone(s.tasks), maps.Clone(s.keys)
	for _, r := range s.jobs {
		is := *r
		is.Job = r.job()
		if r.item != nil {
			item := *r.item
			is.item = &item
		}
		c.jobs = append(c.jobs, &is)
	}
	for name, a := range s.accounts {
		is := *a
		is.turns, is.owners = maps.Clone(a.turns), maps.Clone(a.owners)
		c.accounts[name] = &is
	}
	c.unstarted = slices.Clone(s.unstarted)
	maps.Copy(c.defined, s.defined)
	maps.Copy(c.heard, s.heard)
	maps.Copy(c.ledger, s.ledger)
	maps.Copy(c.labeled, s.labeled)
	maps.Copy(c.spent, s.spent)
	return c
}
