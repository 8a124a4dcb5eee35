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
	packed   *packed // what was in buffer before; nil: the snapshot is small enough to be held as it is
	held     bool    // the snapshot is small enough so far, also if it is packed
	release  func()  // releases buildMemory; nil: it is not taken
	tally    dispatch.Tally
	shared   int      // bytes that the jobs of a task share
	widest   int      // bytes of the largest stored request, whether it is shown or not
	requests requests // see listState; nil: none are collected
	kept     int      // bytes of requests
}

// newSnapshotBuilder returns a builder, which the caller must close.
func (a *api) newSnapshotBuilder(ctx context.Context, t topic) *snapshotBuilder {
	c := &snapshotBuilder{snapshot: &snapshot{topic: t, outline: outline{items: newItems()}}, held: true}
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
			if err := c.put(itemID{true, int64(task.ID)}, item{digest: taskDigest(task), live: !task.Counts.Status().Final()}, 0,
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
		dispatch.Record.Place)
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
	counted, err := c.Broker.ForecastTask(c.ctx, c.tally.CountsFor(task))
	if err != nil {
		return err
	}
	return c.addTask(counted)
}

// addTask adds the task whose jobs were added.
func (c *snapshotBuilder) addTask(task dispatch.TaskRecord) (err error) {
	p, digest := c.snapshot, taskDigest(task)
	p.digest += digest
	p.items.put(itemID{true, int64(task.ID)}, item{digest: digest})
	task.Request.Parameters, task.Request.Options = nil, nil
	p.task = &task
	p.summary, err = dispatch.Encode(c.taskSummary(task))
	return err
}

// jobs adds all jobs of a list; at returns where the list goes on after a job. Requests are read only as long as the
// snapshot is held.
func (c *snapshotBuilder) jobs(list func(dispatch.Page) iter.Seq2[dispatch.Record, error],
	at func(dispatch.Record) dispatch.Place) error {
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
	c.widest = max(c.widest, j.Size)
	c.keepRequest(j)
	size := 0
	if !c.bare {
		size = j.Size + c.shared
	}
	c.snapshot.largest = max(c.snapshot.largest, size)
	i := item{digest: jobDigest(j), updated: j.Updated.UnixMicro(), version: j.Version, live: !j.Status.Final()}
	if err := c.put(itemID{false, int64(j.ID)}, i, size, func() error { return c.job(j) }); err != nil || j.Task == 0 {
		return err
	}
	c.snapshot.noteText(j, c.place)
	return nil
}

// keepRequest keeps the request of a live job that was read as a whole.
func (c *snapshotBuilder) keepRequest(j dispatch.Record) {
	if c.requests == nil || j.Status.Final() || j.Cut || c.kept+j.Size > requestsHeld {
		return
	}
	c.requests[j.ID] = j.Request
	c.kept += j.Size
}

// put adds an item, and encodes it if there is room. size is the bytes of its request.
func (c *snapshotBuilder) put(id itemID, i item, size int, encode func() error) error {
	p, begin := c.snapshot, c.buffer.Len()
	p.digest += i.digest // the sum does not depend on the order
	p.live = p.live || i.live
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
		c.buffer, c.packed = bytes.Buffer{}, nil
	}
	i.begin, i.end = begin, c.buffer.Len()
	p.items.put(id, i)
	return nil
}

// room reports whether size more bytes may be held. Above smallSnapshot it takes buildMemory from the memory for large
// requests, if the user has a share of it left.
func (c *snapshotBuilder) room(size int) bool {
	whole := c.buffer.Len() + size
	if c.packed == nil && whole <= smallSnapshot {
		return true
	}
	if c.release == nil && size <= heldBytes {
		c.release = c.rendering.tryAcquire(c.snapshot.topic.user, buildMemory)
	}
	switch {
	case c.release == nil || size > heldBytes:
		return false
	case c.packed == nil && whole <= heldBytes:
		return true
	}
	return c.pack()
}

// pack compresses what was encoded, if it is a piece or more. It reports whether all of it together may be held.
func (c *snapshotBuilder) pack() bool {
	if c.packed == nil {
		c.packed = &packed{}
		c.packed.add(c.buffer.Bytes())
		c.buffer = bytes.Buffer{} // its memory was that of a whole snapshot
	}
	if c.buffer.Len() >= pieceSize {
		c.packed.add(c.buffer.Bytes())
		c.buffer.Reset()
	}
	return c.packed.size <= heldBytes
}

// hold completes a snapshot that is small enough.
func (c *snapshotBuilder) hold() error {
	switch {
	case !c.held:
		return nil
	case c.packed == nil:
		return c.holdMessage()
	}
	c.packed.add(c.buffer.Bytes())
	if c.keepHeld(c.snapshot, c.packed.size) {
		c.snapshot.packed = c.packed
	}
	return nil
}

// holdMessage completes the message of a snapshot.
func (c *snapshotBuilder) holdMessage() error {
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
	p.items.shift(shift)
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
