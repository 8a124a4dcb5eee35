package hub

import (
	"slices"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

// mostFed is how many changed jobs a feed keeps. A reader of more reads the whole list.
const mostFed = 100

// Feed collects the jobs of a user that change, for a reader who knows all of them as they were. The zero value is
// ready to use.
type Feed struct {
	mu    sync.Mutex
	known bool // the reader knows what jobs does not contain
	jobs  map[dispatch.JobID]dispatch.Job
}

// Take returns what was collected since the last call: jobs that were saved, each as it was saved last, and whether
// anything else may have changed, which is so at the first call.
func (f *Feed) Take() (jobs []dispatch.Job, others bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		jobs = append(jobs, j)
	}
	others, f.known, f.jobs = !f.known, true, nil
	return jobs, others
}

// Add collects a job that was saved.
func (f *Feed) Add(j dispatch.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, has := f.jobs[j.ID]
	switch {
	case !f.known || last.Version > j.Version:
		return
	case !has && len(f.jobs) == mostFed:
		f.known, f.jobs = false, nil
		return
	case f.jobs == nil:
		f.jobs = map[dispatch.JobID]dispatch.Job{}
	}
	f.jobs[j.ID] = j
}

// AddOthers notes that anything may have changed.
func (f *Feed) AddOthers() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.jobs = false, nil
}

// Feed returns a feed that collects what changes of a user's jobs until stop is called. A change is in the feed before
// Watch signals it. What is shown of jobs that wait, or whose platform does not respond, may change without a signal.
func (h *Hub) Feed(u dispatch.UserID) (f *Feed, stop func()) { return h.feeds.open(u) }

// feeds are the open feeds of all users.
type feeds struct {
	mu sync.Mutex
	of map[dispatch.UserID][]*Feed
}

func (f *feeds) open(u dispatch.UserID) (*Feed, func()) {
	opened := &Feed{}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[dispatch.UserID][]*Feed{}
	}
	f.of[u] = append(f.of[u], opened)
	return opened, func() { f.close(u, opened) }
}

func (f *feeds) close(u dispatch.UserID, closed *Feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[u] = slices.DeleteFunc(f.of[u], func(is *Feed) bool { return is == closed }); len(f.of[u]) == 0 {
		delete(f.of, u)
	}
}

// add collects a job that was saved, for its owner. Of a job that had ended before, more than the job may have changed:
// its request may have been deleted.
func (f *feeds) add(was, j dispatch.Job) {
	if was.Phase == dispatch.Ended {
		f.addOthers(j.Owner)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, opened := range f.of[j.Owner] {
		opened.Add(j.Rounded())
	}
}

func (f *feeds) addOthers(u dispatch.UserID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, opened := range f.of[u] {
		opened.AddOthers()
	}
}

// addAll notes for all users that anything may have changed.
func (f *feeds) addAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, all := range f.of {
		for _, opened := range all {
			opened.AddOthers()
		}
	}
}
