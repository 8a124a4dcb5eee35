package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"io"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// topic is what is looked at together: a user's list, or one of their tasks.
type topic struct {
	user dispatch.UserID
	task dispatch.TaskID // 0: the list
	want filter          // of the list
	bare bool            // without parameters
}

func (t topic) scope() dispatch.Scope {
	return dispatch.Scope{Task: t.task, Alone: t.want.processing, Tasks: t.want.upscaling}
}

const (
	heldBytes    = 8 << 20  // of one picture
	heldTogether = 64 << 20 // of all
	smallPicture = 1 << 20  // held without asking for memory
	paintMemory  = 32 << 20 // what is taken for painting a larger one that is held
	elementSize  = 512      // of a job or task without parameters, about
	seenMessage  = 256 << 10
)

// picture is how a topic stands: read once for all who look. A small one is also encoded once. One that has more than heldBytes
// is not held: it is read and encoded anew for each client, a part at a time.
type picture struct {
	sight
	topic   topic
	task    *dispatch.TaskRecord // of the topic, as its jobs were counted; nil for a list. Its parameters are left out
	largest int                  // bytes of the largest request

	summary json.RawMessage // of the task
	message []byte          // as a stream sends it; nil: not held
	begin   int             // of the body, which is a JobsStatusResponse or an UpscalingTask, in message
	end     int

	mu   sync.Mutex
	was  *items // what the last difference is from
	news difference
}

// sight is what is told of a picture without its body.
type sight struct {
	live  bool   // something has not ended
	look  uint64 // differs where what is shown differs, but for the times of asking
	size  int    // bytes of the message, about
	items *items
}

// items are the looks of a picture's jobs and tasks, and where each stands in its message.
type items map[itemID]item

type itemID struct {
	task bool
	id   int64
}

type item struct {
	look       uint64
	begin, end int
}

// look gives a topic as it is known. Whoever asks while it is being read shares the next reading.
func (a *api) look(ctx context.Context, t topic) (*picture, error) {
	return a.readings.get(ctx, t, func(ctx context.Context) (*picture, error) {
		leave := a.reading.enter(t.user)
		defer leave()
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

// paint reads a topic, and encodes it while it is small enough to be held.
func (a *api) paint(ctx context.Context, t topic) (*picture, error) {
	c := &canvas{picture: &picture{topic: t, sight: sight{items: &items{}}}, held: true}
	c.renderer = renderer{api: a, ctx: ctx, w: &c.buffer, bare: t.bare, weighed: true}
	defer c.leave()
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.picture, c.hold()
}

// canvas is a picture that is being painted.
type canvas struct {
	renderer
	picture *picture
	buffer  bytes.Buffer
	held    bool   // so far
	release func() // of paintMemory; nil: it is not taken
	tally   dispatch.Tally
	shared  int // bytes that the jobs of a task share
}

func (c *canvas) leave() {
	if c.release != nil {
		c.release()
	}
}

func (c *canvas) read() error {
	t := c.picture.topic
	if t.task != 0 {
		return c.readTask(t)
	}
	if t.want.upscaling {
		for task, err := range c.Broker.Tasks(c.ctx, t.user, dispatch.Page{}) {
			if err != nil {
				return err
			}
			if err := c.put(itemID{true, int64(task.ID)}, taskLook(task), !task.Counts.Status().Final(), 0,
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
	return c.jobs(c.Broker.Jobs(c.ctx, t.user, dispatch.Page{}))
}

func (c *canvas) readTask(t topic) error {
	task, err := c.Broker.Task(c.ctx, t.user, t.task)
	if err != nil {
		return aboutTask(err)
	}
	c.task, c.shared = &task, len(task.Request.Parameters)
	if err := c.jobs(c.Broker.TaskJobs(c.ctx, t.user, t.task, dispatch.Page{})); err != nil {
		return aboutTask(err)
	}
	counted := c.tally.Of(task)
	c.picture.look += taskLook(counted)
	(*c.picture.items)[itemID{true, int64(task.ID)}] = item{look: taskLook(counted)}
	counted.Request.Parameters, counted.Request.Options = nil, nil
	c.picture.task = &counted
	c.picture.summary, err = encoded(c.taskSummary(counted))
	return err
}

func (c *canvas) jobs(all iter.Seq2[dispatch.Record, error]) error {
	for j, err := range all {
		if err != nil {
			return err
		}
		c.tally.Add(j.Job)
		size := j.Size
		if c.bare {
			size = 0
		} else {
			size += c.shared
		}
		if err := c.put(itemID{false, int64(j.ID)}, jobLook(j), !j.Status.Final(), size, func() error { return c.job(j) }); err != nil {
			return err
		}
	}
	return nil
}

// put adds an item, and encodes it if there is room. Its request has so many bytes.
func (c *canvas) put(id itemID, look uint64, live bool, size int, encode func() error) error {
	p, begin := c.picture, c.buffer.Len()
	p.look += look // in any order
	p.live = p.live || live
	p.largest = max(p.largest, size)
	p.size += size + elementSize
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
	(*p.items)[id] = item{look, begin, c.buffer.Len()}
	return nil
}

// room reports whether so many bytes more may be held. From smallPicture on that takes memory of what all large lists have, as far as
// the user has a share of it left.
func (c *canvas) room(size int) bool {
	whole := c.buffer.Len() + size
	if whole > smallPicture && c.release == nil && whole <= heldBytes {
		c.release = c.rendering.tryAcquire(c.picture.topic.user, paintMemory)
	}
	return whole <= smallPicture || c.release != nil && whole <= heldBytes
}

const (
	beforeLists  = `{"upscaling_tasks":[`
	betweenLists = `],"processing_jobs":[`
	afterLists   = `]}`
)

// frame is what stands around the elements of a picture's body.
func (a *api) frame(p *picture) (before, after string, err error) {
	if p.task == nil {
		return beforeLists, afterLists, nil
	}
	text, err := encoded(a.task(*p.task))
	return strings.TrimSuffix(string(text), "]}"), "]}", err
}

// hold makes the message of a picture that is small enough.
func (c *canvas) hold() error {
	if !c.held {
		return nil
	}
	p := c.picture
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
		(*p.items)[id] = item{i.look, i.begin + shift, i.end + shift}
	}
	return nil
}

// keepHeld counts the bytes of a picture until nobody has it any more, and reports false if there are too many. Small ones are
// always held.
func (a *api) keepHeld(p *picture, size int) bool {
	if a.heldNow.Add(int64(size)) > heldTogether && size > pieceSize {
		a.heldNow.Add(-int64(size))
		return false
	}
	runtime.AddCleanup(p, func(n int64) { a.heldNow.Add(-n) }, int64(size))
	return true
}

// pictureBody writes a picture's body: as it is held, or as it is by now.
func (a *api) pictureBody(ctx context.Context, w io.Writer, p *picture) error {
	if p.message != nil {
		_, err := w.Write(p.message[p.begin:p.end])
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, requestWithin, errTooSlow)
	defer cancel()
	leave, err := a.rendering.enterList(waiting, p.topic.user)
	if err != nil {
		return err
	}
	defer leave()
	before, after, err := a.frame(p)
	if err != nil {
		return err
	}
	r := &renderer{api: a, ctx: ctx, w: w, bare: p.topic.bare}
	if err := r.text(before); err != nil {
		return err
	}
	if p.topic.task != 0 {
		err = r.taskJobs(p)
	} else {
		err = r.lists(p.topic)
	}
	if err != nil {
		return err
	}
	return r.text(after)
}

// lists writes the tasks and jobs of a list.
func (r *renderer) lists(t topic) error {
	if t.want.upscaling {
		for task, err := range r.Broker.Tasks(r.ctx, t.user, dispatch.Page{}) {
			if err == nil {
				err = r.element(r.taskSummary(task))
			}
			if err != nil {
				return err
			}
		}
	}
	if err := r.text(betweenLists); err != nil || !t.want.processing {
		return err
	}
	return r.each(r.Broker.Jobs(r.ctx, t.user, dispatch.Page{}))
}

func (r *renderer) each(jobs iter.Seq2[dispatch.Record, error]) error {
	for j, err := range jobs {
		if err == nil {
			err = r.job(j)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// taskJobs writes the jobs of a task. What they share is in memory until the end.
func (r *renderer) taskJobs(p *picture) error {
	release, err := r.shares(p.topic, p.largest)
	if err != nil {
		return err
	}
	defer release()
	return r.each(r.Broker.TaskJobs(r.ctx, p.topic.user, p.topic.task, dispatch.Page{}))
}

// shares gets what the jobs of a task share, when there is memory for the largest of them.
func (r *renderer) shares(t topic, largest int) (release func(), err error) {
	if release, err = r.weigh(r.ctx, t.user, largest); err != nil {
		return nil, err
	}
	task, err := r.Broker.Task(r.ctx, t.user, t.task)
	if err != nil {
		release()
		return nil, err
	}
	r.task, r.weighed = &task, true
	return release, nil
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

// difference is what changed from one picture to another.
type difference struct {
	tasks, jobs               []int64
	removedTasks, removedJobs []int64
	message                   []byte // nil: the picture is not held
}

func (d difference) none() bool {
	return len(d.tasks)+len(d.jobs)+len(d.removedTasks)+len(d.removedJobs) == 0
}

// since is what changed after was. Its message is made once for all who saw the same.
func (p *picture) since(was *items) (difference, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if was == p.items {
		return difference{}, nil
	}
	if p.was == was {
		return p.news, nil
	}
	d := compare(*was, *p.items)
	if p.message != nil && !d.none() {
		tasks := p.shown(true, d.tasks)
		if p.task != nil && len(d.tasks) > 0 {
			tasks = []json.RawMessage{p.summary}
		}
		data, err := encoded(StatusChanges{UpscalingTasks: tasks, ProcessingJobs: p.shown(false, d.jobs),
			RemovedTasks: d.removedTasks, RemovedJobs: d.removedJobs})
		if err != nil {
			return d, err
		}
		d.message = message("changes", p.topic.task, data, "")
	}
	p.was, p.news = was, d
	return d, nil
}

func compare(was, is items) (d difference) {
	for id, i := range is {
		switch old, had := was[id]; {
		case had && old.look == i.look:
		case id.task:
			d.tasks = append(d.tasks, id.id)
		default:
			d.jobs = append(d.jobs, id.id)
		}
	}
	for id := range was {
		switch _, has := is[id]; {
		case has:
		case id.task:
			d.removedTasks = append(d.removedTasks, id.id)
		default:
			d.removedJobs = append(d.removedJobs, id.id)
		}
	}
	return d
}

// shown gives tasks or jobs of a picture that is held as they are in its message.
func (p *picture) shown(tasks bool, ids []int64) (all []json.RawMessage) {
	for _, id := range ids {
		if i := (*p.items)[itemID{tasks, id}]; i.begin < i.end {
			all = append(all, p.message[i.begin:i.end])
		}
	}
	return all
}

// seen is what a stream keeps of a picture that it sent: a short message to send it again, or what to compare the next with.
func (p *picture) seen(changes bool) *picture {
	s := &picture{sight: p.sight, topic: p.topic}
	if !changes {
		s.items = nil
	}
	if !changes && len(p.message) <= seenMessage {
		s.message = p.message
	}
	return s
}

// StatusChanges is what a stream sends that was asked for changes only: what is new or looks different, and the ids of
// what is gone.
type StatusChanges struct {
	UpscalingTasks []json.RawMessage `json:"upscaling_tasks"`
	ProcessingJobs []json.RawMessage `json:"processing_jobs"`
	RemovedTasks   []int64           `json:"removed_upscaling_tasks"`
	RemovedJobs    []int64           `json:"removed_processing_jobs"`
}

const readSingly = 32 // jobs that changed; of more, the whole list is read

// changes writes what changed in a picture that is not held, as it is by now.
func (r *renderer) changes(p *picture, d difference) error {
	if err := r.text(beforeLists); err != nil {
		return err
	}
	if err := r.changedTasks(p, d.tasks); err != nil {
		return err
	}
	if err := r.text(betweenLists); err != nil {
		return err
	}
	if err := r.changedJobs(p, d.jobs); err != nil {
		return err
	}
	removed, err := encoded(StatusChanges{RemovedTasks: d.removedTasks, RemovedJobs: d.removedJobs})
	if err != nil {
		return err
	}
	_, after, _ := bytes.Cut(removed, []byte(`"processing_jobs":null`))
	return r.text("]" + string(after))
}

func (r *renderer) changedTasks(p *picture, ids []int64) error {
	if p.task != nil && len(ids) > 0 {
		return r.element(r.taskSummary(*p.task))
	}
	if len(ids) == 0 {
		return nil
	}
	for t, err := range r.Broker.Tasks(r.ctx, p.topic.user, dispatch.Page{}) {
		if err == nil && slices.Contains(ids, int64(t.ID)) {
			err = r.element(r.taskSummary(t))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) changedJobs(p *picture, ids []int64) error {
	if len(ids) > readSingly {
		return r.someJobs(p, ids)
	}
	release, err := r.weigh(r.ctx, p.topic.user, p.largest)
	if err != nil {
		return err
	}
	defer release()
	for _, id := range ids {
		j, err := r.Broker.Read(r.ctx, p.topic.user, dispatch.JobID(id), dispatch.AsKnown)
		if dispatch.Is(err, dispatch.NotFound) {
			continue // the next message says that it is gone
		}
		if r.bare {
			j.Request.Parameters = nil
		}
		if err == nil {
			err = r.summarized(r.summary(j))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// someJobs writes those of a picture's jobs that have these ids.
func (r *renderer) someJobs(p *picture, ids []int64) error {
	wanted := make(map[dispatch.JobID]bool, len(ids))
	for _, id := range ids {
		wanted[dispatch.JobID(id)] = true
	}
	jobs := r.Broker.Jobs(r.ctx, p.topic.user, dispatch.Page{})
	if p.task != nil {
		release, err := r.shares(p.topic, p.largest)
		if err != nil {
			return err
		}
		defer release()
		jobs = r.Broker.TaskJobs(r.ctx, p.topic.user, p.topic.task, dispatch.Page{})
	}
	for j, err := range jobs {
		if err == nil && wanted[j.ID] {
			err = r.job(j)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	if data == nil {
		data = []byte("null")
	}
	head, tail := enclosing(kind, task)
	if text != "" {
		said, _ := json.Marshal(text)
		tail = `,"message":` + string(said) + `}`
	}
	return slices.Concat([]byte(head), data, []byte(tail))
}

// enclosing is what stands around the data of a message without text.
func enclosing(kind string, task dispatch.TaskID) (head, tail string) {
	head = `{"type":` + strconv.Quote(kind)
	if task != 0 {
		head += `,"task_id":` + strconv.FormatInt(int64(task), 10)
	}
	return head + `,"data":`, `,"message":null}`
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
