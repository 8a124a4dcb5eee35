package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestSpeed_ManyJobs checks that many waiting jobs do not slow down the agenda: the one of an account with 100 jobs is
// read before and after another account gets 10,000, and compared with that of the other. BenchmarkAgenda has the
// figures.
func TestSpeed_ManyJobs(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s conformance.Store, analyze func()) {
		few := drafts(100)
		for i := range few {
			few[i].Account = "q/shared"
		}
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, few); err != nil {
			t.Fatal(err)
		}
		analyze()
		alone := least(t, s, "q/shared")
		fill(t, s, 1)
		analyze()
		beside, most := least(t, s, "q/shared"), least(t, s, "p/shared")
		t.Logf("an agenda of 100 jobs in %v, and in %v beside 10,000 jobs, whose agenda takes %v", alone, beside, most)
		if limit := slowdown * alone; beside > limit || most > limit {
			t.Errorf("an agenda took %v, and %v of 10,000 jobs: more than %d times %v", beside, most, slowdown, alone)
		}
	})
}

// TestSpeed_SilentPlatform checks that an account is leased as quickly while 9,990 accounts of another platform, which
// does not respond, are due and a hundred of them are being visited. All accounts of further platforms are leased at
// once.
func TestSpeed_SilentPlatform(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s conformance.Store, analyze func()) {
		accounts := func(platform, from, to string) {
			store.Exec(t, s.(*store.Store), "WITH RECURSIVE n (n) AS (SELECT "+from+" UNION ALL SELECT n + 1 FROM n "+
				"WHERE n < "+to+") "+
				"INSERT INTO accounts (id, platform, due) SELECT "+platform+" || '/' || n, "+platform+", 1 FROM n")
		}
		accounts("'quick'", "1", "1")
		analyze()
		room := dispatch.Room{Platforms: map[string]int{"quick": 100, "silent": 100}}
		alone := leastDequeue(t, s, room)
		accounts("'silent'", "1", "9990")
		analyze()
		leases, _, err := s.Dequeue(t.Context(), room, time.Hour)
		if err != nil || len(leases) != 101 {
			t.Fatal(len(leases), err)
		}
		release(t, s, leases, "quick")
		room.Platforms["silent"] = 0
		if beside := leastDequeue(t, s, room); beside > slowdown*alone {
			t.Errorf("an account was leased in %v, and in %v beside those of a silent platform", alone, beside)
		} else {
			t.Logf("an account was leased in %v, and in %v beside those of a silent platform", alone, beside)
		}
		accounts("'p' || (n % 8)", "1", "8000")
		for i := range 8 {
			room.Platforms[fmt.Sprint("p", i)] = 1000
		}
		if leases, _, err := s.Dequeue(t.Context(), room, time.Hour); err != nil || len(leases) != 8001 {
			t.Error(len(leases), err)
		}
	})
}

// leastDequeue returns the shortest duration of 50 calls of Dequeue, each of which leases the account quick/1.
func leastDequeue(t *testing.T, s conformance.Store, room dispatch.Room) time.Duration {
	t.Helper()
	shortest := time.Hour
	for range 50 {
		began := time.Now()
		leases, _, err := s.Dequeue(t.Context(), room, time.Hour)
		shortest = min(shortest, time.Since(began))
		if err != nil || len(leases) == 0 {
			t.Fatal(len(leases), err)
		}
		release(t, s, leases, "quick")
	}
	return shortest
}

// release releases the leases of a platform; its accounts are due again at once.
func release(t *testing.T, s conformance.Store, leases []dispatch.Lease, platform string) {
	t.Helper()
	const none = -1 // no wake was seen
	for _, l := range leases {
		if l.Account.Platform() != platform {
			continue
		}
		if err := s.Release(t.Context(), l, none, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}

// slowdown is the ratio of durations that the test allows. With the indexes it is 1 to 4, and without one of them 20 to
// 100.
const slowdown = 10

// least returns the shortest duration of 100 reads of an account's agenda; a busy machine only adds to it.
func least(t *testing.T, s conformance.Store, a dispatch.Account) time.Duration {
	t.Helper()
	shortest := time.Hour
	for range 100 {
		began := time.Now()
		readAgenda(t, s, a)
		shortest = min(shortest, time.Since(began))
	}
	return shortest
}

// BenchmarkAgenda reads the agenda of an account with 100,000 waiting jobs.
func BenchmarkAgenda(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		fill(b, s, 10)
		analyze()
		for b.Loop() {
			readAgenda(b, s, "p/shared")
		}
	})
}

// BenchmarkPerformanceOfManyQueues reads the agenda of an account with waiting jobs of 1,000 users, each of whom has
// already submitted a job.
func BenchmarkPerformanceOfManyQueues(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		const users = 1000
		for u := range users {
			jobs := drafts(10)
			for i := range jobs {
				jobs[i].Owner = dispatch.UserID(fmt.Sprintf("https://id.example/realms/eo user-%04d", u))
			}
			task := &dispatch.Task{Owner: jobs[0].Owner, Account: "p/shared",
				Request: dispatch.Request{Parameters: []byte(`{}`)}, Dimension: "d"}
			if _, err := s.Accept(b.Context(), dispatch.Key{}, task, jobs); err != nil {
				b.Fatal(err)
			}
		}
		serveEach(b, s, users)
		analyze()
		for b.Loop() {
			g, err := s.Agenda(b.Context(), "p/shared", 100, time.Hour)
			if err != nil || len(g.Queues) != users {
				b.Fatal(len(g.Queues), err)
			}
		}
	})
}

// serveEach submits one job of each queue of an account.
func serveEach(b *testing.B, s conformance.Store, queues int) {
	b.Helper()
	leases, _, err := s.Dequeue(b.Context(), dispatch.Room{Platforms: map[string]int{"p": 1}}, time.Hour)
	if err != nil || len(leases) != 1 {
		b.Fatal(leases, err)
	}
	l := leases[0]
	g, err := s.Agenda(b.Context(), l.Account, 1, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, queue := range g.Queues {
		var jobs []dispatch.Job
		if jobs, err = s.Ready(b.Context(), l.Account, queue, 1); err == nil {
			_, err = s.Intend(b.Context(), l, dispatch.Limits{Send: time.Minute}, jobs)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if len(g.Queues) != queues {
		b.Fatalf("%d queues", len(g.Queues))
	}
}

// BenchmarkWaitingBefore counts the jobs before the last of 10,000 waiting jobs of a queue, and for comparison reads
// the ids of the last page and of all.
func BenchmarkWaitingBefore(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		fill(b, s, 1)
		analyze()
		g, err := s.Agenda(b.Context(), "p/shared", 1, time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		end := dispatch.Rank{Due: dispatch.Never}
		ids, err := s.Waiting(b.Context(), "p/shared", g.Queues[0], dispatch.Rank{}, end)
		if err != nil {
			b.Fatal(err)
		}
		last, err := s.Load(b.Context(), ids[len(ids)-1])
		if err != nil {
			b.Fatal(err)
		}
		b.Run("count", func(b *testing.B) {
			for b.Loop() {
				n, err := s.WaitingBefore(b.Context(), "p/shared", g.Queues[0], last.Rank())
				if err != nil || n != len(ids)-1 {
					b.Fatal(n, err)
				}
			}
		})
		b.Run("ids", func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Waiting(b.Context(), "p/shared", g.Queues[0], dispatch.Rank{}, end); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("ids of a page", func(b *testing.B) {
			first, err := s.Load(b.Context(), ids[len(ids)-20])
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if page, err := s.Waiting(b.Context(), "p/shared", g.Queues[0],
					dispatch.Rank{Due: first.Due, ID: first.ID}, end); err != nil || len(page) != 20 {
					b.Fatal(len(page), err)
				}
			}
		})
	})
}

// eachDatabase runs f as a subtest on each database. The function that it passes to f updates PostgreSQL's statistics,
// as autovacuum does within a minute of a large change.
func eachDatabase[T interface {
	testing.TB
	Run(string, func(T)) bool
}](t T, f func(T, conformance.Store, func())) {
	t.Run("SQLite", func(t T) {
		f(t, open(t, "sqlite:"+filepath.Join(t.TempDir(), "d.db"), conformance.NewStillClock(start)), func() {})
	})
	t.Run("PostgreSQL", func(t T) {
		url := postgres.Database(t)
		f(t, open(t, url, nil), func() { postgres.Exec(t, url, "ANALYZE") })
	})
}

// many is a quota that is never reached. It makes Accept count all jobs.
var many = dispatch.Quota{Live: 1 << 40, Daily: 1 << 40}

// fill accepts tasks of 10,000 jobs.
func fill(t testing.TB, s conformance.Store, tasks int) {
	t.Helper()
	for range tasks {
		task := &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)},
			Dimension: "d"}
		jobs := drafts(10_000)
		for i := range jobs {
			jobs[i].Body = []byte(`{"type":"Polygon","coordinates":[[[1,2],[3,4],[5,6],[1,2]]]}`)
		}
		began := time.Now()
		if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs, many, dispatch.Quota{Account: task.Account,
			Live: many.Live, Daily: many.Daily}); err != nil {
			t.Fatal(err)
		}
		t.Logf("10,000 jobs accepted in %v", time.Since(began))
	}
}

// readAgenda reads the agenda of an account, as visits do.
func readAgenda(t testing.TB, s conformance.Store, a dispatch.Account) {
	t.Helper()
	g, err := s.Agenda(t.Context(), a, 100, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ready(t.Context(), a, g.Queues[0], 8); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkSave saves the statuses of a listing of 1,000 jobs: as they were, or changed.
func BenchmarkSave(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		fill(b, s, 1)
		g, err := s.Agenda(b.Context(), "p/shared", 100, time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		jobs, err := s.Ready(b.Context(), "p/shared", g.Queues[0], 1000)
		if err != nil {
			b.Fatal(err)
		}
		save := func(status dispatch.Status) {
			for i := range jobs {
				j := &jobs[i]
				if j.Checked, j.Due, j.Awaited = j.Checked.Add(time.Second), j.Due.Add(time.Second),
					false; j.Status != status {
					j.Phase, j.Status, j.Ref.ID, j.Updated, j.Moved = dispatch.Started, status, j.Tag("x"), j.Checked,
						j.Checked
				}
			}
			if jobs, err = s.Save(b.Context(), jobs); err != nil || len(jobs) != 1000 {
				b.Fatal(len(jobs), err)
			}
		}
		save(dispatch.Running)
		analyze()
		b.Run("unchanged", func(b *testing.B) {
			for b.Loop() {
				save(dispatch.Running)
			}
		})
		b.Run("changed", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				save([]dispatch.Status{dispatch.Queued, dispatch.Running}[i%2])
			}
		})
	})
}

// BenchmarkSaveOne saves one job of a task of 10,000 as visits mostly do: as it was, with another progress, or with
// another status.
func BenchmarkSaveOne(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		fill(b, s, 1)
		g, err := s.Agenda(b.Context(), "p/shared", 100, time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		jobs, err := s.Ready(b.Context(), "p/shared", g.Queues[0], 500)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		save := func(change func(*dispatch.Job)) {
			n++
			j := &jobs[n%len(jobs)]
			j.Checked, j.Due = j.Checked.Add(time.Second), j.Due.Add(time.Second)
			change(j)
			saved, err := s.Save(b.Context(), []dispatch.Job{*j})
			if err != nil || len(saved) != 1 {
				b.Fatal(len(saved), err)
			}
			*j = saved[0]
		}
		for range jobs {
			save(func(j *dispatch.Job) {
				j.Phase, j.Status, j.Ref.ID = dispatch.Started, dispatch.Running, j.Tag("x")
				j.Updated, j.Moved = j.Checked, j.Checked
			})
		}
		analyze()
		other := map[dispatch.Status]dispatch.Status{dispatch.Running: dispatch.Queued,
			dispatch.Queued: dispatch.Running}
		for _, kind := range []struct {
			name   string
			change func(*dispatch.Job)
		}{
			{"unchanged", func(*dispatch.Job) {}},
			{"progress", func(j *dispatch.Job) {
				percent := float64(n % 100)
				j.Progress, j.Updated = &percent, j.Checked
			}},
			{"status", func(j *dispatch.Job) {
				j.Status, j.Updated, j.Moved = other[j.Status], j.Checked, j.Checked
			}},
		} {
			b.Run(kind.name, func(b *testing.B) {
				before := conformance.CPU(b)
				for b.Loop() {
					save(kind.change)
				}
				b.ReportMetric(float64((conformance.CPU(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
			})
		}
	})
}

// BenchmarkPerformanceOfStats counts a database with 10,000 accounts and 100,000 waiting jobs.
func BenchmarkPerformanceOfStats(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s conformance.Store, analyze func()) {
		for n := range 10_000 {
			jobs := drafts(10)
			owner := dispatch.UserID(fmt.Sprintf("https://id.example/realms/eo user-%05d", n))
			for i := range jobs {
				jobs[i].Owner, jobs[i].Account = owner, dispatch.Account("p/"+owner)
			}
			if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, jobs); err != nil {
				b.Fatal(err)
			}
		}
		analyze()
		for b.Loop() {
			found, ours, err := s.(*store.Store).Stats(b.Context(), "bench", time.Minute)
			all := found.Platforms
			if err != nil || !ours || len(all) != 1 || all[0].Waiting != 100_000 || all[0].Accounts != 10_000 {
				b.Fatal(all, ours, err)
			}
		}
	})
}
