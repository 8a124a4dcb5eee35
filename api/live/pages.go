package live

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

const LongestPage = 1000

// pageQuery is the page of a list that a client asks for.
type pageQuery struct {
	limit    int
	at       broker.Position
	statuses []dispatch.Status
	accounts []dispatch.Account
	since    time.Time
	filters
}

// after returns the page behind p, with one more element, which shows that there is a further page. The number of
// elements that filters pass over is not limited.
func (q pageQuery) after(p dispatch.Place) dispatch.Page {
	page := dispatch.Page{After: p, Oldest: q.Oldest, Limit: q.limit + 1, Statuses: q.statuses, Accounts: q.accounts,
		Since: q.since, Label: q.label()}
	if q.Filtered() {
		page.Limit = 0
	}
	return page
}

// cursor encodes and signs a position for a user and a list, which about identifies: clients cannot make one up, or use
// one of another user or list. In a task, the place of the task has the number of the job that was read last.
func (a *Lists) cursor(u dispatch.UserID, about string, p broker.Position) string {
	text, _ := json.Marshal(p) // of times and numbers
	return a.Seal(u, about, text)
}

// Seal signs a text for a user and a purpose.
func (a *Lists) Seal(u dispatch.UserID, purpose string, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(a.sign(u, purpose, text), text...))
}

// Unseal returns a text that was sealed for a user and a purpose. ok is false for any other.
func (a *Lists) Unseal(u dispatch.UserID, purpose, sealed string) (text []byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(raw) < sha256.Size {
		return nil, false
	}
	text = raw[sha256.Size:]
	return text, hmac.Equal(raw[:sha256.Size], a.sign(u, purpose, text))
}

func (a *Lists) sign(u dispatch.UserID, purpose string, text []byte) []byte {
	h := hmac.New(sha256.New, a.CursorKey)
	for _, part := range [][]byte{[]byte(u), []byte(purpose), text} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil)
}

// parseCursor is the inverse of cursor. ok is false for a cursor that was not issued for this user and list.
func (a *Lists) parseCursor(u dispatch.UserID, about, cursor string) (p broker.Position, ok bool) {
	text, ok := a.Unseal(u, about, cursor)
	return p, ok && json.Unmarshal(text, &p) == nil
}

// PageOf reads the page that a query asks for, which was checked. paged is false if no parameter asks for a page: then
// the whole list is returned.
func (a *Lists) PageOf(u dispatch.UserID, path string, query url.Values) (q pageQuery, paged bool,
	faults []dispatch.Fault) {
	fault := func(msg string, at ...any) {
		faults = append(faults, dispatch.Fault{Loc: append([]any{"query"}, at...), Type: "value_error", Msg: msg})
	}
	q.limit = min(openapi.Integer(query, "limit", LongestPage), LongestPage)
	q.accounts, q.since = dispatch.AccountsAt(u, query["platform"]), openapi.Time(query, "since")
	for _, word := range query["status"] {
		q.statuses = append(q.statuses, a.StatusesFor(word)...)
	}
	q.filters = a.parseFilters(query, fault)
	q.Oldest = query.Get("sort") == openapi.OldestFirst
	if query.Has("cursor") {
		var ok bool
		if q.at, ok = a.parseCursor(u, listKey(path, query), query.Get("cursor")); !ok {
			fault("Input should be a cursor that this list, with the same filters and the same sort, returned to you",
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
	kept := url.Values{}
	if query.Get("sort") == openapi.OldestFirst {
		kept.Set("sort", openapi.OldestFirst)
	}
	for _, name := range append([]string{"filter"}, filterNames...) {
		if query.Has(name) {
			kept[name] = query[name]
		}
	}
	return path + "?" + kept.Encode()
}

// next returns the Link header to the next page (RFC 8288); "" if there is none.
func (a *Lists) next(u dispatch.UserID, path string, query url.Values, more bool, p broker.Position) string {
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
// a whole list takes. Larger requests are read one by one while the page is written.
const PageBytes = 256 * dispatch.PartMost

// outline returns the page behind p with as much of each request as PageBytes permits.
func (q pageQuery) outline(p dispatch.Place) dispatch.Page {
	page := q.after(p)
	page.Most = min(dispatch.PartMost, PageBytes/(q.limit+1))
	return page
}

// ListPart is a page of a list whose order and statuses were read.
type ListPart struct {
	more  bool
	to    broker.Position
	write func(ctx context.Context, w io.Writer) error
}

// ListPart reads a page of tasks and jobs, by creation.
func (a *Lists) ListPart(ctx context.Context, t Topic, q pageQuery) (*ListPart, error) {
	q.at.Job, q.at.Task = q.begin(q.at.Job), q.begin(q.at.Task)
	turn := a.HeavyTurn(t.User)
	defer turn.ReleaseTurn()
	read, err := filter(limits.InTurns(ctx, &turn, a.Broker.History(ctx, t.User, q.at,
		broker.Kinds{Jobs: t.Want.Processing, Tasks: t.Want.Upscaling}, q.outline(dispatch.Place{}))), q.limit, q.entry,
		func(e broker.Entry) bool { return q.past(e.Created()) })
	if err != nil {
		return nil, err
	}
	part := &ListPart{to: q.at, more: read.more}
	if read.last != nil {
		part.to = read.last.After
	}
	var tasks []*dispatch.TaskRecord
	var jobs []*dispatch.Record
	for _, e := range read.list {
		if e.Job != nil {
			jobs = append(jobs, e.Job)
			continue
		}
		e.Task.Request.Parameters, e.Task.Request.Options = nil, nil
		tasks = append(tasks, e.Task)
	}
	part.write = func(ctx context.Context, w io.Writer) error {
		r := a.NewRenderer(ctx, w, t)
		defer r.Close()
		r.lists(listing{nil, inOrder(tasks), inOrder(jobs)})
		return r.Err()
	}
	return part, nil
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
	read, err := filter(limits.InTurns(ctx, &turn, a.Broker.TaskJobs(ctx, t.User, t.Task, q.outline(q.at.Task))),
		q.limit, q.job, func(dispatch.Record) bool { return false })
	turn.ReleaseTurn()
	if err != nil {
		return nil, call.TaskError(err)
	}
	part := &ListPart{to: q.at, more: read.more}
	if read.last != nil {
		part.to.Task.ID = int64(read.last.Number)
	}
	part.write = func(ctx context.Context, w io.Writer) error {
		r := a.NewRenderer(ctx, w, t)
		defer r.Close()
		if len(read.list) > 0 {
			_, err := r.ShareTask()
			r.Failed(err)
		}
		r.TaskWith(task, inOrder(read.list))
		return r.Err()
	}
	return part, nil
}

// cursorKey derives the key of cursors from a secret. Processes with the same secret get the same key.
func cursorKey(secret dispatch.Secret) []byte {
	key := sha256.Sum256([]byte("cursor " + secret.Reveal()))
	return key[:]
}
