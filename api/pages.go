package api

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

	"github.com/eodispatch/eodispatch/dispatch"
)

const longestPage = 1000

// pageQuery is which part of a list is asked for.
type pageQuery struct {
	limit    int
	at       bookmark
	statuses []dispatch.Status
	accounts []dispatch.Account
	since    time.Time
}

// after is the part after a place, and one more, which tells whether there is another part.
func (q pageQuery) after(p dispatch.Place) dispatch.Page {
	return dispatch.Page{After: p, Limit: q.limit + 1, Statuses: q.statuses, Accounts: q.accounts, Since: q.since}
}

// bookmark is how far a list was read: to a job, and to a task or, in a task, to a number. A cursor is a bookmark that is
// signed for its user and what was asked for, so that none can be made up or used by another.
type bookmark struct {
	Job  dispatch.Place `json:"j,omitzero"`
	Task dispatch.Place `json:"t,omitzero"`
}

// cursor writes a bookmark. about is the list and the filters that it belongs to.
func (a *api) cursor(u dispatch.UserID, about string, p bookmark) string {
	text, _ := json.Marshal(p) // of times and numbers
	return base64.RawURLEncoding.EncodeToString(append(a.sign(u, about, text), text...))
}

func (a *api) sign(u dispatch.UserID, about string, text []byte) []byte {
	h := hmac.New(sha256.New, a.cursorKey)
	for _, part := range [][]byte{[]byte(u), []byte(about), text} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil)
}

// parseCursor is the inverse of cursor; ok is false for what this service did not write for this user and list.
func (a *api) parseCursor(u dispatch.UserID, about, cursor string) (p bookmark, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) < sha256.Size || !hmac.Equal(raw[:sha256.Size], a.sign(u, about, raw[sha256.Size:])) {
		return p, false
	}
	return p, json.Unmarshal(raw[sha256.Size:], &p) == nil
}

var statuses = []dispatch.Status{dispatch.Accepted, dispatch.Submitted, dispatch.Queued, dispatch.Running, dispatch.Finished,
	dispatch.Canceled, dispatch.Failed, dispatch.Unknown}

// pageOf reads which part is asked for. paged is false where nothing says so: then the answer is whole.
func (a *api) pageOf(u dispatch.UserID, path string, query url.Values) (q pageQuery, paged bool, faults []dispatch.Fault) {
	fault := func(kind, msg string, at ...any) {
		faults = append(faults, dispatch.Fault{Loc: append([]any{"query"}, at...), Type: kind, Msg: msg})
	}
	q.limit, q.accounts = longestPage, dispatch.AccountsAt(u, query["platform"])
	if text := query.Get("limit"); query.Has("limit") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			fault("int_parsing", "Input should be an integer greater than 0", "limit")
		}
		q.limit = min(n, longestPage)
	}
	for i, word := range query["status"] {
		if q.statuses = append(q.statuses, a.meant(word)...); !slices.Contains(statuses, dispatch.Status(word)) {
			fault("enum", "Input should be one of the statuses", "status", i)
		}
	}
	if query.Has("since") {
		var err error
		if q.since, err = time.Parse(time.RFC3339, query.Get("since")); err != nil {
			fault("datetime_parsing", "Input should be a date and time of RFC 3339", "since")
		}
	}
	if query.Has("cursor") {
		var ok bool
		if q.at, ok = a.parseCursor(u, about(path, query), query.Get("cursor")); !ok {
			fault("value_error", "Input should be a cursor that this list gave to you", "cursor")
		}
	}
	for _, name := range []string{"limit", "cursor", "status", "platform", "since"} {
		paged = paged || query.Has(name)
	}
	return q, paged, faults
}

// meant is what a status stands for that a client asks for.
func (a *api) meant(word string) []dispatch.Status {
	if s := dispatch.Status(word); s != dispatch.Accepted || !a.Compat.SubmittedAsCreated {
		return []dispatch.Status{s}
	}
	return []dispatch.Status{dispatch.Accepted, dispatch.Submitted}
}

// about is what a cursor is for: the path, and all of the query that says what is listed.
func about(path string, query url.Values) string {
	of := url.Values{}
	for _, name := range []string{"filter", "status", "platform", "since"} {
		if query.Has(name) {
			of[name] = query[name]
		}
	}
	return path + "?" + of.Encode()
}

// next is the address of the part after this one (RFC 8288), "" where there is none.
func (a *api) next(u dispatch.UserID, path string, query url.Values, more bool, p bookmark) string {
	if !more {
		return ""
	}
	link := url.Values{"cursor": {a.cursor(u, about(path, query), p)}}
	for _, name := range []string{"limit", "filter", "status", "platform", "since", "parameters"} {
		if query.Has(name) {
			link[name] = query[name]
		}
	}
	return "<" + a.PublicURL + path + "?" + link.Encode() + `>; rel="next"`
}

// listPart is a part of a list that was seen, and is yet to be read with its requests.
type listPart struct {
	digest uint64 // of all of it, and of whether there is more
	more   bool
	to     bookmark
	write  func(ctx context.Context, w io.Writer) error
}

// see counts what one thing that is shown looks like.
func (p *listPart) see(digest uint64) { p.digest = p.digest*31 + digest }

// listPart sees tasks and jobs together, newest first, from a place on.
func (a *api) listPart(ctx context.Context, t topic, q pageQuery) (*listPart, error) {
	tasks, jobs, err := a.sighted(ctx, t, q)
	if err != nil {
		return nil, err
	}
	part, nj, nt := &listPart{to: q.at}, 0, 0
	for nj+nt < q.limit && nj+nt < len(jobs)+len(tasks) {
		if nt == len(tasks) || nj < len(jobs) && !jobs[nj].Created.Before(tasks[nt].Created) {
			part.to.Job = dispatch.Place{Created: jobs[nj].Created, ID: int64(jobs[nj].ID)}
			part.see(jobDigest(jobs[nj]))
			nj++
		} else {
			part.to.Task = dispatch.Place{Created: tasks[nt].Created, ID: int64(tasks[nt].ID)}
			part.see(taskDigest(tasks[nt]))
			nt++
		}
	}
	if part.more = nj+nt < len(jobs)+len(tasks); part.more {
		part.see(1)
	}
	part.write = func(ctx context.Context, w io.Writer) error {
		r := a.newRenderer(ctx, w, t.user, t.bare)
		defer r.turn.pause()
		return a.writePart(r, t, tasks[:nt], nj, q, part.to.Job)
	}
	return part, nil
}

// sighted reads a part of a list, and one more, without parameters.
func (a *api) sighted(ctx context.Context, t topic, q pageQuery) (tasks []dispatch.TaskRecord, jobs []dispatch.Record, err error) {
	if t.want.processing {
		outline := q.after(q.at.Job)
		outline.Most = -1
		if jobs, err = collect(a.Broker.Jobs(ctx, t.user, outline)); err != nil {
			return nil, nil, err
		}
	}
	if !t.want.upscaling {
		return nil, jobs, nil
	}
	for task, err := range a.Broker.Tasks(ctx, t.user, q.after(q.at.Task)) {
		if err != nil {
			return nil, nil, err
		}
		task.Request.Parameters, task.Request.Options = nil, nil
		tasks = append(tasks, task)
	}
	return tasks, jobs, nil
}

func collect[T any](all iter.Seq2[T, error]) (list []T, err error) {
	for v, err := range all {
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// writePart writes a part of a list: its tasks, and n jobs up to a place. What came between meanwhile is left to the next look.
func (a *api) writePart(r *renderer, t topic, tasks []dispatch.TaskRecord, n int, q pageQuery, last dispatch.Place) error {
	if err := r.text(beforeLists); err != nil {
		return err
	}
	for _, task := range tasks {
		if err := r.element(r.taskSummary(task)); err != nil {
			return err
		}
	}
	if err := r.text(betweenLists); err != nil {
		return err
	}
	if n > 0 {
		page := q.after(q.at.Job)
		page.Limit = n
		if err := r.each(upTo(a.Broker.Jobs(r.ctx, t.user, page), func(j dispatch.Record) bool { return last.Before(j.Created, int64(j.ID)) })); err != nil {
			return err
		}
	}
	return r.text(afterLists)
}

// upTo gives what comes before the first that is past the end.
func upTo(jobs iter.Seq2[dispatch.Record, error], past func(dispatch.Record) bool) iter.Seq2[dispatch.Record, error] {
	return func(yield func(dispatch.Record, error) bool) {
		for j, err := range jobs {
			if err == nil && past(j) || !yield(j, err) {
				return
			}
		}
	}
}

// taskPart sees a task with a part of its jobs, by their numbers.
func (a *api) taskPart(ctx context.Context, t topic, q pageQuery) (*listPart, error) {
	task, err := a.Broker.Task(ctx, t.user, t.task)
	if err != nil {
		return nil, aboutTask(err)
	}
	shared := len(task.Request.Parameters)
	task.Request.Parameters, task.Request.Options = nil, nil
	outline := q.after(q.at.Task)
	outline.Most = -1
	jobs, err := collect(a.Broker.TaskJobs(ctx, t.user, t.task, outline))
	if err != nil {
		return nil, aboutTask(err)
	}
	n := min(q.limit, len(jobs))
	p := &snapshot{topic: t, task: &task}
	part := &listPart{to: q.at, more: n < len(jobs)}
	part.see(taskDigest(task))
	for _, j := range jobs[:n] {
		part.see(jobDigest(j))
		part.to.Task.ID = int64(j.Number)
		if p.largest = max(p.largest, shared+j.Size); t.bare {
			p.largest = 0
		}
	}
	if part.more {
		part.see(1)
	}
	part.write = func(ctx context.Context, w io.Writer) error {
		r := a.newRenderer(ctx, w, t.user, t.bare)
		defer r.turn.pause()
		return a.writeTaskPart(r, p, n, q, part.to.Task.ID)
	}
	return part, nil
}

func (a *api) writeTaskPart(r *renderer, p *snapshot, n int, q pageQuery, last int64) error {
	before, after, err := a.frame(p)
	if err != nil {
		return err
	}
	if err := r.text(before); err != nil {
		return err
	}
	if n > 0 {
		release, err := r.shares(p.topic, p.largest)
		if err != nil {
			return err
		}
		defer release()
		page := q.after(q.at.Task)
		page.Limit = n
		if err := r.each(upTo(a.Broker.TaskJobs(r.ctx, p.topic.user, p.topic.task, page), func(j dispatch.Record) bool { return int64(j.Number) > last })); err != nil {
			return err
		}
	}
	return r.text(after)
}

// cursorKey is the same in all processes that share a secret.
func cursorKey(secret dispatch.Secret) []byte {
	key := sha256.Sum256([]byte("cursor " + secret.Reveal()))
	return key[:]
}
