package openeo

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/url"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

const longestPage = 1000 // batch jobs

// listJobs lists the unstarted jobs, jobs and tasks of the user at the platforms of the view, newest first: whole, or
// in pages if the client limits them.
func (f *Facade) listJobs(r *request) (*answer, error) {
	var at broker.Position
	purpose := "openeo jobs " + r.view.path()
	limit, after, err := r.page(purpose, 0)
	if err != nil {
		return nil, err
	}
	if after != "" && json.Unmarshal([]byte(after), &at) != nil {
		return nil, errBadCursor
	}
	more := false
	jobs := func(yield func(any, error) bool) {
		n := 0
		for e, err := range f.batchJobs(r, at, limit) {
			if more = err == nil && limit > 0 && n == limit; more {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			at = e.After
			j := f.batchJob(r, entry(e))
			j.JobOptions, j.Links = nil, nil
			if n++; !yield(j, nil) {
				return
			}
		}
	}
	return listAnswer("jobs", jobs, func() (links []link) {
		if more {
			text, _ := json.Marshal(at) // of times and numbers
			links = append(links, r.next(purpose, limit, text))
		}
		return links
	})
}

// pageLimit returns the limit of a query; 0 for none.
func pageLimit(query url.Values) (int, error) {
	n, ok := facade.Limit(query, 0, longestPage)
	if !ok {
		return 0, badParameter("limit", "must be a whole number greater than 0")
	}
	return n, nil
}

// batchJobs returns the batch jobs of this API after a position, newest first. limit says how many the caller wants, 0
// all; there may be more.
func (f *Facade) batchJobs(r *request, at broker.Position, limit int) iter.Seq2[broker.Entry, error] {
	var p dispatch.Page
	if limit > 0 {
		p.Limit = limit + 1
	}
	if !r.view.merged() {
		p.Accounts = dispatch.AccountsAt(r.user, []string{r.view.name()})
	}
	all := f.Broker.History(r.Context(), r.user, at, broker.Kinds{Jobs: true, Tasks: true, Unstarted: true}, p)
	return func(yield func(broker.Entry, error) bool) {
		for e, err := range all {
			if (err != nil || e.Unstarted == nil || isOwn(*e.Unstarted)) && !yield(e, err) {
				return
			}
		}
	}
}

// isOwn reports whether an unstarted job is one of this API, and not of another interface.
func isOwn(n dispatch.Unstarted) bool {
	return !bytes.HasPrefix(n.Body, []byte(facade.ProcessesUnstarted))
}
