package openeo

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"net/url"
	"strconv"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

const longestPage = 1000 // batch jobs

// jobPlace is a position in the list of batch jobs: what was listed last of each kind.
type jobPlace struct {
	Unstarted dispatch.Place `json:"u,omitzero"`
	Job       dispatch.Place `json:"j,omitzero"`
	Task      dispatch.Place `json:"t,omitzero"`
}

// listJobs lists the unstarted jobs, jobs and tasks of the user at the platforms of the view, newest first: whole, or
// in pages if the client limits them.
func (f *Facade) listJobs(r *request) (*answer, error) {
	query := r.URL.Query()
	limit, err := pageLimit(query)
	if err != nil {
		return nil, err
	}
	var at jobPlace
	purpose := "openeo jobs " + r.view.path()
	if query.Has("cursor") {
		text, ok := r.Unseal(r.user, purpose, query.Get("cursor"))
		if !ok || json.Unmarshal(text, &at) != nil {
			return nil, badParameter("cursor", "is not one that this list returned to you. Follow the links of the "+
				"list")
		}
	}
	more := false
	jobs := func(yield func(any, error) bool) {
		n := 0
		for is, err := range f.batchJobs(r, at, limit) {
			if more = err == nil && limit > 0 && n == limit; more {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			at = at.after(is)
			j := f.batchJob(r, is)
			j.JobOptions, j.Links = nil, nil
			if n++; !yield(j, nil) {
				return
			}
		}
	}
	return listAnswer("jobs", jobs, func() (links []link) {
		if more {
			links = append(links, f.nextJobs(r, purpose, at, limit))
		}
		return links
	})
}

// nextJobs returns the link to the batch jobs after a position.
func (f *Facade) nextJobs(r *request, purpose string, at jobPlace, limit int) link {
	text, err := json.Marshal(at)
	if err != nil {
		panic(err) // times and numbers
	}
	next := url.Values{"limit": {strconv.Itoa(limit)}, "cursor": {r.Seal(r.user, purpose, text)}}
	return link{Rel: "next", Href: r.root + "/jobs?" + next.Encode(), Type: "application/json"}
}

// pageLimit returns the limit of a query; 0 for none.
func pageLimit(query url.Values) (int, error) {
	if !query.Has("limit") {
		return 0, nil
	}
	n, err := strconv.Atoi(query.Get("limit")) // of a number beyond all ints, the greatest or the least one
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 {
		return 0, badParameter("limit", "must be a whole number greater than 0")
	}
	return min(n, longestPage), nil
}

// after returns the position after a batch job.
func (p jobPlace) after(is entry) jobPlace {
	switch {
	case is.unstarted != nil:
		p.Unstarted = dispatch.Place{Created: is.unstarted.Created, ID: is.unstarted.ID.Number()}
	case is.task != nil:
		p.Task = is.task.Place()
	default:
		p.Job = is.job.Place()
	}
	return p
}

// batchJobs returns the batch jobs after a position, newest first. limit says how many the caller wants, 0 all; there
// may be more.
func (f *Facade) batchJobs(r *request, at jobPlace, limit int) iter.Seq2[entry, error] {
	ctx, wanted := r.Context(), 0
	if limit > 0 {
		wanted = limit + 1
	}
	page := func(after dispatch.Place) dispatch.Page {
		p := dispatch.Page{After: after, Limit: wanted}
		if !r.view.merged() {
			p.Accounts = dispatch.AccountsAt(r.user, []string{r.view.name()})
		}
		return p
	}
	unstarted := each(own(f.Broker.UnstartedJobs(ctx, r.user, page(at.Unstarted))),
		func(n dispatch.Unstarted) entry { return entry{unstarted: &n} })
	jobs := each(f.Broker.Jobs(ctx, r.user, page(at.Job)), func(j dispatch.Record) entry { return entry{job: &j} })
	tasks := each(f.Broker.Tasks(ctx, r.user, page(at.Task)),
		func(t dispatch.TaskRecord) entry { return entry{task: &t} })
	newer := func(a, b entry) bool { return a.created().After(b.created()) }
	return merge(unstarted, merge(jobs, tasks, newer), newer)
}

// isOwn reports whether an unstarted job is one of this API, and not of another interface.
func isOwn(n dispatch.Unstarted) bool {
	return !bytes.HasPrefix(n.Body, []byte(facade.ProcessesUnstarted))
}

// own returns the unstarted jobs of this API.
func own(all iter.Seq2[dispatch.Unstarted, error]) iter.Seq2[dispatch.Unstarted, error] {
	return func(yield func(dispatch.Unstarted, error) bool) {
		for n, err := range all {
			if (err != nil || isOwn(n)) && !yield(n, err) {
				return
			}
		}
	}
}

// each returns a sequence with convert applied to its values.
func each[T, V any](all iter.Seq2[T, error], convert func(T) V) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for v, err := range all {
			if !yield(convert(v), err) {
				return
			}
		}
	}
}

// merge returns the values of two sequences that are ordered, in the same order. It ends with the first error.
func merge[T any](a, b iter.Seq2[T, error], before func(a, b T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		waiting, err, more := next()
		for v, failed := range a {
			for failed == nil && more && (err != nil || before(waiting, v)) {
				if !yield(waiting, err) || err != nil {
					return
				}
				waiting, err, more = next()
			}
			if !yield(v, failed) || failed != nil {
				return
			}
		}
		for ; more; waiting, err, more = next() {
			if !yield(waiting, err) || err != nil {
				return
			}
		}
	}
}
