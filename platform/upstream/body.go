package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// ErrTooLong is in the error of a response whose body is longer than the limit of its call.
var ErrTooLong = errors.New("the response is longer than the limit")

var errNoPlace = errors.New("too many large responses of this server are in memory")

// smallBody is the size in bytes up to which a response needs no place of a [Share].
const smallBody = 256 << 10

// readBody reads at most limit bytes of a body, as sent and as unpacked, and closes it.
func readBody(ctx context.Context, resp *http.Response, limit int64) ([]byte, error) {
	defer resp.Body.Close()
	sent := &io.LimitedReader{R: resp.Body, N: limit + 1}
	body := &io.LimitedReader{R: unpacked(resp, sent), N: limit + 1}
	var data bytes.Buffer
	_, err := io.CopyN(&data, body, min(smallBody, body.N))
	switch {
	case errors.Is(err, io.EOF):
		err = nil
	case err == nil && body.N > 0:
		if err = claim(ctx); err == nil {
			_, err = data.ReadFrom(body)
		}
	}
	if sent.N <= 0 || body.N <= 0 || errors.Is(err, ErrTooLong) {
		return nil, ErrTooLong
	}
	return data.Bytes(), err
}

// unpacked returns the uncompressed body. This package requests gzip itself, so that the compressed size is bounded
// too: members of gzip may be empty.
func unpacked(resp *http.Response, sent io.Reader) io.Reader {
	// the same (RFC 9110, 8.4.1.3)
	if coding := strings.ToLower(resp.Header.Get("Content-Encoding")); coding != "gzip" && coding != "x-gzip" {
		return sent
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	return &gunzip{sent: &io.LimitedReader{R: sent}}
}

// emptyMembers bounds the bytes that may arrive without any unpacked byte.
const emptyMembers = 1 << 20

// gunzip reads the gzip header at the first read, so that an empty body is not an error.
type gunzip struct {
	sent *io.LimitedReader
	from *gzip.Reader
}

// Read is [io.Reader.Read].
func (g *gunzip) Read(p []byte) (n int, err error) {
	g.sent.N = emptyMembers
	if g.from == nil {
		g.from, err = gzip.NewReader(g.sent)
	}
	if err == nil {
		n, err = g.from.Read(p)
	}
	if err != nil && g.sent.N <= 0 {
		err = ErrTooLong
	}
	return n, err
}

// Share bounds how many operations hold large responses of one server in memory at once (bound answers_held). Responses
// of up to 256 KiB do not count.
type Share struct{ places chan struct{} }

// NewShare returns a share for one server.
func NewShare() *Share { return &Share{make(chan struct{}, bounds.AnswersHeld.Most)} }

// Begin begins an operation. The first large response that is read with the returned context waits for a place; the
// operation keeps the place until end is called.
func (s *Share) Begin(ctx context.Context) (operation context.Context, end func()) {
	o := &holding{places: s.places, claimed: make(chan struct{}, 1), users: 1}
	return context.WithValue(ctx, holdingKey{}, o), o.end
}

// outlive returns a context for a request that may outlive the operation of ctx: it keeps the operation's place until
// its own end, or takes one of its own if the operation has ended.
func outlive(ctx context.Context) (request context.Context, end func()) {
	o, there := ctx.Value(holdingKey{}).(*holding)
	if !there {
		return ctx, func() {}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users == 0 {
		return (&Share{o.places}).Begin(ctx)
	}
	o.users++
	return ctx, o.end
}

type holdingKey struct{}

// holding is the place of an operation; claimed has an element if it is taken.
type holding struct {
	places, claimed chan struct{}

	mu    sync.Mutex
	users int // the operation, until it ends, and requests that may outlive it
}

// claim takes a place for the operation of ctx, unless it has one or there is no operation.
func claim(ctx context.Context) error {
	o, there := ctx.Value(holdingKey{}).(*holding)
	if !there {
		return nil
	}
	select {
	case o.claimed <- struct{}{}:
	default:
		return nil
	}
	select {
	case o.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-o.claimed
		return errNoPlace
	}
}

func (o *holding) end() {
	o.mu.Lock()
	o.users--
	last := o.users == 0
	o.mu.Unlock()
	if !last {
		return
	}
	select {
	case <-o.claimed:
		<-o.places
	default:
	}
}
