package api

import (
	"iter"
	"maps"

	"github.com/eodispatch/eodispatch/dispatch"
)

// items are the digests of a snapshot's jobs and tasks, and their positions in its message. Successive snapshots share
// most of them, so that a difference costs what changed and not what there is. Items are not changed after their
// snapshot was built, so that all streams read them at once.
type items struct {
	most  map[itemID]item // may be those of other snapshots, too
	newer map[itemID]item // take the place of those in most
}

func newItems() *items { return &items{most: map[itemID]item{}} }

// put adds an item to a snapshot that is being built.
func (s *items) put(id itemID, i item) { s.most[id] = i }

// shift adds to the positions of all items of a snapshot that is being built.
func (s *items) shift(by int) {
	for id, i := range s.most {
		i.begin, i.end = i.begin+by, i.end+by
		s.most[id] = i
	}
}

func (s *items) get(id itemID) (i item, known bool) {
	if i, known = s.newer[id]; known {
		return i, true
	}
	i, known = s.most[id]
	return i, known
}

// of returns an item; zero if there is none.
func (s *items) of(id itemID) item {
	i, _ := s.get(id)
	return i
}

// all returns all items, in no order.
func (s *items) all() iter.Seq2[itemID, item] {
	return func(yield func(itemID, item) bool) {
		for id, i := range s.newer {
			if !yield(id, i) {
				return
			}
		}
		for id, i := range s.most {
			if _, replaced := s.newer[id]; !replaced && !yield(id, i) {
				return
			}
		}
	}
}

// with returns the items with changed ones in their place. All are copied only after so many changes that this costs
// each of them little.
func (s *items) with(changed *items) *items {
	if n := len(s.newer) + len(changed.most); n*n > 4*len(s.most) {
		whole := maps.Clone(s.most)
		maps.Copy(whole, s.newer)
		maps.Copy(whole, changed.most)
		return &items{most: whole}
	}
	newer := maps.Clone(s.newer)
	if newer == nil {
		newer = make(map[itemID]item, len(changed.most))
	}
	maps.Copy(newer, changed.most)
	return &items{s.most, newer}
}

// revision returns the number of jobs, and of their times of change the latest and the sums, as in a
// [dispatch.Revision].
func (s *items) revision() (jobs int, updated int64, sums [2]int64) {
	for id, i := range s.all() {
		if !id.task {
			jobs, updated, sums = jobs+1, max(updated, i.updated), dispatch.SumUpdated(sums, i.updated)
		}
	}
	return jobs, updated, sums
}

func compare(was, is *items) (d difference) {
	for id, i := range is.all() {
		switch old, had := was.get(id); {
		case had && old.digest == i.digest:
		case id.task:
			d.tasks = append(d.tasks, id.id)
		default:
			d.jobs = append(d.jobs, id.id)
		}
	}
	for id := range was.all() {
		switch _, has := is.get(id); {
		case has:
		case id.task:
			d.removedTasks = append(d.removedTasks, id.id)
		default:
			d.removedJobs = append(d.removedJobs, id.id)
		}
	}
	return d
}
