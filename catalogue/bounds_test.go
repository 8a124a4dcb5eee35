package catalogue_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// lower lowers a bound for the time of a test.
func lower(t *testing.T, b *bounds.Bound, most int64) {
	before := *b
	t.Cleanup(func() { *b = before })
	b.Most = most
}

// TestCrawl_StopsAtItsBytes: the documents to which one page leads are not all in memory before their size is checked.
func TestCrawl_StopsAtItsBytes(t *testing.T) {
	lower(t, &bounds.CatalogueBytes, 4<<20)
	var requests atomic.Int64
	page := "["
	for i := range 100 {
		page += fmt.Sprintf(`"?%d",`, i)
	}
	large := roundTripper(func(r *http.Request) (*http.Response, error) {
		requests.Add(1)
		a := httptest.NewRecorder()
		if r.URL.RawQuery == "" {
			fmt.Fprint(a, page+`"?100"]`)
		} else {
			fmt.Fprint(a, `{"x": "`+strings.Repeat("x", 1<<20)+`"}`)
		}
		return a.Result(), nil
	})
	c := read(t, upstream.New(upstream.Config{Transport: large}), root)
	if failure := c.Failures()[root]; failure != "more than 4,194,304 bytes (bound catalogue_bytes)" {
		t.Errorf("%q", failure)
	}
	// the page, four that fit, and those that are read at once when the next does not fit
	if n := requests.Load(); n > 10 {
		t.Errorf("%d requests", n)
	}
}

// TestCrawl_LeadsToShortAddresses: links that are relative to a long address are not multiplied by it.
func TestCrawl_LeadsToShortAddresses(t *testing.T) {
	long := root + "?" + strings.Repeat("x", 3_000)
	w := newWeb(map[string]string{root: `["` + long + `", "1.json"]`, long: named("2"),
		"https://catalogue.example.org/a/1.json": named("1")})
	if got := all(t, read(t, w.client(), root)); len(got) != 1 || got[0].ID != "1" || w.sum() != 2 {
		t.Errorf("%v, %d requests", got, w.sum())
	}
}

// TestRecords_AreBounded: neither the records of a source nor the reasons why they are not used take the memory that
// its publisher likes.
func TestRecords_AreBounded(t *testing.T) {
	lower(t, &bounds.CatalogueRecords, 1_500)
	services := make([]string, 1_600)
	for i := range services {
		services[i] = named(fmt.Sprint("s", i))
	}
	for text, want := range map[string]struct {
		services, rejections int
		last, failure        string
	}{
		"[0" + strings.Repeat(",0", 100_000) + "]":                                      {},
		`{"type": "FeatureCollection", "features": [0` + strings.Repeat(",0", 9) + "]}": {},
		"[{}" + strings.Repeat(",{}", 1_199) + "]": {0, 1_001,
			"200 further records are not used", ""},
		"[{}" + strings.Repeat(",{}", 1_999) + "]": {0, 1_001,
			"1000 further records are not used", "more than 1,500 records (bound catalogue_records)"},
		"[" + strings.Join(services, ",") + "]": {1_500, 1,
			"100 further records are not used", "more than 1,500 records (bound catalogue_records)"},
	} {
		c := read(t, newWeb(map[string]string{root: text}).client(), root)
		refused := c.Rejections()
		if len(all(t, c)) != want.services || len(refused) != want.rejections || c.Failures()[root] != want.failure {
			t.Errorf("%.40s: %d services, %d rejections, failure %q", text, len(all(t, c)), len(refused),
				c.Failures()[root])
		}
		if want.last != "" && !strings.HasPrefix(refused[len(refused)-1].Reason, want.last) {
			t.Errorf("%.40s: %v", text, refused[len(refused)-1])
		}
	}
}

// TestCrawl_KeepsWhatIsWithinABound shows the records that were read before a source was at its bound, as current.
func TestCrawl_KeepsWhatIsWithinABound(t *testing.T) {
	lower(t, &bounds.CatalogueDocuments, 3)
	w := newWeb(map[string]string{root: `["1.json", "2.json", "3.json"]`})
	for _, id := range []string{"1", "2", "3"} {
		w.set("https://catalogue.example.org/a/"+id+".json", named(id))
	}
	c := read(t, w.client(), root)
	got := all(t, c)
	if len(got) != 2 || got[0].ID != "1" || !got[0].StaleSince.IsZero() ||
		c.Failures()[root] != "more than 3 documents (bound catalogue_documents)" {
		t.Errorf("%v, %v", got, c.Failures())
	}
}

// TestRun_ASlowSource: it holds up no other source, and what was read of it until the deadline is shown.
func TestRun_ASlowSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		const other = "https://other.example.org/one.json"
		page := `["1.json"`
		for i := range 1_000 {
			page += fmt.Sprintf(`,"?%d"`, i)
		}
		w := newWeb(map[string]string{root: page + "]", "https://catalogue.example.org/a/1.json": named("1"),
			other: named("2")})
		slow := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.RawQuery != "" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return w.RoundTrip(r)
		})
		c := catalogue.New(catalogue.Config{Sources: []string{root, other}, Platforms: platforms(),
			Store:  conformance.NewMemStore(conformance.WallClock{}),
			Client: upstream.New(upstream.Config{Transport: slow})})
		running.Go(func() { c.Run(ctx) })
		synctest.Wait()
		if got := all(t, c); len(got) != 1 || got[0].ID != "2" {
			t.Errorf("at first: %v", got)
		}
		time.Sleep(10 * time.Minute)
		if got := all(t, c); len(got) != 2 || c.Failures()[root] != "it could not be read to its end in time" {
			t.Errorf("after the deadline: %v, %v", got, c.Failures())
		}
	})
}

// TestSources_TheFirstHasTheID: a later source cannot take the place of a service, and an attempt is in the log.
func TestSources_TheFirstHasTheID(t *testing.T) {
	const other = "https://other.example.org/one.json"
	w := newWeb(map[string]string{root: strings.Replace(named("1"), `"title": "One"`, `"title": "Trusted"`, 1),
		other: named("1")})
	var log bytes.Buffer
	c := catalogue.New(catalogue.Config{Sources: []string{root, other}, Platforms: platforms(), Client: w.client(),
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	c.Read(t.Context())
	if s, _ := c.Find("1"); s.Title != "Trusted" || !strings.Contains(log.String(), "level=WARN") ||
		!strings.Contains(log.String(), "ids=[1]") {
		t.Errorf("%+v\n%s", s, log.String())
	}
}
