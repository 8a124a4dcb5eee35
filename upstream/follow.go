package upstream

import (
	"context"

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
