package live

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	largeText = 64 << 10 // bytes; larger parameters are not copied to be encoded
	slowest   = 16 << 10 // bytes per second that a client must receive after the first ChunkTime
)

// Renderer writes jobs and tasks as JSON. It holds one job in memory at a time, however long the list is.
type Renderer struct {
	*Lists
	Ctx    context.Context
	w      io.Writer
	topic  Topic
	Task   *dispatch.TaskRecord // the task whose jobs are written; nil: the jobs belong to no task
	items  int                  // written to the current array
	Turn   limits.HeavyTurn
	weight int    // bytes of the largest request for which memory is taken
	free   func() // releases that memory; nil: none is taken
	cut    func() // nil, or called before each element
	err    error  // the first one; nothing is written after it
}

// NewRenderer returns a renderer for a topic, which the caller must close.
func (a *Lists) NewRenderer(ctx context.Context, w io.Writer, t Topic) *Renderer {
	return &Renderer{Lists: a, Ctx: ctx, w: w, topic: t, Turn: a.HeavyTurn(t.User)}
}

func (r *Renderer) Close() {
	r.Turn.ReleaseTurn()
	r.unweigh()
}

// Err returns the first error of the renderer, and of what it was to write.
func (r *Renderer) Err() error { return r.err }

// Failed notes an error, and reports whether there was one so far.
func (r *Renderer) Failed(err error) bool {
	r.err = cmp.Or(r.err, err)
	return r.err != nil
}

// ended reports whether the elements of a list end with an error of reading or writing them. If not, the next element
// can be written.
func (r *Renderer) ended(err error) bool {
	if !r.Failed(err) && r.cut != nil {
		r.cut()
	}
	return r.err != nil
}

// Write writes a part of the list. It gives up the turn while that waits for the client, which may be slow.
func (r *Renderer) Write(b []byte) {
	if r.err != nil {
		return
	}
	if waits(r.w, len(b)) {
		r.Turn.ReleaseTurn()
	}
	if _, err := r.w.Write(b); !r.Failed(err) {
		r.err = r.Turn.Count(r.Ctx, len(b))
	}
}

// waits reports whether writing n bytes to w may wait for a client.
func waits(w io.Writer, n int) bool {
	if _, inMemory := w.(*bytes.Buffer); inMemory {
		return false
	}
	buffered, ok := w.(interface{ Available() int }) // as of [bufio.Writer]
	return !ok || n > buffered.Available()
}

// Reserve waits for memory, and then for a turn of heavy work.
func (r *Renderer) Reserve(bytes int) (release func(), err error) {
	r.Turn.ReleaseTurn()
	if release, err = r.AwaitMemory(r.Ctx, r.topic.User, bytes); err != nil {
		return nil, err
	}
	if err := r.Turn.Acquire(r.Ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// weigh takes memory for requests of that many bytes until unweigh is called. For a larger one than before it first
// releases what it has: nobody waits for memory and keeps some.
func (r *Renderer) weigh(bytes int) (err error) {
	if bytes <= r.weight {
		return nil
	}
	r.unweigh()
	if r.free, err = r.Reserve(bytes); err == nil {
		r.weight = bytes
	}
	return err
}

func (r *Renderer) unweigh() {
	if r.free != nil {
		r.free()
	}
	r.weight, r.free = 0, nil
}

// Text writes s, which stands between two arrays, and begins a new array.
func (r *Renderer) Text(s string) {
	r.items = 0
	r.Write([]byte(s))
}

// Element writes an element of the current array.
func (r *Renderer) Element(v any) {
	if text, err := dispatch.Encode(v); !r.Failed(err) {
		r.Separated(text)
	}
}

var comma = []byte(",")

// Separated writes an element of the current array, or a member of the current object, that is encoded already.
func (r *Renderer) Separated(texts ...[]byte) {
	if r.items++; r.items > 1 {
		r.Write(comma)
	}
	for _, t := range texts {
		r.Write(t)
	}
}

// Job writes a job. It writes nothing for a job that was purged after the list was read.
func (r *Renderer) Job(j dispatch.Record) {
	if r.mustLoadRequest(j) && j.Size > dispatch.PartMost {
		size := j.Size
		if r.Task != nil {
			size += len(r.Task.Request.Parameters)
		}
		if r.Failed(r.weigh(size)) {
			return
		}
		if r.Task == nil {
			defer r.unweigh()
		}
	}
	j, err := r.withWholeRequest(j)
	if !dispatch.Is(err, dispatch.NotFound) && !r.Failed(err) {
		r.summarized(r.Summary(j))
	}
}

// mustLoadRequest reports whether the job was read with only part of its request and more of it must be written.
func (r *Renderer) mustLoadRequest(j dispatch.Record) bool {
	return j.Cut && (!r.topic.Bare || r.Task == nil && j.Request.Service.Endpoint == "")
}

// withWholeRequest returns the job with all of its request that must be written.
func (r *Renderer) withWholeRequest(j dispatch.Record) (_ dispatch.Record, err error) {
	switch {
	case r.mustLoadRequest(j):
		j.Request, err = r.Broker.Request(r.Ctx, j)
	case r.Task != nil && r.topic.Bare:
		j.Request = r.Task.RequestHeadFor(j.Job)
	case r.Task != nil:
		j.Request, err = r.Task.RequestFor(j.Job, j.Value)
	}
	if r.topic.Bare {
		j.Request.Parameters = nil
	}
	return j, err
}

// summarized writes a job. It does not copy large parameters.
func (r *Renderer) summarized(j wire.ProcessingJobSummary) {
	parameters := j.Parameters
	if len(parameters) <= largeText {
		r.Element(j)
		return
	}
	j.Parameters = wire.Object("{}")
	text, err := dispatch.Encode(j)
	if r.Failed(err) {
		return
	}
	const none = `"parameters":{}`
	before, after, _ := bytes.Cut(text, []byte(none)) // within a JSON string the quotes would be escaped
	r.Separated(before, []byte(none[:len(none)-2]), parameters, after)
}

// Body returns a function that writes a response in pieces. It cuts the connection if the client receives too slowly,
// or if the response cannot be read to its end in time, so that the client does not take a part for the whole.
func (a *Lists) Body(write func(ctx context.Context, w io.Writer) error) func(huma.Context) {
	return func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		ctx, cancel := context.WithCancelCause(hc.Context())
		defer cancel(nil)
		out := newPieces(w, func() { cancel(facade.ErrTooSlow) })
		defer out.release()
		if err := errors.Join(write(ctx, out), out.flush()); err != nil {
			a.Log.WarnContext(ctx, "response broken off", "error", cmp.Or(context.Cause(ctx), err))
			panic(http.ErrAbortHandler)
		}
	}
}

// pieces sends a response piece by piece. The response may take as long as the client goes on receiving.
type pieces struct {
	w       http.ResponseWriter
	c       *http.ResponseController
	buffer  *bytes.Buffer
	written int
	begun   time.Time
	blocked time.Duration // time in which the client was not ready to receive
	late    *time.Timer   // runs while the next piece is made
	giveUp  func()
}

// newPieces returns a writer that calls giveUp if making the pieces takes longer than RequestWithin and than the time
// that the slowest client may take for the pieces already sent.
func newPieces(w http.ResponseWriter, giveUp func()) *pieces {
	return &pieces{w: w, c: http.NewResponseController(w), buffer: buffers.Get().(*bytes.Buffer), begun: time.Now(),
		late: time.AfterFunc(call.RequestWithin, giveUp), giveUp: giveUp}
}

// buffers are those of pieces, which would grow to that size for each response.
var buffers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, limits.PieceSize)) }}

// release must be called at the end.
func (p *pieces) release() {
	p.late.Stop()
	p.buffer.Reset()
	buffers.Put(p.buffer)
}

// Write implements [io.Writer].
func (p *pieces) Write(b []byte) (int, error) {
	if len(b) <= p.Available() {
		return p.buffer.Write(b)
	}
	if err := p.flush(); err != nil {
		return 0, err
	}
	for piece := range slices.Chunk(b, limits.PieceSize) {
		if err := p.send(piece); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Available returns how many bytes can be written without waiting for the client.
func (p *pieces) Available() int { return limits.PieceSize - p.buffer.Len() }

func (p *pieces) flush() error {
	defer p.buffer.Reset()
	return p.send(p.buffer.Bytes())
}

func (p *pieces) send(piece []byte) error {
	begin := time.Now()
	p.late.Stop()
	left := ChunkTime + time.Duration(p.written)*time.Second/slowest - p.blocked
	_ = p.c.SetWriteDeadline(begin.Add(min(left, ChunkTime))) // writers in tests may not support deadlines
	_, err := p.w.Write(piece)
	p.written += len(piece)
	p.blocked += time.Since(begin)
	left = call.RequestWithin + time.Duration(p.written)*time.Second/slowest - (time.Since(p.begun) - p.blocked)
	if left <= 0 { // a timer that is reset to run at once ends a test in synctest under the race detector (Go 1.26)
		p.giveUp()
	} else {
		p.late.Reset(left)
	}
	return err
}

// ChunkTime is the time in which a client must receive one piece of a stream.
const ChunkTime = time.Minute

// lastChunkTime replaces ChunkTime while the service stops.
const lastChunkTime = 5 * time.Second

func (a *Lists) ChunkTime() time.Duration {
	if a.Life.Err() != nil {
		return lastChunkTime
	}
	return ChunkTime
}

func (a *Lists) Pass(w http.ResponseWriter, from io.Reader) error {
	c := http.NewResponseController(w)
	stop := context.AfterFunc(a.Life, func() { c.SetWriteDeadline(time.Now().Add(lastChunkTime)) })
	defer stop()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			c.SetWriteDeadline(time.Now().Add(a.ChunkTime()))
			if _, err := w.Write(piece[:n]); err != nil {
				return err
			}
			if err := c.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// WithValue calls use with what is stored of a task's job. It does not for a job that was purged after the list was
// read.
func (r *Renderer) WithValue(t dispatch.Task, j dispatch.Record, use func(json.RawMessage)) {
	if !j.Cut {
		use(j.Value)
		return
	}
	release, err := r.Reserve(j.Size)
	if r.Failed(err) {
		return
	}
	defer release()
	whole, err := r.Broker.Request(r.Ctx, j)
	if !dispatch.Is(err, dispatch.NotFound) && !r.Failed(err) {
		use(t.ValueOf(whole))
	}
}
