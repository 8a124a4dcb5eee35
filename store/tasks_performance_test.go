package store_test

import (
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// BenchmarkPerformanceOfTasks compares what is read of a task of 10,000 jobs with the same of a task of 100, beside
// 100,000 other jobs.
func BenchmarkPerformanceOfTasks(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "a task of 100 and one of 10,000\t100\t10,000\tratio")
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		fill(b, s, 10)
		few, many := finishedTask(b, s, 100), finishedTask(b, s, 10_000)
		analyze()
		for _, read := range []struct {
			name string
			read func(*testing.B, conformance.Store, dispatch.TaskRecord)
		}{{"the first page of 10 results", readResults}, {"the task", readCounts}, {"the jobs of the last change",
			readChange}} {
			small, large := leastOf(b, s, few, read.read), leastOf(b, s, many, read.read)
			fmt.Fprintf(table, "%s, %s\t%v\t%v\t%.2f\n", b.Name(), read.name, small, large,
				float64(large)/float64(small))
		}
	})
}

// finishedTask returns a task whose n jobs have finished, one after the other.
func finishedTask(b *testing.B, s conformance.Store, n int) dispatch.TaskRecord {
	b.Helper()
	task := &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)},
		Dimension: "d"}
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

func readResults(b *testing.B, s conformance.Store, t dispatch.TaskRecord) {
	readCounts(b, s, t)
	if page, err := s.FinishedJobs(b.Context(), "ann", t.ID, dispatch.ResultPosition{At: t.Created.Add(time.Minute)},
		11); err != nil || len(page) != 11 {
		b.Fatal(len(page), err)
	}
}

func readCounts(b *testing.B, s conformance.Store, t dispatch.TaskRecord) {
	if _, err := s.Task(b.Context(), "ann", t.ID); err != nil {
		b.Fatal(err)
	}
}

func readChange(b *testing.B, s conformance.Store, t dispatch.TaskRecord) {
	last, err := s.ChangesSince(b.Context(), "ann", t.ID, dispatch.NumberOnly, dispatch.Page{})
	if err != nil {
		b.Fatal(err)
	}
	c, err := s.ChangesSince(b.Context(), "ann", t.ID, dispatch.AfterNumber(last.Number-1), dispatch.Page{Limit: 1})
	if err != nil || len(c.Changed) != 1 {
		b.Fatal(len(c.Changed), err)
	}
}

// leastOf returns the shortest duration of 50 reads.
func leastOf(b *testing.B, s conformance.Store, t dispatch.TaskRecord, read func(*testing.B, conformance.Store,
	dispatch.TaskRecord)) time.Duration {
	shortest := time.Hour
	for range 50 {
		began := time.Now()
		read(b, s, t)
		shortest = min(shortest, time.Since(began))
	}
	return shortest.Round(time.Microsecond)
}

// BenchmarkPerformanceOfCancel measures how long another write waits while a task of 10,000 jobs that wait is changed.
func BenchmarkPerformanceOfCancel(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "10,000 jobs\ttakes\tlongest wait of another write")
	for _, hooks := range []int{0, 20} {
		eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
			for i := range hooks {
				h := dispatch.Hook{ID: fmt.Sprint(i), Owner: "ann", Kind: dispatch.Webhook,
					URL:      "https://r.example.org/",
					Sealed:   dispatch.Sealed{Key: "k", Text: "sealed"},
					Statuses: []dispatch.Status{dispatch.Finished, dispatch.Failed, dispatch.Canceled}}
				if err := s.(*store.Store).AddHook(b.Context(), h, hooks); err != nil {
					b.Fatal(err)
				}
			}
			task := &dispatch.Task{Owner: "ann", Account: "p/shared",
				Request:   dispatch.Request{Parameters: []byte(`{}`)},
				Dimension: "d"}
			jobs := drafts(10_000)
			for i := range jobs {
				jobs[i].Number = i + 1
			}
			if _, err := s.Accept(b.Context(), dispatch.Key{}, task, jobs); err != nil {
				b.Fatal(err)
			}
			analyze()
			for _, c := range []struct {
				name   string
				change func() error
			}{
				{"pause", func() error { _, err := s.PauseTask(b.Context(), "ann", task.ID); return err }},
				{"resume", func() error { _, err := s.ResumeTask(b.Context(), "ann", task.ID, nil); return err }},
				{"cancel", func() error { _, err := s.CancelTask(b.Context(), "ann", task.ID, false); return err }},
				{"delete", func() error { _, err := s.CancelTask(b.Context(), "ann", task.ID, true); return err }},
			} {
				took, waited := whileWriting(b, s, c.change)
				fmt.Fprintf(table, "%s, %s, %d hooks\t%v\t%v\n", b.Name(), c.name, hooks, took, waited)
			}
		})
	}
}

// whileWriting returns how long a change takes, and the longest of the small writes that are made meanwhile, one after
// the other.
func whileWriting(b *testing.B, s conformance.Store, change func() error) (took, waited time.Duration) {
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- change() }()
	for {
		asked := time.Now()
		if err := s.Wake(b.Context(), "p/shared"); err != nil {
			b.Fatal(err)
		}
		waited = max(waited, time.Since(asked))
		select {
		case err := <-done:
			if err != nil {
				b.Fatal(err)
			}
			return time.Since(began).Round(time.Millisecond), waited.Round(time.Millisecond)
		default:
		}
	}
}
