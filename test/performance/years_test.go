package performance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	endedInYears = 1_000_000 // jobs, half of them in tasks
	deletedTasks = 2         // of 10,000 jobs each
	manyAccounts = 10_000    // with a job that runs
)

// BenchmarkPerformanceOfYears measures what a database of 1,000,000 ended jobs costs: its size, the start of the
// program, first pages of lists, and for how long another write waits while jobs that users deleted are purged. It also
// measures the memory of accounts that have a job and nothing to do.
func BenchmarkPerformanceOfYears(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	row := newTable(b, "1,000,000 ended jobs", "SQLite", "PostgreSQL", "aim")
	file := filepath.Join(b.TempDir(), "d.db")
	url := postgres.Database(b)
	lite := manyYears(b, w, "sqlite:"+file, func() float64 { return sizeOf(b, file, file+"-wal") })
	post := manyYears(b, w, url, func() float64 { return postgresSize(b, url) })
	for i, r := range lite {
		row(r.what, r.measured, post[i].measured, r.aim)
	}
}

// yearsRow is one measurement.
type yearsRow struct{ what, measured, aim string }

func manyYears(b *testing.B, w *simulator.World, database string, size func() float64) (rows []yearsRow) {
	row := func(what string, measured any, aim string) {
		rows = append(rows, yearsRow{what, fmt.Sprint(measured), aim})
	}
	s, err := store.Open(b.Context(), database, conformance.WallClock{})
	if err != nil {
		b.Fatal(err)
	}
	owner := ownerOf(b, w)
	empty := size()
	began := time.Now()
	var last dispatch.TaskID
	for n := 0; n < endedInYears; n += 20_000 {
		keepEnded(b, s, owner, nil)
		task := &dispatch.Task{Owner: owner, Account: "ogc/open", Request: dispatch.Request{Parameters: []byte("{}")},
			Dimension: "d"}
		keepEnded(b, s, owner, task)
		last = task.ID
	}
	row("stored at, jobs/s", int(endedInYears/time.Since(began).Seconds()), "")
	row("size of the database for each ended job, without results", fmt.Sprintf("%.2f kB",
		(size()-empty)/endedInYears/1000), "2 kB")
	for i := range deletedTasks {
		if _, err := s.CancelTask(b.Context(), owner, last-dispatch.TaskID(i), true); err != nil {
			b.Fatal(err)
		}
	}
	took, longest := purging(b, s)
	row("purge of 20,000 jobs that were deleted", took.Round(time.Millisecond), "")
	row("the longest that another write waited meanwhile", longest.Round(100*time.Microsecond), "50 ms")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if _, err := executable.Released(); err != nil { // built before the time is taken
		b.Fatal(err)
	}
	begin := time.Now()
	p := program.Start(b, append(benchmarked(w), "EODISPATCH_DATABASE="+database)...)
	row("start", time.Since(begin).Round(time.Millisecond), "1 s")
	c := fast{program.SignIn(b, w, p.Address)}
	for _, page := range [][2]string{{"first page of 100 jobs"}, {"first page of 100 failed jobs, 1 in 100",
		"&status=failed"}} {
		row(page[0], c.median(b, func() {
			c.must(b, http.MethodGet, "/jobs_status?filter=processing&limit=100"+page[1], nil, nil)
		}).Round(10*time.Microsecond), "10 ms")
	}
	p.Stop(b)
	heap, resident := memoryOfAccounts(b, w, database)
	row("memory in use after visits of 10,000 idle accounts, for each", fmt.Sprintf("%.2f kB", heap), "1 kB")
	row("resident memory, for each, after a garbage collection", fmt.Sprintf("%.2f kB", resident), "")
	return rows
}

// keepEnded stores 10,000 ended jobs, alone or of a task, as they are after their end. 1 in 100 failed.
func keepEnded(b *testing.B, s *store.Store, owner dispatch.UserID, t *dispatch.Task) {
	b.Helper()
	body := []byte(`{"west":5.05,"south":51.2,"east":5.15,"north":51.25}`)
	if t == nil {
		body = []byte(
			`{"title":"NDVI, June","label":"openeo","format":"gtiff","service":{"endpoint":"https://openeo.example.org","application":"https://example.org/udp/ndvi.json"},` +
				`"parameters":{"spatial_extent":{"west":5.05,"south":51.2,"east":5.15,"north":51.25},"temporal_extent":["2024-06-01","2024-07-01"]}}`)
	}
	drafts := make([]dispatch.Draft, 10_000)
	for i := range drafts {
		drafts[i] = dispatch.Draft{Body: body, Job: dispatch.Job{Identity: dispatch.Identity{Owner: owner},
			Target: dispatch.Target{Account: "ogc/open", Base: "https://openeo.example.org"},
			Wish:   dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}}
		if t != nil {
			drafts[i].Number = i + 1
		}
	}
	if _, err := s.Accept(b.Context(), dispatch.Key{}, t, drafts); err != nil {
		b.Fatal(err)
	}
	jobs := make([]dispatch.Job, len(drafts))
	costs, done := 2.5, 100.0
	for i, d := range drafts {
		j := d.Job
		j.Phase, j.Status, j.Seen, j.Progress, j.Costs, j.Epoch, j.Attempt = dispatch.Ended, dispatch.Finished,
			dispatch.Finished, &done, &costs, 4, 1
		if i%100 == 0 {
			j.Status, j.Failure = dispatch.Failed, "The platform says: out of memory."
		}
		j.Ref = dispatch.Ref{Base: j.Base, ID: fmt.Sprintf("j-%026d", d.ID)}
		j.Updated = j.Updated.Add(time.Hour)
		j.Checked, j.Moved = j.Updated, j.Updated
		jobs[i] = j
	}
	for i := 0; i < len(jobs); i += 1000 {
		if saved, err := s.Save(b.Context(), jobs[i:i+1000]); err != nil || len(saved) != 1000 {
			b.Fatal(len(saved), err)
		}
	}
}

// purging purges, and returns how long that took, and the longest time of a write that was made meanwhile.
func purging(b *testing.B, s *store.Store) (all, longest time.Duration) {
	ctx, stop := context.WithCancel(b.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			longest = max(longest, took(func() {
				if err := s.Wake(b.Context(), "ogc/other"); err != nil {
					b.Error(err)
				}
			}))
		}
	})
	all = took(func() {
		if err := s.Purge(b.Context(), -2*time.Hour); err != nil {
			b.Error(err)
		}
	})
	stop()
	writing.Wait()
	return all, longest
}

// memoryOfAccounts returns by how many kB the memory of the program is larger when it has visited many accounts, each
// with a running job whose status is not due: what is in use on its heap, and its resident memory. The latter includes
// what a thousand visits at once needed and the runtime or SQLite keeps for later.
func memoryOfAccounts(b *testing.B, w *simulator.World, database string) (heap, resident float64) {
	none, noneResident := memoryAfterVisits(b, w, database, 0)
	keepIdle(b, database)
	heap, resident = memoryAfterVisits(b, w, database, manyAccounts)
	return (heap - none) / manyAccounts, (resident - noneResident) / manyAccounts
}

// memoryAfterVisits starts the program, waits until it has made so many visits, and returns its memory in kB: see
// keptMemory.
func memoryAfterVisits(b *testing.B, w *simulator.World, database string, visits int) (heap, resident float64) {
	private := executable.FreeAddress(b)
	p := program.Start(b, append(benchmarked(w), "EODISPATCH_DATABASE="+database, "EODISPATCH_TELEMETRY_LISTEN="+
		private)...)
	defer p.Stop(b)
	fast{program.SignIn(b, w, p.Address)}.must(b, http.MethodGet, "/usage", nil, nil)
	for began := time.Now(); figure(b, "http://"+private+"/metrics",
		`(?m)^eodispatch_visits_total\{outcome="ok"\} (\S+)`) < float64(visits); {
		if time.Since(began) > 5*time.Minute {
			b.Fatalf("fewer than %d visits", visits)
		}
		<-time.After(100 * time.Millisecond)
	}
	return keptMemory(b, p, private)
}

// keptMemory returns the memory of a program in kB: what is in use on its heap, and what is resident 10 s after a
// garbage collection, when the runtime has returned what it needed before. private is the address of its private
// listener.
func keptMemory(b *testing.B, p *executable.Program, private string) (heap, resident float64) {
	const collected = "/debug/pprof/heap?gc=1&debug=1"
	// needs memory of its own, which the next collection frees
	figure(b, "http://"+private+collected, "HeapAlloc = ([0-9]+)")
	heap = figure(b, "http://"+private+collected, "HeapAlloc = ([0-9]+)") / 1000
	<-time.After(10 * time.Second)
	return heap, memoryOf(b, p)
}

// figure returns a number in a document: the first group of a pattern, or 0.
func figure(b *testing.B, url, pattern string) (n float64) {
	response, err := http.Get(url)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	if found := regexp.MustCompile(pattern).FindSubmatch(text); found != nil {
		if n, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
			b.Fatal(err)
		}
	}
	return n
}

// keepIdle stores a running job for each of many accounts.
func keepIdle(b *testing.B, database string) {
	s, err := store.Open(b.Context(), database, conformance.WallClock{})
	if err != nil {
		b.Fatal(err)
	}
	drafts := make([]dispatch.Draft, manyAccounts)
	for i := range drafts {
		owner := dispatch.UserID(fmt.Sprintf("https://id.example.org/realms/eo %08d", i))
		drafts[i] = dispatch.Draft{Body: []byte("{}"), Job: dispatch.Job{Identity: dispatch.Identity{Owner: owner},
			Target: dispatch.Target{Account: dispatch.Account("ogc/" +
				owner)}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
			Handover:  dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}}
	}
	jobs := make([]dispatch.Job, len(drafts))
	for i := range drafts {
		if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, drafts[i:i+1]); err != nil {
			b.Fatal(err)
		}
		jobs[i] = drafts[i].Job
		jobs[i].Phase, jobs[i].Status, jobs[i].Ref.ID, jobs[i].Due = dispatch.Started, dispatch.Running,
			fmt.Sprint(drafts[i].ID), jobs[i].Due.AddDate(1, 0, 0)
	}
	for i := 0; i < len(jobs); i += 1000 {
		if _, err := s.Save(b.Context(), jobs[i:i+1000]); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// sizeOf returns the size of files in bytes.
func sizeOf(b *testing.B, names ...string) (bytes float64) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		bytes += float64(info.Size())
	}
	return bytes
}

// postgresSize returns the size of a database in bytes.
func postgresSize(b *testing.B, url string) (bytes float64) {
	c, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(b.Context(), "SELECT pg_database_size(current_database())::float8").Scan(&bytes); err != nil {
		b.Fatal(err)
	}
	return bytes
}
