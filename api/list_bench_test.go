package api

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// BenchmarkStateOfATask writes the whole state of a task of 10,000 jobs, and its first part.
func BenchmarkStateOfATask(b *testing.B) {
	eachDatabase(b, func(b *testing.B, database string) {
		broker, _ := taskOf(b, database, 10_000)
		c := newWorld().config()
		c.Broker = broker
		a := New(c).(*api)
		of := live.Topic{User: anna, Task: 1}
		b.Run("whole", func(b *testing.B) {
			b.ReportAllocs()
			measure(b, func() error { return a.WriteWhole(b.Context(), io.Discard, of) })
		})
		b.Run("part", func(b *testing.B) {
			measure(b, func() error {
				r := a.NewRenderer(b.Context(), io.Discard, of)
				defer r.Close()
				task, err := r.ShareTask()
				if err != nil {
					return err
				}
				r.TaskWith(task, a.ListingOf(b.Context(), of, dispatch.Page{Limit: live.MostElements}).Jobs)
				return r.Err()
			})
		})
	})
}

// BenchmarkChange reads and writes the change of one job for a stream of changes: of a task of 10,000 jobs, and of the
// list of an owner with 100,000 jobs.
func BenchmarkChange(b *testing.B) {
	eachDatabase(b, func(b *testing.B, database string) {
		broker, s := taskOf(b, database, 10_000)
		drafts := make([]dispatch.Draft, 100_000)
		for i := range drafts {
			drafts[i] = dispatch.Draft{Body: []byte(`{"title":"t","parameters":{}}`), Job: dispatch.Job{
				Identity: dispatch.Identity{Owner: anna}, Target: dispatch.Target{Account: "cdse/open"},
				Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Ended},
				Condition: dispatch.Condition{Status: dispatch.Finished}}}
		}
		if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, drafts); err != nil {
			b.Fatal(err)
		}
		c := newWorld().config()
		c.Broker = broker
		a := New(c).(*api)
		for name, t := range map[string]live.Topic{"task": {User: anna, Task: 1, Bare: true},
			"list": {User: anna, Want: live.Filter{Upscaling: true, Processing: true}, Bare: true}} {
			id := int64(1)
			if t.Task == 0 {
				id = int64(drafts[0].ID)
			}
			b.Run(name, func(b *testing.B) { measureChange(b, a, t, dispatch.JobID(id)) })
		}
	})
}

func measureChange(b *testing.B, a *api, t live.Topic, id dispatch.JobID) {
	n, number := 0, int64(0)
	if c, err := a.NumberOf(b.Context(), t); err == nil {
		number = c.Number
	}
	var spent time.Duration
	for b.Loop() {
		n++
		note := fmt.Sprint(n)
		if _, err := a.Broker.AnnotateJob(b.Context(), t.User, id, dispatch.AnnotationChange{Note: &note}); err != nil {
			b.Fatal(err)
		}
		before := conformance.CPU(b)
		c, err := a.Broker.Changes(b.Context(), t.User, t.Task, dispatch.AfterNumber(number), live.FewChanges)
		if err != nil || len(c.Changed) != 1 {
			b.Fatal(len(c.Changed), err)
		}
		number = c.Number
		r := a.NewRenderer(b.Context(), &bytes.Buffer{}, t)
		r.Task = c.Task
		if r.Job(*c.Changed[0].Record); r.Err() != nil {
			b.Fatal("not written")
		}
		spent += conformance.CPU(b) - before
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/1000, "cpu-ms/op")
}

func measure(b *testing.B, run func() error) {
	before := conformance.CPU(b)
	for b.Loop() {
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((conformance.CPU(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
}

func eachDatabase(b *testing.B, run func(b *testing.B, database string)) {
	b.Run("SQLite", func(b *testing.B) { run(b, "sqlite:"+filepath.Join(b.TempDir(), "d.db")) })
	b.Run("PostgreSQL", func(b *testing.B) { run(b, postgres.Database(b)) })
}

// taskOf returns a broker over a database with a task of n jobs, half of which have ended.
func taskOf(b testing.TB, database string, n int) (*broker.Broker, *store.Store) {
	s, err := store.Open(b.Context(), database, conformance.WallClock{})
	if err != nil {
		b.Fatal(err)
	}
	p := &platform{}
	broker := conformance.NewBroker(s, p, &dispatch.Backend{Name: "cdse", Label: dispatch.OpenEO,
		Endpoint: "https://openeo.example.org", Access: dispatch.AccessOpen, Platform: p,
		Limits: dispatch.Limits{Jobs: 5, Requests: 2, Send: 5 * time.Second}})
	b.Cleanup(func() { s.Close() })
	task := &dispatch.Task{Owner: anna, Account: "cdse/open", Dimension: "spatial_extent",
		Request: dispatch.Request{Title: "NDVI of Belgium", Label: dispatch.OpenEO,
			Service: dispatch.Service{Endpoint: "https://openeo.example.org", Application: "ndvi"}, Format: "gtiff",
			Parameters: []byte(`{"year":2025}`)}}
	drafts := make([]dispatch.Draft, n)
	for i := range drafts {
		j := dispatch.Job{Identity: dispatch.Identity{Number: i + 1, Owner: task.Owner},
			Target: dispatch.Target{Account: task.Account}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
			Handover:  dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}
		if i%2 == 0 {
			j.Phase, j.Status = dispatch.Ended, dispatch.Finished
		}
		drafts[i] = dispatch.Draft{Job: j, Body: fmt.Appendf(nil,
			`{"type":"Polygon","coordinates":[[[%d,2],[3,4],[5,6],[1,2]]]}`, i)}
	}
	if _, err := s.Accept(b.Context(), dispatch.Key{}, task, drafts); err != nil {
		b.Fatal(err)
	}
	return broker, s
}
