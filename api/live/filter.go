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

const MostSifted = 10_000 // jobs and tasks that are read for one page

// sieve holds the filters of a list that are applied to what was read, because no index finds what they select. The
// first label is one of them only in the list of a task's jobs.
type sieve struct {
	labels      []dispatch.LabelMatch
	title       string             // in lower case
	application string             // of the service; "": any
	services    []dispatch.Service // in place of application: its names at the platforms that offer it
	from, until time.Time
	InTask      bool
	Oldest      bool // the list begins with the oldest element
}

// sieveOf reads the filters of the query. It calls fault for each that is wrong.
func (a *Lists) sieveOf(query url.Values, fault func(msg string, at ...any)) (s sieve) {
	for i, text := range query["labels"] {
		label, ok := dispatch.ParseLabel(text)
		if s.labels = append(s.labels, label); !ok {
			fault("Input should be a label, written as key=value", "labels", i)
		}
	}
	s.title, s.application = strings.ToLower(query.Get("title")), query.Get("service")
	s.from, s.until = openapi.Time(query, "created_after"), openapi.Time(query, "created_before")
	if listed, ok := a.Services.Find(s.application); ok && s.application != "" {
		s.application = ""
		for _, placement := range listed.Placements() {
			s.services = append(s.services, placement.Service)
		}
	}
	return s
}

// label returns the label by which the list is read.
func (s sieve) label() dispatch.LabelMatch {
	if s.InTask || len(s.labels) == 0 {
		return dispatch.LabelMatch{}
	}
	return s.labels[0]
}

// Sifts reports whether elements that were read may be passed over.
func (s sieve) Sifts() bool {
	return len(s.labels) > 1 || s.InTask && len(s.labels) > 0 || s.title != "" || s.application != "" ||
		s.services != nil || !s.from.IsZero() || !s.until.IsZero()
}

// begin returns where a list begins that is ordered by creation and continues after p.
func (s sieve) begin(p dispatch.Place) dispatch.Place {
	first := s.until
	if s.Oldest {
		first = s.from
	}
	if p == (dispatch.Place{}) && !first.IsZero() {
		return dispatch.Place{Created: first}
	}
	return p
}

func (s sieve) job(r dispatch.Record) bool {
	return s.passes(r.Request, r.Annotations.Labels, r.Created)
}

func (s sieve) entry(e broker.Entry) bool {
	if e.Job != nil {
		return s.job(*e.Job)
	}
	return s.passes(e.Task.Request, e.Task.Annotations.Labels, e.Task.Created)
}

func (s sieve) passes(r dispatch.Request, labels map[string]string, created time.Time) bool {
	for _, label := range s.labels {
		if !label.Selects(labels) {
			return false
		}
	}
	switch {
	case s.title != "" && !strings.Contains(strings.ToLower(r.Title), s.title),
		!s.runs(r.Service) && !slices.ContainsFunc(r.Placements,
			func(h dispatch.Placement) bool { return s.runs(h.Service) }),
		!s.from.IsZero() && created.Before(s.from):
		return false
	}
	return s.until.IsZero() || created.Before(s.until)
}

// runs reports whether the sieve selects requests for a service.
func (s sieve) runs(service dispatch.Service) bool {
	return (s.application == "" || service.Application == s.application) &&
		(s.services == nil || slices.ContainsFunc(s.services, service.Same))
}

// sifted is what was read of a list for a page.
type sifted[T any] struct {
	list []T
	last *T   // that was read, whether or not it passes; nil: none was
	more bool // there is a further page
}

// sift returns the first elements that pass, at most n of them, up to one that is past the end, of at most MostSifted
// that it reads.
func sift[T any](all iter.Seq2[T, error], n int, pass, past func(T) bool) (s sifted[T], err error) {
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
			s.list = append(s.list, v)
		}
		s.last = &v
		if count++; count == MostSifted {
			s.more = true
			return s, nil
		}
	}
	return s, nil
}

// past reports whether an element of a list that is ordered by creation is behind all that the sieve selects.
func (s sieve) past(created time.Time) bool {
	if s.Oldest {
		return !s.until.IsZero() && !created.Before(s.until)
	}
	return created.Before(s.from)
}
