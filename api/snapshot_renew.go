package api

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	wholesFor      = time.Minute // how long a whole state is kept after it was last read
	wholesTogether = heldTogether / 2
)

// wholes keeps the last whole states of live tasks with many jobs, so that the next one copies the texts of the jobs
// that have not changed.
type wholes struct {
	least int // jobs of a task whose state is kept; all jobs of a smaller one take hardly more statements than its changes

	mu    sync.Mutex
	of    map[topic]*keptWhole
	bytes int // of their messages
}

type keptWhole struct {
	*snapshot
	expires *time.Timer
}

// jobText is what is known of the text of a job in a message, beside its position.
type jobText struct {
	id     int64
	queues bool // see dispatch.Record.TakesItsTurn
	place  placeIn
}

// noteText is called for each job of a task in the order of the message.
func (p *snapshot) noteText(j dispatch.Record, at placeIn) {
	p.texts = append(p.texts, jobText{int64(j.ID), j.TakesItsTurn(), at})
	if !j.Status.Final() && !slices.Contains(p.lines, j.Account) {
		p.lines = append(p.lines, j.Account)
	}
}

// keep keeps a state in the place of the last one of its topic, if there is room. It keeps none of a task that has
// ended: the parameters of its jobs are deleted at some time, which no revision shows.
func (w *wholes) keep(p *snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(p.topic, w.of[p.topic])
	if len(p.texts) < w.least || p.message == nil || p.base == nil || !p.live || w.bytes+len(p.message) > wholesTogether {
		return
	}
	if w.of == nil {
		w.of = map[topic]*keptWhole{}
	}
	is := &keptWhole{snapshot: p}
	w.of[p.topic], w.bytes = is, w.bytes+len(p.message)
	is.expires = time.AfterFunc(wholesFor, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.drop(p.topic, is)
	})
}

// drop removes a state if it is still there. w.mu is held.
func (w *wholes) drop(t topic, is *keptWhole) {
	if is != nil && w.of[t] == is {
		is.expires.Stop()
		w.bytes -= len(is.message)
		delete(w.of, t)
	}
}

// last returns the last state of a topic; nil if none is kept.
func (w *wholes) last(t topic) *snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[t] == nil {
		return nil
	}
	return w.of[t].snapshot
}

// asked are the statuses of jobs whose platform is asked for their status. The time of that is shown, and is no change
// of a revision.
var asked = []dispatch.Status{dispatch.Submitted, dispatch.Queued, dispatch.Running, dispatch.Unknown}

// renew returns the whole state that follows the last one; nil if none is kept, or if it cannot be made of the jobs
// that changed since.
func (a *api) renew(ctx context.Context, t topic) (*snapshot, error) {
	last := a.wholes.last(t)
	if last == nil {
		return nil, nil
	}
	is, next, err := a.changesSince(ctx, t, last.base)
	if next == nil || err != nil {
		return nil, err
	}
	n := 0
	for _, s := range asked {
		n += is.Task.Counts[s]
	}
	if n > mostChanged || is.Task.Counts.Status().Final() {
		return nil, nil
	}
	c := a.newSnapshotBuilder(ctx, t)
	defer c.close()
	c.task, c.shared = &is.Task, len(is.Task.Request.Parameters)
	p := c.snapshot
	p.base, p.largest, p.lines = next, last.largest, slices.Clone(last.lines)
	if err := c.renew(last, is); err != nil {
		return nil, taskError(err)
	}
	p.base.outline, p.base.largest = p.outline, p.largest
	a.revisions.keep(t, is.Revision.Revision, p.digest)
	a.followers.begin(t, p)
	a.wholes.keep(p)
	return p, nil
}

// renew makes the snapshot the one that follows a state.
func (c *snapshotBuilder) renew(last *snapshot, is dispatch.TaskChanges) error {
	t := last.topic
	read := make(map[int64]dispatch.Record, len(is.Jobs))
	for j, err := range c.Broker.TaskJobs(c.ctx, t.user, t.task, dispatch.Page{Statuses: asked}) {
		if err != nil {
			return err
		}
		// or else it has changed after the changes were read
		if jobDigest(j) == last.items.of(itemID{false, int64(j.ID)}).digest {
			read[int64(j.ID)] = j
		}
	}
	for _, j := range is.Jobs {
		read[int64(j.ID)] = j
	}
	places, err := c.places(last, is)
	if err != nil {
		return err
	}
	for _, text := range last.texts {
		ahead, waits := places[dispatch.JobID(text.id)]
		j, again := read[text.id]
		if again {
			if j.Ahead = nil; waits && j.TakesItsTurn() {
				j.Ahead = &ahead
			}
			err = c.addJob(j)
		} else {
			err = c.copyJob(last, text, ahead, waits)
		}
		if err != nil {
			return err
		}
	}
	if err := c.addTask(is.Task); err != nil {
		return err
	}
	return c.hold()
}

// places returns the places of the jobs of a task that wait for their turn.
func (c *snapshotBuilder) places(last *snapshot, is dispatch.TaskChanges) (map[dispatch.JobID]int, error) {
	lines := slices.Clone(last.lines)
	for _, j := range is.Jobs {
		lines = append(lines, j.Account)
	}
	slices.Sort(lines)
	all := map[dispatch.JobID]int{}
	for _, a := range slices.Compact(lines) {
		some, err := c.Broker.QueuePlaces(c.ctx, last.topic.user, last.topic.task, a)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// copyJob adds a job as it is in an earlier snapshot, apart from its place in the queue.
func (c *snapshotBuilder) copyJob(last *snapshot, is jobText, ahead int, waits bool) error {
	id := itemID{false, is.id}
	i := last.items.of(id)
	text := last.message[i.begin:i.end]
	before, after := text[:len(text)-is.place.begin], text[len(text)-is.place.end:]
	if c.line = c.line[:0]; waits && is.queues {
		c.line = appendPlace(c.line, ahead)
	}
	is.place = placeIn{len(c.line) + len(after), len(after)}
	c.snapshot.texts = append(c.snapshot.texts, is)
	return c.put(id, i, len(text), func() error { return c.separated(before, c.line, after) })
}
