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
		for page, err := range upstream.Pages(opList, url, func(url string) (*page, *upstream.Answer, string, error) {
			got, err := p.page(ctx, t, url)
			if err != nil {
				return nil, nil, "", err
			}
			return got, got.from, got.next(), nil
		}) {
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

func (p *Platform) page(ctx context.Context, t dispatch.Token, url string) (*page, error) {
	a, err := p.get(ctx, opList, url, t)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return nil, refine(err, dispatch.Unsupported, "The platform has no list of jobs.")
	case err != nil:
		return nil, err
	}
	got := &page{from: a}
	if err := upstream.JSON(a, opList, got); err != nil {
		return nil, err
	}
	if got.Jobs == nil {
		return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Op: opList,
			Text: "The platform's list of jobs cannot be read completely: it has no jobs member."}
	}
	return got, nil
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
