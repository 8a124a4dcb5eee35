package stac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/facade/stac"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

type ( // whose methods have the same names
	keptItems   = broker.Items
	keptRecords = broker.Records
)

// shelf has the Items and tasks of users. It finds Items in the order of their jobs.
type shelf struct {
	keptItems
	keptRecords

	items map[dispatch.UserID][]dispatch.Item
	tasks map[dispatch.TaskID]dispatch.UserID
}

func (s *shelf) FindItems(_ context.Context, u dispatch.UserID, q dispatch.ItemQuery) (p dispatch.ItemPage, err error) {
	after, err := strconv.Atoi("0" + q.After)
	if bad := (dispatch.Annotations{Labels: q.Labels}).Check(); bad != nil { // a database can fail
		return p, &dispatch.Error{Kind: dispatch.Internal, Op: "test", Err: bad}
	}
	if err != nil {
		return p, &dispatch.Error{Kind: dispatch.Invalid, Op: "test"}
	}
	for _, i := range s.items[u] {
		switch {
		case int(i.Job) <= after || len(q.Jobs) > 0 && !slices.Contains(q.Jobs, i.Job),
			len(q.Tasks) > 0 && !slices.Contains(q.Tasks, i.Task), len(q.Services) > 0 || len(q.Labels) > 0,
			q.Meets != nil && !q.Meets(i.Box), q.Box != nil && (i.Box[0] > q.Box[2] || i.Box[2] < q.Box[0]),
			!q.From.IsZero() && i.Last.Before(q.From), !q.To.IsZero() && i.First.After(q.To):
			continue
		case len(p.Items) == q.Limit:
			p.Next = strconv.Itoa(int(p.Items[len(p.Items)-1].Job))
			return p, nil
		}
		p.Items = append(p.Items, i)
	}
	return p, nil
}

func (*shelf) ItemExtents(context.Context, dispatch.UserID,
	[]dispatch.TaskID) (map[dispatch.TaskID]dispatch.ItemExtent, error) {
	return nil, nil
}

func (*shelf) ItemServices(context.Context, dispatch.UserID) (map[dispatch.ServiceHash]dispatch.JobID, error) {
	return nil, nil
}

func (s *shelf) Task(_ context.Context, u dispatch.UserID, id dispatch.TaskID) (t dispatch.TaskRecord, err error) {
	if t.ID = id; s.tasks[id] != u {
		err = &dispatch.Error{Kind: dispatch.NotFound, Op: "test"}
	}
	return t, err
}

func (s *shelf) Tasks(_ context.Context, u dispatch.UserID, p dispatch.Page) (all []dispatch.TaskRecord, err error) {
	for id, owner := range s.tasks {
		if owner == u && (p.After.ID == 0 || int64(id) < p.After.ID) {
			var t dispatch.TaskRecord
			t.ID, t.Created = id, time.Unix(int64(id), 0)
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b dispatch.TaskRecord) int { return int(b.ID - a.ID) })
	return all[:min(p.Limit, len(all))], nil
}

type verifier struct{}

func (verifier) Verify(_ context.Context, token dispatch.Secret) (identity.Caller, error) {
	if token.Reveal() != "ann" && token.Reveal() != "bob" {
		return identity.Caller{}, errors.New("not valid")
	}
	return identity.Caller{User: dispatch.UserID(token.Reveal())}, nil
}

// day is the first of the days of Items.
var day = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// add puts an Item on the shelf: at as many degrees, and of the day after so many days.
func (s *shelf) add(u dispatch.UserID, job, task, at, days int) {
	i := dispatch.Item{Job: dispatch.JobID(job), Task: dispatch.TaskID(task), Account: "p/x", Read: true,
		Box: []float64{float64(at), 0, float64(at) + .5, 1}, First: day.AddDate(0, 0, days),
		Head: json.RawMessage(`{"properties":{}}`)}
	i.Last = i.First
	s.items[u] = append(s.items[u], i)
	slices.SortFunc(s.items[u], func(a, b dispatch.Item) int { return int(a.Job - b.Job) })
}

func newShelf() *shelf {
	return &shelf{items: map[dispatch.UserID][]dispatch.Item{}, tasks: map[dispatch.TaskID]dispatch.UserID{}}
}

// server serves a shelf.
func server(t testing.TB, s *shelf) http.Handler {
	t.Helper()
	h := api.New(api.Config{Verifier: verifier{}, Log: slog.New(slog.DiscardHandler), PublicURL: "https://b.example",
		Facades: []facade.Facade{stac.New(stac.Config{Title: "T", Version: "1",
			Broker: &broker.Broker{Setup: &dispatch.Setup{}, Items: s, Records: s}})}})
	t.Cleanup(h.Close)
	return h
}

// ask sends a request of a user; "": of nobody.
func ask(h http.Handler, user, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+user)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Clients find all that they need from the landing page, which needs no token. HEAD is GET without a body.
func TestLandingPage(t *testing.T) {
	h := server(t, newShelf())
	var page struct {
		ConformsTo []string
		Links      []struct{ Rel, Href, Method string }
	}
	if err := json.Unmarshal(ask(h, "", "GET", "/stac", "").Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	for _, class := range []string{"core", "collections", "ogcapi-features", "item-search", "item-search#query"} {
		if !slices.Contains(page.ConformsTo, "https://api.stacspec.org/v1.0.0/"+class) {
			t.Errorf("it does not conform to %s", class)
		}
	}
	rels := map[string]bool{}
	for _, l := range page.Links {
		rels[l.Rel+l.Method] = true
		at, _ := strings.CutPrefix(l.Href, "https://b.example")
		if l.Rel == "service-doc" || l.Method == "POST" {
			continue
		}
		get, head := ask(h, "ann", "GET", at, ""), ask(h, "ann", "HEAD", at, "")
		if get.Code != http.StatusOK || head.Code != get.Code || head.Header().Get("Content-Type") !=
			get.Header().Get("Content-Type") {
			t.Errorf("%s: %d, HEAD %d", l.Href, get.Code, head.Code)
		}
	}
	for _, rel := range []string{"self", "root", "conformance", "data", "searchGET", "searchPOST", "service-desc"} {
		if !rels[rel] {
			t.Errorf("no link %s", rel)
		}
	}
	for _, at := range []string{"/stac/search", "/stac/collections", "/stac/collections/results/items"} {
		if got := ask(h, "", "GET", at, ""); got.Code != http.StatusUnauthorized || got.Header().Get(
			"WWW-Authenticate") == "" {
			t.Errorf("%s without a token: %d %v", at, got.Code, got.Header())
		}
	}
}

// What is wrong with a search is said, and nothing is left out in silence.
func TestSearch_Refuses(t *testing.T) {
	s := newShelf()
	s.add("ann", 1, 0, 5, 0)
	h := server(t, s)
	huge := `{"type":"MultiPoint","coordinates":[` + strings.Repeat("[1,1],", 10_000) + `[1,1]]}`
	for query, want := range map[string]string{
		"bbox=1,2,3": "bbox", "bbox=NaN,0,1,1": "bbox", "bbox=0,9,1,8": "bbox", "bbox=-181,0,1,1": "bbox",
		"bbox=1e999,0,1,1": "bbox", "limit=0": "limit", "limit=-1": "limit", "limit=x": "limit",
		"limit=-99999999999999999999": "limit", "datetime=2024-01-01": "datetime", "datetime=../..": "datetime",
		"datetime=2024-01-02T00:00:00Z/2024-01-01T00:00:00Z": "datetime", "datetime=x/": "datetime",
		"token=x": "token", "query=x": "query", `query={"a":{"eq":1}}`: "query", `query={"task":{"lt":1}}`: "query",
		"task=x": "query", "intersects={}": "intersects", `intersects={"type":"Point"}`: "intersects",
		`intersects={"type":"Point","coordinates":[1]}`:                           "intersects",
		`intersects={"type":"Polygon","coordinates":[[[1,1],[2,2]]]}`:             "intersects",
		`intersects={"type":"MultiLineString","coordinates":[[],[[1,1],[2,2]]]}`:  "intersects",
		`intersects={"type":"Point","coordinates":[1,1]}&bbox=0,0,1,1`:            "intersects",
		"ids=" + strings.Repeat("1,", 1001):                                       "ids",
		"collections=task-1,service-1":                                            "collections",
		"filter=id='1'":                                                           "filter",
		"sortby=-datetime":                                                        "sortby",
		`intersects={"type":"GeometryCollection","geometries":[` + deep(9) + `]}`: "intersects",
	} {
		values := url.Values{}
		for part := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(part, "=")
			values.Set(name, value)
		}
		refused(t, ask(h, "ann", "GET", "/stac/search?"+values.Encode(), ""), query, want)
	}
	for body, want := range map[string]string{
		"[]": "search", `{"bbox":"1,2,3,4"}`: "search", `{"limit":"x"}`: "search", `{"ids":[1]}`: "search",
		`{"intersects":` + huge + `}`: "intersects", `{"filter":{"op":"=","args":[1,1]}}`: "filter",
		`{"sortby":[{"field":"id","direction":"asc"}]}`: "sortby",
	} {
		refused(t, ask(h, "ann", "POST", "/stac/search", body), body[:min(40, len(body))], want)
	}
	for _, body := range []string{`{"intersects":null,"bbox":null,"ids":null,"token":null,"filter":null}`, `{}`, ""} {
		if got := ask(h, "ann", "POST", "/stac/search", body); got.Code != http.StatusOK ||
			!strings.Contains(got.Body.String(), `"numberReturned":1`) {
			t.Errorf("%s: %d %s", body, got.Code, got.Body)
		}
	}
	if got := ask(h, "ann", "GET", "/stac/search?limit=99999999999999999999", ""); got.Code != http.StatusOK {
		t.Errorf("a limit above the largest: %d %s", got.Code, got.Body)
	}
}

// A method that an address does not have is named as such.
func TestMethods(t *testing.T) {
	h := server(t, newShelf())
	for request, allow := range map[string]string{"DELETE /stac/search": "GET, HEAD, POST, OPTIONS",
		"POST /stac/collections": "GET, HEAD, OPTIONS", "DELETE /stac/nothing": ""} {
		method, path, _ := strings.Cut(request, " ")
		got := ask(h, "ann", method, path, "")
		status := http.StatusMethodNotAllowed
		if allow == "" {
			status = http.StatusNotFound
		}
		if got.Code != status || got.Header().Get("Allow") != allow {
			t.Errorf("%s: %d, Allow: %q %s", request, got.Code, got.Header().Get("Allow"), got.Body)
		}
	}
}

// deep is a geometry in so many collections.
func deep(n int) string {
	return strings.Repeat(`{"type":"GeometryCollection","geometries":[`, n) + `{"type":"Point","coordinates":[1,1]}` +
		strings.Repeat("]}", n)
}

func refused(t *testing.T, got *httptest.ResponseRecorder, query, want string) {
	t.Helper()
	var p struct{ Code, Description string }
	if err := json.Unmarshal(got.Body.Bytes(), &p); err != nil || got.Code != http.StatusBadRequest || p.Code !=
		"BadRequest" || !strings.Contains(p.Description, want) {
		t.Errorf("%s: %d %s", query, got.Code, got.Body)
	}
}

// What belongs to another user is as if it did not exist, whatever names it.
func TestItems_OfOthers(t *testing.T) {
	s := newShelf()
	s.tasks[7], s.tasks[8] = "ann", "bob"
	for job := 1; job <= 30; job++ {
		s.add("ann", job, 7, 5, job)
	}
	s.add("bob", 40, 8, 5, 0)
	h := server(t, s)
	page := ask(h, "ann", "GET", "/stac/search?limit=5", "").Body.String()
	if !strings.Contains(page, `token=5`) {
		t.Fatalf("no next page: %s", page)
	}
	for _, at := range []string{"/stac/collections/task-7", "/stac/collections/task-7/items",
		"/stac/collections/task-7/items/1", "/stac/collections/results/items/1", "/stac/collections/task-8/items/1",
		"/stac/collections/x", "/stac/collections/task-x", "/stac/collections/service-1", "/stac/collections/x/items",
		"/stac/collections/task-8/items/x", "/stac/collections/task-8/items/-1",
		"/stac/collections/task-8/items/%2e%2e%2f1", "/stac/collections/../search", "/stac/x"} {
		if got := ask(h, "bob", "GET", at, ""); got.Code != http.StatusNotFound || strings.Contains(got.Body.String(),
			"task 7") {
			t.Errorf("%s: %d %s", at, got.Code, got.Body)
		}
	}
	many := ""
	for i := range dispatch.MostLabels + 1 {
		many += fmt.Sprintf("label=a%d:x&", i)
	}
	for _, query := range []string{"ids=1,2,3", "collections=task-7", "task=7", "token=5&ids=6", "label=%25:%25",
		`query={"label:%25":{"eq":"_"}}`, "token=39&collections=task-7", "label=a:%00", "label=a:%ff", many} {
		if got := ask(h, "bob", "GET", "/stac/search?"+query, ""); !strings.Contains(got.Body.String(),
			`"features":[]`) {
			t.Errorf("%s: %d %s", query, got.Code, got.Body)
		}
	}
	if got := ask(h, "bob", "GET", "/stac/collections", ""); strings.Contains(got.Body.String(), "task-7") {
		t.Errorf("collections: %s", got.Body)
	}
}

// found is a page of Items, or of Collections.
type found struct {
	Features    []struct{ ID string }
	Collections []struct{ ID string }
	Links       []struct {
		Rel, Href, Method string
		Body              json.RawMessage
	}
}

// follow reads pages until there is no next one, calls between after each, and returns the ids in the order in which
// they came.
func follow(t testing.TB, h http.Handler, method, at, body string, between func()) (ids []string) {
	t.Helper()
	for at != "" {
		got := ask(h, "ann", method, at, body)
		var page found
		if err := json.Unmarshal(got.Body.Bytes(), &page); err != nil || got.Code != http.StatusOK {
			t.Fatalf("%s %s %s: %d %s", method, at, body, got.Code, got.Body)
		}
		for _, f := range append(page.Features, page.Collections...) {
			ids = append(ids, f.ID)
		}
		at, body = "", ""
		for _, l := range page.Links {
			if l.Rel == "next" {
				at, body = strings.TrimPrefix(l.Href, "https://b.example"), string(l.Body)
				method = max(l.Method, "GET")
			}
		}
		between()
	}
	return ids
}

// Whoever follows the links gets each Item that matches once, whatever comes and goes meanwhile.
func TestPages_EveryItemOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newShelf()
		s.tasks[1], s.tasks[2] = "ann", "ann"
		n := rapid.IntRange(0, 60).Draw(rt, "items")
		for job := 1; job <= n; job++ {
			s.add("ann", 2*job, rapid.IntRange(1, 2).Draw(rt, "task"), rapid.IntRange(0, 3).Draw(rt, "at"),
				rapid.IntRange(0, 3).Draw(rt, "days"))
		}
		h := server(t, s)
		limit, at, days := rapid.IntRange(1, 9).Draw(rt, "limit"), rapid.IntRange(0, 3).Draw(rt, "east"),
			rapid.IntRange(0, 3).Draw(rt, "until")
		until := day.AddDate(0, 0, days).Format(time.RFC3339)
		method, target, body := "GET", fmt.Sprintf("/stac/search?collections=task-1&limit=%d&bbox=-1,0,%d,1&datetime=../%s",
			limit, at, until), ""
		switch rapid.IntRange(0, 2).Draw(rt, "how") {
		case 0:
			target = fmt.Sprintf("/stac/collections/task-1/items?limit=%d&bbox=-1,0,%d,1&datetime=../%s", limit, at, until)
		case 1:
			method, target, body = "POST", "/stac/search", fmt.Sprintf(
				`{"collections":["task-1"],"limit":%d,"bbox":[-1,0,%d,1],"datetime":"../%s"}`, limit, at, until)
		}
		gone := map[string]bool{}
		var want []string
		for _, i := range s.items["ann"] {
			if i.Task == 1 && i.Box[0] <= float64(at) && !i.First.After(day.AddDate(0, 0, days)) {
				want = append(want, strconv.Itoa(int(i.Job)))
			}
		}
		ids := follow(t, h, method, target, body, func() {
			if all := s.items["ann"]; len(all) > 0 && rapid.Bool().Draw(rt, "delete") {
				at := rapid.IntRange(0, len(all)-1).Draw(rt, "deleted")
				gone[strconv.Itoa(int(all[at].Job))] = true
				s.items["ann"] = slices.Delete(all, at, at+1)
			}
			odd := 2*rapid.IntRange(0, 60).Draw(rt, "new") + 1
			known := slices.ContainsFunc(s.items["ann"], func(i dispatch.Item) bool { return int(i.Job) == odd })
			if !known && rapid.Bool().Draw(rt, "add") {
				s.add("ann", odd, 1, 0, 0)
			}
		})
		seen := map[string]bool{}
		for _, id := range ids {
			if seen[id] && !gone[id] {
				rt.Fatalf("%s twice of %v", id, ids)
			}
			seen[id] = true
		}
		for _, id := range want {
			if !seen[id] && !gone[id] {
				rt.Fatalf("%s is missing among %v", id, ids)
			}
			delete(seen, id)
		}
		for id := range seen {
			if number, _ := strconv.Atoi(id); number%2 == 0 {
				rt.Fatalf("%s does not match", id)
			}
		}
	})
}

// Collections come in pages, each once.
func TestCollections_Pages(t *testing.T) {
	s := newShelf()
	for id := range 50 {
		s.tasks[dispatch.TaskID(1+id)] = "ann"
	}
	h := server(t, s)
	ids := follow(t, h, "GET", "/stac/collections", "", func() { s.tasks[dispatch.TaskID(100+len(s.tasks))] = "ann" })
	if len(ids) != 51 || ids[0] != "results" || ids[1] != "task-50" || ids[50] != "task-1" {
		t.Errorf("%v", ids)
	}
	if got := ask(h, "ann", "GET", "/stac/collections?token=x", ""); got.Code != http.StatusBadRequest {
		t.Errorf("a wrong token: %d", got.Code)
	}
}
