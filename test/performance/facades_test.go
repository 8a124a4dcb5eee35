package performance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const batchJobs = 10_000 // of one user

// BenchmarkPerformanceOfTheFacades compares the openEO API with the broker's own interface, and what it costs the
// platform, on SQLite with the real program. Its rows are ratios, except for the answer from the cache, whose aim is a
// time.
func BenchmarkPerformanceOfTheFacades(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true, Life: simulator.Life{Run: time.Hour}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "openeo", "protocol": "openeo", "endpoint": w.OpenEOURL, "access": "open",
			"limits": map[string]any{"jobs": 500}},
	})
	known := w.Credentials
	p := program.Start(b, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+known.Issuer,
		"EODISPATCH_DATABASE=sqlite:"+filepath.Join(b.TempDir(), "f.db"),
		"EODISPATCH_IDENTITY_AUDIENCE="+known.BrokerID, "EODISPATCH_PLATFORMS="+string(platforms))
	b.Cleanup(func() { p.Stop(b) })
	d := door{b, program.SignIn(b, w, p.Address), "/openeo/openeo/1.2"}
	row := newTable(b, "openEO API", "measured", "aim")

	d.get("/collections")
	answer := d.median(200, func() { d.get("/collections") })
	row("a document from the cache", answer.Round(10*time.Microsecond).String(), "< 2ms")

	process :=
		`{"process": {"process_graph": {"add": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true}}}}`
	own := program.OpenEO(w)
	direct := d.median(100, func() {
		if _, err := d.Submit(b.Context(), own); err != nil {
			b.Fatal(err)
		}
	})
	drafted := d.median(100, func() { d.send("POST", "/jobs/"+d.create(process)+"/results", "", http.StatusAccepted) })
	row("a batch job that is created and started, to a job of /unit_jobs", fmt.Sprintf("%.2f", ratio(drafted, direct)),
		"<= 1.1")

	ids := d.running(50)
	took, requests := watched(b, w, func() {
		for range 10 {
			for _, id := range ids {
				d.get("/jobs/" + id)
			}
			<-time.After(time.Second)
		}
	})
	row(fmt.Sprintf("%d running batch jobs that are each read 10 times in %v", len(ids), took.Round(time.Second)),
		requests, "no single reads")

	path := "/jobs?limit=50"
	for range 250 { // both pages show batch jobs that are not started, whose list is another
		d.create(process)
	}
	short := d.median(50, func() { d.get(path) })
	for range batchJobs - 250 {
		d.create(process)
	}
	first := d.median(50, func() { d.get(path) })
	for range batchJobs / 50 / 2 {
		path = d.next(d.get(path))
	}
	middle := d.median(50, func() { d.get(path) })
	row(fmt.Sprintf("a page of 50 of %d batch jobs, to one of 250", batchJobs),
		fmt.Sprintf("%.2f", ratio(first, short)), "1")
	row("a page in the middle, to the first", fmt.Sprintf("%.2f", ratio(middle, first)), "1")
}

// BenchmarkPerformanceOfTheOGCFacade compares OGC API - Processes with the broker's own interface, on SQLite with the
// real program.
func BenchmarkPerformanceOfTheOGCFacade(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "ogc", "protocol": "ogc-api-processes", "endpoint": w.OGCURL, "access": "open",
			"limits": map[string]any{"jobs": 1_000}},
	})
	known := w.Credentials
	p := program.Start(b, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+known.Issuer,
		"EODISPATCH_DATABASE=sqlite:"+filepath.Join(b.TempDir(), "f.db"),
		"EODISPATCH_IDENTITY_AUDIENCE="+known.BrokerID, "EODISPATCH_PLATFORMS="+string(platforms),
		"EODISPATCH_SERVICES=[{id: ndvi, title: NDVI, platform: ogc, application: ndvi}]")
	b.Cleanup(func() { p.Stop(b) })
	d := door{b, program.SignIn(b, w, p.Address), "/ogcapi"}
	row := newTable(b, "OGC API - Processes", "measured", "aim")

	for _, path := range []string{"/processes", "/processes/ndvi"} {
		d.get(path)
		row(path+" from the cache", d.median(200, func() { d.get(path) }).Round(10*time.Microsecond).String(), "< 2ms")
	}

	own, execution := program.OGC(w), `{"inputs": {"bbox": `+program.Box+`}}`
	direct := func() {
		if _, err := d.Submit(b.Context(), own); err != nil {
			b.Error(err)
		}
	}
	execute := func() { d.send("POST", "/processes/ndvi/execution", execution, http.StatusCreated) }
	var through, plain []time.Duration
	for range 200 { // in turn, so that both have the same machine
		plain, through = append(plain, took(direct)), append(through, took(execute))
	}
	row("an execution, to a job of /unit_jobs", fmt.Sprintf("%.2f", ratio(median(through), median(plain))), "<= 1.1")

	short := d.median(50, func() { d.get("/jobs?limit=50") })
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range batchJobs / 16 {
				direct()
			}
		})
	}
	all.Wait()
	path := "/jobs?limit=50"
	first := d.median(50, func() { d.get(path) })
	for range batchJobs / 50 / 2 {
		path = d.next(d.get(path))
	}
	middle := d.median(50, func() { d.get(path) })
	row(fmt.Sprintf("a page of 50 of %d jobs, to one of 400", batchJobs), fmt.Sprintf("%.2f", ratio(first, short)), "1")
	row("a page in the middle, to the first", fmt.Sprintf("%.2f", ratio(middle, first)), "1")
}

// door is a client of an API in front of the platforms.
type door struct {
	*testing.B
	program.Client
	root string
}

func (d door) median(n int, do func()) time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = took(do)
	}
	return median(times)
}

func (d door) get(path string) []byte { return d.send("GET", path, "", http.StatusOK) }

// create creates a batch job and returns its id.
func (d door) create(body string) string {
	a := d.ask("POST", "/jobs", body)
	defer a.Body.Close()
	if a.StatusCode != http.StatusCreated {
		d.Fatal(a.Status)
	}
	return a.Header.Get("OpenEO-Identifier")
}

func (d door) send(method, path, body string, status int) []byte {
	a := d.ask(method, path, body)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != status {
		d.Fatalf("%s %s: %s %v %.500s", method, path, a.Status, err, text)
	}
	return text
}

func (d door) ask(method, path, body string) *http.Response {
	r, err := http.NewRequestWithContext(d.Context(), method, d.Broker+d.root+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.Token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	return a
}

// running waits until n batch jobs run, and returns their ids.
func (d door) running(n int) (ids []string) {
	for {
		var page struct {
			Jobs []struct{ ID, Status string }
		}
		if err := json.Unmarshal(d.get("/jobs"), &page); err != nil {
			d.Fatal(err)
		}
		ids = ids[:0]
		for _, j := range page.Jobs {
			if j.Status == "running" && len(ids) < n {
				ids = append(ids, j.ID)
			}
		}
		if len(ids) == n {
			return ids
		}
		<-time.After(time.Second)
	}
}

// next returns the path of the next page of a list.
func (d door) next(page []byte) string {
	var list struct {
		Links []struct{ Rel, Href string }
	}
	if err := json.Unmarshal(page, &list); err != nil {
		d.Fatal(err)
	}
	for _, l := range list.Links {
		if l.Rel == "next" {
			return strings.TrimPrefix(l.Href, d.Broker+d.root)
		}
	}
	d.Fatalf("no next page: %.300s", page)
	return ""
}
