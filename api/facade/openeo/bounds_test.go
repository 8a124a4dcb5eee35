package openeo

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// failing are the records of a task with many jobs that failed.
type records = broker.Records

type failing struct {
	records
	jobs  []dispatch.Record
	reads int // of the whole list
}

func (b *failing) TaskJobs(_ context.Context, _ dispatch.UserID, _ dispatch.TaskID, p dispatch.Page) ([]dispatch.Record,
	error) {
	if p.After.ID == 0 {
		b.reads++
	}
	i := slices.IndexFunc(b.jobs, func(j dispatch.Record) bool { return int64(j.Number) == p.After.ID }) + 1
	return b.jobs[i:min(i+p.Limit, len(b.jobs))], nil
}

// alone is a server with no other requests.
type alone struct{ facade.Server }

func (alone) InTurns(_ context.Context, _ dispatch.UserID, jobs iter.Seq2[dispatch.Record,
	error]) iter.Seq2[dispatch.Record, error] {
	return jobs
}

// TestFailures_AreReadInPages: the log of a task with many failures costs the memory of a page, and its pages have each
// failure once, in order.
func TestFailures_AreReadInPages(t *testing.T) {
	t.Parallel()
	const n = 3*longestLog + 17
	b := &failing{}
	for i := range n {
		b.jobs = append(b.jobs, dispatch.Record{Job: dispatch.Job{Identity: dispatch.Identity{ID: dispatch.JobID(i + 1),
			Number: i + 1}, Condition: dispatch.Condition{Moved: time.Unix(int64(i/2), 0)}}})
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { b.jobs[i], b.jobs[j] = b.jobs[j], b.jobs[i] })
	f := New(Config{Broker: &broker.Broker{Records: b}})
	r := &request{Request: httptest.NewRequest("GET", "/", nil), Server: alone{}}
	next, at := 1, logPlace{}
	for next <= n {
		all, err := f.failuresOf(r, 1, at)
		if err != nil || len(all) == 0 || len(all) > 2*longestLog {
			t.Fatalf("%d entries after %v, %v", len(all), at, err)
		}
		for _, e := range all[:min(len(all), longestLog)] {
			if want := fmt.Sprintf("Tile %d failed", next); !strings.HasPrefix(e.Message, want) {
				t.Fatalf("%q, want %s", e.Message, want)
			}
			next, at = next+1, e.place()
		}
	}
}

// TestTotals_AreReadOnce: the jobs of an ended task are read once for its costs, and again when one of them changed or
// was deleted.
func TestTotals_AreReadOnce(t *testing.T) {
	t.Parallel()
	b := &failing{jobs: make([]dispatch.Record, 3)}
	for i := range b.jobs {
		b.jobs[i].Number = i + 1
		b.jobs[i].Costs = new(2.0)
	}
	f := New(Config{Broker: &broker.Broker{Records: b}})
	r := &request{Request: httptest.NewRequest("GET", "/", nil), Server: alone{}}
	task := dispatch.TaskRecord{Task: dispatch.Task{ID: 1, Updated: time.Unix(1, 0)},
		Counts: dispatch.Counts{dispatch.Finished: 3}}
	read := func(reads int, costs float64) {
		t.Helper()
		got, err := f.taskTotal(r, task)
		if err != nil || b.reads != reads || got.costs == nil || *got.costs != costs {
			t.Errorf("after %d reads %+v, %v; want %d, %v", b.reads, got, err, reads, costs)
		}
	}
	read(1, 6)
	read(1, 6)
	task.Updated, b.jobs[0].Costs = time.Unix(2, 0), new(5.0)
	read(2, 9)
	task.Counts, b.jobs = dispatch.Counts{dispatch.Finished: 2}, b.jobs[1:]
	read(3, 4)
	for i := range mostTotals + 5 {
		f.totals.keep(dispatch.TaskRecord{Task: dispatch.Task{ID: dispatch.TaskID(i + 2)}}, total{})
	}
	if n := len(f.totals.kept); n > mostTotals {
		t.Errorf("%d are kept", n)
	}
}

// TestInline_LooksForFewProcesses: a graph that names many processes costs a bounded number of queries.
func TestInline_LooksForFewProcesses(t *testing.T) {
	t.Parallel()
	graph := map[string]any{}
	for i := range 20_000 {
		graph[fmt.Sprint("n", i)] = map[string]any{"process_id": fmt.Sprint("p", i), "arguments": map[string]any{}}
	}
	queries := 0
	in := &inliner{meter: bounds.GraphBytes.Meter(t.Context()), known: map[string]*ownProcess{},
		find: func(string) ([]byte, error) {
			queries++
			return nil, &dispatch.Error{Kind: dispatch.NotFound}
		}}
	if _, err := in.graph(graph); err == nil || !strings.Contains(err.Error(), "ProcessGraphComplexity") ||
		queries > 3_000 {
		t.Errorf("%d queries, %v", queries, err)
	}
}
