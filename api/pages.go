package api

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	for _, name := range []string{"limit", "filter", "status", "platform", "since"} {
		if query.Has(name) {
			link[name] = query[name]
		}
	}
	return "<" + a.PublicURL + path + "?" + link.Encode() + `>; rel="next"`
}

// listPart gives tasks and jobs together, newest first, from a place on.
func (a *api) listPart(ctx context.Context, u dispatch.UserID, want filter, q pageQuery) (list JobsStatusResponse, more bool, to bookmark, err error) {
	tasks, jobs := []dispatch.TaskRecord{}, []dispatch.Record{}
	if want.processing {
		jobs, err = a.Broker.ListPage(ctx, u, q.after(q.at.Job))
	}
	if want.upscaling && err == nil {
		tasks, err = a.Broker.ListTasks(ctx, u, q.after(q.at.Task), dispatch.AsKnown)
	}
	if err != nil {
		return list, false, to, err
	}
	to = q.at
	nj, nt := 0, 0
	for nj+nt < q.limit && nj+nt < len(jobs)+len(tasks) {
		if nt == len(tasks) || nj < len(jobs) && !jobs[nj].Created.Before(tasks[nt].Created) {
			to.Job = dispatch.Place{Created: jobs[nj].Created, ID: int64(jobs[nj].ID)}
			nj++
		} else {
			to.Task = dispatch.Place{Created: tasks[nt].Created, ID: int64(tasks[nt].ID)}
			nt++
		}
	}
	return a.list(tasks[:nt], jobs[:nj]), nj+nt < len(jobs)+len(tasks), to, nil
}

// taskPart gives a task with a part of its jobs, by their numbers.
func (a *api) taskPart(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, q pageQuery, fresh time.Duration) (part UpscalingTask, more bool, to bookmark, err error) {
	t, jobs, err := a.Broker.ReadTaskPage(ctx, u, id, q.after(q.at.Task), fresh)
	if err != nil {
		return part, false, to, err
	}
	n := min(q.limit, len(jobs))
	if n > 0 {
		to.Task.ID = int64(jobs[n-1].Number)
	}
	return a.task(t, jobs[:n]), n < len(jobs), to, nil
}

// cursorKey is the same in all processes that share a secret, and in each another where there is none.
func cursorKey(secret dispatch.Secret, random string) []byte {
	key := sha256.Sum256([]byte("cursor " + cmp.Or(secret.Reveal(), random)))
	return key[:]
}
