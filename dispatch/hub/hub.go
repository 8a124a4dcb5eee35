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

	Saved savedJobs // jobs about which a response was saved
	// likewise for any job of the user, or the user changed a job; signaled before shown
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
	return h.shown.add(u, func(struct{}) { changed() })
}

// WatchJob signals when one of a user's jobs may look different. It does not signal changes of the user's other jobs,
// so that many watchers of single jobs do not all read when one job changes. A change of a whole task by another
// process may be signaled only by Watch.
func (h *Hub) WatchJob(u dispatch.UserID, id dispatch.JobID) (changed <-chan struct{}, stop func()) {
	changed, signal := newSignal[struct{}]()
	stopJob, stopAll := h.shownJob.add(id, signal), h.shownAll.add(u, signal)
	return changed, func() {
		stopJob()
		stopAll()
	}
}

// NotifySaved signals the commit of a response to waiters in this process and in others.
func (h *Hub) NotifySaved(ctx context.Context, was, j dispatch.Job, err error) {
	j.Loaded = nil // those who are notified only read the job, and some keep it
	h.Observing().JobSaved(was, j)
	h.Saved.signal(j)
	h.Changed.Signal(j.Owner)
	var owners []dispatch.UserID
	if !was.Updated.Equal(j.Updated) {
		h.shown.Signal(j.Owner)
		h.shownJob.Signal(j.ID)
		owners = []dispatch.UserID{j.Owner}
	}
	h.Engine.Broadcast([]dispatch.JobID{j.ID}, owners)
	h.log(ctx, was, j, err)
}

// NotifyUser signals to all processes that any job of a user may look different.
func (h *Hub) NotifyUser(u dispatch.UserID) {
	h.Changed.Signal(u)
	h.shown.Signal(u)
	h.shownAll.Signal(u)
	h.Engine.Broadcast(nil, []dispatch.UserID{u})
}

// NotifyJob signals to all processes that one job may look different.
func (h *Hub) NotifyJob(u dispatch.UserID, id dispatch.JobID) {
	h.Changed.Signal(u)
	h.shown.Signal(u)
	h.shownJob.Signal(id)
	h.Engine.Broadcast([]dispatch.JobID{id}, []dispatch.UserID{u})
}

// HandleBroadcast passes on what another process reported through Engine.Broadcast. Without arguments: signals may have
// been lost, so everything is signaled.
func (h *Hub) HandleBroadcast(saved []dispatch.JobID, shown []dispatch.UserID) {
	if len(saved)+len(shown) == 0 {
		h.Saved.All()
		h.Changed.all()
		h.shown.all()
		h.shownJob.all()
	}
	for _, id := range saved {
		h.Saved.signal(dispatch.Job{Identity: dispatch.Identity{ID: id}})
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

// feed passes on to watchers of a key what happened to it: only the latest, so that a slow watcher delays no other.
type feed[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K][]*func(V)
}

// Watch returns a channel that receives what happens to the key.
func (f *feed[K, V]) Watch(key K) (changed <-chan V, stop func()) {
	changed, signal := newSignal[V]()
	return changed, f.add(key, signal)
}

// newSignal returns a channel with room for one value, and what replaces that value without waiting.
func newSignal[V any]() (received <-chan V, signal func(V)) {
	c := make(chan V, 1)
	return c, func(v V) {
		for {
			select {
			case c <- v:
				return
			default:
			}
			select {
			case <-c:
			default: // it was received meanwhile
			}
		}
	}
}

// add calls signal, which must not wait, when something happens to the key.
func (f *feed[K, V]) add(key K, signal func(V)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := &signal
	dispatch.SetInMap(&f.m, key, append(f.m[key], own))
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.m[key] = slices.DeleteFunc(f.m[key], func(other *func(V)) bool { return other == own })
		if len(f.m[key]) == 0 {
			delete(f.m, key)
		}
	}
}

// pass passes on to those who watch the key.
func (f *feed[K, V]) pass(key K, v V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, signal := range f.m[key] {
		(*signal)(v)
	}
}

// passAll passes on to all.
func (f *feed[K, V]) passAll(v V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, watching := range f.m {
		for _, signal := range watching {
			(*signal)(v)
		}
	}
}

// Signals signals watchers of a key that something about it has changed. A signal carries no data: the watcher reads
// the present state.
type Signals[K comparable] struct{ feed[K, struct{}] }

// Signal signals those who watch the key.
func (s *Signals[K]) Signal(key K) { s.pass(key, struct{}{}) }

func (s *Signals[K]) all() { s.passAll(struct{}{}) }

// savedJobs passes jobs that were saved to those who wait for them: only their latest state, and one without a version
// if another process saved it. It knows which were saved last. The zero value is ready.
type savedJobs struct {
	feed[dispatch.JobID, dispatch.Job]
	last  sync.Mutex // of the fields below
	count int
	ids   [256]dispatch.JobID // that were saved last, the nth at n modulo the length; 0: any may have been
}

// signal passes on a job that was saved. One of another process has only its id.
func (s *savedJobs) signal(j dispatch.Job) {
	s.note(j.ID)
	s.pass(j.ID, j)
}

// All tells all who wait that their jobs may have been saved.
func (s *savedJobs) All() {
	s.note(0)
	s.passAll(dispatch.Job{})
}

func (s *savedJobs) note(id dispatch.JobID) {
	s.last.Lock()
	defer s.last.Unlock()
	s.ids[s.count%len(s.ids)] = id
	s.count++
}

// Now returns how many jobs were saved until now.
func (s *savedJobs) Now() int {
	s.last.Lock()
	defer s.last.Unlock()
	return s.count
}

// Since reports whether a job may have been saved after the first n.
func (s *savedJobs) Since(n int, id dispatch.JobID) bool {
	s.last.Lock()
	defer s.last.Unlock()
	if s.count-n > len(s.ids) {
		return true
	}
	for ; n < s.count; n++ {
		if saved := s.ids[n%len(s.ids)]; saved == id || saved == 0 {
			return true
		}
	}
	return false
}

// Wake notifies visits and the engine after the commit that woke an account.
func (h *Hub) Wake(a dispatch.Account) {
	h.Woken.Signal(a)
	h.Engine.Wake(a)
}

// log logs each change of phase, status or attention once, and the end of a removal.
func (h *Hub) log(ctx context.Context, was, j dispatch.Job, err error) {
	over := !was.Removal.Due.IsZero() && j.Removal.Due.IsZero()
	moved := was.Phase != j.Phase || was.Status != j.Status || was.Attention != j.Attention
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
