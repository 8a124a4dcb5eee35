package conformance

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// memItem is an Item of a job, as far as the job has one.
type memItem struct {
	dispatch.Item

	due   time.Time
	tries int
}

// changeItem follows a change of a job. The platform may have returned results in its response.
func (r *row) changeItem(before dispatch.Job, result []byte) {
	existed, exists := before.Status == dispatch.Finished && !before.Hidden, r.Status == dispatch.Finished && !r.Hidden
	switch {
	case exists && (!existed || result != nil):
		r.item = &memItem{Item: dispatch.Item{Job: r.ID, Task: r.Task, Account: r.Account, Given: result != nil,
			Body: slices.Clone(result)}, due: r.Moved}
	case existed && !exists,
		exists && before.Removal.Removed.IsZero() && !r.Removal.Removed.IsZero() && r.item != nil && !r.item.Given:
		r.item = nil
	}
}

// dueItems returns the rows with Items that are to be read at a time.
func (s *MemStore) dueItems(now time.Time) []*row {
	return slices.DeleteFunc(slices.Clone(s.jobs), func(r *row) bool {
		return r.item == nil || r.Hidden || r.item.due.IsZero() || r.item.due.After(now)
	})
}

func (s *MemStore) DuePlatforms(context.Context) (platforms []string, err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, r := range s.dueItems(now) {
		platforms = append(platforms, r.Account.Platform())
	}
	slices.Sort(platforms)
	return slices.Compact(platforms), nil
}

func (s *MemStore) DueItems(_ context.Context, platform string, n int) (due []dispatch.DueItem, err error) {
	now, unlock := s.lock()
	defer unlock()
	jobs := slices.DeleteFunc(s.dueItems(now), func(r *row) bool { return r.Account.Platform() != platform })
	slices.SortStableFunc(jobs, func(a, b *row) int { return a.item.due.Compare(b.item.due) })
	for _, r := range jobs[:min(n, len(jobs))] {
		r.item.tries++
		d := dispatch.DueItem{Owner: r.Owner, Job: r.ID, Tries: r.item.tries}
		if r.item.due = (time.Time{}); d.Pause() > 0 {
			r.item.due = now.Add(d.Pause())
		}
		due = append(due, d)
	}
	return due, nil
}

func (s *MemStore) KeepItem(_ context.Context, i dispatch.Item) error {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.find(i.Job)
	if err != nil || r.Status != dispatch.Finished || r.Hidden {
		return nil
	}
	if r.item == nil {
		r.item = &memItem{}
	}
	i.Given, i.Read, i.Task, i.Account = r.item.Given, true, r.Task, r.Account
	if i.Given {
		i.Body = r.item.Body
	}
	i.Until, i.First, i.Last = micros(i.Until), micros(i.First), micros(i.Last)
	r.item.Item, r.item.due = i, time.Time{}
	return nil
}

func (s *MemStore) DropItem(_ context.Context, id dispatch.JobID) error {
	_, unlock := s.lock()
	defer unlock()
	if r, err := s.find(id); err == nil && r.item != nil && !r.item.Given {
		r.item = nil
	}
	return nil
}

// items returns the Items of an owner by job.
func (s *MemStore) items(u dispatch.UserID) (all []*row) {
	for _, r := range s.jobs {
		if r.Owner == u && r.item != nil && !r.Hidden && (r.item.Read || r.item.Body != nil) {
			all = append(all, r)
		}
	}
	return all
}

func (s *MemStore) Items(
	_ context.Context, u dispatch.UserID, jobs []dispatch.JobID, bodies bool,
) (map[dispatch.JobID]dispatch.Item, error) {
	_, unlock := s.lock()
	defer unlock()
	items := map[dispatch.JobID]dispatch.Item{}
	for _, r := range s.items(u) {
		if slices.Contains(jobs, r.ID) {
			i := r.item.Item
			if !bodies {
				i.Body = nil
			}
			items[r.ID] = i
		}
	}
	return items, nil
}

func (s *MemStore) ItemExtents(
	_ context.Context, u dispatch.UserID, tasks []dispatch.TaskID,
) (map[dispatch.TaskID]dispatch.ItemExtent, error) {
	_, unlock := s.lock()
	defer unlock()
	extents := map[dispatch.TaskID]dispatch.ItemExtent{}
	for _, r := range s.items(u) {
		if !slices.Contains(tasks, r.Task) || !r.item.Read {
			continue
		}
		e, i := extents[r.Task], r.item
		if b := slices.Clone(i.Box); b != nil {
			if b[0] > b[2] {
				b[0], b[2] = -180, 180
			}
			if e.Box == nil {
				e.Box = b
			}
			e.Box = []float64{min(e.Box[0], b[0]), min(e.Box[1], b[1]), max(e.Box[2], b[2]), max(e.Box[3], b[3])}
		}
		if e.First.IsZero() || !i.First.IsZero() && i.First.Before(e.First) {
			e.First = i.First
		}
		if !i.First.IsZero() && i.Last.After(e.Last) {
			e.Last = i.Last
		}
		extents[r.Task] = e
	}
	return extents, nil
}

func (s *MemStore) ItemServices(
	_ context.Context, u dispatch.UserID,
) (map[dispatch.ServiceHash]dispatch.JobID, error) {
	_, unlock := s.lock()
	defer unlock()
	jobs := map[dispatch.ServiceHash]dispatch.JobID{}
	for _, r := range s.items(u) {
		if _, known := jobs[r.Service]; !known && r.item.Read {
			jobs[r.Service] = r.ID
		}
	}
	return jobs, nil
}

// FindItems finds Items in the order of their jobs.
func (s *MemStore) FindItems(
	_ context.Context, u dispatch.UserID, q dispatch.ItemQuery,
) (page dispatch.ItemPage, err error) {
	_, unlock := s.lock()
	defer unlock()
	after, err := strconv.ParseInt("0"+q.After, 10, 64)
	if err != nil {
		return page, &dispatch.Error{Kind: dispatch.Invalid, Op: "conformance.FindItems", Err: err}
	}
	for _, r := range s.items(u) {
		if int64(r.ID) <= after || !r.item.Read || !s.matches(r, q) {
			continue
		}
		if len(page.Items) == q.Limit {
			page.Next = strconv.FormatInt(int64(page.Items[len(page.Items)-1].Job), 10)
			break
		}
		page.Items = append(page.Items, r.item.Item)
	}
	return page, nil
}

func (s *MemStore) matches(r *row, q dispatch.ItemQuery) bool {
	labels := maps.Clone(s.tasks[r.Task].Annotations.Labels)
	if r.Task == 0 {
		labels = r.Annotations.Labels
	}
	for name, value := range q.Labels {
		if labels[name] != value {
			return false
		}
	}
	first, last := r.item.First, r.item.Last
	if first.IsZero() {
		first = time.Unix(0, 0)
	}
	return (len(q.Jobs) == 0 || slices.Contains(q.Jobs, r.ID)) &&
		(len(q.Tasks) == 0 || slices.Contains(q.Tasks, r.Task)) &&
		(len(q.Services) == 0 || slices.Contains(q.Services, r.Service)) && meets(r.item.Box, q.Box) &&
		(q.Meets == nil || q.Meets(r.item.Box)) &&
		(q.From.IsZero() || !last.Before(q.From)) && (q.To.IsZero() || !first.After(q.To))
}

// meets reports whether two boxes intersect. No second one: it is not asked for.
func meets(a, b []float64) bool {
	switch {
	case b == nil:
		return true
	case a == nil:
		return false
	}
	parts := func(b []float64) [][2]float64 {
		if b[0] > b[2] {
			return [][2]float64{{-180, b[2]}, {b[0], 180}}
		}
		return [][2]float64{{b[0], b[2]}}
	}
	for _, p := range parts(a) {
		for _, q := range parts(b) {
			if p[0] <= q[1] && q[0] <= p[1] {
				return a[1] <= b[3] && b[1] <= a[3]
			}
		}
	}
	return false
}
