package store_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// changeTest is a store that changes two jobs of a task in a transaction, with a task of five jobs that wait and whose
// account is leased.
type changeTest struct {
	*testing.T
	s     *store.Store
	task  *dispatch.Task
	jobs  []dispatch.Job
	lease dispatch.Lease
}

func eachChangeTest(t *testing.T, f func(*changeTest)) {
	eachDatabase(t, func(t *testing.T, kept conformance.Store, _ func()) {
		c := &changeTest{T: t, s: kept.(*store.Store)}
		c.s.ChangeInRanges(2, nil)
		c.task = &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)},
			Dimension: "d"}
		all := drafts(5)
		for i := range all {
			all[i].Number = i + 1
		}
		_, err := c.s.Accept(t.Context(), dispatch.Key{}, c.task, all)
		c.must(err)
		for _, d := range all {
			j, err := c.s.Load(t.Context(), d.ID)
			c.must(err)
			c.jobs = append(c.jobs, j)
		}
		leases, _, err := c.s.Dequeue(t.Context(), dispatch.Room{Others: 1}, time.Hour)
		c.must(err)
		c.lease = leases[0]
		f(c)
		conformance.CheckCounts(t, c.s)
	})
}

func (c *changeTest) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// interrupted makes a change whose process dies before its nth transaction after the first.
func (c *changeTest) interrupted(n int, change func(context.Context) error) {
	c.Helper()
	ctx, die := context.WithCancel(c.Context())
	c.s.ChangeInRanges(2, func(context.Context) {
		if n--; n == 0 {
			die()
		}
	})
	if err := change(ctx); err == nil || ctx.Err() == nil {
		c.Fatalf("the change was not interrupted: %v", err)
	}
	c.s.ChangeInRanges(2, nil)
}

// statuses returns the statuses of the jobs, also of hidden ones, by number.
func (c *changeTest) statuses() (all []dispatch.Status) {
	c.Helper()
	for _, j := range c.jobs {
		got, err := c.s.Load(c.Context(), j.ID)
		c.must(err)
		all = append(all, got.Status)
	}
	return all
}

func (c *changeTest) equal(got, want any) {
	c.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.Errorf("%v, not %v", got, want)
	}
}

// stopped checks that no job of the task is submitted, and that a visit does not try again and again.
func (c *changeTest) stopped() {
	c.Helper()
	kept, err := c.s.Intend(c.Context(), c.lease, dispatch.Limits{Send: time.Minute}, c.jobs[4:])
	c.must(err)
	if len(kept) > 0 {
		c.Error("a job was submitted after its task was stopped")
	}
	g, err := c.s.Agenda(c.Context(), "p/shared", 10, 0)
	c.must(err)
	if len(g.Queues) > 0 || !g.NextWaiting.IsZero() {
		c.Errorf("a visit would submit jobs of a stopped task: %+v", g)
	}
}

// TestTaskChange_OfAProcessThatDies: whatever changed the jobs of a large task and died is finished by FinishChanges;
// until then nothing is submitted.
func TestTaskChange_OfAProcessThatDies(t *testing.T) {
	eachChangeTest(t, func(c *changeTest) {
		c.interrupted(2, func(ctx context.Context) error { _, err := c.s.PauseTask(ctx, "ann", c.task.ID); return err })
		c.stopped()
		if early, err := c.s.FinishChanges(c.Context(), time.Hour); err != nil || len(early) > 0 {
			c.Errorf("a change was finished that was continued just now: %v, %v", early, err)
		}
		done, err := c.s.FinishChanges(c.Context(), 0)
		c.must(err)
		c.equal(done, []dispatch.FinishedChange{{Task: c.task.ID, Owner: "ann", Account: "p/shared", Action: "pause"}})
		for _, j := range c.jobs {
			if got, err := c.s.Load(c.Context(), j.ID); err != nil || !got.Paused || !got.Due.IsZero() {
				c.Errorf("not paused: %+v, %v", got, err)
			}
		}
		c.interrupted(1, func(ctx context.Context) error {
			_, err := c.s.CancelTask(ctx, "ann", c.task.ID, true)
			return err
		})
		c.equal(c.statuses(), []dispatch.Status{dispatch.Canceled, dispatch.Canceled, dispatch.Accepted,
			dispatch.Accepted, dispatch.Accepted})
		if _, err := c.s.Task(c.Context(), "ann", c.task.ID); !dispatch.Is(err, dispatch.NotFound) {
			c.Errorf("the deleted task is shown: %v", err)
		}
		c.stopped()
		_, err = c.s.FinishChanges(c.Context(), 0)
		c.must(err)
		c.equal(c.statuses(), []dispatch.Status{dispatch.Canceled, dispatch.Canceled, dispatch.Canceled,
			dispatch.Canceled, dispatch.Canceled})
		for _, j := range c.jobs {
			if got, err := c.s.Load(c.Context(), j.ID); err != nil || !got.Hidden {
				c.Errorf("a job of the deleted task is not hidden: %+v, %v", got, err)
			}
		}
		if store.Rows(c, c.s, "task_changes") != 0 {
			c.Error("the change is still there")
		}
	})
}

// TestTaskChange_ComesAfterTheOneBefore: a change of a task first finishes another that is under way. What a retry has
// yet to add counts in quotas.
func TestTaskChange_ComesAfterTheOneBefore(t *testing.T) {
	eachChangeTest(t, func(c *changeTest) {
		for i, j := range c.jobs {
			if i == 3 {
				continue
			}
			j.Phase, j.Status, j.Epoch = dispatch.Ended, dispatch.Failed, 1
			saved, err := c.s.Save(c.Context(), []dispatch.Job{j})
			c.must(err)
			c.jobs[i] = saved[0]
		}
		c.interrupted(1, func(ctx context.Context) error {
			_, _, err := c.s.RetryTask(ctx, "ann", c.task.ID, dispatch.Choice{}, dispatch.Quota{Live: 5})
			return err
		})
		c.equal(c.statuses(), []dispatch.Status{dispatch.Accepted, dispatch.Accepted, dispatch.Failed,
			dispatch.Accepted, dispatch.Failed})
		_, err := c.s.Accept(c.Context(), dispatch.Key{}, nil, drafts(1), dispatch.Quota{Live: 5})
		if !dispatch.Is(err, dispatch.LimitReached) {
			c.Errorf("a quota has room for jobs that a retry will add: %v", err)
		}
		_, n, err := c.s.CancelJobs(c.Context(), "ann", c.task.ID, dispatch.Choice{Jobs: []dispatch.JobID{c.jobs[4].ID,
			c.jobs[0].ID, c.jobs[2].ID}})
		c.must(err)
		c.equal(n, 3)
		c.equal(c.statuses(), []dispatch.Status{dispatch.Canceled, dispatch.Accepted, dispatch.Canceled,
			dispatch.Accepted, dispatch.Canceled})
		_, n, err = c.s.CancelJobs(c.Context(), "ann", c.task.ID,
			dispatch.Choice{Statuses: []dispatch.Status{dispatch.Accepted}})
		c.must(err)
		c.equal(n, 2)
	})
}

// TestTaskChange_OfManyAtOnce: changes of a task at once come one after the other, and a cancel is never undone.
func TestTaskChange_OfManyAtOnce(t *testing.T) {
	eachChangeTest(t, func(c *changeTest) {
		errs := make(chan error, 8)
		for i := range cap(errs) {
			go func() {
				var err error
				switch i % 4 {
				case 0:
					if _, err = c.s.PauseTask(c.Context(), "ann", c.task.ID); dispatch.Is(err, dispatch.Conflict) {
						err = nil // a cancel came before
					}
				case 1:
					_, err = c.s.ResumeTask(c.Context(), "ann", c.task.ID, nil)
				case 2:
					_, err = c.s.CancelTask(c.Context(), "ann", c.task.ID, false)
				case 3:
					_, _, err = c.s.RetryTask(c.Context(), "ann", c.task.ID, dispatch.Choice{}, dispatch.Quota{Live: 9})
				}
				errs <- err
			}()
		}
		for range cap(errs) {
			c.must(<-errs)
		}
		c.equal(c.statuses(), []dispatch.Status{dispatch.Canceled, dispatch.Canceled, dispatch.Canceled,
			dispatch.Canceled, dispatch.Canceled})
		if store.Rows(c, c.s, "task_changes") != 0 {
			c.Error("a change is under way")
		}
	})
}

// TestTaskChange_OfAVisitIsLeftToFinishChanges checks that a budget which is reached, or whose first costs become
// known, changes only the first jobs of a large task in the calls of the visit, which has other jobs to serve, and that
// FinishChanges changes the rest as the last call decided.
func TestTaskChange_OfAVisitIsLeftToFinishChanges(t *testing.T) {
	for _, row := range []struct {
		name   string
		budget float64
		paused bool
	}{{"the budget has room again", 1e6, false}, {"the budget is reached after that", 3, true}} {
		t.Run(row.name, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, kept conformance.Store, _ func()) {
				c := &changeTest{T: t, s: kept.(*store.Store)}
				c.task = &dispatch.Task{Owner: "ann", Account: "p/shared",
					Request:   dispatch.Request{Parameters: []byte(`{}`)},
					Dimension: "d",
					Budget:    dispatch.Budget{Amount: row.budget}}
				all := drafts(1000)
				for i := range all {
					all[i].Budgeted = true
				}
				_, err := c.s.Accept(t.Context(), dispatch.Key{}, c.task, all)
				c.must(err)
				leases, _, err := c.s.Dequeue(t.Context(), dispatch.Room{Others: 1}, time.Hour)
				c.must(err)
				c.lease = leases[0]
				c.s.ChangeInRanges(0, func(context.Context) { t.Error("a visit changes more than the first jobs") })
				first := c.submitted(all[:10], 1)
				if last := c.loaded(all[999]); last.Paused {
					t.Error("the last job is paused already")
				}
				g, err := c.s.Agenda(t.Context(), "p/shared", 10, 0)
				if err != nil || len(g.Queues) > 0 {
					t.Errorf("the visit would try the jobs again: %+v, %v", g.Queues, err)
				}
				price := 1.0
				first[0].Phase, first[0].Status, first[0].Costs, first[0].Unit = dispatch.Ended, dispatch.Finished,
					&price, "credits"
				_, err = c.s.Save(t.Context(), first)
				c.must(err)
				if row.paused {
					c.submitted(all[1:10], 2)
				}
				c.s.ChangeInRanges(0, nil)
				_, err = c.s.FinishChanges(t.Context(), time.Hour)
				c.must(err)
				for _, d := range all {
					if j := c.loaded(d); j.Phase == dispatch.Waiting &&
						(j.Paused != row.paused || j.Due.IsZero() != row.paused) {
						t.Fatalf("job %d: paused %t, due %v", j.Number, j.Paused, j.Due)
					}
				}
				got, err := c.s.Task(t.Context(), "ann", c.task.ID)
				if err != nil || got.Paused != row.paused || store.Rows(t, c.s, "task_changes") != 0 {
					t.Errorf("the task: paused %t, %v", got.Paused, err)
				}
				conformance.CheckCounts(t, c.s)
			})
		})
	}
}

func (c *changeTest) loaded(d dispatch.Draft) dispatch.Job {
	c.Helper()
	j, err := c.s.Load(c.Context(), d.ID)
	c.must(err)
	return j
}

// submitted commits the intents of jobs, and checks for how many the budget had room.
func (c *changeTest) submitted(jobs []dispatch.Draft, want int) []dispatch.Job {
	c.Helper()
	var waiting []dispatch.Job
	for _, d := range jobs {
		waiting = append(waiting, c.loaded(d))
	}
	kept, err := c.s.Intend(c.Context(), c.lease, dispatch.Limits{Send: time.Minute}, waiting)
	if err != nil || len(kept) != want {
		c.Fatalf("%d jobs are submitted, want %d; %v", len(kept), want, err)
	}
	return kept
}

// TestTaskChange_CallerWaitsABoundedTime: the owner of a large task is informed after some seconds how far the change
// has come, and that another one must wait. It is ended in the background.
func TestTaskChange_CallerWaitsABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "sqlite::memory:", conformance.NewStillClock(start))
		defer s.Close()
		c := &changeTest{T: t, s: s, task: &dispatch.Task{Owner: "ann", Account: "p/shared", Dimension: "d",
			Request: dispatch.Request{Parameters: []byte(`{}`)}}}
		all := drafts(7)
		for i := range all {
			all[i].Number = i + 1
		}
		_, err := s.Accept(t.Context(), dispatch.Key{}, c.task, all)
		c.must(err)
		s.ChangeInRanges(2, func(context.Context) { time.Sleep(4 * time.Second) }) // as slow as a busy disk
		_, err = s.CancelTask(t.Context(), "ann", c.task.ID, false)
		c.must(err)
		task, err := s.Task(t.Context(), "ann", c.task.ID)
		c.must(err)
		c.equal(task.Change, dispatch.Change{Action: "cancel", Done: 6, Last: 7})
		c.equal(task.Counts, dispatch.Counts{dispatch.Canceled: 6, dispatch.Accepted: 1})
		_, err = s.FinishChanges(t.Context(), 0)
		c.must(err)
		if task, err = s.Task(t.Context(), "ann", c.task.ID); err != nil || task.Change != (dispatch.Change{}) {
			t.Errorf("%+v, %v", task.Change, err)
		}
		c.equal(task.Counts, dispatch.Counts{dispatch.Canceled: 7})
	})
}
