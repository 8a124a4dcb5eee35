package hub

import (
	"context"
	"slices"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Hub passes on, inside this process and to others, that something has changed.
type Hub struct {
	*dispatch.Setup

	Saved Signals[dispatch.JobID] // a response about the job was saved
	// a response about any job of the user was saved, or the user changed a job; signaled before shown
	Changed  Signals[dispatch.UserID]
	shown    Signals[dispatch.UserID]  // one of the user's jobs may look different to the user
	shownJob Signals[dispatch.JobID]   // the job may look different to its owner
	shownAll Signals[dispatch.UserID]  // any of the user's jobs may look different to the user
	Woken    Signals[dispatch.Account] // there is something new for a visit in this process
}

// Watch signals when a job of a user may look different: it was accepted, canceled, or has changed, in any process. The
// signal carries no data. A watcher reads after Watch returns, and again after each signal.
func (h *Hub) Watch(u dispatch.UserID) (changed <-chan struct{}, stop func()) {
	return h.shown.Watch(u)
}

// OnChange calls changed, which must not wait, where Watch signals. So a watcher needs no goroutine until then.
func (h *Hub) OnChange(u dispatch.UserID, changed func()) (stop func()) {
	return h.shown.add(u, changed)
}

// WatchJob signals when one of a user's jobs may look different. It does not signal changes of the user's other jobs,
// so that many watchers of single jobs do not all read when one job changes. A change of a whole task by another
// process may be signaled only by Watch.
func (h *Hub) WatchJob(u dispatch.UserID, id dispatch.JobID) (changed <-chan struct{}, stop func()) {
	changed, signal := newSignal()
	stopJob, stopAll := h.shownJob.add(id, signal), h.shownAll.add(u, signal)
	return changed, func() {
		stopJob()
		stopAll()
	}
}

// NotifySaved signals the commit of a response to waiters in this process and in others.
func (h *Hub) NotifySaved(ctx context.Context, before, j dispatch.Job, err error) {
	j.Loaded = nil // the observer only reads the job
	h.Observing().JobSaved(before, j)
	h.Saved.Signal(j.ID)
	h.Changed.Signal(j.Owner)
	var owners []dispatch.UserID
	if !before.Updated.Equal(j.Updated) {
		h.shown.Signal(j.Owner)
		h.shownJob.Signal(j.ID)
		owners = []dispatch.UserID{j.Owner}
	}
	h.Engine.Broadcast([]dispatch.JobID{j.ID}, owners)
	h.log(ctx, before, j, err)
}

// NotifyUser signals to all processes that any job of a user may look different.
func (h *Hub) NotifyUser(u dispatch.UserID) { h.notify(nil, []dispatch.UserID{u}) }

// NotifyJob signals to all processes that one job may look different.
func (h *Hub) NotifyJob(u dispatch.UserID, id dispatch.JobID) {
	h.notify([]dispatch.JobID{id}, []dispatch.UserID{u})
}

// notify signals to this process what the others receive.
func (h *Hub) notify(saved []dispatch.JobID, shown []dispatch.UserID) {
	h.HandleBroadcast(saved, shown)
	h.Engine.Broadcast(saved, shown)
}

// HandleBroadcast passes on what another process reported through Engine.Broadcast. Without arguments: signals may have
// been lost, so everything is signaled.
func (h *Hub) HandleBroadcast(saved []dispatch.JobID, shown []dispatch.UserID) {
	if len(saved)+len(shown) == 0 {
		h.Saved.All()
		h.Changed.All()
		h.shown.All()
		h.shownJob.All()
	}
	for _, id := range saved {
		h.Saved.Signal(id)
		h.shownJob.Signal(id)
	}
	for _, u := range shown {
		h.Changed.Signal(u)
		h.shown.Signal(u)
		if len(saved) == 0 { // otherwise mostly the jobs in saved have changed, which were signaled above
			h.shownAll.Signal(u)
		}
	}
}

// Signals signals watchers of a key that something about it has changed. A signal carries no data: the watcher reads
// the present state.
type Signals[K comparable] struct {
	mu sync.Mutex
	m  map[K][]*func()
}

// Watch returns a channel that receives a signal when something about the key has changed.
func (s *Signals[K]) Watch(key K) (changed <-chan struct{}, stop func()) {
	changed, signal := newSignal()
	return changed, s.add(key, signal)
}

// newSignal returns a channel with room for one signal, and what sends one without waiting.
func newSignal() (received <-chan struct{}, signal func()) {
	c := make(chan struct{}, 1)
	return c, func() {
		select {
		case c <- struct{}{}:
		default: // it has one already
		}
	}
}

// add calls signal, which must not wait, when something about the key has changed.
func (s *Signals[K]) add(key K, signal func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := &signal
	dispatch.SetInMap(&s.m, key, append(s.m[key], own))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.m[key] = slices.DeleteFunc(s.m[key], func(other *func()) bool { return other == own })
		if len(s.m[key]) == 0 {
			delete(s.m, key)
		}
	}
}

// Signal signals those who watch the key.
func (s *Signals[K]) Signal(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, signal := range s.m[key] {
		(*signal)()
	}
}

// All signals all who watch any key.
func (s *Signals[K]) All() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watching := range s.m {
		for _, signal := range watching {
			(*signal)()
		}
	}
}

// Wake notifies visits and the engine after the commit that woke an account.
func (h *Hub) Wake(a dispatch.Account) {
	h.Woken.Signal(a)
	h.Engine.Wake(a)
}

// log logs each change of phase, status or attention once, and the end of a removal.
func (h *Hub) log(ctx context.Context, before, j dispatch.Job, err error) {
	over := !before.Removal.Due.IsZero() && j.Removal.Due.IsZero()
	moved := before.Phase != j.Phase || before.Status != j.Status || before.Attention != j.Attention
	if !over && !moved {
		return
	}
	log := h.Log.With("job", int64(j.ID), "account", string(j.Account), "ref", j.Ref.ID)
	if err != nil {
		log = log.With("error", err.Error())
	}
	switch {
	case over && !j.Removal.Removed.IsZero():
		log.InfoContext(ctx, "job removed from its platform")
	case over:
		log.WarnContext(ctx, "removing a job from its platform was given up")
	}
	if moved {
		log.InfoContext(ctx, "job", "phase", string(j.Phase), "status", string(j.Status), "attention",
			string(j.Attention))
	}
}
