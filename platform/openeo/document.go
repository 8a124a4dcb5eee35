package openeo

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	documentWithin = 10 * time.Second // for one fetch, including redirects
	documentPause  = 10 * time.Minute // longest pause of an address that does not respond
)

var _ dispatch.Preparer = (*Platform)(nil)

// weight estimates the memory of a process in bytes: the document, and what was parsed from it.
func (p process) weight() int { return 3*(len(p.document)+p.responseSize) + len(p.graph) }

// Needs returns the URL of the document that defines the service's process; "" if it is cached.
func (p *Platform) Needs(s dispatch.Service) (string, error) {
	where, id := definedAt(s)
	if !isURL(where) {
		return "", nil
	}
	e := p.documents.Peek(documentKey(where, id))
	left := e.Until.Sub(p.documents.Now())
	if left <= 0 {
		return where, nil
	}
	if failed, ok := errors.AsType[*dispatch.Error](e.Err); ok && failed.Kind == dispatch.DocumentUnreachable {
		again := *failed
		again.RetryAfter = left
		return "", &again
	}
	return "", e.Err
}

// Prepare fetches the document that defines the service's process, or revalidates it by its ETag.
func (p *Platform) Prepare(ctx context.Context, s dispatch.Service) error {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	where, id := definedAt(s)
	if !isURL(where) {
		return nil
	}
	_, err := p.documents.Refresh(ctx, documentKey(where, id), p.fetch(where, id))
	return unreachable(where, err)
}

// definition returns the process at a user's URL. It must have the given id; "": any.
func (p *Platform) definition(ctx context.Context, where, id string) (process, error) {
	proc, err := p.documents.Get(ctx, documentKey(where, id), p.fetch(where, id))
	return proc, unreachable(where, err)
}

func documentKey(where, id string) string { return id + " " + where }

func (p *Platform) fetch(where, id string) func(context.Context, process) (process, error) {
	return func(ctx context.Context, last process) (process, error) {
		ctx, cancel := context.WithTimeout(ctx, documentWithin)
		defer cancel()
		a, err := p.Client.Fetch(ctx, upstream.Fetch{
			Op: opDocument, URL: where, AllowHosts: p.AllowHosts, Limit: maxDefinition, ETag: last.etag})
		switch {
		case upstream.NotAnswered(err):
			return process{}, unreachable(where, err)
		case err != nil:
			return process{}, badDefinition(id, err)
		case a.Status == http.StatusNotModified:
			return last, nil
		}
		found, err := defined(a.Body, id)
		found.etag, found.hash = a.Header.Get("ETag"), dispatch.Document{Body: a.Body}.Hash()
		return found, err
	}
}

// defined returns the process that a document defines.
func defined(document []byte, id string) (process, error) {
	d, err := parseDefinition(document, id)
	if err != nil {
		return process{}, badDefinition(id, err)
	}
	found := d.process()
	found.document = document
	found.setGraph(d.Graph)
	return found, nil
}

const opDocument = "openeo.document"

func badDefinition(id string, err error) error {
	member := "application"
	if id != "" {
		member = "namespace"
	}
	text := "There is no process definition at this URL: " + err.Error() + "."
	if _, ok := errors.AsType[*dispatch.Error](err); ok {
		text = "The process definition cannot be read. " + dispatch.TextFor(err)
	}
	e := dispatch.InvalidBody(opDocument, text, "service", member)
	e.Kind, e.Err = dispatch.DocumentInvalid, err
	return e
}

// unreachable converts the failure of a server into that of a document, since it says nothing about the platform.
func unreachable(where string, err error) error {
	if !dispatch.Is(err, dispatch.Unavailable) && !dispatch.Is(err, dispatch.Busy) {
		return err
	}
	host := "its address"
	if u, parsed := url.Parse(where); parsed == nil {
		host = u.Host
	}
	e := &dispatch.Error{Kind: dispatch.DocumentUnreachable, Op: opDocument, Err: err,
		Text: "The document that defines the application cannot be fetched from " + host + ". " + dispatch.TextFor(err)}
	if cause, ok := errors.AsType[*dispatch.Error](err); ok {
		e.RetryAfter = cause.RetryAfter
	}
	return e
}
