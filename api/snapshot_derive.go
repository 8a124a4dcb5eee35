package api

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	mostChanged = 1000 // jobs; for more changes at once the whole task is read
	// how late a change may be committed after its time, for it to be found without reading the whole task
	commitLag = time.Second
)

// base is what the next snapshot of a task is derived from: the revision of the jobs that were read.
type base struct {
	outline
	revision dispatch.Revision
	since    time.Time // jobs that changed later may have been read before that
	largest  int
}

// baseOf returns the base of a snapshot that was read between two revisions; nil if what its jobs show apart from their
// own changes may have changed meanwhile.
func baseOf(p *snapshot, before, after dispatch.TaskRevision) *base {
	b := &base{outline: p.outline, revision: before.Revision, since: time.UnixMicro(before.Updated), largest: p.largest}
	b.revision.Jobs, b.revision.Updated, b.revision.Sums = p.items.revision()
	if unmoved(before.Revision) != unmoved(b.revision) || unmoved(before.Revision) != unmoved(after.Revision) ||
		before.Hold != after.Hold || before.Wakes != after.Wakes {
		return nil
	}
	return b
}

// unmoved returns a revision without what each job changes by itself.
func unmoved(r dispatch.Revision) dispatch.Revision {
	r.Updated, r.Sums = 0, [2]int64{}
	return r
}

// followers keeps the last state of each task for as long as streams of changes watch it.
type followers struct {
	mu sync.Mutex
	of map[topic]*followed
}

type followed struct {
	streams int
	last    *base
}

// enter counts a stream of changes.
func (f *followers) enter(t topic) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[topic]*followed{}
	}
	if f.of[t] == nil {
		f.of[t] = &followed{}
	}
	f.of[t].streams++
	return func() { f.leave(t) }
}

func (f *followers) leave(t topic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[t].streams--; f.of[t].streams == 0 {
		delete(f.of, t)
	}
}

// follow reports whether streams of changes watch a topic.
func (f *followers) follow(t topic) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[t] != nil
}

// last returns the last state of a topic; nil if it is not known.
func (f *followers) last(t topic) *base {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[t] == nil {
		return nil
	}
	return f.of[t].last
}

// begin keeps a state to derive the first changes from. It does not replace one: the streams that were sent that one
// would be sent what changed after it once more, because it would not be known from which state the next one was
// derived.
func (f *followers) begin(t topic, p *snapshot) {
	if f.last(t) == nil {
		f.keep(t, p)
	}
}

func (f *followers) keep(t topic, p *snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[t] != nil {
		f.of[t].last = p.base
	}
}

// readChanges is readSnapshot for streams of changes of a task. It reads only the jobs that changed since the last such
// read, and so the snapshot mostly lacks its body. Callers that ask while it is read share the next read.
func (a *api) readChanges(ctx context.Context, t topic) (*snapshot, error) {
	t.news = true
	return a.readShared(ctx, t, a.buildChanges)
}

func (a *api) buildChanges(ctx context.Context, t topic) (*snapshot, error) {
	t.news = false
	if last := a.followers.last(t); last != nil {
		if p, err := a.derive(ctx, t, last); p != nil || err != nil {
			return p, err
		}
	}
	p, err := a.buildRevised(ctx, t)
	if err == nil {
		a.followers.keep(t, p)
	}
	return p, err
}

// derive returns the snapshot that follows a state; nil if it cannot be derived from the jobs that changed since. That
// the revision is the same proves that no other job has changed.
func (a *api) derive(ctx context.Context, t topic, last *base) (*snapshot, error) {
	is, next, err := a.changesSince(ctx, t, last)
	if next == nil || err != nil {
		return nil, err
	}
	c := a.newSnapshotBuilder(ctx, t)
	defer c.close()
	c.task, c.shared = &is.Task, len(is.Task.Request.Parameters)
	p := c.snapshot
	p.base = next
	if err := c.follow(last, is); err != nil {
		return nil, taskError(err)
	}
	p.base.outline, p.base.largest = p.outline, p.largest
	a.followers.keep(t, p)
	return p, nil
}

// changesSince returns the jobs that changed since a state and the base of the next one, which lacks its outline; no
// base if other jobs may look different, too.
func (a *api) changesSince(ctx context.Context, t topic, last *base) (is dispatch.TaskChanges, next *base, err error) {
	is, err = a.Broker.TaskChanges(ctx, t.user, t.task, last.since.Add(-commitLag), mostChanged)
	if err != nil {
		return is, nil, taskError(err)
	}
	if is.Revision.TimeDependent > 0 || len(is.Jobs) == mostChanged ||
		unmoved(is.Revision.Revision) != unmoved(last.revision) {
		return is, nil, nil
	}
	next = &base{revision: is.Revision.Revision, since: time.UnixMicro(is.Revision.Updated)}
	if !next.follows(last, is.Jobs) {
		return is, nil, nil
	}
	return is, next, nil
}

// follows reports whether b has the revision that results from a state by these changed jobs.
func (b *base) follows(last *base, changed []dispatch.Record) bool {
	sums := last.revision.Sums
	for _, j := range changed {
		was, known := last.items.get(itemID{false, int64(j.ID)})
		if !known {
			return false
		}
		sums = dispatch.SumUpdated(sums, j.Updated.UnixMicro())
		less := dispatch.SumUpdated([2]int64{}, was.updated)
		sums[0], sums[1] = sums[0]-less[0], sums[1]-less[1]
	}
	return sums == b.revision.Sums
}

// follow makes the snapshot the one that follows a state, and encodes what changed.
func (c *snapshotBuilder) follow(last *base, is dispatch.TaskChanges) (err error) {
	p, task := c.snapshot, is.Task
	c.begin(last.outline, last.largest)
	var d difference
	for _, j := range is.Jobs {
		if err := c.replace(&d, last.items, j); err != nil {
			return err
		}
	}
	task.Request.Parameters, task.Request.Options = nil, nil
	p.task, p.live = &task, !task.Counts.Status().Final()
	if p.summary, err = dispatch.Encode(c.taskSummary(task)); err != nil {
		return err
	}
	id, digest := itemID{true, int64(task.ID)}, taskDigest(task)
	was := last.items.of(id).digest
	if p.digest += digest - was; digest != was {
		p.items.put(id, item{digest: digest})
		d.tasks = append(d.tasks, id.id)
	}
	return c.succeed(last.items, d)
}

// begin makes the snapshot equal to an earlier one, apart from its items.
func (c *snapshotBuilder) begin(last outline, largest int) {
	c.snapshot.outline, c.snapshot.largest = outline{digest: last.digest, size: last.size, items: newItems()}, largest
}

// replace puts a job in the place of what it was, if it looks different.
func (c *snapshotBuilder) replace(d *difference, last *items, j dispatch.Record) error {
	id := itemID{false, int64(j.ID)}
	was := last.of(id).digest
	if was == jobDigest(j) {
		return nil
	}
	c.snapshot.digest -= was
	d.jobs = append(d.jobs, id.id)
	return c.addJob(j)
}

// succeed adds the items that have not changed, and encodes the difference.
func (c *snapshotBuilder) succeed(last *items, d difference) error {
	p := c.snapshot
	if c.held && c.packed == nil && !d.none() {
		if err := p.encode(&d, c.buffer.Bytes(), p.items); err != nil {
			return err
		}
	}
	p.was, p.news = last, d
	changed := p.items
	if p.items = last; !d.none() {
		p.items = last.with(changed)
	}
	return nil
}
