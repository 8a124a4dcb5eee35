package upstream

import (
	"context"
	"slices"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Follower reads documents that a server's response links to, such as the parts of its results.
type Follower struct {
	Client *Client
	Call   Call // how to read a document on the server's origin: all but its URL
	// AllowHosts are the other hosts that are read, without a token; empty: any public host.
	AllowHosts []string
}

// Follow reads a document: on the origin that the token is for as Client.Do does, and elsewhere as Client.Fetch does,
// without the token. Failures elsewhere are Invalid unless ctx has ended, because they say nothing about the server.
// The body has no NaN, see [Finite].
func (f Follower) Follow(ctx context.Context, href string) (*Answer, error) {
	if SameOrigin(href, f.Call.Origin) {
		call := f.Call
		call.URL = href
		return f.Client.Do(ctx, call)
	}
	a, err := f.Client.Fetch(ctx, Fetch{Op: f.Call.Op, URL: href, AllowHosts: f.AllowHosts})
	if err != nil && ctx.Err() == nil {
		return a, &dispatch.Error{Kind: dispatch.Invalid, Op: f.Call.Op, Text: dispatch.TextFor(err), Err: err}
	}
	if a != nil {
		a.Body = Finite(a.Body)
	}
	return a, err
}

// readAhead is how many documents a [Reader] reads at once.
const readAhead = 4

// Reader reads documents one after the other, while it already reads the next ones that are expected. One goroutine
// uses it.
type Reader struct {
	f       Follower
	ctx     context.Context
	cancel  context.CancelFunc
	next    []string                 // expected, not begun
	begun   map[string]chan followed // not taken yet
	reading sync.WaitGroup
}

type followed struct {
	a   *Answer
	err error
}

// Reader returns a reader, which the caller closes.
func (f Follower) Reader(ctx context.Context) *Reader {
	ctx, cancel := context.WithCancel(ctx)
	return &Reader{f: f, ctx: ctx, cancel: cancel, begun: map[string]chan followed{}}
}

// Expect announces documents that will be read next, in this order.
func (r *Reader) Expect(hrefs []string) { r.next = append(slices.Clone(hrefs), r.next...) }

// Read reads a document as [Follower.Follow] does.
func (r *Reader) Read(href string) (*Answer, error) {
	r.begin(href)
	for len(r.begun) < readAhead && len(r.next) > 0 {
		r.begin(r.next[0])
	}
	got := <-r.begun[href]
	delete(r.begun, href)
	return got.a, got.err
}

func (r *Reader) begin(href string) {
	r.next = slices.DeleteFunc(r.next, func(one string) bool { return one == href })
	if r.begun[href] != nil {
		return
	}
	done := make(chan followed, 1)
	r.begun[href] = done
	r.reading.Go(func() {
		a, err := recoverAsError(r.ctx, nil, func(ctx context.Context, _ *Answer) (*Answer, error) {
			return r.f.Follow(ctx, href)
		})
		done <- followed{a, err}
	})
}

// Close ends what was not read.
func (r *Reader) Close() {
	r.cancel()
	r.reading.Wait()
}

// MayPass reports whether a document that could not be read may be readable later. One that is not found at all is left
// out of results.
func MayPass(err error) bool {
	if err == nil {
		return false
	}
	switch dispatch.KindOf(err) {
	case dispatch.SignInRequired, dispatch.Busy, dispatch.Unavailable, dispatch.Uncertain:
		return true
	}
	return false
}
