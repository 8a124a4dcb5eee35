package live

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/live/socket"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// A stream of whole states sends everything each time. A stream of changes sends the state in parts, of which the first
// has the type status and the others the type changes, and then what changed.
const (
	MostElements = 1000 // jobs and tasks of a message of a stream of changes
	FewChanges   = 32   // are read without a place among the user's lists
	manyChanges  = 256  // are read at once
)

// state is what the client of a stream has.
type state struct {
	number   int64 // see broker.Records
	accounts []dispatch.AccountState
	live     bool // something has not ended
}

func stateOf(c dispatch.ChangedPage) state { return state{c.Number, c.Accounts, c.Live} }

// refresh has the platforms asked and sends the result: a stream of whole states always, a stream of changes only if
// there are any. The platforms are not asked, and a stream of changes reads nothing, if all has ended and nothing was
// signaled; after readAnew cycles it does, because a signal may be lost.
func (s *Stream) refresh(ctx context.Context, pending bool) error {
	if !s.Changes {
		if err := s.send(ctx, message("loading", s.Topic.Task, nil, "Asking the platforms.")); err != nil {
			return err
		}
	}
	if s.known && !s.state.live && !pending && s.unread < readAnew {
		if s.unread++; s.Changes {
			return nil
		}
	} else {
		s.unread = 0
		if err := s.Broker.Freshen(ctx, s.Topic.User, s.Topic.scope(), s.Freshness); err != nil {
			return err
		}
	}
	if s.Changes && s.known {
		return s.sendChanges(ctx)
	}
	c, err := s.NumberOf(ctx, s.Topic)
	if err != nil {
		return err
	}
	return s.sendState(ctx, stateOf(c))
}

// update sends what has changed.
func (s *Stream) update(ctx context.Context) error {
	if s.Changes {
		return s.sendChanges(ctx)
	}
	c, err := s.NumberOf(ctx, s.Topic)
	if err != nil || c.Number == s.state.number && slices.Equal(c.Accounts, s.state.accounts) {
		return err
	}
	return s.sendState(ctx, stateOf(c))
}

// sendState sends the whole topic, which was in a state before, or later.
func (s *Stream) sendState(ctx context.Context, before state) error {
	s.known, s.state, s.Size = true, before, 0
	release, err := s.EnterList(ctx, s.Topic.User)
	if err != nil {
		return err
	}
	defer release()
	return s.sendElements(ctx, s.ListingOf(ctx, s.Topic, dispatch.Page{}), nil)
}

// sendChanges sends what has changed since the state that the client has.
func (s *Stream) sendChanges(ctx context.Context) error {
	release, n := func() {}, FewChanges
	defer func() { release() }()
	s.Size = 0
	for after := dispatch.AfterNumber(s.state.number); ; {
		c, err := s.Broker.Changes(ctx, s.Topic.User, s.Topic.Task, after, n)
		switch {
		case err != nil:
			return call.TaskError(err)
		case c.Anew:
			release()
			release = func() {}
			return s.sendState(ctx, stateOf(c))
		}
		if err := s.sendPage(ctx, c); err != nil {
			return err
		}
		if !c.More {
			before := s.state
			s.state = stateOf(c)
			return s.sendAccounts(ctx, before.accounts)
		}
		after = c.Changed[len(c.Changed)-1].Place()
		if n == FewChanges {
			if release, err = s.EnterList(ctx, s.Topic.User); err != nil {
				release = func() {}
				return err
			}
			n = manyChanges
		}
	}
}

// sendPage sends a page of changes, if it has any that the client wants.
func (s *Stream) sendPage(ctx context.Context, c dispatch.ChangedPage) error {
	var tasks []*dispatch.TaskRecord
	var jobs []*dispatch.Record
	var removed wire.StatusChanges
	for _, e := range c.Changed {
		switch {
		case e.Job == 0 && !s.Topic.Want.Upscaling, e.Job != 0 && s.Topic.Task == 0 && !s.Topic.Want.Processing:
		case e.Job == 0 && e.Deleted:
			removed.RemovedTasks = append(removed.RemovedTasks, int64(e.Task))
		case e.Job == 0:
			tasks = append(tasks, e.Whole)
		case e.Deleted:
			removed.RemovedJobs = append(removed.RemovedJobs, int64(e.Job))
		default:
			jobs = append(jobs, e.Record)
		}
	}
	if c.Task == nil && len(tasks)+len(jobs)+len(removed.RemovedTasks)+len(removed.RemovedJobs) == 0 {
		return nil
	}
	return s.sendElements(ctx, listing{c.Task, inOrder(tasks), inOrder(jobs)}, &removed)
}

// sendAccounts sends the unfinished jobs at accounts whose state, as jobs show it, has changed.
func (s *Stream) sendAccounts(ctx context.Context, were []dispatch.AccountState) error {
	var differ []dispatch.Account
	for _, pair := range [][2][]dispatch.AccountState{{were, s.state.accounts}, {s.state.accounts, were}} {
		for _, a := range pair[0] {
			if !slices.Contains(pair[1], a) && !slices.Contains(differ, a.Account) {
				differ = append(differ, a.Account)
			}
		}
	}
	if len(differ) == 0 {
		return nil
	}
	release, err := s.EnterList(ctx, s.Topic.User)
	if err != nil {
		return err
	}
	defer release()
	l := s.ListingOf(ctx, s.Topic, dispatch.Page{Accounts: differ, Statuses: []dispatch.Status{dispatch.Accepted,
		dispatch.Submitted, dispatch.Queued, dispatch.Running, dispatch.Unknown}})
	return s.sendElements(ctx, l, &wire.StatusChanges{})
}

// sendElements sends jobs and tasks in messages, the first of which has the given type. A stream of whole states sends
// one. removed are the ids that the first message has; nil: the elements are the whole topic.
func (s *Stream) sendElements(ctx context.Context, l listing, removed *wire.StatusChanges) error {
	p := &parts{out: &outgoing{Stream: s, ctx: ctx}, removed: removed}
	p.Renderer = s.NewRenderer(ctx, p.out, s.Topic)
	p.cut = p.next
	defer p.Close()
	p.send(l)
	if p.err != nil && p.out.begun { // the message cannot be completed
		s.Socket.BeginClose(socket.InternalError, call.InternalText)
	}
	return p.err
}

// parts writes a listing in messages of a stream.
type parts struct {
	*Renderer
	out     *outgoing
	removed *wire.StatusChanges // of the present message, which has the type changes; nil: status
	whole   bool                // the present message has the task, not lists
	jobs    bool                // the present message has all its tasks
	n       int                 // elements of it
}

func (p *parts) send(l listing) {
	if p.topic.Task != 0 {
		if l.task == nil {
			task, err := p.ShareTask()
			p.Failed(err)
			l.task = &task
		} else {
			p.Failed(p.share(l.task))
		}
		l.tasks = inOrder([]*dispatch.TaskRecord{l.task})
	}
	if p.err != nil {
		return
	}
	p.begin(l)
	if !p.whole {
		p.tasks(l.tasks)
		p.beginJobs()
	}
	p.each(l.Jobs)
	p.end(false)
}

// begin begins the first message.
func (p *parts) begin(l listing) {
	kind, before := "changes", beforeLists
	if p.removed == nil {
		kind = "status"
	}
	if p.whole = l.task != nil && p.removed == nil; p.whole {
		before, p.jobs = p.frame(*l.task), true
	}
	head, _ := enclosing(kind, p.topic.Task)
	p.Text(head + before)
}

func (p *parts) beginJobs() {
	p.jobs = true
	p.Text(betweenLists)
}

// next begins a further message if the present one has all its elements.
func (p *parts) next() {
	if p.n++; p.n <= MostElements || !p.out.Changes {
		return
	}
	jobs := p.jobs
	p.end(true)
	p.removed, p.jobs, p.n = &wire.StatusChanges{}, false, 1
	if p.begin(listing{}); jobs {
		p.beginJobs()
	}
}

// end sends the present message. more: further parts of the same state follow.
func (p *parts) end(more bool) {
	if !p.jobs {
		p.beginJobs()
	}
	after := afterLists
	if p.removed != nil {
		text, err := dispatch.Encode(wire.StatusChanges{
			RemovedTasks: append([]int64{}, p.removed.RemovedTasks...),
			RemovedJobs:  append([]int64{}, p.removed.RemovedJobs...)})
		p.Failed(err)
		_, rest, _ := strings.Cut(string(text), `"processing_jobs":null`)
		after = "]" + rest
	}
	_, tail := enclosing("", p.topic.Task)
	if more {
		tail = `,"message":null,"more":true}`
	}
	p.Text(after + tail)
	p.Turn.ReleaseTurn()
	if p.err == nil {
		p.err = p.out.end()
	}
}

// outgoing is a message that is sent while it is written: at once if it is short, otherwise in parts, each of which the
// client must receive in time.
type outgoing struct {
	*Stream
	ctx    context.Context
	buffer bytes.Buffer
	begun  bool // a part of the message was sent
}

// Available returns how many bytes can be written without waiting for the client.
func (o *outgoing) Available() int { return limits.PieceSize - o.buffer.Len() }

// Write implements [io.Writer].
func (o *outgoing) Write(b []byte) (int, error) {
	for piece := range slices.Chunk(b, limits.PieceSize) {
		if len(piece) > o.Available() {
			if err := o.flush(false); err != nil {
				return 0, err
			}
		}
		o.buffer.Write(piece)
	}
	o.Size += len(b)
	return len(b), nil
}

func (o *outgoing) flush(isLast bool) error {
	isFirst := !o.begun
	o.begun = !isLast
	defer o.buffer.Reset()
	return unsent(o.ctx, o.Socket.SendPart(o.ctx, o.buffer.Bytes(), isFirst, isLast))
}

// end sends the rest of the message.
func (o *outgoing) end() error {
	o.Sent = time.Now()
	return o.flush(true)
}
