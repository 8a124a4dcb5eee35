package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

const day = 24 * time.Hour

// acceptEnded stores jobs that ended some time ago; with a task, as its jobs.
func acceptEnded(t *testing.T, s *store.Store, task *dispatch.Task, n int, ago time.Duration) []dispatch.Draft {
	t.Helper()
	jobs := drafts(n)
	for i := range jobs {
		jobs[i].Body = []byte(`{"title":"t","label":"openeo","parameters":{"secret":1},"options":{"o":1}}`)
		if task != nil {
			jobs[i].Body = []byte(`"secret"`)
		}
	}
	if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs); err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		end(t, s, &jobs[i].Job, dispatch.Failed, ago)
		if i == 0 && task == nil {
			store.Exec(t, s, fmt.Sprintf("INSERT INTO results (job, body) VALUES (%d, '{}')", j.ID))
			store.Exec(t, s, fmt.Sprintf(`INSERT INTO items (job, owner, task, account, platform, service, due, period)
				VALUES (%d, 'ann', 0, 'p/x', 'p', 1, 0, 0)`, j.ID))
		}
	}
	return jobs
}

// end ends a job some time ago.
func end(t *testing.T, s *store.Store, j *dispatch.Job, status dispatch.Status, ago time.Duration) {
	t.Helper()
	store.Exec(t, s,
		fmt.Sprintf("UPDATE jobs SET phase = 'ended', status = '%s', moved = %d, version = version + 1 WHERE id = %d",
			status, j.Created.Add(-ago).UnixMicro(), j.ID))
	store.Exec(t, s, fmt.Sprintf("UPDATE tasks SET created = %d WHERE id = %d",
		j.Created.Add(-ago-time.Hour).UnixMicro(), j.Task))
}

// TestRetain_RemovesAtThePlatform: jobs that ended longer ago than retention.platform are to be removed from their
// platforms, and stay until they are; not those that were removed, were imported, never got to their platform, or are
// younger. Deleted jobs need to have ended a day ago.
func TestRetain_RemovesAtThePlatform(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d conformance.Store, _ func()) {
		s := d.(*store.Store)
		old := acceptEnded(t, s, nil, 120, 40*day)
		young := acceptEnded(t, s, nil, 3, 2*day)
		members := acceptEnded(t, s, tasked(), 3, 40*day)
		store.Exec(t, s, "UPDATE jobs SET attempt = 1, ref_id = 'x'")
		const removed = `{"since":"2026-01-01T00:00:00Z","removed":"2026-01-01T00:00:01Z"}`
		store.Exec(t, s, fmt.Sprintf(`UPDATE jobs SET removal = '%s' WHERE id = %d`, removed, old[0].ID))
		store.Exec(t, s, fmt.Sprintf(`UPDATE jobs SET attempt = 0 WHERE id = %d`, old[1].ID))
		store.Exec(t, s, fmt.Sprintf(`UPDATE jobs SET ref_id = '' WHERE id = %d`, old[2].ID))
		store.Exec(t, s, fmt.Sprintf(`UPDATE jobs SET hidden = TRUE WHERE id = %d`, young[0].ID))
		r := dispatch.Retention{Platform: 30 * day, Jobs: 35 * day}
		if err := s.Retain(t.Context(), dispatch.Retention{}); err != nil {
			t.Fatal(err)
		}
		if n := store.Rows(t, s, "jobs WHERE removal_due > 0"); n != 0 {
			t.Fatalf("%d jobs are to be removed although nothing is set", n)
		}
		for range 2 {
			if err := s.Retain(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if n := store.Rows(t, s, "jobs WHERE removal_due > 0"); n != 117+3+1 {
				t.Errorf("%d jobs are to be removed, want 121", n)
			}
			if n := store.Rows(t, s, "jobs"); n != 117+3+3 { // those with nothing to remove were deleted
				t.Errorf("%d jobs are left, want 123", n)
			}
		}
		if got, err := s.Aged(t.Context(), dispatch.Retention{Requests: 35 * day, Jobs: 35 * day}); err != nil ||
			got != (dispatch.Aged{}) {
			t.Errorf("%+v would be deleted before they are removed, %v", got, err)
		}
		g, err := s.Agenda(t.Context(), members[0].Account, 1000, 0)
		if err != nil || len(g.Remove) != 121 {
			t.Errorf("%d jobs on the agenda, %v", len(g.Remove), err)
		}
		store.Exec(t, s, "UPDATE jobs SET removal_due = 0, removal = '"+removed+"' WHERE removal_due > 0")
		if err := s.Retain(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if n := store.Rows(t, s, "jobs"); n != 3 {
			t.Errorf("%d jobs are left, want the 3 young ones", n)
		}
	})
}

// TestRetain_LocksOwnersInOrder: what removes rows of several owners waits for others, who lock owners and accounts in
// their order, without holding what these want next.
func TestRetain_LocksOwnersInOrder(t *testing.T) {
	for name, remove := range map[string]func(context.Context, *store.Store) error{
		"requests": func(ctx context.Context, s *store.Store) error {
			return s.Retain(ctx, dispatch.Retention{Requests: day})
		},
		"jobs": func(ctx context.Context, s *store.Store) error {
			return s.Retain(ctx, dispatch.Retention{Jobs: day})
		},
		"removals": func(ctx context.Context, s *store.Store) error {
			return s.Retain(ctx, dispatch.Retention{Platform: day})
		},
		"tasks": func(ctx context.Context, s *store.Store) error { return s.Purge(ctx, day) },
	} {
		t.Run(name, func(t *testing.T) {
			dsn := postgres.Database(t)
			s := open(t, dsn, nil)
			for _, u := range []dispatch.UserID{"bob", "ann"} {
				jobs := drafts(1)
				var task *dispatch.Task
				if name == "tasks" {
					task = tasked()
					task.Owner = u
				}
				jobs[0].Owner, jobs[0].Account = u, dispatch.Account("p/"+u)
				if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs); err != nil {
					t.Fatal(err)
				}
				end(t, s, &jobs[0].Job, dispatch.Failed, 2*day)
			}
			store.Exec(t, s, "UPDATE jobs SET attempt = 1, ref_id = 'x'")
			if name == "tasks" {
				store.Exec(t, s, "DELETE FROM jobs; UPDATE tasks SET hidden = TRUE; UPDATE owners SET floor = 0")
			}
			begun := begunElsewhere(t, dsn)
			lock := func(u string) {
				t.Helper()
				for _, text := range []string{"UPDATE owners SET floor = floor WHERE owner = '" + u + "'",
					"UPDATE accounts SET due = due WHERE id = 'p/" + u + "'"} {
					if _, err := begun.Exec(text); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := begun.Exec("SET LOCAL deadlock_timeout = '10ms'"); err != nil {
				t.Fatal(err)
			}
			lock("ann")
			removed := make(chan error, 1)
			go func() { removed <- remove(t.Context(), s) }()
			awaitBlocked(t, dsn)
			lock("bob")
			if err := begun.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-removed; err != nil {
				t.Error(err)
			}
		})
	}
}

func tasked() *dispatch.Task {
	return &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Title: "t",
		Parameters: []byte(`{"shared":1}`)}, Dimension: "d",
		Document: &dispatch.Document{Origin: dispatch.Origin{Platform: "p"}, Body: []byte("task")}}
}

// TestRetain_DeletesHeavyPartsFirst: results, then parameters, then jobs and tasks go when they are older than what is
// kept, in many transactions; what is younger, has not ended, or is yet to be canceled stays.
func TestRetain_DeletesHeavyPartsFirst(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d conformance.Store, _ func()) {
		s := d.(*store.Store)
		old := acceptEnded(t, s, nil, 120, 40*day)
		young := acceptEnded(t, s, nil, 2, day)
		whole := tasked()
		acceptEnded(t, s, whole, 120, 40*day)
		mixed := tasked()
		members := acceptEnded(t, s, mixed, 3, 40*day)
		store.Exec(t, s, fmt.Sprintf("UPDATE jobs SET phase = 'waiting', status = 'created' WHERE id = %d",
			members[1].ID))
		store.Exec(t, s, fmt.Sprintf(`UPDATE jobs SET orphans = '[{"Base":"","ID":"x"}]' WHERE id = %d`, old[1].ID))
		waiting := drafts(1)
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, waiting); err != nil {
			t.Fatal(err)
		}

		removed := map[string]int64{}
		s.OnRemoved(func(kind string, n int64) { removed[kind] += n })
		retain := func(r dispatch.Retention, aged dispatch.Aged) {
			t.Helper()
			if got, err := s.Aged(t.Context(), r); err != nil || got != aged {
				t.Errorf("before: %+v, not %+v: %v", got, aged, err)
			}
			if err := s.Retain(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Aged(t.Context(), r); err != nil || got != (dispatch.Aged{}) {
				t.Errorf("afterwards: %+v: %v", got, err)
			}
		}
		retain(dispatch.Retention{}, dispatch.Aged{})
		retain(dispatch.Retention{Results: 30 * day}, dispatch.Aged{Results: 1})
		if n := store.Rows(t, s, "items"); n != 1 {
			t.Errorf("%d Items, of which the results of one are kept", n)
		}
		_, transactions := store.Count(s)
		retain(dispatch.Retention{Requests: 30 * day}, dispatch.Aged{Requests: 239})
		if n := transactions.Load(); n < 6 {
			t.Errorf("requests of 239 jobs were deleted in %d transactions", n)
		}
		checkPruned(t, s, old[0].ID, true)
		checkPruned(t, s, old[1].ID, false)
		checkPruned(t, s, young[0].ID, false)
		checkPruned(t, s, members[0].ID, false)
		if _, _, err := s.RetryTask(t.Context(), "ann", whole.ID, dispatch.Choice{}); !dispatch.Is(err,
			dispatch.Conflict) {
			t.Errorf("a retry without parameters: %v", err)
		}
		if _, n, err := s.RetryTask(t.Context(), "ann", mixed.ID, dispatch.Choice{}); err != nil || n != 2 {
			t.Errorf("%d jobs retried: %v", n, err)
		}
		for i := range members {
			end(t, s, &members[i].Job, dispatch.Failed, 40*day)
		}
		store.Exec(t, s, fmt.Sprintf("UPDATE jobs SET phase = 'started', status = 'running' WHERE id = %d",
			members[1].ID))
		retain(dispatch.Retention{Requests: 30 * day, Jobs: 30 * day}, dispatch.Aged{Jobs: 239, Tasks: 1})
		if want := (map[string]int64{"results": 1, "requests": 239, "jobs": 239,
			"tasks": 1}); fmt.Sprint(removed) != fmt.Sprint(want) {
			t.Errorf("reported %v", removed)
		}
		for table, want := range map[string]int{"jobs": 7, "requests": 7, "tasks": 1, "results": 1} {
			if got := store.Rows(t, s, table); got != want {
				t.Errorf("%d rows of %s, not %d", got, table, want)
			}
		}
	})
}

// checkPruned checks whether the parameters of a job are deleted.
func checkPruned(t *testing.T, s *store.Store, id dispatch.JobID, want bool) {
	t.Helper()
	r, err := s.Record(t.Context(), "ann", id)
	if err != nil {
		t.Fatal(err)
	}
	bare := string(r.Request.Parameters) == "{}" && r.Request.Options == nil
	if r.Pruned != want || bare != want || r.Request.Title == "" {
		t.Errorf("job %d: pruned %v, request %+v", id, r.Pruned, r.Request)
	}
}

// TestRetain_ContinuesWhatWasInterrupted: a task that was hidden because of its age, and then not deleted, is deleted
// the next time.
func TestRetain_ContinuesWhatWasInterrupted(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d conformance.Store, _ func()) {
		s := d.(*store.Store)
		task := tasked()
		acceptEnded(t, s, task, 3, 40*day)
		store.Exec(t, s, fmt.Sprintf("UPDATE tasks SET hidden = TRUE WHERE id = %d", task.ID))
		if err := s.Retain(t.Context(), dispatch.Retention{Jobs: 30 * day}); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"jobs", "tasks", "requests"} {
			if n := store.Rows(t, s, table); n != 0 {
				t.Errorf("%d rows of %s", n, table)
			}
		}
	})
}

// TestKeepKeys: a key stands for its job as long as keys are kept.
func TestKeepKeys(t *testing.T) {
	c := conformance.NewStillClock(start)
	s := open(t, "sqlite::memory:", c)
	s.KeepKeys(3 * day)
	key := dispatch.Key{Text: "k", Fingerprint: "f"}
	first := drafts(1)
	if _, err := s.Accept(t.Context(), key, nil, first); err != nil {
		t.Fatal(err)
	}
	for _, after := range []struct {
		pass time.Duration
		want dispatch.KeyTarget
	}{{2 * day, dispatch.KeyTarget{Job: first[0].ID}}, {2 * day, dispatch.KeyTarget{}}} {
		c.Pass(after.pass)
		if err := s.Purge(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if got, err := s.FindKey(t.Context(), "ann", key); err != nil || got != after.want {
			t.Errorf("after %v more the key stands for %+v: %v", after.pass, got, err)
		}
	}
}

// TestForget_CountsRowsOnce: PostgreSQL aborts a transaction of Forget to resolve a deadlock. What it had deleted until
// then is not counted.
func TestForget_CountsRowsOnce(t *testing.T) {
	dsn := postgres.Database(t)
	s := open(t, dsn, nil)
	jobs := acceptEnded(t, s, tasked(), 2, day)
	begun := begunElsewhere(t, dsn)
	lock := "UPDATE jobs SET due = due WHERE id = $1"
	if _, err := begun.Exec("SET LOCAL deadlock_timeout = '1min'"); err != nil {
		t.Fatal(err)
	}
	if _, err := begun.Exec(lock, jobs[1].ID); err != nil {
		t.Fatal(err)
	}
	forgotten := make(chan map[string]int64, 1)
	go func() {
		deleted, _, err := s.Forget(t.Context(), "ann")
		if err != nil {
			t.Error(err)
		}
		forgotten <- deleted
	}()
	awaitBlocked(t, dsn)
	if _, err := begun.Exec(lock, jobs[0].ID); err != nil { // which Forget has deleted
		t.Fatal(err)
	}
	if err := begun.Commit(); err != nil {
		t.Fatal(err)
	}
	if deleted := <-forgotten; deleted["jobs"] != 2 {
		t.Errorf("deleted: %v", deleted)
	}
}

// TestForget_AccountOfAUser: an operator's hold names the user whose account it concerns. Before the user is forgotten,
// the rows of the account are exported.
func TestForget_AccountOfAUser(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d conformance.Store, _ func()) {
		s := d.(*store.Store)
		job := drafts(1)
		job[0].Account = "p/ann"
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, job); err != nil {
			t.Fatal(err)
		}
		for _, scope := range []string{"p/ann", "p"} {
			if err := s.HoldScope(t.Context(), dispatch.OperatorHold{Scope: scope, Notice: "n"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.CancelAll(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		exported := map[string]int64{}
		err := s.Export(t.Context(), "ann", func(o store.Owned) error { exported[o.Table]++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		deleted, _, err := s.Forget(t.Context(), "ann")
		if n := store.Rows(t, s, "operator_holds"); err != nil || n != 1 || deleted["operator_holds"] != 1 {
			t.Errorf("%d holds are left; deleted: %v, %v", n, deleted, err)
		}
		for table, n := range deleted {
			if exported[table] < n {
				t.Errorf("%s: %d rows deleted, %d exported", table, n, exported[table])
			}
		}
	})
}

// TestForget_LeavesWhatIsSubmittedMeanwhile: a job that is retried after Forget has listed it as ended keeps its
// request, and a user who has jobs again keeps the task, the definitions and the counts.
func TestForget_LeavesWhatIsSubmittedMeanwhile(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d conformance.Store, _ func()) {
		s := d.(*store.Store)
		task := tasked()
		jobs := acceptEnded(t, s, task, 2, day)
		retried, ended := jobs[0].ID, jobs[1].ID
		store.Exec(t, s, fmt.Sprintf("UPDATE jobs SET phase = 'waiting', status = 'created' WHERE id = %d", retried))
		store.ForgetListed(t, s, retried)
		store.ForgetListed(t, s, ended)
		if jobs, requests := store.Rows(t, s, "jobs"), store.Rows(t, s, "requests"); jobs != 1 || requests != 1 {
			t.Errorf("%d jobs and %d requests are left, want those of the retried job", jobs, requests)
		}
		if err := store.ForgetUser(t, s, "ann"); !dispatch.Is(err, dispatch.Conflict) {
			t.Errorf("a user with a job: %v", err)
		}
		if n := store.Rows(t, s, "tasks"); n != 1 {
			t.Errorf("%d tasks are left", n)
		}
		store.Exec(t, s, "UPDATE jobs SET phase = 'ended', status = 'failed'")
		store.ForgetListed(t, s, retried)
		if err := store.ForgetUser(t, s, "ann"); err != nil || store.Rows(t, s, "tasks") != 0 {
			t.Errorf("a user without jobs: %v, %d tasks", err, store.Rows(t, s, "tasks"))
		}
	})
}
