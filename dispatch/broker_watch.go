package dispatch

import (
	"context"
	"slices"
	"sync"
)

// Watch signals when a job of a user may look different: it was accepted, canceled, or has changed, in any process. The signal carries no
// data. A watcher reads after Watch returns, and again after each signal.
func (b *Broker) Watch(u UserID) (changed <-chan struct{}, stop func()) { return b.shown.watch(u) }

// WatchJob signals when one of a user's jobs may look different. It does not signal changes of the user's other jobs, so that many watchers
// of single jobs do not all read when one job changes. A change of a whole task by another process may be signaled only by Watch.
func (b *Broker) WatchJob(u UserID, id JobID) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	stopJob, stopAll := b.shownJob.add(id, c), b.shownAll.add(u, c)
	return c, func() {
		stopJob()
		stopAll()
	}
}

// WatchSaves signals when anything about a user's jobs was saved, also when a platform repeated the same status.
func (b *Broker) WatchSaves(u UserID) (saved <-chan struct{}, stop func()) { return b.changed.watch(u) }

// notifySaved signals the commit of a response to waiters in this process and in others.
func (b *Broker) notifySaved(ctx context.Context, was, j Job, err error) {
	b.observer().JobSaved(was, j)
	b.saved.signal(j.ID)
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

// HandleBroadcast passes on what another process reported through Engine.Broadcast. Without arguments: signals may have been lost, so everything is
// signaled.
func (b *Broker) HandleBroadcast(saved []JobID, shown []UserID) {
	if len(saved)+len(shown) == 0 {
		b.feeds.addAll()
		b.saved.all()
		b.changed.all()
		b.shown.all()
		b.shownJob.all()
	}
	for _, id := range saved {
		b.saved.signal(id)
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

// signals signals watchers of a key that something about it has changed. A signal carries no data: the watcher reads the present state, so
// a slow watcher misses nothing and delays no other.
type signals[K comparable] struct {
	mu sync.Mutex
	m  map[K][]chan struct{}
}

func (s *signals[K]) watch(key K) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	return c, s.add(key, c)
}

// add also signals c, which has room for one signal, when the key changes.
func (s *signals[K]) add(key K, c chan struct{}) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[K][]chan struct{}{}
	}
	s.m[key] = append(s.m[key], c)
	return func() { s.unwatch(key, c) }
}

func (s *signals[K]) unwatch(key K, c chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[key] = slices.DeleteFunc(s.m[key], func(is chan struct{}) bool { return is == c }); len(s.m[key]) == 0 {
		delete(s.m, key)
	}
}

func (s *signals[K]) signal(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	signalEach(s.m[key])
}

// all signals every key.
func (s *signals[K]) all() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watchers := range s.m {
		signalEach(watchers)
	}
}

func signalEach(watchers []chan struct{}) {
	for _, c := range watchers {
		select {
		case c <- struct{}{}:
		default: // a signal is pending
		}
	}
}
