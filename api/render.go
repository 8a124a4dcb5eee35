package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	weighWithin = 30 * time.Second
	largeText   = 64 << 10 // bytes; larger parameters are not copied to be encoded
	pieceSize   = 64 << 10 // bytes that are sent to a client at once
	slowest     = 16 << 10 // bytes per second that a client must receive after the first chunkTime
)

var errManyLarge = refusal{status: http.StatusServiceUnavailable, code: "SERVICE_UNAVAILABLE",
	header: retryAfter(5 * time.Second),
	message: "The memory for large requests is in use. Repeat the request in a few seconds, or list jobs with " +
		"parameters=false."}

// awaitMemory waits until memory for requests of that many bytes is free. It takes three times the size, because a
// request is in memory as read from the database, decoded, and encoded. It returns errManyLarge after weighWithin.
func (a *api) awaitMemory(ctx context.Context, u dispatch.UserID, bytes int) (release func(), err error) {
	within, cancel := context.WithTimeout(ctx, weighWithin)
	defer cancel()
	if release, err = a.rendering.acquire(within, u, 3*int64(bytes)); err != nil {
		return nil, cmp.Or(ctx.Err(), error(errManyLarge))
	}
	return release, nil
}

// renderer writes jobs and tasks as JSON. It holds one job in memory at a time, however long the list is.
type renderer struct {
	*api
	ctx    context.Context
	w      io.Writer
	topic  topic
	task   *dispatch.TaskRecord // the task whose jobs are written; nil: the jobs belong to no task
	items  int                  // written to the current array
	turn   heavyTurn
	weight int          // bytes of the largest request for which memory is taken
	free   func()       // releases that memory; nil: none is taken
	cut    func() error // nil, or called before each element
}

// newRenderer returns a renderer for a topic, which the caller must close.
func (a *api) newRenderer(ctx context.Context, w io.Writer, t topic) *renderer {
	return &renderer{api: a, ctx: ctx, w: w, topic: t, turn: heavyTurn{work: a.heavy, user: t.user}}
}

func (r *renderer) close() {
	r.turn.releaseTurn()
	r.unweigh()
}

func (r *renderer) next() error {
	if r.cut == nil {
		return nil
	}
	return r.cut()
}

// write writes a part of the list. It gives up the turn while that waits for the client, which may be slow.
func (r *renderer) write(b []byte) error {
	if waits(r.w, len(b)) {
		r.turn.releaseTurn()
	}
	if _, err := r.w.Write(b); err != nil {
		return err
	}
	return r.turn.count(r.ctx, len(b))
}

// waits reports whether writing n bytes to w may wait for a client.
func waits(w io.Writer, n int) bool {
	if _, inMemory := w.(*bytes.Buffer); inMemory {
		return false
	}
	buffered, ok := w.(interface{ Available() int }) // as of [bufio.Writer]
	return !ok || n > buffered.Available()
}

// reserve waits for memory, and then for a turn of heavy work.
func (r *renderer) reserve(bytes int) (release func(), err error) {
	r.turn.releaseTurn()
	if release, err = r.awaitMemory(r.ctx, r.topic.user, bytes); err != nil {
		return nil, err
	}
	if err := r.turn.acquire(r.ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// weigh takes memory for requests of that many bytes until unweigh is called. For a larger one than before it first
// releases what it has: nobody waits for memory and keeps some.
func (r *renderer) weigh(bytes int) (err error) {
	if bytes <= r.weight {
		return nil
	}
	r.unweigh()
	if r.free, err = r.reserve(bytes); err == nil {
		r.weight = bytes
	}
	return err
}

func (r *renderer) unweigh() {
	if r.free != nil {
		r.free()
	}
	r.weight, r.free = 0, nil
}

// text writes s, which stands between two arrays, and begins a new array.
func (r *renderer) text(s string) error {
	r.items = 0
	return r.write([]byte(s))
}

// element writes an element of the current array.
func (r *renderer) element(v any) error {
	text, err := dispatch.Encode(v)
	if err != nil {
		return err
	}
	return r.separated(text)
}

var comma = []byte(",")

func (r *renderer) separated(texts ...[]byte) error {
	if r.items++; r.items > 1 {
		if err := r.write(comma); err != nil {
			return err
		}
	}
	for _, t := range texts {
		if err := r.write(t); err != nil {
			return err
		}
	}
	return nil
}

// job writes a job. It writes nothing for a job that was purged after the list was read.
func (r *renderer) job(j dispatch.Record) error {
	if r.mustLoadRequest(j) {
		size := j.Size
		if r.task != nil {
			size += len(r.task.Request.Parameters)
		}
		if err := r.weigh(size); err != nil {
			return err
		}
		if r.task == nil {
			defer r.unweigh()
		}
	}
	j, err := r.withWholeRequest(j)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return nil
	case err != nil:
		return err
	}
	return r.summarized(r.summary(j))
}

// mustLoadRequest reports whether the job was read with only part of its request and more of it must be written.
func (r *renderer) mustLoadRequest(j dispatch.Record) bool {
	return j.Cut && (!r.topic.bare || r.task == nil && j.Request.Service.Endpoint == "")
}

// withWholeRequest returns the job with all of its request that must be written.
func (r *renderer) withWholeRequest(j dispatch.Record) (_ dispatch.Record, err error) {
	switch {
	case r.mustLoadRequest(j):
		j.Request, err = r.Broker.Request(r.ctx, j)
	case r.task != nil && r.topic.bare:
		j.Request = r.task.RequestHeadFor(j.Job)
	case r.task != nil:
		j.Request, err = r.task.RequestFor(j.Job, j.Value)
	}
	if r.topic.bare {
		j.Request.Parameters = nil
	}
	return j, err
}

// summarized writes a job. It does not copy large parameters.
func (r *renderer) summarized(j wire.ProcessingJobSummary) error {
	parameters := j.Parameters
	if len(parameters) <= largeText {
		return r.element(j)
	}
	j.Parameters = wire.Object("{}")
	text, err := dispatch.Encode(j)
	if err != nil {
		return err
	}
	const none = `"parameters":{}`
	before, after, _ := bytes.Cut(text, []byte(none)) // within a JSON string the quotes would be escaped
	return r.separated(before, []byte(none[:len(none)-2]), parameters, after)
}

// body returns a function that writes a response in pieces. It cuts the connection if the client receives too slowly,
// or if the response cannot be read to its end in time, so that the client does not take a part for the whole.
func (a *api) body(write func(ctx context.Context, w io.Writer) error) func(huma.Context) {
	return func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		ctx, cancel := context.WithCancelCause(hc.Context())
		defer cancel(nil)
		out := newPieces(w, func() { cancel(facade.ErrTooSlow) })
		defer out.late.Stop()
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
	buffer  bytes.Buffer
	written int
	begun   time.Time
	blocked time.Duration // time in which the client was not ready to receive
	late    *time.Timer   // runs while the next piece is made
}

// newPieces returns a writer that calls giveUp if making the pieces takes longer than requestWithin and than the time
// that the slowest client may take for the pieces already sent.
func newPieces(w http.ResponseWriter, giveUp func()) *pieces {
	return &pieces{w: w, c: http.NewResponseController(w), begun: time.Now(), late: time.AfterFunc(requestWithin, giveUp)}
}

// Write implements [io.Writer].
func (p *pieces) Write(b []byte) (int, error) {
	if len(b) <= p.Available() {
		return p.buffer.Write(b)
	}
	if err := p.flush(); err != nil {
		return 0, err
	}
	for piece := range slices.Chunk(b, pieceSize) {
		if err := p.send(piece); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Available returns how many bytes can be written without waiting for the client.
func (p *pieces) Available() int { return pieceSize - p.buffer.Len() }

func (p *pieces) flush() error {
	defer p.buffer.Reset()
	return p.send(p.buffer.Bytes())
}

func (p *pieces) send(piece []byte) error {
	begin := time.Now()
	p.late.Stop()
	left := chunkTime + time.Duration(p.written)*time.Second/slowest - p.blocked
	_ = p.c.SetWriteDeadline(begin.Add(min(left, chunkTime))) // writers in tests may not support deadlines
	_, err := p.w.Write(piece)
	p.written += len(piece)
	p.blocked += time.Since(begin)
	p.late.Reset(requestWithin + time.Duration(p.written)*time.Second/slowest - (time.Since(p.begun) - p.blocked))
	return err
}
