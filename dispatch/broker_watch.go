package dispatch

import (
	"context"
	"slices"
	"sync"
)

// Watch signals when a job of a user may look different: it was accepted, canceled, or has changed, in any process. The
// signal carries no data. A watcher reads after Watch returns, and again after each signal.
func (b *Broker) Watch(u UserID) (changed <-chan struct{}, stop func()) { return b.shown.watch(u) }

// OnChange calls changed, which must not wait, where Watch signals. So a watcher needs no goroutine until then.
func (b *Broker) OnChange(u UserID, changed func()) (stop func()) { return b.shown.add(u, changed) }

// WatchJob signals when one of a user's jobs may look different. It does not signal changes of the user's other jobs,
// so that many watchers of single jobs do not all read when one job changes. A change of a whole task by another
// process may be signaled only by Watch.
func (b *Broker) WatchJob(u UserID, id JobID) (changed <-chan struct{}, stop func()) {
	changed, signal := newSignal()
	stopJob, stopAll := b.shownJob.add(id, signal), b.shownAll.add(u, signal)
	return changed, func() {
		stopJob()
		stopAll()
	}
}

// WatchSaves signals when anything about a user's jobs was saved, also when a platform repeated the same status.
func (b *Broker) WatchSaves(u UserID) (saved <-chan struct{}, stop func()) { return b.changed.watch(u) }

// notifySaved signals the commit of a response to waiters in this process and in others.
func (b *Broker) notifySaved(ctx context.Context, was, j Job, err error) {
	j.Loaded = nil // those who are notified only read the job, and some keep it
	b.observer().JobSaved(was, j)
	b.saved.signal(j)
	b.changed.signal(j.Owner)
	var owners []UserID
	if !was.Updated.Equal(j.Updated) {
		b.feeds.add(was, j)
		b.shown.signal(j.Owner)
		b.shownJob.signal(j.ID)
		owners = []UserID{j.Owner}
	}
	b.Engine.Broadcast([]JobID{j.ID}, owners)
	b.log(ctx, was, j, err)
}

// notifyUser signals to all processes that any job of a user may look different.
func (b *Broker) notifyUser(u UserID) {
	b.feeds.addOthers(u)
	b.changed.signal(u)
	b.shown.signal(u)
	b.shownAll.signal(u)
	b.Engine.Broadcast(nil, []UserID{u})
}

// notifyJob signals to all processes that one job may look different.
func (b *Broker) notifyJob(u UserID, id JobID) {
	b.feeds.addOthers(u)
	b.changed.signal(u)
	b.shown.signal(u)
	b.shownJob.signal(id)
	b.Engine.Broadcast([]JobID{id}, []UserID{u})
}

// HandleBroadcast passes on what another process reported through Engine.Broadcast. Without arguments: signals may have
// been lost, so everything is signaled.
func (b *Broker) HandleBroadcast(saved []JobID, shown []UserID) {
	if len(saved)+len(shown) == 0 {
		b.feeds.addAll()
		b.saved.all()
		b.changed.all()
		b.shown.all()
		b.shownJob.all()
	}
	for _, id := range saved {
		b.saved.signal(Job{ID: id})
		b.shownJob.signal(id)
	}
	for _, u := range shown {
		b.feeds.addOthers(u)
		b.changed.signal(u)
		b.shown.signal(u)
		if len(saved) == 0 { // otherwise mostly the jobs in saved have changed, which were signaled above
			b.shownAll.signal(u)
		}
	}
}

// HandleWake signals a visit of this process that another process woke its account.
func (b *Broker) HandleWake(a Account) { b.woken.signal(a) }

// signals signals watchers of a key that something about it has changed. A signal carries no data: the watcher reads
// the present state, so a slow watcher misses nothing and delays no other.
type signals[K comparable] struct {
	mu sync.Mutex
	m  map[K][]*func()
}

func (s *signals[K]) watch(key K) (changed <-chan struct{}, stop func()) {
	changed, signal := newSignal()
	return changed, s.add(key, signal)
}

// newSignal returns a channel with room for one signal, and what signals it without waiting.
func newSignal() (received <-chan struct{}, signal func()) {
	c := make(chan struct{}, 1)
	return c, func() {
		select {
		case c <- struct{}{}:
		default: // a signal is pending
		}
	}
}

// add calls f, which must not wait, when the key changes.
func (s *signals[K]) add(key K, f func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	setInMap(&s.m, key, append(s.m[key], &f))
	return func() { s.remove(key, &f) }
}

func (s *signals[K]) remove(key K, f *func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[key] = slices.DeleteFunc(s.m[key], func(is *func()) bool { return is == f }); len(s.m[key]) == 0 {
		delete(s.m, key)
	}
}

func (s *signals[K]) signal(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.m[key] {
		(*f)()
	}
}

// all signals every key.
func (s *signals[K]) all() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, each := range s.m {
		for _, f := range each {
			(*f)()
		}
	}
}

// savedJobs passes jobs that were saved to those who wait for them, and knows which were saved last. The zero value is
// ready.
type savedJobs struct {
	mu    sync.Mutex
	m     map[JobID][]chan Job
	count int
	last  [256]JobID // that were saved, the nth at n modulo the length; 0: any may have been
}

// watch returns a channel that passes on the job whenever it was saved: only its latest state, and one without a
// version if another process saved it.
func (s *savedJobs) watch(id JobID) (saved <-chan Job, stop func()) {
	c := make(chan Job, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	setInMap(&s.m, id, append(s.m[id], c))
	return c, func() { s.unwatch(id, c) }
}

func (s *savedJobs) unwatch(id JobID, c chan Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[id] = slices.DeleteFunc(s.m[id], func(is chan Job) bool { return is == c }); len(s.m[id]) == 0 {
		delete(s.m, id)
	}
}

// signal passes on a job that was saved. One of another process has only its id.
func (s *savedJobs) signal(j Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(j.ID)
	passOn(s.m[j.ID], j)
}

// all tells all who wait that their jobs may have been saved.
func (s *savedJobs) all() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(0)
	for _, waiting := range s.m {
		passOn(waiting, Job{})
	}
}

// passOn replaces what the channels hold. Only their receivers take from them meanwhile.
func passOn(channels []chan Job, j Job) {
	for _, c := range channels {
		select {
		case <-c:
		default:
		}
		c <- j
	}
}

func (s *savedJobs) note(id JobID) {
	s.last[s.count%len(s.last)] = id
	s.count++
}

// now returns how many jobs were saved until now.
func (s *savedJobs) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// since reports whether a job may have been saved after the first n.
func (s *savedJobs) since(n int, id JobID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count-n > len(s.last) {
		return true
	}
	for ; n < s.count; n++ {
		if saved := s.last[n%len(s.last)]; saved == id || saved == 0 {
			return true
		}
	}
	return false
}
