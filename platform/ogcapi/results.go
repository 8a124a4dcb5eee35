package ogcapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const opResults = "ogcapi.Results"

// Results returns the job's results as one STAC Collection. Linked documents are read where they may be STAC. What is
// not STAC, or cannot be read, becomes an asset.
func (p *Platform) Results(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (json.RawMessage, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	a, err := p.readResults(ctx, t, p.job(ref, "results"))
	if err != nil {
		return nil, p.noResults(ctx, t, ref, a, err)
	}
	switch info := parseStatusInfo(a.Body); {
	case info.isJob() && info.status() == dispatch.Finished:
		return nil, badResults("The platform reports the job as finished, but returned no results.")
	case info.isJob():
		return nil, noResultsYet(info.report(), nil)
	}
	return p.collection(ctx, t, a, ref.ID)
}

// readResults requests JSON; a server whose result is not JSON may refuse that. A response that is too large becomes a
// link to its URL.
func (p *Platform) readResults(ctx context.Context, t dispatch.Token, at string) (*upstream.Answer, error) {
	call := p.call(opResults, http.MethodGet, at, t)
	a, err := p.Client.Do(ctx, call)
	if a != nil && a.Status == http.StatusNotAcceptable {
		call.Header.Set("Accept", "*/*")
		a, err = p.Client.Do(ctx, call)
	}
	media := ""
	if a != nil {
		media, _, _ = mime.ParseMediaType(a.Header.Get("Content-Type"))
	}
	if media != "" && dispatch.Is(err, dispatch.BadUpstream) && a.Status < 300 && isBinary(media) {
		link := map[string]string{"href": at, "type": media}
		return &upstream.Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {mediaJSON}},
			Body: marshal(link), URL: a.URL}, nil
	}
	return a, err
}

// noResults finds out why a job has no results. The response itself seldom shows the reason: servers have many ways to
// say "not ready", and some do not say why a job failed.
func (p *Platform) noResults(ctx context.Context, t dispatch.Token, ref dispatch.Ref, a *upstream.Answer,
	err error) error {
	if a == nil || a.Status < 400 || dispatch.Is(err, dispatch.SignInRequired) || dispatch.Is(err, dispatch.Forbidden) {
		return err
	}
	info, statusErr := p.statusInfo(ctx, t, ref)
	switch {
	case statusErr != nil && strings.Contains(exception(a.Body), "notready"):
		return refine(err, dispatch.Conflict, "")
	case dispatch.Is(statusErr, dispatch.NotFound), statusErr != nil && dispatch.Is(err, dispatch.NotFound):
		return statusErr
	case statusErr != nil, info.status() == dispatch.Finished, info.status() == dispatch.Unknown:
		return err
	}
	report := info.report()
	if report.Status == dispatch.Failed && report.Message == "" {
		report.Message = upstream.Text(upstream.Message(a))
	}
	return noResultsYet(report, err)
}

func noResultsYet(r dispatch.Report, err error) error {
	e := &dispatch.Error{Kind: dispatch.Conflict, Op: opResults, Text: "The job has not finished.", Err: err}
	if r.Status.Final() {
		e.Text = endedText(r)
	}
	return e
}

func endedText(r dispatch.Report) string {
	if r.Message != "" {
		return fmt.Sprintf("The job has ended with the status %s: %s", r.Status, r.Message)
	}
	return fmt.Sprintf("The job has ended with the status %s.", r.Status)
}

func (p *Platform) collection(ctx context.Context, t dispatch.Token, a *upstream.Answer, id string) (json.RawMessage,
	error) {
	r := p.follower(t).Reader(ctx)
	defer r.Close()
	return toCollection(id, documentOf(a), r.Expect, func(href string) (document, error) {
		a, err := r.Read(href)
		if err != nil {
			return document{}, err
		}
		return documentOf(a), nil
	})
}

func (p *Platform) follower(t dispatch.Token) upstream.Follower {
	return upstream.Follower{Client: p.Client, Call: p.call(opResults, http.MethodGet, "", t), AllowHosts: p.AllowHosts}
}

type document struct {
	at     *url.URL // base of its relative links; nil if unknown
	header http.Header
	body   []byte
}

func documentOf(a *upstream.Answer) document {
	return document{at: a.URL, header: a.Header, body: a.Body}
}

func (d document) media() string {
	media, _, _ := mime.ParseMediaType(d.header.Get("Content-Type"))
	return media
}

// json returns the body if it is JSON, whatever media type the server declared.
func (d document) json() (json.RawMessage, bool) {
	switch media := d.media(); {
	case strings.Contains(media, "json"), media == "", strings.HasPrefix(media, "text/"),
		media == "application/octet-stream":
		return d.body, json.Valid(d.body) && upstream.Bounded(d.body) == nil
	}
	return nil, false
}

func (d document) html() bool {
	return d.media() == "text/html" || bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(d.body)), []byte("<!doctype html"))
}
