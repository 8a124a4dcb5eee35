package live

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

const LongestPage = 1000

// pageQuery is the page of a list that a client asks for.
type pageQuery struct {
	limit    int
	at       bookmark
	statuses []dispatch.Status
	accounts []dispatch.Account
	since    time.Time
	sieve
}

// after returns the page behind p, with one more element, which shows that there is a further page. The number of
// elements that a sieve passes over is not limited.
func (q pageQuery) after(p dispatch.Place) dispatch.Page {
	page := dispatch.Page{After: p, Oldest: q.Oldest, Limit: q.limit + 1, Statuses: q.statuses, Accounts: q.accounts,
		Since: q.since, Label: q.label()}
	if q.Sifts() {
		page.Limit = 0
	}
	return page
}

// bookmark is a position in a list: the last job and the last task that were read, or in a task the last number. A
// cursor is a signed bookmark: clients cannot make one up, or use one of another user or list.
type bookmark struct {
	Job  dispatch.Place `json:"j,omitzero"`
	Task dispatch.Place `json:"t,omitzero"`
}

// cursor encodes and signs a bookmark for a user and a list, which about identifies.
func (a *Lists) cursor(u dispatch.UserID, about string, p bookmark) string {
	text, _ := json.Marshal(p) // of times and numbers
	return base64.RawURLEncoding.EncodeToString(append(a.Sign(u, about, text), text...))
}

func (a *Lists) Sign(u dispatch.UserID, about string, text []byte) []byte {
	h := hmac.New(sha256.New, a.CursorKey)
	for _, part := range [][]byte{[]byte(u), []byte(about), text} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil)
}

// parseCursor is the inverse of cursor. ok is false for a cursor that was not issued for this user and list.
func (a *Lists) parseCursor(u dispatch.UserID, about, cursor string) (p bookmark, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) < sha256.Size || !hmac.Equal(raw[:sha256.Size], a.Sign(u, about, raw[sha256.Size:])) {
		return p, false
	}
	return p, json.Unmarshal(raw[sha256.Size:], &p) == nil
}

// PageOf reads the page that the query asks for. paged is false if no parameter asks for a page: then the whole list is
// returned.
func (a *Lists) PageOf(u dispatch.UserID, path string, query url.Values) (q pageQuery, paged bool,
	faults []dispatch.Fault) {
	fault := func(kind, msg string, at ...any) {
		faults = append(faults, dispatch.Fault{Loc: append([]any{"query"}, at...), Type: kind, Msg: msg})
	}
	q.limit, q.accounts = LongestPage, dispatch.AccountsAt(u, query["platform"])
	if text := query.Get("limit"); query.Has("limit") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			fault("int_parsing", "Input should be an integer greater than 0", "limit")
		}
		q.limit = min(n, LongestPage)
	}
	for i, word := range query["status"] {
		if q.statuses = append(q.statuses, a.StatusesFor(word)...); !slices.Contains(openapi.Statuses,
			dispatch.Status(word)) {
			fault("enum", "Input should be one of the statuses", "status", i)
		}
	}
	if query.Has("since") {
		var err error
		if q.since, err = time.Parse(time.RFC3339, query.Get("since")); err != nil {
			fault("datetime_parsing", "Input should be a date and time of RFC 3339", "since")
		}
	}
	q.sieve = a.sieveOf(query, fault)
	switch order := query.Get("sort"); {
	case order == openapi.OldestFirst:
		q.Oldest = true
	case order != openapi.NewestFirst && query.Has("sort"):
		fault("enum", "Input should be created, for the oldest first, or -created", "sort")
	}
	if query.Has("cursor") {
		var ok bool
		if q.at, ok = a.parseCursor(u, listKey(path, query), query.Get("cursor")); !ok {
			fault("value_error",
				"Input should be a cursor that this list, with the same filters and the same sort, returned to you",
				"cursor")
		}
	}
	paged = q.Oldest
	for _, name := range append([]string{"limit", "cursor"}, filterNames...) {
		paged = paged || query.Has(name)
	}
	return q, paged, faults
}

// StatusesFor returns the statuses that a client's word stands for.
func (a *Lists) StatusesFor(word string) []dispatch.Status {
	if s := dispatch.Status(word); s != dispatch.Accepted || !a.Compat.SubmittedAsCreated {
		return []dispatch.Status{s}
	}
	return []dispatch.Status{dispatch.Accepted, dispatch.Submitted}
}

// listKey identifies the list that a cursor belongs to: the path, and the filters and the order of the query.
func listKey(path string, query url.Values) string {
	of := url.Values{}
	if query.Get("sort") == openapi.OldestFirst {
		of.Set("sort", openapi.OldestFirst)
	}
	for _, name := range append([]string{"filter"}, filterNames...) {
		if query.Has(name) {
			of[name] = query[name]
		}
	}
	return path + "?" + of.Encode()
}

// next returns the Link header to the next page (RFC 8288); "" if there is none.
func (a *Lists) next(u dispatch.UserID, path string, query url.Values, more bool, p bookmark) string {
	if !more {
		return ""
	}
	link := url.Values{"cursor": {a.cursor(u, listKey(path, query), p)}}
	for _, name := range append([]string{"limit", "filter", "parameters", "sort"}, filterNames...) {
		if query.Has(name) {
			link[name] = query[name]
		}
	}
	return "<" + a.PublicURL + path + "?" + link.Encode() + `>; rel="next"`
}

// PageBytes bounds the memory for the requests of a page that are read together with its statuses: as much as a part of
// a whole list takes.
const PageBytes = 256 * dispatch.PartMost

// outline returns the page behind p with as much of each request as PageBytes permits.
func (q pageQuery) outline(p dispatch.Place) dispatch.Page {
	page := q.after(p)
	page.Most = min(dispatch.PartMost, PageBytes/(q.limit+1))
	return page
}

// complete reports whether jobs that were read by an outline have all of the requests that a part of a whole list would
// have. Otherwise reading the page again, part by part, costs less than reading each request that was cut.
func complete(jobs []dispatch.Record) bool {
	return !slices.ContainsFunc(jobs, func(j dispatch.Record) bool { return j.Cut && j.Size <= dispatch.PartMost })
}

// ListPart is a page of a list whose order and statuses were read. Requests that are too large to be held are read
// while it is written.
type ListPart struct {
	more  bool
	to    bookmark
	write func(ctx context.Context, w io.Writer) error
}

// ListPart reads a page of tasks and jobs, by creation.
func (a *Lists) ListPart(ctx context.Context, t Topic, q pageQuery) (*ListPart, error) {
	tasks, jobs, err := a.readHeads(ctx, t, q)
	if err != nil {
		return nil, err
	}
	part := &ListPart{to: q.at}
	nt, nj := part.merge(tasks, jobs, q)
	written := toWrite(jobs.list[:nj], q.after(q.at.Job),
		func(r *Renderer, p dispatch.Page) iter.Seq2[dispatch.Record, error] {
			if q.Sifts() {
				p.Limit = 0
			}
			last := dispatch.Page{After: part.to.Job, Oldest: q.Oldest}
			return q.only(upTo(limits.InTurns(r.Ctx, &r.Turn, a.Broker.Jobs(r.Ctx, t.User, p)),
				func(j dispatch.Record) bool { return last.Follows(j.Place()) }))
		})
	part.write = func(ctx context.Context, w io.Writer) error {
		r := a.NewRenderer(ctx, w, t)
		defer r.Close()
		return r.lists(listing{nil, inOrder(tasks.list[:nt]), written(r)})
	}
	return part, nil
}

// merge takes the first tasks and jobs, at most q.limit, and returns how many of each. Where the reading of one kind
// was given up, elements of the other kind that stand behind that place belong to the next page.
func (p *ListPart) merge(tasks head[dispatch.TaskRecord], jobs head[dispatch.Record], q pageQuery) (nt, nj int) {
	var bound time.Time
	if tasks.cut != nil {
		bound = tasks.cut.Created
	}
	if jobs.cut != nil && (bound.IsZero() || q.precedes(jobs.cut.Created, bound)) {
		bound = jobs.cut.Created
	}
	beyond := func(created time.Time) bool { return !bound.IsZero() && q.precedes(bound, created) }
	for nj+nt < q.limit && nj+nt < len(jobs.list)+len(tasks.list) {
		if job := nt == len(tasks.list) || nj < len(jobs.list) &&
			!q.precedes(tasks.list[nt].Created, jobs.list[nj].Created); job {
			j := jobs.list[nj]
			if beyond(j.Created) {
				break
			}
			p.to.Job = j.Place()
			nj++
			continue
		}
		t := tasks.list[nt]
		if beyond(t.Created) {
			break
		}
		p.to.Task = t.Place()
		nt++
	}
	if jobs.cut != nil && nj == len(jobs.list) {
		p.to.Job = jobs.cut.Place()
	}
	if tasks.cut != nil && nt == len(tasks.list) {
		p.to.Task = tasks.cut.Place()
	}
	p.more = nj+nt < len(jobs.list)+len(tasks.list) || jobs.cut != nil || tasks.cut != nil
	return nt, nj
}

// readHeads reads a page of tasks and jobs and one more of each: tasks without parameters, jobs by an outline.
func (a *Lists) readHeads(ctx context.Context, t Topic, q pageQuery) (tasks head[dispatch.TaskRecord],
	jobs head[dispatch.Record], err error) {
	turn := a.HeavyTurn(t.User)
	defer turn.ReleaseTurn()
	if t.Want.Processing {
		past := func(j dispatch.Record) bool { return q.past(j.Created) }
		if jobs, err = sift(limits.InTurns(ctx, &turn, a.Broker.Jobs(ctx, t.User, q.outline(q.begin(q.at.Job)))),
			q.limit+1,
			q.job, past); err != nil {
			return tasks, jobs, err
		}
	}
	if !t.Want.Upscaling {
		return tasks, jobs, nil
	}
	past := func(t dispatch.TaskRecord) bool { return q.past(t.Created) }
	tasks, err = sift(limits.InTurns(ctx, &turn, a.Broker.Tasks(ctx, t.User, q.after(q.begin(q.at.Task)))), q.limit+1,
		q.task, past)
	for i := range tasks.list {
		tasks.list[i].Request.Parameters, tasks.list[i].Request.Options = nil, nil
	}
	return tasks, jobs, err
}

// toWrite returns the jobs of a page that was read by an outline, as they are written: the jobs themselves if they are
// complete, otherwise what again returns for the page without the job that shows that there is a next page. Jobs that
// were added meanwhile belong to the next read.
func toWrite(jobs []dispatch.Record, page dispatch.Page,
	again func(*Renderer, dispatch.Page) iter.Seq2[dispatch.Record, error],
) func(*Renderer) iter.Seq2[dispatch.Record, error] {
	if complete(jobs) {
		return func(*Renderer) iter.Seq2[dispatch.Record, error] { return inOrder(jobs) }
	}
	page.Limit = len(jobs)
	return func(r *Renderer) iter.Seq2[dispatch.Record, error] { return again(r, page) }
}

// upTo returns the jobs before the first that is past the end.
func upTo(jobs iter.Seq2[dispatch.Record, error], past func(dispatch.Record) bool) iter.Seq2[dispatch.Record, error] {
	return func(yield func(dispatch.Record, error) bool) {
		for j, err := range jobs {
			if err == nil && past(j) || !yield(j, err) {
				return
			}
		}
	}
}

// TaskPart reads a task and a page of its jobs, ordered by number.
func (a *Lists) TaskPart(ctx context.Context, t Topic, q pageQuery) (*ListPart, error) {
	task, err := a.Broker.Task(ctx, t.User, t.Task)
	if err != nil {
		return nil, call.TaskError(err)
	}
	if task, err = a.Broker.ForecastTask(ctx, task); err != nil {
		return nil, err
	}
	task.Request.Parameters, task.Request.Options = nil, nil
	turn := a.HeavyTurn(t.User)
	found, err := sift(limits.InTurns(ctx, &turn, a.Broker.TaskJobs(ctx, t.User, t.Task, q.outline(q.at.Task))),
		q.limit+1,
		q.job,
		func(dispatch.Record) bool { return false })
	turn.ReleaseTurn()
	if err != nil {
		return nil, call.TaskError(err)
	}
	jobs, n := found.list, min(q.limit, len(found.list))
	part := &ListPart{to: q.at, more: n < len(jobs) || found.cut != nil}
	if n > 0 {
		part.to.Task.ID = int64(jobs[n-1].Number)
	}
	if found.cut != nil {
		part.to.Task.ID = int64(found.cut.Number)
	}
	written := toWrite(jobs[:n], q.after(q.at.Task),
		func(r *Renderer, page dispatch.Page) iter.Seq2[dispatch.Record, error] {
			if q.Sifts() {
				page.Limit = 0
			}
			return q.only(upTo(limits.InTurns(r.Ctx, &r.Turn, a.Broker.TaskJobs(r.Ctx, t.User, t.Task, page)),
				func(j dispatch.Record) bool { return int64(j.Number) > part.to.Task.ID }))
		})
	part.write = func(ctx context.Context, w io.Writer) error {
		r := a.NewRenderer(ctx, w, t)
		defer r.Close()
		if n > 0 {
			if _, err := r.ShareTask(); err != nil {
				return err
			}
		}
		return r.TaskWith(task, written(r))
	}
	return part, nil
}

// CursorKey derives the key of cursors from a secret. Processes with the same secret get the same key.
func cursorKey(secret dispatch.Secret) []byte {
	key := sha256.Sum256([]byte("cursor " + secret.Reveal()))
	return key[:]
}
