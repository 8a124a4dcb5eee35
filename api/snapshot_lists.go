package api

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listFollowers keeps the last state of each list for as long as streams of changes watch it, with what has changed
// since.
type listFollowers struct {
	mu sync.Mutex
	of map[topic]*followedList
}

type followedList struct {
	streams int
	feed    *dispatch.Feed
	stop    func()
	last    *listState // nil: not known
	anew    bool       // the next read is of the whole list
}

// listState is what the next snapshot of a list is derived from.
type listState struct {
	outline
	read     time.Time // when the whole list was read
	live     int       // jobs and tasks that have not ended
	widest   int       // bytes of the largest request
	requests requests
}

// requests are some of the requests of live jobs, so that those of most users need not be read again when a job ends.
type requests map[dispatch.JobID]dispatch.Request

const requestsHeld = 8 << 10 // bytes of the requests of one list that are held

// follow keeps what the changes of a topic are derived from, for a stream of changes, until leave is called.
func (a *api) follow(t topic) (leave func()) {
	if t.task != 0 {
		return a.followers.enter(t)
	}
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	f := a.lists.of[t]
	if f == nil {
		f = &followedList{}
		f.feed, f.stop = a.Broker.Feed(t.user)
		if a.lists.of == nil {
			a.lists.of = map[topic]*followedList{}
		}
		a.lists.of[t] = f
	}
	f.streams++
	return func() { a.lists.leave(t) }
}

func (l *listFollowers) leave(t topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.of[t]
	if f.streams--; f.streams == 0 {
		f.stop()
		delete(l.of, t)
	}
}

// take returns the last state of a list and the jobs that were saved since; nil if the list must be read as a whole.
func (l *listFollowers) take(t topic) (last *listState, saved []dispatch.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.of[t]
	if f == nil { // the stream has ended
		return nil, nil
	}
	saved, others := f.feed.Take()
	if !others && !f.anew {
		last = f.last
	}
	f.last, f.anew = nil, false // until the next state is known
	return last, saved
}

// readAnew makes the next read one of the whole list.
func (l *listFollowers) readAnew(t topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.of[t]; f != nil {
		f.anew = true
	}
}

func (l *listFollowers) keep(t topic, s *listState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.of[t]; f != nil {
		f.last = s
	}
}

// readListChanges is readSnapshot for streams of changes of a list. Unless the list is read anew, it reads only what
// was saved since the last such read, and so the snapshot mostly lacks its body. Callers that ask while it is read
// share the next read.
func (a *api) readListChanges(ctx context.Context, t topic, anew bool) (*snapshot, error) {
	if anew {
		a.lists.readAnew(t)
	}
	of := t
	of.news = true
	return a.snapshots.get(ctx, of, func(ctx context.Context) (*snapshot, error) {
		release := a.readers.enter(t.user)
		defer release()
		return a.buildListChanges(ctx, t)
	})
}

func (a *api) buildListChanges(ctx context.Context, t topic) (*snapshot, error) {
	if last, saved := a.lists.take(t); last != nil {
		if p, err := a.deriveList(ctx, t, last, saved); p != nil || err != nil {
			return p, err
		}
	}
	c := a.newSnapshotBuilder(ctx, t)
	defer c.close()
	c.requests = requests{}
	read := time.Now()
	if err := c.read(); err != nil {
		return nil, err
	}
	p := c.snapshot
	next := &listState{outline: p.outline, read: read, widest: c.widest, requests: c.requests}
	for _, i := range p.items.all() {
		next.live += count(i.live)
	}
	a.lists.keep(t, next)
	return p, c.hold()
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// deriveList returns the snapshot that follows a state of a list when jobs were saved; nil if more may have changed
// than these jobs.
func (a *api) deriveList(ctx context.Context, t topic, last *listState, saved []dispatch.Job) (*snapshot, error) {
	changed, ok := last.changed(t, saved)
	if !ok || last.widest > dispatch.PartMost {
		return nil, nil
	}
	c := a.newSnapshotBuilder(ctx, t)
	defer c.close()
	c.begin(last.outline, last.widest)
	next := &listState{read: last.read, live: last.live, widest: last.widest, requests: last.requests}
	var d difference
	for _, r := range changed {
		var err error
		if r.Request, err = a.requestOf(ctx, r, last.requests); dispatch.Is(err, dispatch.NotFound) {
			return nil, nil
		}
		if err == nil {
			err = c.replace(&d, last.items, r)
		}
		if err != nil {
			return nil, err
		}
		next.live += count(!r.Status.Final()) - count(last.items.of(itemID{false, int64(r.ID)}).live)
	}
	if err := c.succeed(last.items, d); err != nil {
		return nil, err
	}
	c.snapshot.live = next.live > 0
	next.outline = c.snapshot.outline
	a.lists.keep(t, next)
	return c.snapshot, nil
}

// requestOf returns the request of a job, from those that are held or from the database.
func (a *api) requestOf(ctx context.Context, r dispatch.Record, held requests) (dispatch.Request, error) {
	if is, known := held[r.ID]; known {
		return is, nil
	}
	return a.Broker.Request(ctx, r)
}

// changed returns the jobs of a list that were saved after it was read. It reports false if it does not follow from
// them what the list shows now: if a job is new to the list or deleted, if it waits, or if its platform does not
// respond. Other jobs that have not ended may show a hold of their account or a platform that does not respond, without
// being saved; this is found out when the whole list is read, after usualInterval at the latest.
func (l *listState) changed(t topic, saved []dispatch.Job) (changed []dispatch.Record, ok bool) {
	others := l.live
	for _, j := range saved {
		if j.Task == 0 && !t.want.processing || j.Task != 0 && !t.want.upscaling {
			continue
		}
		was, known := l.items.get(itemID{false, int64(j.ID)})
		switch {
		case !known || j.Hidden || j.Phase.Inert() || j.Tries > 0 || j.Awaited:
			return nil, false
		case j.Version <= was.version:
			continue
		}
		others -= count(was.live)
		changed = append(changed, dispatch.Record{Job: j})
	}
	slices.SortFunc(changed, func(a, b dispatch.Record) int { return cmp.Compare(a.ID, b.ID) })
	return changed, others == 0 || time.Since(l.read) < usualInterval
}
