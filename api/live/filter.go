package live

import (
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// filterNames are the parameters of the query that select elements of a list of jobs or tasks, besides filter.
var filterNames = []string{"status", "platform", "since", "labels", "title", "service", "created_after",
	"created_before"}

// MostScanned is how many jobs and tasks are read for one page.
const MostScanned = 10_000

// filters are those of a list that are applied to what was read, because no index finds what they select. The
// first label is one of them only in the list of a task's jobs.
type filters struct {
	labels      []dispatch.LabelMatch
	title       string             // in lower case
	application string             // of the service; "": any
	services    []dispatch.Service // in place of application: its names at the platforms that offer it
	from, until time.Time
	InTask      bool
	Oldest      bool // the list begins with the oldest element
}

// parseFilters reads the filters of the query. It calls fault for each that is wrong.
func (a *Lists) parseFilters(query url.Values, fault func(msg string, at ...any)) (f filters) {
	for i, text := range query["labels"] {
		label, ok := dispatch.ParseLabel(text)
		if f.labels = append(f.labels, label); !ok {
			fault("Input should be a label, written as key=value", "labels", i)
		}
	}
	f.title, f.application = strings.ToLower(query.Get("title")), query.Get("service")
	f.from, f.until = openapi.Time(query, "created_after"), openapi.Time(query, "created_before")
	if listed, ok := a.Services.Find(f.application); ok && f.application != "" {
		f.application = ""
		for _, placement := range listed.Placements() {
			f.services = append(f.services, placement.Service)
		}
	}
	return f
}

// label returns the label by which the list is read.
func (f filters) label() dispatch.LabelMatch {
	if f.InTask || len(f.labels) == 0 {
		return dispatch.LabelMatch{}
	}
	return f.labels[0]
}

// Filtered reports whether elements that were read may be passed over.
func (f filters) Filtered() bool {
	return len(f.labels) > 1 || f.InTask && len(f.labels) > 0 || f.title != "" || f.application != "" ||
		f.services != nil || !f.from.IsZero() || !f.until.IsZero()
}

// begin returns where a list begins that is ordered by creation and continues after p.
func (f filters) begin(p dispatch.Place) dispatch.Place {
	first := f.until
	if f.Oldest {
		first = f.from
	}
	if p == (dispatch.Place{}) && !first.IsZero() {
		return dispatch.Place{Created: first}
	}
	return p
}

func (f filters) job(r dispatch.Record) bool {
	return f.passes(r.Request, r.Annotations.Labels, r.Created)
}

func (f filters) entry(e broker.Entry) bool {
	if e.Job != nil {
		return f.job(*e.Job)
	}
	return f.passes(e.Task.Request, e.Task.Annotations.Labels, e.Task.Created)
}

func (f filters) passes(r dispatch.Request, labels map[string]string, created time.Time) bool {
	for _, label := range f.labels {
		if !label.Selects(labels) {
			return false
		}
	}
	switch {
	case f.title != "" && !strings.Contains(strings.ToLower(r.Title), f.title),
		!f.runs(r.Service) && !slices.ContainsFunc(r.Placements,
			func(h dispatch.Placement) bool { return f.runs(h.Service) }), !f.from.IsZero() && created.Before(f.from):
		return false
	}
	return f.until.IsZero() || created.Before(f.until)
}

// runs reports whether the filters select requests for a service.
func (f filters) runs(service dispatch.Service) bool {
	return (f.application == "" || service.Application == f.application) &&
		(f.services == nil || slices.ContainsFunc(f.services, service.Same))
}

// filtered is what was read of a list for a page.
type filtered[T any] struct {
	list []*T
	last *T   // that was read, whether or not it passes; nil: none was
	more bool // there is a further page
}

// filter returns the first elements that pass, at most n of them, up to one that is past the end, of at most
// MostScanned that it reads.
func filter[T any](all iter.Seq2[T, error], n int, pass, past func(T) bool) (s filtered[T], err error) {
	count := 0
	for v, err := range all {
		switch {
		case err != nil:
			return s, err
		case past(v):
			return s, nil
		case pass(v):
			if s.more = len(s.list) == n; s.more {
				return s, nil
			}
			s.list = append(s.list, &v)
		}
		s.last = &v
		if count++; count == MostScanned {
			s.more = true
			return s, nil
		}
	}
	return s, nil
}

// past reports whether an element of a list that is ordered by creation is behind all that the filters select.
func (f filters) past(created time.Time) bool {
	if f.Oldest {
		return !f.until.IsZero() && !created.Before(f.until)
	}
	return created.Before(f.from)
}
