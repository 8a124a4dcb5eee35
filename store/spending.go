package store

import (
	"context"
	"errors"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// showSpending fills in what the tasks with a budget have spent. It reads that of all of them together.
func showSpending(ctx context.Context, q tx, tasks []dispatch.TaskRecord) error {
	var ids []dispatch.TaskID
	for _, t := range tasks {
		if t.Budget != (dispatch.Budget{}) {
			ids = append(ids, t.ID)
		}
	}
	all := spendings{}
	if err := all.read(ctx, q, ids); err != nil {
		return err
	}
	for i, t := range tasks {
		if s := all[t.ID]; s != nil {
			s.Ended = t.Counts[dispatch.Finished] + t.Counts[dispatch.Failed]
			tasks[i].Spending = s
		}
	}
	return nil
}

// spending returns what the runs of a task cost.
func spending(ctx context.Context, q tx, id dispatch.TaskID) (dispatch.Spending, error) {
	all := spendings{}
	if err := all.read(ctx, q, []dispatch.TaskID{id}); err != nil {
		return dispatch.Spending{}, err
	}
	counts, err := countTasks(ctx, q, id)
	for _, c := range counts[id] {
		if c.status == dispatch.Finished || c.status == dispatch.Failed {
			all[id].Ended += c.n
		}
	}
	return *all[id], err
}

// spendings is what the runs of tasks cost, without how many jobs have ended.
type spendings map[dispatch.TaskID]*dispatch.Spending

// read adds tasks.
func (all spendings) read(ctx context.Context, q tx, ids []dispatch.TaskID) error {
	for _, id := range ids {
		all[id] = &dispatch.Spending{}
	}
	if len(ids) == 0 {
		return nil
	}
	return errors.Join(all.charges(ctx, q, ids), all.openRuns(ctx, q, ids), all.earlier(ctx, q, ids))
}

// charges adds what is booked.
func (all spendings) charges(ctx context.Context, q tx, ids []dispatch.TaskID) error {
	w := whereAny(q, "task", ids)
	type charge struct {
		task dispatch.TaskID
		dispatch.Charge
	}
	return eachRow(ctx, q, func(c *charge) []any {
		return []any{number(&c.task), &c.Unit, &c.Costs, number(&c.Runs)}
	}, func(c *charge) error {
		c.Costs = rounded(c.Costs)
		all[c.task].Charges = append(all[c.task].Charges, c.Charge)
		return nil
	}, `
		SELECT task, unit, costs, runs
		FROM task_costs
		WHERE `+w.String()+`
		ORDER BY task, unit`,
		w.args...)
}

// openRuns adds the runs of tasks with a budget whose costs are not known yet, see [dispatch.Spending].
func (all spendings) openRuns(ctx context.Context, q tx, ids []dispatch.TaskID) error {
	w := whereAny(q, "task", ids)
	type openRuns struct {
		task dispatch.TaskID
		dispatch.Spending
	}
	return eachRow(ctx, q, func(s *openRuns) []any {
		return []any{number(&s.task), number(&s.Running), number(&s.Reported), &s.RunningCosts, number(&s.Unmetered)}
	}, func(s *openRuns) error {
		to := all[s.task]
		to.Running, to.Reported, to.Unmetered = s.Running, s.Reported, s.Unmetered
		to.RunningCosts = rounded(s.RunningCosts)
		return nil
	}, `
		SELECT task, SUM(CASE WHEN phase <> 'ended' AND phase <> 'waiting' THEN 1 ELSE 0 END),
			SUM(CASE WHEN phase <> 'ended' AND phase <> 'waiting' AND costs IS NOT NULL THEN 1 ELSE 0 END),
			CAST(SUM(CASE WHEN phase <> 'ended' AND phase <> 'waiting' AND costs BETWEEN 0 AND 1e12 THEN costs ELSE 0 END)
				AS DOUBLE PRECISION),
			CAST(SUM(unpriced) AS BIGINT)
		FROM jobs
		WHERE `+w.String()+` AND task <> 0 AND budgeted AND (phase NOT IN ('waiting', 'ended') OR meter_due > 0)
		GROUP BY task`,
		w.args...)
}

// earlier adds, for tasks without a priced run, what the latest finished runs of their services cost.
func (all spendings) earlier(ctx context.Context, q tx, ids []dispatch.TaskID) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id dispatch.TaskID) bool { return !all[id].Unpriced() })
	services, err := servicesOf(ctx, q, ids)
	if err != nil {
		return err
	}
	costs := map[service]dispatch.Charge{}
	for id, run := range services {
		if _, known := costs[run]; !known {
			runs, err := finishedRuns(ctx, q, run.owner, run.account, run.hash, dispatch.EstimatedFrom)
			if err != nil {
				return err
			}
			costs[run] = dispatch.SumRuns(runs)
		}
		all[id].Earlier = costs[run]
	}
	return nil
}

// service is what all jobs of a task run, and for whom.
type service struct {
	owner   dispatch.UserID
	account dispatch.Account
	hash    dispatch.ServiceHash
}

// servicesOf returns the services of tasks that have any jobs.
func servicesOf(ctx context.Context, q tx, ids []dispatch.TaskID) (map[dispatch.TaskID]service, error) {
	type serviceOfTask struct {
		task dispatch.TaskID
		service
	}
	w, services := whereAny(q, "tasks.id", ids), map[dispatch.TaskID]service{}
	return services, eachRow(ctx, q, func(s *serviceOfTask) []any {
		return []any{number(&s.task), text(&s.owner), text(&s.account), number(&s.hash)}
	}, func(s *serviceOfTask) error {
		services[s.task] = s.service
		return nil
	}, `
		SELECT tasks.id, jobs.owner, jobs.account, jobs.service
		FROM tasks
			JOIN jobs ON jobs.id = (
				SELECT j.id FROM jobs j
				WHERE j.task = tasks.id AND j.task <> 0
				ORDER BY j.number LIMIT 1)
		WHERE `+w.String(),
		w.args...)
}
