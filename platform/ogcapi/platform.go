// Package ogcapi runs services on platforms that implement OGC API - Processes: Part 1 version 1.0 (OGC 18-062r2), its
// 2.0 draft, and the deviations of servers in the field.
//
// A job takes one request: it executes the process, and the server names the job. A listing returns nothing that the
// client sent, so a submission whose response was lost cannot be recognised. Everything below the configured endpoint,
// on its origin, belongs to the platform; its token is sent nowhere else.
package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// Config is the configuration of one platform.
type Config struct {
	Name     string   // as shown to users
	Endpoint string   // absolute URL below which /processes and /jobs lie, or the namespaces that contain them
	Aliases  []string // other URLs of the same endpoint

	Client *upstream.Client
	// hosts from which linked result documents may be read, without a token; empty: any public host
	AllowHosts []string
	Permits    dispatch.Permits // permissions of requests under a shared account
}

// Platform is a [dispatch.Platform] for one server. It holds no user state.
type Platform struct {
	Config
	endpoint     dispatch.Address
	aliases      []dispatch.Address
	descriptions *upstream.Cache[*description]
	listings     *upstream.Cache[[]json.RawMessage] // of processes
	answers      *upstream.Share                    // memory for large responses
}

var (
	_ dispatch.Platform   = (*Platform)(nil)
	_ dispatch.Lister     = (*Platform)(nil)
	_ dispatch.Canceler   = (*Platform)(nil)
	_ dispatch.SyncRunner = (*Platform)(nil)
	_ dispatch.Logger     = (*Platform)(nil)
	_ dispatch.Prober     = (*Platform)(nil)
)

// New returns a platform. It sends no request. An endpoint that is not an absolute URL matches no service.
func New(c Config) *Platform {
	p := &Platform{Config: c, answers: upstream.NewShare(), endpoint: root(c.Endpoint)}
	p.descriptions = upstream.NewCache(upstream.CacheConfig[*description]{Fresh: describeFor, MaxPause: describePause,
		Size: func(d *description) int { return 5 * d.size }})
	p.listings = upstream.NewCache(upstream.CacheConfig[[]json.RawMessage]{Fresh: describeFor, MaxPause: describePause,
		Size: sizeOf})
	for _, a := range c.Aliases {
		p.aliases = append(p.aliases, root(a))
	}
	return p
}

// TwoStep returns false: an execution starts at once.
func (p *Platform) TwoStep() bool { return false }

// at returns a URL below a base; base "" is the endpoint.
func (p *Platform) at(base string, segments ...string) string {
	if base == "" {
		base = p.endpoint.String()
	}
	for _, s := range segments {
		base += "/" + url.PathEscape(s)
	}
	return base
}

func (p *Platform) job(ref dispatch.Ref, segments ...string) string {
	return p.at(ref.Base, append([]string{"jobs", ref.ID}, segments...)...)
}

// call returns a request that carries the token, to the platform's own origin only, and asks for JSON, since some
// servers send HTML otherwise.
func (p *Platform) call(op, method, url string, t dispatch.Token) upstream.Call {
	return upstream.Call{Op: op, Server: "platform " + p.Name, Method: method, URL: url, Token: t.Secret,
		Origin: p.endpoint.Origin,
		Header: http.Header{"Accept": {mediaJSON}}}
}

func (p *Platform) get(ctx context.Context, op, url string, t dispatch.Token) (*upstream.Answer, error) {
	return p.Client.Do(ctx, p.call(op, http.MethodGet, url, t))
}

// Cancel dismisses the job. Dismissing a job that has ended removes it with its results.
func (p *Platform) Cancel(ctx context.Context, t dispatch.Token, ref dispatch.Ref) error {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	call := p.call("ogcapi.Cancel", http.MethodDelete, p.job(ref), t)
	call.Effect = true
	a, err := p.Client.Do(ctx, call)
	if err != nil && a != nil && a.Status == http.StatusForbidden && saysUnsupported(a.Body) {
		err = refine(err, dispatch.Unsupported, "The platform cannot stop jobs.")
	}
	return cmp.Or(aboutJob(a, err), upstream.PageInstead(call.Op, a))
}

// Remove removes an ended job, with its results: by the standard that is what a dismissal of an ended job does.
func (p *Platform) Remove(ctx context.Context, t dispatch.Token, ref dispatch.Ref) error {
	err := p.Cancel(ctx, t, ref)
	if dispatch.Is(err, dispatch.Unsupported) {
		return refine(err, dispatch.Unsupported, "The platform cannot remove jobs.")
	}
	return err
}

// Probe reads the list of processes. Platforms with namespaces may have no list at the endpoint; there any JSON
// document of the API suffices.
func (p *Platform) Probe(ctx context.Context, t dispatch.Token) error {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	const op = "ogcapi.Probe"
	for _, path := range []string{"/processes?limit=1", "/conformance", "/"} {
		a, err := p.get(ctx, op, p.at("")+path, t)
		switch {
		case dispatch.Is(err, dispatch.NotFound), dispatch.Is(err, dispatch.Invalid),
			dispatch.Is(err, dispatch.Unsupported): // servers differ in how they refuse a path that they do not have
			continue
		case err != nil:
			return err
		}
		var document map[string]any
		return upstream.JSON(a, op, &document)
	}
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: op,
		Text: "There is no OGC API - Processes at " + p.at("") + ": neither /processes nor /conformance was found."}
}

// OpenFile implements [dispatch.FileOpener].
func (p *Platform) OpenFile(ctx context.Context, t dispatch.Token, r dispatch.FileRequest) (*dispatch.File, error) {
	return p.Client.Relay(ctx, upstream.Relay{Op: "ogcapi.OpenFile", FileRequest: r, Token: t.Secret,
		Origin: p.endpoint.Origin})
}

// refine replaces the kind and text of an error of package upstream.
func refine(err error, kind dispatch.Kind, text string) error {
	e := &dispatch.Error{Kind: kind, Text: text, Err: err}
	if u, ok := asError(err); ok {
		e.Op, e.RetryAfter, e.Answered = u.Op, u.RetryAfter, u.Answered
		if text == "" {
			e.Text = u.Text
		}
	}
	return e
}
