package api

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

var nextLink = regexp.MustCompile(`^<([^>]+)>; rel="next"$`)

// nextOf returns the address of the next page; "" after the last.
func nextOf(t *testing.T, a *httptest.ResponseRecorder) string {
	t.Helper()
	link := a.Header().Get("Link")
	if link == "" {
		return ""
	}
	m := nextLink.FindStringSubmatch(link)
	if m == nil {
		t.Fatalf("Link %q", link)
	}
	return m[1]
}

// mixed has tasks of three jobs and single jobs in alternation, each a second younger than the one before.
func mixed(t *testing.T, n int) (*world, API) {
	t.Helper()
	w := newWorld()
	h := New(w.config())
	for i := range n {
		path, body := "/unit_jobs", goodBody
		if i%2 == 1 {
			path, body = "/upscale_tasks", goodTask
		}
		decode[any](t, ask(h, "POST", path, body), 201)
	}
	for id, r := range w.jobs {
		r.Created = r.Created.Add(time.Duration(id) * time.Second)
		w.jobs[id] = r
	}
	for id, r := range w.tasks {
		r.Created = r.Created.Add(time.Duration(id) * 2 * time.Second)
		w.tasks[id] = r
	}
	return w, h
}

func TestPages_Filters(t *testing.T) {
	w, h := mixed(t, 6)
	w.set(1, func(r *dispatch.Record) { r.Status = dispatch.Running })
	count := func(query string) int {
		t.Helper()
		l := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status?filter=processing&"+query, ""), 200)
		return len(l.ProcessingJobs)
	}
	since := url.QueryEscape(moment.Format(time.RFC3339))
	for query, want := range map[string]int{"status=running": 1, "status=running&status=submitted": 3,
		"status=failed": 0, "platform=cdse": 3,
		"platform=other": 0, "since=" + since: 1, "limit=1": 1, "limit=999999": 3} {
		if n := count(query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	if l := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status?status=running", ""),
		200); len(l.UpscalingTasks) != 0 || l.UpscalingTasks == nil {
		t.Errorf("tasks %v", l.UpscalingTasks)
	}
}

func TestCursors_CannotBeForged(t *testing.T) {
	_, h := mixed(t, 6)
	next := nextOf(t, ask(h, "GET", "/jobs_status?limit=2&status=submitted", ""))
	u, err := url.Parse(next)
	if err != nil || u.Query().Get("cursor") == "" {
		t.Fatalf("next %q, %v", next, err)
	}
	cursor := u.Query().Get("cursor")
	decode[any](t, ask(h, "GET", next, ""), 200)
	decode[any](t, ask(h, "GET", "/jobs_status?limit=1&status=submitted&cursor="+cursor, ""), 200)
	flipped := []byte(cursor)
	flipped[len(flipped)-3] ^= 1
	other := newWorld()
	for name, a := range map[string]*httptest.ResponseRecorder{
		"another's":    ask(h, "GET", next, "", "Authorization", "Bearer token-bert"),
		"other filter": ask(h, "GET", "/jobs_status?cursor="+cursor, ""),
		"other list":   ask(h, "GET", "/upscale_tasks/1?status=submitted&cursor="+cursor, ""),
		"changed":      ask(h, "GET", "/jobs_status?status=submitted&cursor="+string(flipped), ""),
		"made up":      ask(h, "GET", "/jobs_status?cursor=eyJqIjp7fX0", ""),
		"no base64":    ask(h, "GET", "/jobs_status?cursor=%25%25", ""),
		"empty":        ask(h, "GET", "/jobs_status?cursor=", ""),
		"elsewhere":    ask(New(other.config()), "GET", next, ""),
	} {
		if f := failed(t, a, 422, "VALIDATION_ERROR"); len(f.Detail) != 1 || f.Detail[0].Loc[1] != "cursor" {
			t.Errorf("%s: %+v", name, f.Detail)
		}
	}
	failed(t, ask(h, "GET", next, "", "Authorization", ""), 401, "AUTHENTICATION_FAILED")
	bad := failed(t, ask(h, "GET", "/jobs_status?limit=0&status=done&since=today&filter=x&cursor=y", ""), 422,
		"VALIDATION_ERROR")
	if len(bad.Detail) != 4 { // a cursor is read when the rest is right
		t.Errorf("faults %+v", bad.Detail)
	}
}

func TestCursors_AreSharedByProcesses(t *testing.T) {
	w, _ := mixed(t, 6)
	c := w.config()
	c.Secret = "canary"
	next := nextOf(t, ask(New(c), "GET", "/jobs_status?limit=2", ""))
	decode[any](t, ask(New(c), "GET", next, ""), 200)
	if strings.Contains(next, "canary") {
		t.Error("the secret is in the link")
	}
}

// A page reads as much of each request as fits into the memory for pages, and a longer one by itself.
func TestPages_AreReadOnce(t *testing.T) {
	for _, row := range []struct {
		limit, text int
		most        []int
	}{
		{100, 100, []int{dispatch.PartMost}},
		{100, 9 << 10, []int{dispatch.PartMost}}, // the request is read by itself
		{1000, 100, []int{live.PageBytes / 1001}},
		{1000, 4 << 10, []int{live.PageBytes / 1001}},
	} {
		w := newWorld()
		c := w.config()
		pages := &pageReads{world: w}
		c.Broker = pages
		h := New(c)
		body := strings.Replace(goodBody, `"<b>&"`, `"`+strings.Repeat("x", row.text)+`"`, 1)
		decode[any](t, ask(h, "POST", "/unit_jobs", body), 201)
		list := decode[wire.JobsStatusResponse](t, ask(h, "GET", fmt.Sprintf("/jobs_status?limit=%d", row.limit), ""),
			200)
		if n := len(list.ProcessingJobs); n != 1 || len(list.ProcessingJobs[0].Parameters) < row.text {
			t.Errorf("limit %d: %d jobs, or a part of one", row.limit, n)
		}
		if !slices.Equal(pages.most, row.most) {
			t.Errorf("limit %d, %d bytes: read with at most %v bytes of a request, want %v", row.limit, row.text,
				pages.most, row.most)
		}
		h.Close()
	}
}

// pageReads records how much of each request was read.
type pageReads struct {
	*world
	most []int
}

func (p *pageReads) History(ctx context.Context, u dispatch.UserID, at broker.Position, want broker.Kinds,
	page dispatch.Page) iter.Seq2[broker.Entry, error] {
	p.most = append(p.most, page.Most)
	return p.world.History(ctx, u, at, want, page)
}
