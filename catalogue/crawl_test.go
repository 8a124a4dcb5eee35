package catalogue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// web is servers by URL. Documents have ETags; "" is a server that does not respond, "404" and the like a status.
type web struct {
	mu        sync.Mutex
	documents map[string]string
	requests  map[string]int
	unchanged int // responses 304
}

func newWeb(documents map[string]string) *web {
	return &web{documents: documents, requests: map[string]int{}}
}

func (w *web) set(url, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.documents[url] = text
}

func (w *web) sum() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, more := range w.requests {
		n += more
	}
	return n
}

func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[r.URL.String()]++
	text, there := w.documents[r.URL.String()]
	a := httptest.NewRecorder()
	etag := fmt.Sprintf(`"%d-%x"`, len(text), text)
	switch {
	case there && text == "":
		return nil, errors.New("connection refused")
	case !there, text == "404":
		a.Code = 404
	case text == "503":
		a.Code = 503
	case r.Header.Get("If-None-Match") == etag:
		w.unchanged++
		a.Code = 304
	default:
		a.Header().Set("ETag", etag)
		_, _ = io.WriteString(a, text)
	}
	return a.Result(), nil
}

func (w *web) client() *upstream.Client {
	return upstream.New(upstream.Config{Transport: w})
}

// named returns a record with an id.
func named(id string) string { return strings.Replace(someRecord, `"id": "one"`, `"id": "`+id+`"`, 1) }

const root = "https://catalogue.example.org/a/root.json"

// TestCrawl_Shapes reads each shape that a source can have.
func TestCrawl_Shapes(t *testing.T) {
	for name, documents := range map[string]map[string]string{
		"a record": {root: named("1")},
		"a list":   {root: "[" + named("1") + "," + named("2") + "]"},
		"addresses": {root: `["1.json", "https://catalogue.example.org/a/2.json", "1.json#again"]`,
			"https://catalogue.example.org/a/1.json": named("1"), "https://catalogue.example.org/a/2.json": named("2")},
		"pages": {root: `{"type": "FeatureCollection", "features": [` + named("1") +
			`], "links": [{"rel": "next", "href": "?page=2"}, {"rel": "self", "href": "x"}]}`,
			root + "?page=2": `{"type": "FeatureCollection", "features": [` + named("2") +
				`], "links": [{"rel": "next", "href": "?page=2"}]}`},
		"a STAC-like catalogue": {root: `{"type": "Catalog", "links": [{"rel": "child", "href": "./b/catalog.json"}, {"rel": "item", "href": "1.json"}, {"rel": "root", "href": "none.json"}]}`,
			"https://catalogue.example.org/a/b/catalog.json": `{"type": "Catalog", "links": [{"rel": "parent", "href": "../root.json"}, {"rel": "item", "href": "../2.json"}, {"rel": "child", "href": "../root.json"}]}`,
			"https://catalogue.example.org/a/1.json":         named("1"),
			"https://catalogue.example.org/a/2.json":         named("2")},
		"a collection of records": {root: `{"links": [{"rel": "items", "href": "items"}]}`,
			"https://catalogue.example.org/a/items": `{"type": "FeatureCollection", "features": [` + named("1") + "," +
				named("2") + `]}`},
	} {
		w := newWeb(documents)
		c := read(t, w.client(), root)
		want := []string{"1", "2"}
		if name == "a record" {
			want = want[:1]
		}
		page, _ := c.Search(catalogue.Query{})
		if got := ids(page); !slices.Equal(got, want) || len(c.Rejections()) != 0 || len(c.Failures()) != 0 {
			t.Errorf("%s: %v, %v, %v", name, got, c.Rejections(), c.Failures())
		}
		for address, n := range w.requests {
			if n != 1 {
				t.Errorf("%s: %d requests for %s", name, n, address)
			}
		}
	}
}

// TestCrawl_RelativeLinks resolves a record's links against its own address.
func TestCrawl_RelativeLinks(t *testing.T) {
	w := newWeb(map[string]string{root: strings.NewReplacer(`https://apps.example.org/p.json`, `../p.json`,
		`https://p.example.org/t.png`, `t.png`).Replace(named("1"))})
	s, ok := read(t, w.client(), root).Find("1")
	if !ok || s.Service.Application != "https://catalogue.example.org/p.json" ||
		s.Thumbnail != "https://catalogue.example.org/a/t.png" {
		t.Errorf("%v %+v", ok, s)
	}
}

// TestCrawl_FaultyParts: what cannot be read has a reason, and does not keep the rest from being read.
func TestCrawl_FaultyParts(t *testing.T) {
	w := newWeb(map[string]string{
		root: `["good.json", "none.json", "down.json", "broken.json", "other.json", "javascript:x", "http://plain.example.org/x", "https://10.0.0.1/x", "https://localhost/x", 7, {"type": "x"}]`,
		"https://catalogue.example.org/a/good.json": named("1"), "https://catalogue.example.org/a/down.json": "",
		"https://catalogue.example.org/a/broken.json": "<html>",
		"https://catalogue.example.org/a/other.json":  `{"id": "x"}`,
	})
	c := read(t, w.client(), root)
	got := map[string]string{}
	for _, r := range c.Rejections() {
		got[strings.TrimPrefix(r.Address, "https://catalogue.example.org/a/")] = r.Reason
	}
	want := map[string]string{
		"none.json":                  "it cannot be read: The server responded with HTTP status 404 Not Found",
		"down.json":                  "it cannot be read: The server did not respond",
		"broken.json":                "it cannot be read: it is not JSON in UTF-8",
		"other.json":                 "it is neither a record nor a list or page of records",
		"http://plain.example.org/x": "it cannot be read: This URL cannot be used: only https is allowed",
		"root.json":                  "it is not a record: a record is a GeoJSON Feature with properties.type",
		"https://10.0.0.1/x": "it cannot be read: This URL cannot be used: the host resolves to a non-public " +
			"address",
		"https://localhost/x": got["https://localhost/x"],
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if page, _ := c.Search(catalogue.Query{}); !slices.Equal(ids(page), []string{"1"}) {
		t.Errorf("%v", ids(page))
	}
	for _, first := range []string{"", "404", "503", "<html>"} {
		w.set(root, first)
		if c := read(t, w.client(), root); len(c.Failures()) != 1 || c.Failures()[root] == "" {
			t.Errorf("%q: %v", first, c.Failures())
		}
	}
}

// TestCrawl_IsBounded: a source that leads to ever more documents is not read to its end.
func TestCrawl_IsBounded(t *testing.T) {
	endless := roundTripper(func(r *http.Request) (*http.Response, error) {
		a := httptest.NewRecorder()
		n := 0
		fmt.Sscanf(r.URL.RawQuery, "n=%d", &n)
		fmt.Fprintf(a, `{"type": "Catalog", "links": [`)
		for i := range 20 {
			fmt.Fprintf(a, `{"rel": "child", "href": "?n=%d"},`, 20*n+i+1)
		}
		fmt.Fprint(a, `{}]}`)
		return a.Result(), nil
	})
	documents, bytes := bounds.CatalogueDocuments, bounds.CatalogueBytes
	defer func() { bounds.CatalogueDocuments, bounds.CatalogueBytes = documents, bytes }()
	bounds.CatalogueDocuments.Most, bounds.CatalogueBytes.Most = 500, 1<<20 // so that the test takes little time
	c := read(t, upstream.New(upstream.Config{Transport: endless}), root)
	if failure := c.Failures()[root]; failure != "more than 500 documents (bound catalogue_documents)" {
		t.Errorf("%q", failure)
	}
	large := roundTripper(func(r *http.Request) (*http.Response, error) {
		a := httptest.NewRecorder()
		fmt.Fprint(a, `["?1","?2","?3","?4","?5","?6","?7","?8","?9","`+strings.Repeat("x", 200<<10)+`"]`)
		return a.Result(), nil
	})
	c = read(t, upstream.New(upstream.Config{Transport: large}), root)
	if failure := c.Failures()[root]; failure != "more than 1,048,576 bytes (bound catalogue_bytes)" {
		t.Errorf("%q", failure)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCrawl_GuardsAddresses: a page leads only to public servers, and private ones are read only where they are
// configured as sources.
func TestCrawl_GuardsAddresses(t *testing.T) {
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/list" {
			fmt.Fprintf(w, `["/1", "http://%s/2", "http://localhost:1/3"]`,
				strings.Replace(r.Host, "127.0.0.1", "127.0.0.2", 1))
			return
		}
		fmt.Fprint(w, named(strings.TrimPrefix(r.URL.Path, "/")))
	}))
	defer private.Close()
	source := private.URL + "/list"
	if c := read(t, upstream.New(upstream.Config{}), source); len(c.Failures()) != 1 {
		t.Errorf("not trusted: %v", c.Failures())
	}
	c := read(t, upstream.New(upstream.Config{Trust: []string{source}}), source)
	if page, _ := c.Search(catalogue.Query{}); !slices.Equal(ids(page), []string{"1"}) || len(c.Rejections()) != 2 {
		t.Errorf("%v, %v, %v", ids(page), c.Rejections(), c.Failures())
	}
}

// replica is one process with a catalogue.
func replica(ctx context.Context, running *sync.WaitGroup, store catalogue.Sources, w *web,
	sources ...string) *catalogue.Catalogue {
	c := catalogue.New(catalogue.Config{Sources: sources, Platforms: platforms(), Store: store, Client: w.client()})
	running.Go(func() { c.Run(ctx) })
	return c
}

// TestRun_KeepsTheLastGoodState follows a source, with one of its records, through outages and changes, in two
// processes of which one reads.
func TestRun_KeepsTheLastGoodState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		w := newWeb(map[string]string{root: `["1.json", "2.json"]`,
			"https://catalogue.example.org/a/1.json": named("1"),
			"https://catalogue.example.org/a/2.json": named("2")})
		store := conformance.NewMemStore(conformance.WallClock{})
		replicas := []*catalogue.Catalogue{replica(ctx, &running, store, w, root),
			replica(ctx, &running, store, w, root)}
		begin := time.Now().UTC().Truncate(time.Microsecond)
		expect := func(what string, requests int, stale map[string]time.Time) {
			t.Helper()
			synctest.Wait()
			if n := w.sum(); n != requests {
				t.Errorf("%s: %d requests, want %d", what, n, requests)
			}
			for i, c := range replicas {
				got := map[string]time.Time{}
				for _, s := range all(t, c) {
					got[s.ID] = s.StaleSince
				}
				if d := cmp.Diff(stale, got); d != "" {
					t.Errorf("%s, replica %d: %s", what, i, d)
				}
			}
		}
		never := time.Time{}
		time.Sleep(10 * time.Second)
		expect("at first", 3, map[string]time.Time{"1": never, "2": never})
		time.Sleep(time.Hour)
		if expect("after an hour", 6, map[string]time.Time{"1": never, "2": never}); w.unchanged != 3 {
			t.Errorf("%d were unchanged", w.unchanged)
		}
		read := begin.Add(time.Hour)
		w.set("https://catalogue.example.org/a/2.json", "503")
		time.Sleep(time.Hour)
		expect("one is down", 9, map[string]time.Time{"1": never, "2": read})
		read1, read2 := begin.Add(2*time.Hour), read
		w.set(root, "")
		time.Sleep(time.Hour)
		expect("the source is down", 10, map[string]time.Time{"1": read1, "2": read2})
		if f := replicas[1].Failures()[root]; f != "The server did not respond" {
			t.Errorf("failure %q", f)
		}
		time.Sleep(5 * time.Minute)
		expect("it is tried again soon", 11, map[string]time.Time{"1": read1, "2": read2})
		fresh := []*catalogue.Catalogue{replica(ctx, &running, store, w, root)}
		replicas = append(replicas, fresh...)
		time.Sleep(time.Second)
		expect("a process that starts meanwhile", 11, map[string]time.Time{"1": read1, "2": read2})
		w.set(root, `["2.json"]`)
		w.set("https://catalogue.example.org/a/2.json", named("3"))
		time.Sleep(5 * time.Minute)
		expect("it is back, and changed", 13, map[string]time.Time{"3": never})
		w.set("https://catalogue.example.org/a/2.json", "404")
		time.Sleep(time.Hour)
		expect("a record is gone", 15, map[string]time.Time{})
		if r := replicas[0].Rejections(); len(r) != 1 || r[0].Address != "https://catalogue.example.org/a/2.json" {
			t.Errorf("%v", r)
		}
	})
}

// TestRun_AProcessThatStopsLeavesTheSource: another process reads it at once.
func TestRun_AProcessThatStopsLeavesTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := conformance.NewMemStore(conformance.WallClock{})
		hangs := upstream.New(upstream.Config{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		ctx, stop := context.WithCancel(t.Context())
		first := catalogue.New(catalogue.Config{Sources: []string{root}, Platforms: platforms(), Store: store,
			Client: hangs})
		var running sync.WaitGroup
		running.Go(func() { first.Run(ctx) })
		synctest.Wait()
		stop()
		running.Wait()
		ctx, stop = context.WithCancel(t.Context())
		defer running.Wait()
		defer stop()
		second := replica(ctx, &running, store, newWeb(map[string]string{root: named("1")}), root)
		synctest.Wait()
		if got := all(t, second); len(got) != 1 {
			t.Errorf("%v, %v", got, second.Failures())
		}
	})
}

// TestRun_StoreThatIsDown: the catalogue shows what it knows, and goes on when the database is back.
func TestRun_StoreThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		store := &unsteady{Sources: conformance.NewMemStore(conformance.WallClock{})}
		w := newWeb(map[string]string{root: named("1")})
		c := replica(ctx, &running, store, w, root)
		synctest.Wait()
		store.fail(errors.New("down"))
		w.set(root, named("2"))
		time.Sleep(2 * time.Hour)
		if _, ok := c.Find("1"); !ok || w.sum() != 1 {
			t.Errorf("%v, after %d requests", ok, w.sum())
		}
		store.fail(nil)
		time.Sleep(10 * time.Second)
		if _, ok := c.Find("2"); !ok {
			t.Errorf("%v", c.Rejections())
		}
	})
}

type unsteady struct {
	catalogue.Sources
	mu  sync.Mutex
	err error
}

func (u *unsteady) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = err
}

func (u *unsteady) SourceStates(ctx context.Context) (map[string]dispatch.SourceState, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return nil, u.err
	}
	return u.Sources.SourceStates(ctx)
}
