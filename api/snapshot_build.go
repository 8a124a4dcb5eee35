package api

import (
	"bytes"
	"context"
	"iter"
	"runtime"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// buildSnapshot reads a topic, and encodes it as long as it is small enough to be held.
func (a *api) buildSnapshot(ctx context.Context, t topic) (*snapshot, error) {
	c := a.newSnapshotBuilder(ctx, t)
	defer c.close()
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.snapshot, c.hold()
}

// snapshotBuilder builds a snapshot.
type snapshotBuilder struct {
	renderer
	snapshot *snapshot
	buffer   bytes.Buffer
	held     bool   // the snapshot is small enough so far
	release  func() // releases buildMemory; nil: it is not taken
	tally    dispatch.Tally
	shared   int // bytes that the jobs of a task share
}

// newSnapshotBuilder returns a builder, which the caller must close.
func (a *api) newSnapshotBuilder(ctx context.Context, t topic) *snapshotBuilder {
	c := &snapshotBuilder{snapshot: &snapshot{topic: t, outline: outline{items: &items{}}}, held: true}
	c.renderer = *a.newRenderer(ctx, &c.buffer, t.user, t.bare)
	c.weighed = true
	return c
}

func (c *snapshotBuilder) close() {
	c.turn.releaseTurn()
	if c.release != nil {
		c.release()
	}
}

func (c *snapshotBuilder) read() error {
	t := c.snapshot.topic
	if t.task != 0 {
		return c.readTask(t)
	}
	if t.want.upscaling {
		for task, err := range c.Broker.Tasks(c.ctx, t.user, dispatch.Page{}) {
			if err != nil {
				return err
			}
			if err := c.put(itemID{true, int64(task.ID)}, item{digest: taskDigest(task)}, !task.Counts.Status().Final(), 0,
				func() error { return c.element(c.taskSummary(task)) }); err != nil {
				return err
			}
		}
	}
	if c.held {
		if err := c.text(betweenLists); err != nil {
			return err
		}
	}
	if !t.want.processing {
		return nil
	}
	return c.jobs(func(p dispatch.Page) iter.Seq2[dispatch.Record, error] { return c.Broker.Jobs(c.ctx, t.user, p) },
		func(j dispatch.Record) dispatch.Place { return dispatch.Place{Created: j.Created, ID: int64(j.ID)} })
}

func (c *snapshotBuilder) readTask(t topic) error {
	task, err := c.Broker.Task(c.ctx, t.user, t.task)
	if err != nil {
		return taskError(err)
	}
	c.task, c.shared = &task, len(task.Request.Parameters)
	if err := c.jobs(func(p dispatch.Page) iter.Seq2[dispatch.Record, error] {
		return c.Broker.TaskJobs(c.ctx, t.user, t.task, p)
	},
		func(j dispatch.Record) dispatch.Place { return dispatch.Place{ID: int64(j.Number)} }); err != nil {
		return taskError(err)
	}
	counted := c.tally.CountsFor(task)
	c.snapshot.digest += taskDigest(counted)
	(*c.snapshot.items)[itemID{true, int64(task.ID)}] = item{digest: taskDigest(counted)}
	counted.Request.Parameters, counted.Request.Options = nil, nil
	c.snapshot.task = &counted
	c.snapshot.summary, err = dispatch.Encode(c.taskSummary(counted))
	return err
}

// jobs adds all jobs of a list; at returns where the list goes on after a job. Requests are read only as long as the snapshot is held.
func (c *snapshotBuilder) jobs(list func(dispatch.Page) iter.Seq2[dispatch.Record, error], at func(dispatch.Record) dispatch.Place) error {
	var last dispatch.Place
	for j, err := range list(dispatch.Page{}) {
		if err == nil {
			err = c.addJob(j)
		}
		if err != nil {
			return err
		}
		if last = at(j); !c.held {
			break
		}
	}
	if c.held {
		return nil
	}
	for j, err := range list(dispatch.Page{After: last, Most: -1}) {
		if err == nil {
			err = c.addJob(j)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *snapshotBuilder) addJob(j dispatch.Record) error {
	c.tally.Add(j.Job)
	c.snapshot.unsure = c.snapshot.unsure || j.TimeDependent()
	size := 0
	if !c.bare {
		size = j.Size + c.shared
	}
	i := item{digest: jobDigest(j), updated: j.Updated.UnixMicro()}
	return c.put(itemID{false, int64(j.ID)}, i, !j.Status.Final(), size, func() error { return c.job(j) })
}

// put adds an item, and encodes it if there is room. size is the bytes of its request.
func (c *snapshotBuilder) put(id itemID, i item, live bool, size int, encode func() error) error {
	p, begin := c.snapshot, c.buffer.Len()
	p.digest += i.digest // the sum does not depend on the order
	p.live = p.live || live
	p.largest = max(p.largest, size)
	p.size += size + elementSize
	if err := c.turn.count(c.ctx, elementSize); err != nil {
		return err
	}
	if c.held = c.held && c.room(size); c.held {
		if err := encode(); err != nil {
			return err
		}
		if begin < c.buffer.Len() && c.buffer.Bytes()[begin] == ',' {
			begin++
		}
	} else {
		c.buffer = bytes.Buffer{}
	}
	i.begin, i.end = begin, c.buffer.Len()
	(*p.items)[id] = i
	return nil
}

// room reports whether size more bytes may be held. Above smallSnapshot it takes buildMemory from the memory for large
// requests, if the user has a share of it left.
func (c *snapshotBuilder) room(size int) bool {
	whole := c.buffer.Len() + size
	if whole > smallSnapshot && c.release == nil && whole <= heldBytes {
		c.release = c.rendering.tryAcquire(c.snapshot.topic.user, buildMemory)
	}
	return whole <= smallSnapshot || c.release != nil && whole <= heldBytes
}

// hold completes the message of a snapshot that is small enough.
func (c *snapshotBuilder) hold() error {
	if !c.held {
		return nil
	}
	p := c.snapshot
	before, after, err := c.frame(p)
	if err != nil {
		return err
	}
	head, tail := enclosing("status", p.topic.task)
	shift := len(head) + len(before)
	size := shift + c.buffer.Len() + len(after) + len(tail)
	if !c.keepHeld(p, size) {
		return nil
	}
	p.message = slices.Concat([]byte(head), []byte(before), c.buffer.Bytes(), []byte(after), []byte(tail))
	p.begin, p.end, p.size = len(head), size-len(tail), size
	for id, i := range *p.items {
		i.begin, i.end = i.begin+shift, i.end+shift
		(*p.items)[id] = i
	}
	return nil
}

// keepHeld adds size to the bytes of all held snapshots until p is garbage. It reports false if there are too many;
// small snapshots are always held.
func (a *api) keepHeld(p *snapshot, size int) bool {
	if a.heldNow.Add(int64(size)) > heldTogether && size > pieceSize {
		a.heldNow.Add(-int64(size))
		return false
	}
	runtime.AddCleanup(p, func(n int64) { a.heldNow.Add(-n) }, int64(size))
	return true
}
