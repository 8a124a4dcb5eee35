package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// BenchmarkLife accepts a task, and writes what visits write of its jobs at a platform of two steps, eight jobs in each
// transaction: the intent to create them, that they are created, the intent to start them, that they have started, run,
// and have finished. On SQLite it reports what was written to the log, too, and how large the database became.
func BenchmarkLife(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) {
		for b.Loop() {
			file := filepath.Join(b.TempDir(), "d.db")
			s := open(b, "sqlite:"+file, conformance.NewStillClock(start))
			reader := keepLog(b, file)
			jobs := lives(b, s, func() int64 { return sizeOf(b, file+"-wal") })
			if err := reader.Close(); err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(sizeOf(b, file))/float64(jobs), "B/ended-job")
		}
	})
	b.Run("PostgreSQL", func(b *testing.B) {
		for b.Loop() {
			url := postgres.Database(b)
			s := open(b, url, nil)
			jobs := lives(b, s, func() int64 { return 0 })
			postgres.Exec(b, url, "VACUUM FULL jobs")
			db, err := sql.Open("pgx", url)
			if err != nil {
				b.Fatal(err)
			}
			var size int64
			err = db.QueryRow(`SELECT sum(pg_total_relation_size(oid)) FROM pg_class
				WHERE relname IN ('jobs', 'requests', 'job_details')`).Scan(&size)
			if err != nil {
				b.Fatal(err)
			}
			_ = db.Close()
			b.ReportMetric(float64(size)/float64(jobs), "B/ended-job")
		}
	})
}

// keepLog keeps SQLite from beginning its log anew, so that its size is what was written to it.
func keepLog(b *testing.B, file string) *sql.DB {
	b.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, text := range []string{"BEGIN", "SELECT count(*) FROM jobs"} {
		if _, err := db.Exec(text); err != nil {
			b.Fatal(err)
		}
	}
	return db
}

func sizeOf(b *testing.B, file string) int64 {
	b.Helper()
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// lives returns how many jobs it has accepted and ended.
func lives(b *testing.B, s conformance.Store, logged func() int64) int {
	b.Helper()
	const tasks, jobs = 2, 2000
	cpu, log := conformance.CPU(b), logged()
	measure := func(what string) {
		b.ReportMetric(float64((conformance.CPU(b)-cpu).Microseconds())/(tasks*jobs), what+"-cpu-µs")
		if n := logged(); n > 0 {
			b.ReportMetric(float64(n-log)/(tasks*jobs), what+"-log-B")
		}
		cpu, log = conformance.CPU(b), logged()
	}
	const owner = "https://id.example.org/realms/eo 7f9c24e8-3b1a-4d5e-9c1f-0a1b2c3d4e5f"
	for range tasks {
		task := &dispatch.Task{Owner: owner, Account: "p/" + owner, Request: dispatch.Request{Parameters: []byte(`{}`)},
			Dimension: "d"}
		all := drafts(jobs)
		for i := range all {
			all[i].Owner, all[i].Account = owner, "p/"+owner
			all[i].Body = []byte(`{"type":"Polygon","coordinates":[[[1,2],[3,4],[5,6],[1,2]]]}`)
			all[i].Base, all[i].Names = "https://openeo.example.org/1.2", []string{fmt.Sprintf("field %d", i)}
			all[i].Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		}
		if _, err := s.Accept(b.Context(), dispatch.Key{}, task, all); err != nil {
			b.Fatal(err)
		}
	}
	measure("accept")
	leases, _, err := s.Dequeue(b.Context(), dispatch.Room{Platforms: map[string]int{"p": 1}}, time.Hour)
	if err != nil || len(leases) != 1 {
		b.Fatal(leases, err)
	}
	for done := 0; done < tasks*jobs; done += 8 {
		g, err := s.Agenda(b.Context(), leases[0].Account, 1, 0)
		if err != nil || len(g.Queues) == 0 {
			b.Fatal(g.Queues, err)
		}
		ready, err := s.Ready(b.Context(), leases[0].Account, g.Queues[0], 8)
		if err != nil || len(ready) != 8 {
			b.Fatal(len(ready), err)
		}
		live(b, s, leases[0], ready, g.Now)
	}
	measure("visits")
	return tasks * jobs
}

// live writes what visits write of jobs that wait.
func live(b *testing.B, s conformance.Store, l dispatch.Lease, jobs []dispatch.Job, now time.Time) {
	b.Helper()
	change := func(set func(*dispatch.Job)) []dispatch.Job {
		for i := range jobs {
			set(&jobs[i])
		}
		return jobs
	}
	kept := func(all []dispatch.Job, err error) {
		if err != nil || len(all) != len(jobs) {
			b.Fatal(len(all), err)
		}
		jobs = all
		now = now.Add(time.Second)
	}
	limits := dispatch.Limits{Send: time.Minute}
	kept(s.Intend(b.Context(), l, limits, change(func(j *dispatch.Job) {
		j.Nonces, j.IntentLease = "1:0af7651916cd43dd", l.Generation
	})))
	kept(s.Save(b.Context(), change(func(j *dispatch.Job) {
		j.Phase, j.Status, j.Epoch = dispatch.Created, dispatch.Submitted, j.Epoch+1
		j.Ref = dispatch.Ref{ID: fmt.Sprintf("j-2611270af7651916cd43dd8448eb%06d", j.ID)}
		j.Moved, j.Updated, j.Due, j.Begun = now, now, now, 0
		j.Versions = dispatch.Versions{Software: "openEO", Version: "0.70.0", API: "1.2.0"}
	})))
	kept(s.Intend(b.Context(), l, limits, change(func(j *dispatch.Job) { j.IntentLease = l.Generation })))
	kept(s.Save(b.Context(), change(func(j *dispatch.Job) {
		j.Phase, j.Status, j.Epoch, j.Begun = dispatch.Started, dispatch.Queued, j.Epoch+1, 0
		j.Moved, j.Updated, j.Due = now, now, now.Add(time.Second)
	})))
	kept(s.Save(b.Context(), change(func(j *dispatch.Job) {
		j.Status, j.Seen, j.Polls = dispatch.Running, dispatch.Running, 1
		j.Moved, j.Updated, j.Checked, j.Due = now, now, now, now.Add(time.Second)
	})))
	kept(s.Save(b.Context(), change(func(j *dispatch.Job) {
		costs, progress := 2.5, 100.0
		j.Phase, j.Status, j.Seen, j.Epoch, j.Polls = dispatch.Ended, dispatch.Finished, dispatch.Finished, j.Epoch+1, 0
		j.Costs, j.Unit, j.Progress, j.Duration = &costs, "credits", &progress, 90*time.Second
		j.Moved, j.Updated, j.Checked, j.Due = now, now, now, now
	})))
}
