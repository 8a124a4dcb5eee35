package ogcapi

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	opList   = "ogcapi.List"
	pageSize = 100 // jobs; some servers need minutes for more. The standard's default is 10
)

// List reads the job list below base, page by page along its next links. Tags are never known, because servers store
// nothing of ours. A listing that cannot be read completely is an error; Unsupported if there is no listing.
func (p *Platform) List(ctx context.Context, t dispatch.Token, base string) iter.Seq2[dispatch.Listed, error] {
	return func(yield func(dispatch.Listed, error) bool) {
		ctx, end := p.answers.Begin(ctx)
		defer end()
		url := fmt.Sprintf("%s?limit=%d", p.at(base, "jobs"), pageSize)
		for page, err := range p.pages(ctx, opList, url, t) {
			switch {
			case dispatch.Is(err, dispatch.NotFound):
				err = refine(err, dispatch.Unsupported, "The platform has no list of jobs.")
			case err == nil && page.Jobs == nil:
				err = &dispatch.Error{Kind: dispatch.BadUpstream, Op: opList,
					Text: "The platform's list of jobs cannot be read completely: it has no jobs member."}
			}
			if err != nil {
				yield(dispatch.Listed{}, err)
				return
			}
			for _, raw := range page.Jobs {
				if job, ok := listed(base, raw); ok && !yield(job, nil) {
					return
				}
			}
		}
	}
}

// page is one page of a list of jobs or of processes.
type page struct {
	Jobs      []json.RawMessage `json:"jobs"`
	Processes []json.RawMessage `json:"processes"`
	Links     []struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	} `json:"links"`
	from *upstream.Answer
}

// pages reads a list page by page.
func (p *Platform) pages(ctx context.Context, op, url string, t dispatch.Token) iter.Seq2[*page, error] {
	return upstream.Pages(op, url, func(url string) (*page, *upstream.Answer, string, error) {
		a, err := p.get(ctx, op, url, t)
		if err != nil {
			return nil, nil, "", err
		}
		got := &page{from: a}
		err = upstream.JSON(a, op, got)
		return got, a, got.next(), err
	})
}

// next returns the next link, in the body or in a header. An empty page is the last, whatever it links to.
func (p *page) next() (href string) {
	if len(p.Jobs)+len(p.Processes) == 0 {
		return ""
	}
	for _, l := range p.Links {
		if l.Rel == "next" {
			href = l.Href
		}
	}
	for _, l := range linkHeader(p.from.Header) {
		if l.rel == "next" && href == "" {
			href = l.href
		}
	}
	return href
}

// listed reads one entry: a statusInfo, or just an identifier.
func listed(base string, raw json.RawMessage) (dispatch.Listed, bool) {
	if id := identifier(raw); isJobID(id) {
		return dispatch.Listed{Ref: dispatch.Ref{Base: base, ID: id}}, true
	}
	info := parseStatusInfo(raw)
	if info.id() == "" {
		return dispatch.Listed{}, false
	}
	job := dispatch.Listed{Ref: dispatch.Ref{Base: base, ID: info.id()}, Created: info.time("created")}
	if info["status"] != nil {
		job.Report = info.report()
	}
	return job, true
}
