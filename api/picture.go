package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// topic is what is looked at together: a user's list, or one of their tasks.
type topic struct {
	user dispatch.UserID
	task dispatch.TaskID // 0: the list
	want filter          // of the list
}

func (t topic) scope() dispatch.Scope {
	return dispatch.Scope{Task: t.task, Alone: t.want.processing, Tasks: t.want.upscaling}
}

// picture is how a topic stands: read and encoded once for all who look.
type picture struct {
	body    []byte // a JobsStatusResponse or an UpscalingTask
	message []byte // the same as a stream sends it
	live    bool   // something has not ended
	look    uint64 // differs where what is shown differs, but for the times of asking
	task    dispatch.TaskID
	items   map[string]item

	mu   sync.Mutex
	was  *picture // what the last difference is from
	news []byte
}

// item is one job or task in a picture.
type item struct {
	look uint64
	show func() any
}

// look gives a topic as it is known. Whoever asks while it is being read shares the next reading.
func (a *api) look(ctx context.Context, t topic) (*picture, error) {
	return a.readings.get(ctx, t, func(ctx context.Context) (*picture, error) {
		a.reading <- struct{}{}
		defer func() { <-a.reading }()
		saved, stop := a.Broker.Answers(t.user)
		p, err := a.paint(ctx, t)
		if err != nil {
			stop()
			return nil, err
		}
		a.readings.keep(t, &kept{p, saved, stop})
		return p, nil
	})
}

func (a *api) paint(ctx context.Context, t topic) (*picture, error) {
	if t.task != 0 {
		task, jobs, err := a.Broker.ReadTask(ctx, t.user, t.task, dispatch.AsKnown)
		if err != nil {
			return nil, aboutTask(err)
		}
		return a.painted(t, []dispatch.TaskRecord{task}, jobs, a.task(task, jobs))
	}
	tasks, jobs, err := a.listed(ctx, t.user, t.want)
	if err != nil {
		return nil, err
	}
	return a.painted(t, tasks, jobs, a.list(tasks, jobs))
}

func (a *api) painted(t topic, tasks []dispatch.TaskRecord, jobs []dispatch.Record, body any) (*picture, error) {
	p := &picture{task: t.task, items: make(map[string]item, len(tasks)+len(jobs))}
	for _, r := range tasks {
		p.add("t"+strconv.FormatInt(int64(r.ID), 10), item{taskLook(r), func() any { return a.taskSummary(r) }},
			!r.Counts.Status().Final())
	}
	for _, r := range jobs {
		p.add("j"+strconv.FormatInt(int64(r.ID), 10), item{jobLook(r), func() any { return a.summary(r) }}, !r.Status.Final())
	}
	encoded, err := encoded(body)
	p.body, p.message = encoded, message("status", t.task, encoded, "")
	return p, err
}

func (p *picture) add(name string, i item, live bool) {
	p.items[name] = i
	p.live = p.live || live
	p.look += i.look // in any order
}

// jobLook is a job's looks: what its owner sees of it but when it was asked for.
func jobLook(r dispatch.Record) uint64 {
	return digest(int64(r.ID), r.Updated.UnixMicro(), string(r.Status), string(r.Attention), r.Notice)
}

func taskLook(r dispatch.TaskRecord) uint64 {
	counts, _ := json.Marshal(r.Counts) // of texts and numbers
	return digest(int64(r.ID), int64(r.Progress*1e6), string(counts), string(r.Attention))
}

func digest(id, n int64, texts ...string) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(id)), uint64(n)))
	for _, t := range texts {
		h.Write([]byte(t))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// since is the message of what changed after was; nil if nothing did. It is made once for all who saw the same.
func (p *picture) since(was *picture) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.was == was {
		return p.news, nil
	}
	changes := StatusChanges{Task: int64(p.task)}
	for name, i := range p.items {
		if old, had := was.items[name]; !had || old.look != i.look {
			changes.add(name, i)
		}
	}
	for name := range was.items {
		if _, has := p.items[name]; !has {
			changes.remove(name)
		}
	}
	p.was, p.news = was, nil
	if changes.none() {
		return nil, nil
	}
	data, err := encoded(changes)
	p.news = message("changes", p.task, data, "")
	return p.news, err
}

// StatusChanges is what a stream sends that was asked for changes only: what is new or looks different, and the ids of
// what is gone.
type StatusChanges struct {
	UpscalingTasks []any   `json:"upscaling_tasks"`
	ProcessingJobs []any   `json:"processing_jobs"`
	RemovedTasks   []int64 `json:"removed_upscaling_tasks"`
	RemovedJobs    []int64 `json:"removed_processing_jobs"`
	Task           int64   `json:"-"`
}

func (c *StatusChanges) none() bool {
	return len(c.UpscalingTasks)+len(c.ProcessingJobs)+len(c.RemovedTasks)+len(c.RemovedJobs) == 0
}

func (c *StatusChanges) add(name string, i item) {
	if name[0] == 't' {
		c.UpscalingTasks = append(c.UpscalingTasks, i.show())
	} else {
		c.ProcessingJobs = append(c.ProcessingJobs, i.show())
	}
}

func (c *StatusChanges) remove(name string) {
	id, _ := strconv.ParseInt(name[1:], 10, 64)
	if name[0] == 't' {
		c.RemovedTasks = append(c.RemovedTasks, id)
	} else {
		c.RemovedJobs = append(c.RemovedJobs, id)
	}
}

// encoded is v in JSON, in which the characters of parameters stay as they are.
func encoded(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// message is what a stream says. No data: null; no text: null.
func message(kind string, task dispatch.TaskID, data []byte, text string) []byte {
	var b bytes.Buffer
	b.Grow(len(data) + 100)
	b.WriteString(`{"type":` + strconv.Quote(kind))
	if task != 0 {
		b.WriteString(`,"task_id":` + strconv.FormatInt(int64(task), 10))
	}
	b.WriteString(`,"data":`)
	if data == nil {
		data = []byte("null")
	}
	b.Write(data)
	said := []byte("null")
	if text != "" {
		said, _ = json.Marshal(text)
	}
	b.WriteString(`,"message":`)
	b.Write(said)
	b.WriteByte('}')
	return b.Bytes()
}

const keepFor = 2 * time.Second // what another process saved may not be heard of

// kept is a picture that is true until something is saved.
type kept struct {
	picture *picture
	saved   <-chan struct{}
	stop    func()
}

// keep gives a picture to whoever asks for a moment, unless something was saved since it was begun.
func (s *readings) keep(t topic, k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(t, s.kept[t])
	if s.kept == nil {
		s.kept = map[topic]*kept{}
	}
	s.kept[t] = k
	time.AfterFunc(keepFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(t, k)
	})
}

// drop ends the keeping of k, if it is still kept. s.mu is held.
func (s *readings) drop(t topic, k *kept) {
	if k != nil && s.kept[t] == k {
		k.stop()
		delete(s.kept, t)
	}
}

// valid is the picture that is kept, nil if there is none. s.mu is held.
func (s *readings) valid(t topic) *picture {
	k := s.kept[t]
	if k == nil {
		return nil
	}
	select {
	case <-k.saved:
		s.drop(t, k)
		return nil
	default:
		return k.picture
	}
}

// readings lets all who ask for the same topic share a reading that began after they asked. So nobody is given what was
// read before a change that they know of, and there are two readings of a topic at most, one under way and one next.
type readings struct {
	mu   sync.Mutex
	of   map[topic]*reading
	kept map[topic]*kept
}

type reading struct {
	done     chan struct{}
	picture  *picture
	err      error
	panicked any
	next     *reading
}

func (s *readings) get(ctx context.Context, t topic, read func(context.Context) (*picture, error)) (*picture, error) {
	r := s.join(ctx, t, read)
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, &dispatch.Error{Kind: dispatch.Unavailable, Op: "api.look", Err: ctx.Err()}
	}
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.picture, r.err
}

func (s *readings) join(ctx context.Context, t topic, read func(context.Context) (*picture, error)) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.valid(t); p != nil {
		r := &reading{done: make(chan struct{}), picture: p}
		close(r.done)
		return r
	}
	if now := s.of[t]; now != nil {
		if now.next == nil {
			now.next = &reading{done: make(chan struct{})}
		}
		return now.next
	}
	r := &reading{done: make(chan struct{})}
	if s.of == nil {
		s.of = map[topic]*reading{}
	}
	s.of[t] = r
	go s.run(context.WithoutCancel(ctx), t, r, read)
	return r
}

func (s *readings) run(ctx context.Context, t topic, r *reading, read func(context.Context) (*picture, error)) {
	for r != nil {
		r.read(ctx, read)
		s.mu.Lock()
		next := r.next
		if s.of[t] = next; next == nil {
			delete(s.of, t)
		}
		s.mu.Unlock()
		close(r.done)
		r = next
	}
}

func (r *reading) read(ctx context.Context, read func(context.Context) (*picture, error)) {
	defer func() { r.panicked = recover() }()
	r.picture, r.err = read(ctx)
}
