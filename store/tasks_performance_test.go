package store_test

import (
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// BenchmarkPerformanceOfTasks compares what is read of a task of 10,000 jobs with the same of a task of 100, beside 100,000 other jobs.
func BenchmarkPerformanceOfTasks(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "a task of 100 and one of 10,000\t100\t10,000\tratio")
	eachDatabase(b, func(b *testing.B, s dispatch.Store, analyze func()) {
		fill(b, s, 10)
		few, many := finishedTask(b, s, 100), finishedTask(b, s, 10_000)
		analyze()
		for _, read := range []struct {
			name string
			read func(*testing.B, dispatch.Store, dispatch.TaskRecord)
		}{{"the first page of 10 results", readResults}, {"the task", readCounts}, {"the jobs of the last change", readChange}} {
			small, large := leastOf(b, s, few, read.read), leastOf(b, s, many, read.read)
			fmt.Fprintf(table, "%s, %s\t%v\t%v\t%.2f\n", b.Name(), read.name, small, large, float64(large)/float64(small))
		}
	})
}

// finishedTask returns a task whose n jobs have finished, one after the other.
func finishedTask(b *testing.B, s dispatch.Store, n int) dispatch.TaskRecord {
	b.Helper()
	task := &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)}, Dimension: "d"}
	jobs := drafts(n)
	for i := range jobs {
		jobs[i].Phase, jobs[i].Status, jobs[i].Body = dispatch.Ended, dispatch.Finished, []byte(`[1,2,3,4]`)
	}
	if _, err := s.Accept(b.Context(), dispatch.Key{}, task, jobs); err != nil {
		b.Fatal(err)
	}
	last := task.Created
	for i, j := range jobs {
		job, err := s.Load(b.Context(), j.ID)
		if err != nil {
			b.Fatal(err)
		}
		last = last.Add(time.Minute)
		job.Moved, job.Updated = last, last
		jobs[i].Job = job
	}
	for i := 0; i < n; i += 1000 {
		var part []dispatch.Job
		for _, d := range jobs[i:min(n, i+1000)] {
			part = append(part, d.Job)
		}
		if kept, err := s.Save(b.Context(), part); err != nil || len(kept) != len(part) {
			b.Fatal(len(kept), err)
		}
	}
	t, err := s.Task(b.Context(), "ann", task.ID)
	if err != nil || t.Counts[dispatch.Finished] != n {
		b.Fatal(t.Counts, err)
	}
	return t
}

func readResults(b *testing.B, s dispatch.Store, t dispatch.TaskRecord) {
	readCounts(b, s, t)
	if page, err := s.FinishedJobs(b.Context(), "ann", t.ID, dispatch.ResultPosition{At: t.Created.Add(time.Minute)}, 11); err != nil || len(page) != 11 {
		b.Fatal(len(page), err)
	}
}

func readCounts(b *testing.B, s dispatch.Store, t dispatch.TaskRecord) {
	if _, err := s.Task(b.Context(), "ann", t.ID); err != nil {
		b.Fatal(err)
	}
}

func readChange(b *testing.B, s dispatch.Store, t dispatch.TaskRecord) {
	if c, err := s.TaskChanges(b.Context(), "ann", t.ID, dispatch.Page{Since: t.Updated.Add(-time.Second)}, time.Minute); err != nil || len(c.Jobs) != 1 {
		b.Fatal(len(c.Jobs), err)
	}
}

// leastOf returns the shortest duration of 50 reads.
func leastOf(b *testing.B, s dispatch.Store, t dispatch.TaskRecord, read func(*testing.B, dispatch.Store, dispatch.TaskRecord)) time.Duration {
	shortest := time.Hour
	for range 50 {
		began := time.Now()
		read(b, s, t)
		shortest = min(shortest, time.Since(began))
	}
	return shortest.Round(time.Microsecond)
}
