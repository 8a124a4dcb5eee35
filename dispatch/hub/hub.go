package hub

import (
	"context"
	"log/slog"
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

// HandleWake signals a visit of this process that another process woke its account.
func (h *Hub) HandleWake(a dispatch.Account) { h.Woken.Signal(a) }

// Signals signals watchers of a key that something about it has changed. A signal carries no data: the watcher reads
// the present state, so a slow watcher misses nothing and delays no other.
type Signals[K comparable] struct {
	mu sync.Mutex
	m  map[K][]*func()
}

// Watch returns a channel that receives when the key changes.
func (s *Signals[K]) Watch(key K) (changed <-chan struct{}, stop func()) {
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
func (s *Signals[K]) add(key K, f func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dispatch.SetInMap(&s.m, key, append(s.m[key], &f))
	return func() { s.remove(key, &f) }
}

func (s *Signals[K]) remove(key K, f *func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[key] = slices.DeleteFunc(s.m[key], func(is *func()) bool { return is == f }); len(s.m[key]) == 0 {
		delete(s.m, key)
	}
}

// Signal signals those who watch the key.
func (s *Signals[K]) Signal(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.m[key] {
		(*f)()
	}
}

// all signals every key.
func (s *Signals[K]) all() {
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
	m     map[dispatch.JobID][]chan dispatch.Job
	count int
	last  [256]dispatch.JobID // that were saved, the nth at n modulo the length; 0: any may have been
}

// Watch returns a channel that passes on the job whenever it was saved: only its latest state, and one without a
// version if another process saved it.
func (s *savedJobs) Watch(id dispatch.JobID) (saved <-chan dispatch.Job, stop func()) {
	c := make(chan dispatch.Job, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	dispatch.SetInMap(&s.m, id, append(s.m[id], c))
	return c, func() { s.unwatch(id, c) }
}

func (s *savedJobs) unwatch(id dispatch.JobID, c chan dispatch.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[id] = slices.DeleteFunc(s.m[id], func(is chan dispatch.Job) bool { return is == c }); len(s.m[id]) == 0 {
		delete(s.m, id)
	}
}

// signal passes on a job that was saved. One of another process has only its id.
func (s *savedJobs) signal(j dispatch.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(j.ID)
	passOn(s.m[j.ID], j)
}

// All tells all who wait that their jobs may have been saved.
func (s *savedJobs) All() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(0)
	for _, waiting := range s.m {
		passOn(waiting, dispatch.Job{})
	}
}

// passOn replaces what the channels hold. Only their receivers take from them meanwhile.
func passOn(channels []chan dispatch.Job, j dispatch.Job) {
	for _, c := range channels {
		select {
		case <-c:
		default:
		}
		c <- j
	}
}

func (s *savedJobs) note(id dispatch.JobID) {
	s.last[s.count%len(s.last)] = id
	s.count++
}

// Now returns how many jobs were saved until now.
func (s *savedJobs) Now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Since reports whether a job may have been saved after the first n.
func (s *savedJobs) Since(n int, id dispatch.JobID) bool {
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

// Wake notifies visits and the engine after the commit that woke an account.
func (h *Hub) Wake(a dispatch.Account) {
	h.Woken.Signal(a)
	h.Engine.Wake(a)
}

// log logs each change of phase, status or attention once.
func (h *Hub) log(ctx context.Context, was, j dispatch.Job, err error) {
	h.logRemoval(ctx, was, j, err)
	if was.Phase == j.Phase && was.Status == j.Status && was.Attention == j.Attention {
		return
	}
	attrs := []slog.Attr{slog.Int64("job", int64(j.ID)), slog.String("account", string(j.Account)),
		slog.String("ref", j.Ref.ID),
		slog.String("phase", string(j.Phase)), slog.String("status", string(j.Status)), slog.String("attention",
			string(j.Attention))}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	h.Log.LogAttrs(ctx, slog.LevelInfo, "job", attrs...)
}

// logRemoval logs the end of a removal.
func (h *Hub) logRemoval(ctx context.Context, was, j dispatch.Job, err error) {
	if was.Removal.Due.IsZero() || !j.Removal.Due.IsZero() {
		return
	}
	attrs := []slog.Attr{slog.Int64("job", int64(j.ID)), slog.String("account", string(j.Account)),
		slog.String("ref", j.Ref.ID)}
	if !j.Removal.Removed.IsZero() {
		h.Log.LogAttrs(ctx, slog.LevelInfo, "job removed from its platform", attrs...)
		return
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	h.Log.LogAttrs(ctx, slog.LevelWarn, "removing a job from its platform was given up", attrs...)
}
