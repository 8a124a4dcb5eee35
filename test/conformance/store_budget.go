package conformance

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// acceptLimited stores a task of n jobs with a budget, or of which only the first run on trial.
func (t storeTest) acceptLimited(n int, b dispatch.Budget, trial int) (dispatch.Task, []dispatch.Draft) {
	t.Helper()
	task := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile", Budget: b}
	if trial > 0 {
		task.Trial, task.Paused, task.PausedFor = trial, true, dispatch.Trial
	}
	jobs := make([]dispatch.Draft, n)
	for i := range jobs {
		jobs[i] = draft(ann, shared)
		jobs[i].Number, jobs[i].Body, jobs[i].Budgeted = i+1, []byte(`1`), b != dispatch.Budget{}
		if trial > 0 && i >= trial {
			jobs[i].Paused, jobs[i].Attention = true, dispatch.Paused
		}
	}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, &task, jobs)
	t.must(err)
	for _, j := range jobs {
		t.equal(t.load(j.ID), j.Job)
	}
	return task, jobs
}

// intendAll commits the intents of those jobs that wait and are due, and returns the numbers of those that may be sent.
func (t storeTest) intendAll(l dispatch.Lease, jobs []dispatch.Draft) (numbers []int) {
	t.Helper()
	for _, j := range t.intendDue(l, jobs) {
		t.equal(j, t.load(j.ID))
		numbers = append(numbers, j.Number)
	}
	slices.Sort(numbers)
	return numbers
}

// intendDue is intendAll while others may change the jobs that it returns.
func (t storeTest) intendDue(l dispatch.Lease, jobs []dispatch.Draft) []dispatch.Job {
	t.Helper()
	var waiting []dispatch.Job
	for _, d := range jobs {
		if j := t.load(d.ID); j.Phase == dispatch.Waiting && !j.Paused && !j.Due.After(t.readAgenda().Now) {
			waiting = append(waiting, j)
		}
	}
	kept, err := t.s.Intend(t.Context(), l, limits, waiting)
	t.must(err)
	return kept
}

// shows checks what is shown of a task: whether it is paused, why, and its budget.
func (t storeTest) shows(id dispatch.TaskID, want string) {
	t.Helper()
	is, err := t.s.Task(t.Context(), ann, id)
	t.must(err)
	all, err := t.s.Tasks(t.Context(), ann, dispatch.Page{Limit: 1})
	t.must(err)
	t.equal(all[0], is)
	got := fmt.Sprint(is.Paused, " ", is.Attention)
	if is.Spending != nil {
		use := is.Budget.Use(*is.Spending)
		got += fmt.Sprintf(" %g + %g of %g %s", use.Spent, use.Expected, use.Amount, use.Unit)
	}
	t.equal(got, want)
}

func costs(c float64, unit string) func(*dispatch.Job) {
	return func(j *dispatch.Job) { j.Costs, j.Unit = &c, unit }
}

// budgets checks that no job is submitted for which a budget has no room, that the task is paused then and goes on
// within a higher one, and that the first costs that are known end the wait for them, however late.
func (t storeTest) budgets() {
	ctx := t.Context()
	task, jobs := t.acceptLimited(12, dispatch.Budget{Amount: 10}, 0)
	l := t.lease()
	t.shows(task.ID, "false  0 + 0 of 10 ")
	t.equal(t.intendAll(l, jobs), []int{1}) // the costs of none are known
	t.shows(task.ID, "true costs_awaited 0 + 0 of 10 ")
	t.resumes(task.ID, nil)
	t.shows(task.ID, "false  0 + 0 of 10 ")
	t.equal(t.intendAll(l, jobs), []int(nil))
	t.shows(task.ID, "true costs_awaited 0 + 0 of 10 ")
	late := func(j *dispatch.Job) {
		j.Unit, j.Ref = "credits", dispatch.Ref{ID: fmt.Sprint(j.ID)}
		j.Unmetered = []dispatch.Unmetered{{Ref: j.Ref, Ended: j.Created, Due: j.Created.Add(time.Hour)}}
	}
	t.end(jobs[0].ID, dispatch.Finished, late)
	t.shows(task.ID, "true costs_awaited 0 + 0 of 10 ")
	t.db.Pass(24 * time.Hour)
	wakes := t.readAgenda().Wakes
	t.end(jobs[0].ID, dispatch.Finished, func(j *dispatch.Job) { costs(2, "credits")(j); j.Unmetered = nil })
	if t.readAgenda().Wakes == wakes {
		t.Error("the account was not woken when the task went on")
	}
	t.shows(task.ID, "false  2 + 0 of 10 credits")
	l = t.lease()
	t.equal(t.intendAll(l, jobs), []int{2, 3, 4, 5})
	t.shows(task.ID, "true budget_reached 2 + 8 of 10 credits")
	t.equal(t.intendAll(l, jobs), []int(nil))
	t.refused(task.ID, nil)
	t.refused(task.ID, &dispatch.Budget{Amount: 11})
	t.resumes(task.ID, &dispatch.Budget{Amount: 12.5})
	t.shows(task.ID, "false  2 + 8 of 12.5 credits")
	t.equal(t.intendAll(l, jobs), []int{6})
	t.end(jobs[3].ID, dispatch.Failed, costs(1, "credits"))
	t.shows(task.ID, "true budget_reached 3 + 6 of 12.5 credits")
	_, n, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{})
	t.must(err)
	t.equal(n, 1)
	t.resumes(task.ID, &dispatch.Budget{})
	t.shows(task.ID, "false ")
	t.equal(t.intendAll(l, jobs), []int{4, 7, 8, 9, 10, 11, 12})
}

// ownBudgets checks that a pause by the owner outlasts the wait for the first costs, also for a visit that did not know
// of it, and that a task is not paused for a job that was not submitted after all.
func (t storeTest) ownBudgets() {
	ctx := t.Context()
	awaited, jobs := t.acceptLimited(9, dispatch.Budget{Amount: 10}, 0)
	l := t.lease()
	t.equal(t.intendAll(l, jobs), []int{1})
	t.shows(awaited.ID, "true costs_awaited 0 + 0 of 10 ")
	_, err := t.s.PauseTask(ctx, ann, awaited.ID)
	t.must(err)
	t.shows(awaited.ID, "true paused 0 + 0 of 10 ")
	t.end(jobs[0].ID, dispatch.Finished, costs(1, "credits"))
	t.shows(awaited.ID, "true paused 1 + 0 of 10 credits")
	t.equal(t.intendAll(l, jobs), []int(nil))

	read, jobs := t.acceptLimited(9, dispatch.Budget{Amount: 10}, 0)
	t.equal(t.intendAll(l, jobs[:1]), []int{1})
	next := []dispatch.Job{t.load(jobs[1].ID), t.load(jobs[2].ID)}
	_, err = t.s.PauseTask(ctx, ann, read.ID)
	t.must(err)
	kept, err := t.s.Intend(ctx, l, limits, next)
	t.must(err)
	t.equal(len(kept), 0)
	t.shows(read.ID, "true paused 0 + 0 of 10 ")

	canceled, jobs := t.acceptLimited(9, dispatch.Budget{Amount: 10}, 0)
	next = []dispatch.Job{t.load(jobs[0].ID), t.load(jobs[1].ID)}
	_, err = t.s.Cancel(ctx, ann, jobs[0].ID, false)
	t.must(err)
	kept, err = t.s.Intend(ctx, l, limits, next)
	t.must(err)
	t.equal(len(kept), 0)
	t.shows(canceled.ID, "false  0 + 0 of 10 ")
	t.equal(t.intendAll(l, jobs), []int{2})
}

// largeBudgets checks that the job that takes the last room is returned as it is, though the pause of a large task has
// not come to it yet.
func (t storeTest) largeBudgets() {
	_, jobs := t.acceptLimited(210, dispatch.Budget{Amount: 10}, 0)
	t.equal(t.intendAll(t.lease(), jobs[204:]), []int{205})
}

// guessedBudgets checks that the owner's earlier runs of the service tell how many first jobs a budget has room for.
func (t storeTest) guessedBudgets() {
	for range 3 {
		j := t.accept()
		j.Phase, j.Status, j.Unit, j.Costs = dispatch.Ended, dispatch.Finished, "credits", amountOf(4)
		t.save(j)
	}
	l := t.lease()
	two, jobs := t.acceptLimited(9, dispatch.Budget{Amount: 9}, 0)
	t.equal(t.intendAll(l, jobs), []int{1, 2})
	t.shows(two.ID, "true costs_awaited 0 + 8 of 9 ")
	t.end(jobs[0].ID, dispatch.Finished, costs(1, "credits"))
	t.shows(two.ID, "false  1 + 1 of 9 credits")

	none, jobs := t.acceptLimited(9, dispatch.Budget{Amount: 3}, 0)
	t.equal(t.intendAll(l, jobs), []int(nil))
	t.shows(none.ID, "true budget_reached 0 + 0 of 3 ")
	t.refused(none.ID, nil)
	t.resumes(none.ID, &dispatch.Budget{Amount: 4})
	t.equal(t.intendAll(l, jobs), []int{1})
}

// oddBudgets checks that a budget that cannot be kept pauses the task, and that what a platform reports of jobs that
// run is not taken for the costs of a run.
func (t storeTest) oddBudgets() {
	task, jobs := t.acceptLimited(9, dispatch.Budget{Amount: 10, Unit: "€"}, 0)
	l := t.lease()
	t.equal(t.intendAll(l, jobs[:1]), []int{1})
	t.end(jobs[0].ID, dispatch.Running, func(j *dispatch.Job) { j.Phase = dispatch.Started; costs(0, "€")(j) })
	t.equal(t.intendAll(l, jobs), []int(nil))
	t.shows(task.ID, "true costs_awaited 0 + 0 of 10 €")
	t.end(jobs[0].ID, dispatch.Finished, costs(1, "credits"))
	t.shows(task.ID, "true budget_unusable 0 + 0 of 10 €")
	t.refused(task.ID, &dispatch.Budget{Amount: 100})
	t.resumes(task.ID, &dispatch.Budget{})

	wrong, jobs := t.acceptLimited(2, dispatch.Budget{Amount: 10, Unit: "€"}, 0)
	t.equal(t.intendAll(l, jobs[:1]), []int{1})
	t.end(jobs[0].ID, dispatch.Finished, costs(1, "credits"))
	t.equal(t.intendAll(l, jobs[1:]), []int(nil))
	t.refused(wrong.ID, &dispatch.Budget{Amount: 100})
	t.resumes(wrong.ID, &dispatch.Budget{Amount: 10, Unit: "credits"})
	t.shows(wrong.ID, "false  1 + 0 of 10 credits")

	silent, jobs := t.acceptLimited(9, dispatch.Budget{Amount: 10}, 0)
	for i := range 3 {
		t.equal(t.intendAll(l, jobs), []int{i + 1})
		t.end(jobs[i].ID, dispatch.Finished, nil)
	}
	t.equal(t.intendAll(l, jobs), []int(nil))
	t.shows(silent.ID, "true budget_unusable 0 + 0 of 10 ")
	_, err := t.s.PauseTask(t.Context(), ann, silent.ID)
	t.must(err)
	t.shows(silent.ID, "true budget_unusable 0 + 0 of 10 ")
	_, err = t.s.CancelTask(t.Context(), ann, silent.ID, false)
	t.must(err)
	t.shows(silent.ID, "false  0 + 0 of 10 ")
}

// trials checks that the first jobs of a task run on trial, and the others when it is resumed.
func (t storeTest) trials() {
	task, jobs := t.acceptLimited(6, dispatch.Budget{}, 2)
	l := t.lease()
	t.equal(t.intendAll(l, jobs), []int{1, 2})
	t.shows(task.ID, "true trial")
	info, err := t.s.AccountInfo(t.Context(), ann, []dispatch.Account{shared}, nil)
	t.must(err)
	t.equal(fmt.Sprint(info[0].Waiting, info[0].Live), "0 6")
	t.end(jobs[0].ID, dispatch.Finished, nil)
	t.end(jobs[1].ID, dispatch.Failed, nil)
	t.shows(task.ID, "true trial_ended")
	_, _, err = t.s.RetryTask(t.Context(), ann, task.ID, dispatch.Choice{})
	t.must(err)
	t.shows(task.ID, "true trial")
	t.equal(t.intendAll(l, jobs), []int{2})
	t.end(jobs[1].ID, dispatch.Finished, nil)
	t.resumes(task.ID, nil)
	t.shows(task.ID, "false ")
	t.equal(t.intendAll(l, jobs), []int{3, 4, 5, 6})
	again, _ := t.s.Task(t.Context(), ann, task.ID)
	t.equal(again.Trial, 0)

	stopped, jobs := t.acceptLimited(6, dispatch.Budget{}, 2)
	_, err = t.s.PauseTask(t.Context(), ann, stopped.ID)
	t.must(err)
	t.shows(stopped.ID, "true paused")
	t.equal(t.intendAll(l, jobs), []int(nil))

	both, jobs := t.acceptLimited(9, dispatch.Budget{Amount: 100}, 5)
	t.equal(t.intendAll(l, jobs), []int{1})
	t.shows(both.ID, "true costs_awaited 0 + 0 of 100 ")
	t.end(jobs[0].ID, dispatch.Finished, costs(1, "credits"))
	t.shows(both.ID, "true trial 1 + 0 of 100 credits")
	t.equal(t.intendAll(l, jobs), []int{2, 3, 4, 5})
}

// parallelBudgets checks that a budget is kept while processes resume and pause the task, and while jobs end, all at
// once.
func (t storeTest) parallelBudgets() {
	ctx := t.Context()
	task, jobs := t.acceptLimited(40, dispatch.Budget{Amount: 12}, 0)
	l := t.lease()
	var all sync.WaitGroup
	for _, s := range t.handles(3) {
		all.Go(func() {
			for range 15 {
				if _, err := s.ResumeTask(ctx, ann, task.ID, nil); err != nil && !dispatch.Is(err, dispatch.Conflict) {
					t.Error(err)
				}
				if _, err := s.PauseTask(ctx, ann, task.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	visit := func() {
		t.intendDue(l, jobs)
		for _, d := range jobs {
			if j := t.load(d.ID); j.Phase == dispatch.Creating {
				j.Phase, j.Status, j.Unit, j.Costs = dispatch.Ended, dispatch.Finished, "credits", amountOf(1)
				_, err := t.s.Save(ctx, []dispatch.Job{j})
				t.must(err)
			}
		}
	}
	for range 10 {
		visit()
	}
	all.Wait()
	for range 20 {
		_, err := t.s.ResumeTask(ctx, ann, task.ID, nil)
		if dispatch.Is(err, dispatch.Conflict) {
			break
		}
		t.must(err)
		visit()
	}
	is, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	t.equal(fmt.Sprint(is.Counts, is.Budget.Use(*is.Spending)), "map[created:28 finished:12] {{12 credits} 12 0}")
}

func (t storeTest) refused(id dispatch.TaskID, budget *dispatch.Budget) {
	t.Helper()
	before, err := t.s.Task(t.Context(), ann, id)
	t.must(err)
	_, err = t.s.ResumeTask(t.Context(), ann, id, budget)
	t.kind(err, dispatch.Conflict)
	after, err := t.s.Task(t.Context(), ann, id)
	t.must(err)
	t.equal(after, before)
}

func (t storeTest) resumes(id dispatch.TaskID, budget *dispatch.Budget) {
	t.Helper()
	_, err := t.s.ResumeTask(t.Context(), ann, id, budget)
	t.must(err)
}
