package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	opSubmit  = "ogcapi.Submit"
	maxResult = 10 << 20 // bytes of a result that is kept with the job

	mediaJSON    = "application/json"
	mediaGeoJSON = "application/geo+json"
)

// Submit requests an asynchronous execution, or a synchronous one where the process knows no other. The server may
// answer with a job or with the result itself. Options become members of the execute request; the protocol has no
// members for title and tag.
func (p *Platform) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	at, d, err := p.describe(ctx, t, s.Service)
	if err != nil {
		return dispatch.SubmitResult{}, err
	}
	if err := checkPin(s.Request, d); err != nil {
		return dispatch.SubmitResult{}, err
	}
	if err := p.Permitted(s.Request); err != nil {
		return dispatch.SubmitResult{}, err
	}
	body, err := executeBody(ctx, s.Request, d, "document")
	if err != nil {
		return dispatch.SubmitResult{}, err
	}
	call := p.call(opSubmit, http.MethodPost, "", t)
	call.Header.Set("Prefer", "respond-async") // servers compare the header as a whole, so nothing may be added to it
	call.Effect, call.Blind, call.Limit = true, true, maxResult
	if d.onlySync() {
		call.Header.Del("Prefer")
		if s.Runs != nil {
			ctx, err = s.Runs(ctx)
		}
		if err != nil {
			return dispatch.SubmitResult{}, err
		}
	}
	a, err := p.post(ctx, at, body, call, p.Client.Do)
	var step dispatch.SubmitResult
	if a != nil && a.Status < 300 {
		step, err = p.step(ctx, t, at, a, err)
		step.Versions = d.versions
	}
	if d.onlySync() {
		err = runError(err)
	}
	return step, err
}

type exchange func(context.Context, upstream.Call) (*upstream.Answer, error)

// post sends the execute request. If the server does not know the standard's path, post uses the path of old drafts.
func (p *Platform) post(ctx context.Context, at place, body map[string]json.RawMessage, call upstream.Call,
	do exchange) (*upstream.Answer, error) {
	call.URL, call.Body = p.at(p.base(at), "processes", at.process, "execution"), marshal(body)
	a, err := do(ctx, call)
	if err != nil && lacksPath(a) {
		mode := "sync"
		if call.Header.Get("Prefer") != "" {
			mode = "async"
		}
		body["mode"] = marshal(mode)
		call.URL, call.Body = p.at(p.base(at), "processes", at.process, "jobs"), marshal(body)
		a, err = do(ctx, call)
	}
	if err != nil && a != nil {
		err = executeError(a, err)
	}
	return a, err
}

// lacksPath reports whether a response shows that the path does not exist, so that the request certainly had no effect.
// A 404 with an exception of the API is about the process instead.
func lacksPath(a *upstream.Answer) bool {
	return a != nil && (a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusNotFound &&
		exception(a.Body) == "")
}

// executeError classifies an error status of an execution: all 4xx statuses are final.
func executeError(a *upstream.Answer, err error) error {
	if info := parseStatusInfo(a.Body); upstream.Message(a) == "" {
		err = refine(err, dispatch.KindOf(err), causeIn(info["outputs"])) // as pygeoapi has it without a job manager
	}
	switch err = aboutJob(a, err); {
	case upstream.OfProxy(a): // the process was described
	case a.Status == http.StatusNotFound, a.Status == http.StatusGone:
		return unknownProcess(err, "The platform does not know this process.")
	case dispatch.Is(err, dispatch.Conflict):
		return refine(err, dispatch.Invalid, "")
	case a.Status == http.StatusNotImplemented:
		return refine(err, dispatch.Uncertain, "")
	}
	return err
}

// runError returns the error of a synchronous execution. A run that the server itself calls failed is over, and so is
// one whose results it has sent, whatever they are. The same request is not sent again.
func runError(err error) error {
	e, ok := asError(err)
	switch {
	case !ok:
	case errors.Is(err, upstream.ErrTooLong):
		return refine(err, dispatch.Invalid, "The process has run, and its results are too large to store. "+
			"A synchronous run passes on results of any size.")
	case e.Kind == dispatch.BadUpstream, e.Kind == dispatch.Uncertain && e.Answered:
		return refine(err, dispatch.Invalid, "")
	}
	return err
}

// step interprets the response to an execution; failure is the error of reading its body. A status 201 or a body that
// is a statusInfo means that there is a job. A Location header alone does not: it may come with a result, too.
func (p *Platform) step(ctx context.Context, t dispatch.Token, at place, a *upstream.Answer,
	failure error) (dispatch.SubmitResult, error) {
	var info statusInfo
	_ = upstream.JSON(a, opSubmit, &info) // most responses are not a statusInfo
	ref := p.refOf(a, p.base(at))
	if a.Status == http.StatusCreated || a.Status == http.StatusAccepted || info.isJob() {
		if ref.ID == "" {
			ref.ID = info.id()
		}
		if ref.ID == "" {
			return dispatch.SubmitResult{}, &dispatch.Error{Kind: dispatch.Uncertain, Op: opSubmit,
				Text: "The platform accepted the job, but did not return its identifier.", Err: failure}
		}
		return dispatch.SubmitResult{Ref: ref, Started: true}, nil
	}
	step := dispatch.SubmitResult{Ref: ref, Started: true}
	err := failure
	if err == nil {
		step.Result, err = p.collection(ctx, t, a, cmp.Or(ref.ID, at.process))
	}
	if err == nil && len(step.Result) > maxResult {
		step.Result, err = nil, tooLong(a)
	}
	if err != nil && ref.ID != "" { // the result can be read from the job instead
		return dispatch.SubmitResult{Ref: ref, Started: true}, nil
	}
	return step, err
}

func tooLong(a *upstream.Answer) error {
	return &dispatch.Error{Kind: dispatch.BadUpstream, Op: opSubmit, Err: upstream.ErrTooLong,
		Text: "The platform returned the result itself instead of a job, and the result is too large to store: " +
			a.Header.Get("Content-Length") + " bytes."}
}

// refOf finds the job that the headers of a response name: in Location, or in a Link to its monitor. Only the path
// counts, and only the identifier if the path is not below our endpoint: servers behind proxies do not know their
// public host.
func (p *Platform) refOf(a *upstream.Answer, base string) dispatch.Ref {
	ref := dispatch.Ref{Base: base}
	hrefs := []string{a.Header.Get("Location")}
	for _, l := range linkHeader(a.Header) {
		if l.rel == "monitor" {
			hrefs = append(hrefs, l.href)
		}
	}
	for _, href := range hrefs {
		u, err := a.URL.Parse(href)
		if err != nil {
			continue
		}
		path, id := splitJob(u.EscapedPath())
		if id == "" {
			continue
		}
		ref.ID = id
		if own, err := p.ownBase(u, path); err == nil && len(own) <= maxBase {
			ref.Base = own
		}
		return ref
	}
	return ref
}

// maxBase is the maximum length in bytes of a job's base, which is stored with the job.
const maxBase = 1000

// splitJob splits an escaped path that contains …/jobs/{id}.
func splitJob(escaped string) (base, id string) {
	segments := strings.Split(strings.TrimRight(escaped, "/"), "/")
	for i := len(segments) - 2; i >= 0; i-- {
		id, err := url.PathUnescape(segments[i+1])
		if segments[i] == "jobs" && err == nil && isJobID(id) {
			return strings.Join(segments[:i], "/"), id
		}
	}
	return "", ""
}

// ownBase returns the base, in the form of [dispatch.Ref], of jobs below a path of our endpoint.
func (p *Platform) ownBase(u *url.URL, path string) (string, error) {
	a, err := parseAddress(u.Scheme + "://" + u.Host + path)
	if err != nil {
		return "", err
	}
	rest, ok := p.endpoint.Below(a)
	if !ok {
		return "", errElsewhere
	}
	return p.base(place{path: rest}), nil
}

type link struct{ href, rel, media, title string }

func linkOf(m map[string]json.RawMessage) link {
	return link{stac.Text(m["href"]), stac.Text(m["rel"]), stac.Text(m["type"]), stac.Text(m["title"])}
}

// linkPattern matches a link of a Link header (RFC 8288) with its parameters, and paramPattern one of these. Values may
// lack their quotation marks.
var (
	linkPattern  = regexp.MustCompile(`<([^>]*)>((?:"[^"]*"|[^",])*)`)
	paramPattern = regexp.MustCompile(`;\s*([\w*-]+)\s*=\s*(?:"([^"]*)"|([^;]*))`)
)

func linkHeader(h http.Header) (all []link) {
	for _, line := range h.Values("Link") {
		for _, found := range linkPattern.FindAllStringSubmatch(line, -1) {
			l := link{href: found[1]}
			for _, param := range paramPattern.FindAllStringSubmatch(found[2], -1) {
				value := cmp.Or(param[2], strings.TrimSpace(param[3]))
				switch strings.ToLower(param[1]) {
				case "rel":
					l.rel = value
				case "type":
					l.media = value
				case "title":
					l.title = value
				}
			}
			all = append(all, l)
		}
	}
	return all
}

// notResults lists the relations of links that do not lead to results.
var notResults = []string{"monitor", "self", "up", "alternate", "status", "describedby", "service", "service-desc",
	"service-doc", "next", "prev", "profile", "license", "canonical"}

func (l link) leadsToResult() bool { return !slices.Contains(notResults, strings.ToLower(l.rel)) }
