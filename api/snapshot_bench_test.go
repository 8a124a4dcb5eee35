package api

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// BenchmarkStateOfATask builds the whole state of a task of 10,000 jobs, as a new stream is sent it: from the database
// alone, and from an earlier state after one job has changed.
func BenchmarkStateOfATask(b *testing.B) {
	for name, database := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(b.TempDir(), "d.db") },
		"PostgreSQL": func() string { return postgres.Database(b) },
	} {
		a, of, _ := taskOf(b, database(), 10_000)
		measure := func(b *testing.B, prepare func() error, build func(context.Context, topic) (*snapshot, error)) {
			b.ReportAllocs()
			before := conformance.CPU(b)
			for b.Loop() {
				err := prepare()
				p, failed := build(b.Context(), of)
				if err != nil || failed != nil || len(p.message) < 10_000*elementSize/2 {
					b.Fatalf("%d bytes, %v, %v", len(p.message), err, failed)
				}
			}
			b.ReportMetric(float64((conformance.CPU(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
		}
		b.Run(name+"/first", func(b *testing.B) { measure(b, func() error { return nil }, a.buildSnapshot) })
		b.Run(name+"/next", func(b *testing.B) {
			for range 2 { // the first is noted, the second kept
				if _, err := a.buildRevised(b.Context(), of); err != nil {
					b.Fatal(err)
				}
			}
			if a.wholes.last(of) == nil {
				b.Fatal("no state is kept")
			}
			n := 0
			measure(b, func() error {
				n++
				note := fmt.Sprint(n)
				_, err := a.Broker.AnnotateJob(b.Context(), of.user, dispatch.JobID(1+n%10_000),
					dispatch.AnnotationChange{Note: &note})
				return err
			}, a.buildRevised)
		})
	}
}

// taskOf returns an API over a database with a task of n jobs, half of which have ended.
func taskOf(b testing.TB, database string, n int) (*api, topic, *store.Store) {
	s, err := store.Open(b.Context(), database, conformance.WallClock{})
	if err != nil {
		b.Fatal(err)
	}
	p := &platform{}
	broker := conformance.NewBroker(s, p, &dispatch.Backend{Name: "cdse", Label: dispatch.OpenEO,
		Endpoint: "https://openeo.example.org",
		Access:   dispatch.AccessOpen, Platform: p, Limits: dispatch.Limits{Jobs: 5, Requests: 2, Send: 5 * time.Second}})
	b.Cleanup(func() { s.Close() })
	task := &dispatch.Task{Owner: "anna", Account: "cdse/open", Dimension: "spatial_extent",
		Request: dispatch.Request{Title: "NDVI of Belgium", Label: dispatch.OpenEO,
			Service: dispatch.Service{Endpoint: "https://openeo.example.org", Application: "ndvi"}, Format: "gtiff",
			Parameters: []byte(`{"year":2025}`)}}
	drafts := make([]dispatch.Draft, n)
	for i := range drafts {
		j := dispatch.Job{Number: i + 1, Owner: task.Owner, Account: task.Account, Desired: dispatch.WantRun,
			Phase: dispatch.Waiting, Status: dispatch.Accepted}
		if i%2 == 0 {
			j.Phase, j.Status = dispatch.Ended, dispatch.Finished
		}
		drafts[i] = dispatch.Draft{Job: j, Body: fmt.Appendf(nil,
			`{"type":"Polygon","coordinates":[[[%d,2],[3,4],[5,6],[1,2]]]}`, i)}
	}
	if _, err := s.Accept(b.Context(), dispatch.Key{}, task, drafts); err != nil {
		b.Fatal(err)
	}
	c := newWorld().config()
	c.Broker = broker
	return New(c).(*api), topic{user: task.Owner, task: task.ID}, s
}
