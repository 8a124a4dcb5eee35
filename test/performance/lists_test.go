package performance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const kept = 100_000 // jobs of one user

// BenchmarkPerformanceOfLists reads the list of a user with 100,000 jobs, a task of 10,000 jobs, and a list of few jobs
// with large requests, as a whole and in pages, from the real program on both databases.
func BenchmarkPerformanceOfLists(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true, Life: simulator.Life{Run: time.Hour}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintf(table, "%d records of one user\tSQLite\tPostgreSQL\tratio\n", kept)
	lite, post := listing(b, w, "sqlite:"+filepath.Join(b.TempDir(), "d.db")), listing(b, w, postgres.Database(b))
	lite = append(lite, listingLarge(b, w, "sqlite:"+filepath.Join(b.TempDir(), "large.db"))...)
	post = append(post, listingLarge(b, w, postgres.Database(b))...)
	for i, row := range lite {
		fmt.Fprintf(table, "%s\t%v\t%v\t%.1f\n", row.what, row.took.Round(10*time.Microsecond),
			post[i].took.Round(10*time.Microsecond), float64(post[i].took)/float64(row.took))
	}
}

// reading is the time that one kind of read took.
type reading struct {
	what string
	took time.Duration
}

func listing(b *testing.B, w *simulator.World, database string) (all []reading) {
	keepMany(b, w, database)
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "ogc", "protocol": "ogc-api-processes", "endpoint": w.OGCURL, "access": "open",
			"limits": map[string]any{"jobs": 2}},
	})
	known := w.Credentials
	p := program.Start(b, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+known.Issuer,
		"EODISPATCH_DATABASE="+database,
		"EODISPATCH_IDENTITY_AUDIENCE="+known.BrokerID, "EODISPATCH_PLATFORMS="+string(platforms))
	defer p.Stop(b)
	c := fast{program.SignIn(b, w, p.Address)}
	c.must(b, http.MethodPost, "/upscale_tasks", manyTiles(w, 10_000), nil)

	often := func(what, path string) {
		var times []time.Duration
		for range 21 {
			times = append(times, took(func() { c.part(b, path) }))
		}
		all = append(all, reading{what, median(times)})
	}
	once := func(what string, do func()) { all = append(all, reading{what, took(do)}) }
	often("a page of 100, the first", "/jobs_status?filter=processing&limit=100")
	next := "/jobs_status?filter=processing&limit=1000"
	once("half of the list in pages of 1000", func() {
		for range kept / 1000 / 2 {
			_, next = c.part(b, next)
		}
	})
	middle, err := url.Parse(next)
	if err != nil {
		b.Fatal(err)
	}
	query := middle.Query()
	query.Set("limit", "100")
	often("a page of 100, in the middle", middle.Path+"?"+query.Encode())
	often("a page of 100 failed jobs, 1 in 100", "/jobs_status?filter=processing&limit=100&status=failed")
	often("a page of 100 unknown jobs, of which there are none",
		"/jobs_status?filter=processing&limit=100&status=unknown")
	size := 0
	once("the whole list", func() { size, _ = c.part(b, "/jobs_status?filter=processing") })
	b.Logf("%s: the whole list is %.1f MB", strings.SplitN(database, ":", 2)[0], float64(size)/1e6)
	const stream = "/ws/upscale_tasks/1?changes=true"
	once("a task of 10,000, whole", func() { c.part(b, "/upscale_tasks/1") })
	all = append(all, reading{"that task, not modified", c.unmodified(b, "/upscale_tasks/1")})
	often("a page of 100 of that task, the first", "/upscale_tasks/1?limit=100")
	_, next = c.part(b, "/upscale_tasks/1?limit=1000")
	for range 4 {
		_, next = c.part(b, next)
	}
	often("a page of 1000 of that task, in the middle", next)
	first, whole := newStreams(b, c, stream)
	all = append(all, reading{"the first 1,000 jobs of that task in a new stream, longest of 7, aim 40 ms", first},
		reading{"all of its jobs there, longest of 7", whole})
	often("all platforms", "/platforms")
	return all
}

// newStreams returns the longest of seven times from the opening of a stream until the first part of the state of its
// topic has arrived, and until all parts have.
func newStreams(b *testing.B, c fast, path string) (first, whole time.Duration) {
	for range 7 {
		begin := time.Now()
		stream := openStream(b, c, path)
		for more := true; more; {
			text, err := stream.next()
			if err != nil {
				b.Fatal(err)
			}
			if bytes.HasPrefix(text, []byte(`{"type":"status"`)) {
				first = max(first, time.Since(begin))
			}
			more = bytes.HasSuffix(text, []byte(`"more":true}`)) || bytes.HasPrefix(text, []byte(`{"type":"init"`))
		}
		whole = max(whole, time.Since(begin))
		stream.Close()
	}
	return first, whole
}

// unmodified returns the median time of a request that is answered with 304. The pause before each request lets the
// broker's caches expire.
func (c fast) unmodified(b *testing.B, path string) time.Duration {
	var times []time.Duration
	for tag := ""; len(times) < 7; {
		<-time.After(3 * time.Second)
		begin := time.Now()
		r, err := http.NewRequest(http.MethodGet, c.Broker+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.Token)
		r.Header.Set("If-None-Match", tag)
		answer, err := program.Pooled.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusNotModified {
			times = append(times, time.Since(begin))
		}
		tag = answer.Header.Get("ETag")
	}
	return median(times[1:]) // the first also reads the task, with its revision
}

// keepMany stores the jobs of the user that signs in. All have ended; 1 in 100 failed.
func keepMany(b *testing.B, w *simulator.World, database string) {
	s, err := store.Open(b.Context(), database, conformance.WallClock{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	body, _ := json.Marshal(program.OGC(w)) // cannot fail: a constant
	owner := ownerOf(b, w)
	for range kept / 10_000 {
		drafts := endedDrafts(owner, body, 10_000)
		for i := 0; i < len(drafts); i += 100 {
			drafts[i].Status = dispatch.Failed
		}
		if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, drafts); err != nil {
			b.Fatal(err)
		}
	}
}

// endedDrafts returns finished jobs that have a request.
func endedDrafts(owner dispatch.UserID, body []byte, n int) []dispatch.Draft {
	drafts := make([]dispatch.Draft, n)
	for i := range drafts {
		drafts[i] = dispatch.Draft{Body: body, Job: dispatch.Job{Identity: dispatch.Identity{Owner: owner},
			Target: dispatch.Target{Account: "ogc/open"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
			Handover:  dispatch.Handover{Phase: dispatch.Ended},
			Condition: dispatch.Condition{Status: dispatch.Finished}}}
	}
	return drafts
}

// listingLarge returns the processor time of the broker while four clients read a list of 30 jobs with requests of 10
// MiB each at once.
func listingLarge(b *testing.B, w *simulator.World, database string) (all []reading) {
	s, err := store.Open(b.Context(), database, conformance.WallClock{})
	if err != nil {
		b.Fatal(err)
	}
	large := program.OGC(w)
	large.Parameters = json.RawMessage(`{"marker":"` + strings.Repeat("0123456789abcdef", (10<<20)/16) + `"}`)
	body, _ := json.Marshal(large) // cannot fail: constants
	owner := ownerOf(b, w)
	for range 30 {
		if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, endedDrafts(owner, body, 1)); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	p := program.Start(b, append(benchmarked(w), "EODISPATCH_DATABASE="+database)...)
	defer p.Stop(b)
	c := fast{program.SignIn(b, w, p.Address)}
	for _, row := range [][2]string{{"whole", "filter=processing"}, {"a page", "filter=processing&limit=100"},
		{"a page without parameters", "filter=processing&limit=100&parameters=false"}} {
		before := program.CPUTime(b, p.Process.Pid)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() { c.drain(b, "/jobs_status?"+row[1]) })
		}
		clients.Wait()
		all = append(all, reading{"processor time of 4 clients, 30 requests of 10 MiB: " + row[0],
			program.CPUTime(b, p.Process.Pid) - before})
	}
	return all
}

// ownerOf returns the id of the user that signs in.
func ownerOf(b *testing.B, w *simulator.World) dispatch.UserID {
	subject, err := program.Subject(program.SignIn(b, w, "").Token)
	if err != nil {
		b.Fatal(err)
	}
	return dispatch.UserID(w.Credentials.Issuer + " " + subject)
}

// drain requests a list, and reads the response without keeping it.
func (c fast) drain(b *testing.B, path string) {
	request, err := http.NewRequest(http.MethodGet, c.Broker+path, nil)
	if err != nil {
		b.Error(err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	response, err := program.Pooled.Do(request)
	if err != nil {
		b.Error(err)
		return
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		b.Errorf("%s: %s %v", path, response.Status, err)
	}
}

// part requests a page, and returns the size of the response in bytes and the address of the next page.
func (c fast) part(b *testing.B, path string) (size int, next string) {
	request, err := http.NewRequest(http.MethodGet, c.Broker+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	response, err := program.Pooled.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s %v %.200s", path, response.Status, err, text)
	}
	return len(text), program.Between(response.Header.Get("Link"), "<", ">")
}
