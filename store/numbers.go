package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// numbers are what a transaction changes of what owners see. A transaction locks tasks first, then jobs, then the rows
// of owners and of task_numbers, the counts, and accounts last, those of each kind in one order. The row of an owner
// is locked until the commit: so numbers become visible in their order.
type numbers struct {
	owners map[dispatch.UserID]bool
	tasks  map[dispatch.TaskID]numberedTask
}

// numberedTask is a task that changes.
type numberedTask struct {
	owner dispatch.UserID
	anew  bool // its jobs are to be read anew
}

// owner has an owner take a number.
func (n *numbers) owner(u dispatch.UserID) {
	if n.owners == nil {
		n.owners = map[dispatch.UserID]bool{}
	}
	n.owners[u] = true
}

// task gives a task the next number of its owner.
func (n *numbers) task(id dispatch.TaskID, u dispatch.UserID, anew bool) {
	n.owner(u)
	if n.tasks == nil {
		n.tasks = map[dispatch.TaskID]numberedTask{}
	}
	n.tasks[id] = numberedTask{u, anew || n.tasks[id].anew}
}

// drain returns the numbers, and leaves none.
func (n *numbers) drain() numbers {
	all := *n
	*n = numbers{}
	return all
}

const (
	// A first number is a time, so that no number returns after all that was stored of an owner was deleted.
	takeNumber = `
		INSERT INTO owners (owner, change, floor)
		VALUES ($1, $2, $2)
		ON CONFLICT (owner) DO UPDATE SET change = owners.change + 1`

	numberTask = `
		INSERT INTO task_numbers (task, owner, change, floor)
		SELECT CAST($1 AS BIGINT), owner, change, change FROM owners WHERE owner = $2
		ON CONFLICT (task) DO UPDATE SET change = excluded.change`

	numberTaskAnew = numberTask + ", floor = excluded.floor"

	// presentNumber is the number that the owner of a job took in this transaction.
	presentNumber = "(SELECT o.change FROM owners o WHERE o.owner = jobs.owner)"
)

// take returns the statements that take the numbers, before rows of jobs are written with them.
func (n numbers) take(now int64) (all []command) {
	for _, u := range slices.Sorted(maps.Keys(n.owners)) {
		all = append(all, command{takeNumber, []any{string(u), now}})
	}
	return all
}

// ofTasks returns the statements that give tasks the numbers that were taken.
func (n numbers) ofTasks() (all []command) {
	for _, id := range slices.Sorted(maps.Keys(n.tasks)) {
		t, text := n.tasks[id], numberTask
		if t.anew {
			text = numberTaskAnew
		}
		all = append(all, command{text, []any{int64(id), string(t.owner)}})
	}
	return all
}

// number takes the numbers that were not taken with a change of jobs.
func (q tx) number(ctx context.Context) error {
	n := q.numbers.drain()
	if len(n.owners) == 0 {
		return nil
	}
	return q.runAll(ctx, append(n.take(q.now), n.ofTasks()...))
}

// takeNumbers returns the next number of each owner.
func takeNumbers(ctx context.Context, q tx, owners []dispatch.UserID) (map[dispatch.UserID]int64, error) {
	taken := map[dispatch.UserID]int64{}
	slices.Sort(owners)
	for _, u := range slices.Compact(owners) {
		n, err := value[int64](ctx, q, takeNumber+" RETURNING change", string(u), q.now)
		if err != nil {
			return nil, err
		}
		taken[u] = n
	}
	return taken, nil
}

// renumber gives numbers to jobs that look different though nothing was changed that a visit writes, and to their
// tasks.
func renumber(ctx context.Context, q tx, jobs []dispatch.JobID) error {
	if len(jobs) == 0 {
		return nil
	}
	w := whereAny(q, "jobs.id", jobs)
	all, err := list(ctx, q, func(j *dispatch.Job) []any { return []any{text(&j.Owner), number(&j.Task)} },
		"SELECT jobs.owner, jobs.task FROM jobs WHERE "+w.String()+" ORDER BY jobs.id"+q.lock("jobs"), w.args...)
	if err != nil {
		return err
	}
	for _, j := range all {
		if q.numbers.owner(j.Owner); j.Task != 0 {
			q.numbers.task(j.Task, j.Owner, false)
		}
	}
	if err := q.number(ctx); err != nil {
		return err
	}
	return run(ctx, q, "UPDATE jobs SET changed = "+presentNumber+" WHERE "+w.String(), w.args...)
}

// forgetNumbers notes that jobs are deleted from the database: of hidden ones, which readers may not know as deleted
// yet, up to their number, of others up to the number that is taken by it.
func (e *effects) forgetNumbers(all []stored) (follow []command) {
	owners, tasks := map[dispatch.UserID]int64{}, map[dispatch.TaskID]int64{}
	for _, j := range all {
		switch {
		case !j.Hidden && j.Task != 0:
			e.numbers.task(j.Task, j.Owner, true)
		case j.Task != 0:
			tasks[j.Task] = max(tasks[j.Task], j.changed)
		case !j.Hidden:
			e.numbers.owner(j.Owner)
			owners[j.Owner] = 0
		default:
			if last, taken := owners[j.Owner]; !taken || last > 0 {
				owners[j.Owner] = max(last, j.changed)
			}
		}
	}
	for _, u := range slices.Sorted(maps.Keys(owners)) {
		follow = append(follow, raiseFloor(u, owners[u]))
	}
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		follow = append(follow, command{`
			UPDATE task_numbers
			SET floor = $2
			WHERE task = CAST($1 AS BIGINT) AND floor < $2`, []any{int64(id), tasks[id]}})
	}
	return follow
}

// raiseFloor returns what notes that an owner's changes up to a number are not known; 0: up to the last one.
func raiseFloor(u dispatch.UserID, n int64) command {
	if n == 0 {
		return command{"UPDATE owners SET floor = change WHERE owner = $1", []any{string(u)}}
	}
	return command{"UPDATE owners SET floor = $2 WHERE owner = $1 AND floor < $2", []any{string(u), n}}
}

// renewNumbers has all readers begin anew: after a database was set back, they may know numbers that were taken since.
func renewNumbers(ctx context.Context, q tx) error {
	if err := q.number(ctx); err != nil {
		return err
	}
	err := run(ctx, q, `
		UPDATE owners
		SET change = CASE WHEN change < $1 THEN CAST($1 AS BIGINT) ELSE change + 1 END,
			floor = CASE WHEN change < $1 THEN CAST($1 AS BIGINT) ELSE change + 1 END`, q.now)
	if err != nil {
		return err
	}
	return run(ctx, q, `
		UPDATE task_numbers
		SET change = (SELECT o.change FROM owners o WHERE o.owner = task_numbers.owner),
			floor = (SELECT o.floor FROM owners o WHERE o.owner = task_numbers.owner)`)
}

// ChangesSince returns what changed after a place.
func (s *Store) ChangesSince(
	ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ChangedPlace, p dispatch.Page,
) (dispatch.ChangedPage, error) {
	if p.Limit <= 0 || p.Limit > dispatch.MostChanged {
		p.Limit = dispatch.MostChanged
	}
	ctx = allow(ctx, listWithin)
	return result(ctx, s.inSnapshot, s.read, "ChangesSince", func(q tx, now int64) (dispatch.ChangedPage, error) {
		return changesSince(ctx, q, u, id, after, p, now)
	})
}

func changesSince(
	ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID, after dispatch.ChangedPlace, p dispatch.Page,
	now int64,
) (c dispatch.ChangedPage, err error) {
	var floor int64
	if id == 0 {
		err = missing(q.QueryRowContext(ctx, "SELECT change, floor FROM owners WHERE owner = $1", u).Scan(&c.Number,
			&floor))
	} else {
		err = q.QueryRowContext(ctx, `
			SELECT n.change, n.floor
			FROM task_numbers n
				JOIN tasks t ON t.id = n.task
			WHERE n.task = CAST($1 AS BIGINT) AND n.owner = $2 AND NOT t.hidden`, id, u).Scan(&c.Number, &floor)
	}
	if err != nil {
		return c, err
	}
	if c.Live, c.Accounts, err = accountsOfOwner(ctx, q, u, now); err != nil ||
		after == dispatch.AfterNumber(c.Number) {
		return c, err
	}
	if c.Anew = after.Number < floor || after.Number > c.Number; c.Anew {
		return c, nil
	}
	var changedAt []dispatch.Account
	if id != 0 {
		row, err := getTask(ctx, q, u, id, 0)
		if err != nil {
			return c, err
		}
		if changedAt, err = row.changedAt(ctx, q); err != nil {
			return c, err
		}
		tasks, err := recordsOf(ctx, q, []taskRow{row}, 0, now)
		if err != nil {
			return c, err
		}
		c.Task = &tasks[0]
	}
	if c.Changed, err = changedJobs(ctx, q, u, c.Task, changedAt, after, p, now); err != nil {
		return c, err
	}
	if id == 0 {
		tasks, err := changedTasks(ctx, q, u, after, p, now)
		if err != nil {
			return c, err
		}
		c.Changed = append(c.Changed, tasks...)
		slices.SortFunc(c.Changed, func(a, b dispatch.Changed) int { return a.Place().Compare(b.Place()) })
	}
	if len(c.Changed) > p.Limit {
		c.More, c.Changed = true, c.Changed[:p.Limit]
	}
	return c, nil
}

// accountsOfOwner returns whether an owner has jobs that have not ended, and those of their accounts that they show
// something of.
func accountsOfOwner(
	ctx context.Context, q tx, u dispatch.UserID, now int64,
) (live bool, shown []dispatch.AccountState, err error) {
	type account struct {
		id dispatch.Account
		accountState
	}
	all, err := list(ctx, q, func(a *account) []any {
		return append([]any{text(&a.id)}, a.columns()...)
	}, `
		SELECT accounts.id, `+accountStateColumns+`
		FROM owner_counts c
			JOIN accounts ON accounts.id = c.account
			LEFT JOIN platforms ON platforms.name = accounts.platform
		WHERE c.owner = $1 AND c.waiting + c.held > 0`, u)
	for _, a := range all {
		state := dispatch.AccountState{Account: a.id, Silent: a.silent}
		if a.until > now {
			state.Why, state.Notice = a.why, a.notice
		}
		if a.silent || a.until > now {
			shown = append(shown, state)
		}
	}
	slices.SortFunc(shown, func(a, b dispatch.AccountState) int { return cmp.Compare(a.Account, b.Account) })
	return len(all) > 0, shown, err
}

// changedJobs returns one more job than the page has, if there is one: jobs of no task, or those of a task, with what
// taskRow.changedAt returns of it.
func changedJobs(
	ctx context.Context, q tx, u dispatch.UserID, t *dispatch.TaskRecord, changedAt []dispatch.Account,
	after dispatch.ChangedPlace, p dispatch.Page, now int64,
) (all []dispatch.Changed, err error) {
	l := jobList{page: p, from: "jobs", order: "jobs.changed, jobs.id", n: int64(p.Limit) + 1, numbered: true}
	w := &l.where
	if t != nil {
		l.ofTask = true
		w.and("jobs.task = CAST(" + w.arg(t.ID) + " AS BIGINT) AND jobs.task <> 0")
	} else {
		w.and("jobs.owner = " + w.arg(u) + " AND jobs.task = 0")
	}
	ascending.after(w, "jobs.changed", "jobs.id", after.Number, after.Jobs())
	records, err := l.read(ctx, q, func(r *recordRow) (record dispatch.Record, err error) {
		c := dispatch.Changed{Number: r.number, Job: r.ID, Task: r.Task, Deleted: r.isHidden}
		if t != nil {
			record, err = r.jobOfTask(t, p.Most, now)
		} else {
			record, err = r.record(p.Most, now)
		}
		all = append(all, c)
		return record, err
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if !all[i].Deleted {
			all[i].Record = &records[i]
		}
	}
	return all, showAccounts(ctx, q, records, changedAt, now)
}

// changedTasks returns one more task than the page has, if there is one.
func changedTasks(
	ctx context.Context, q tx, u dispatch.UserID, after dispatch.ChangedPlace, p dispatch.Page, now int64,
) ([]dispatch.Changed, error) {
	var w where
	w.and("n.owner = " + w.arg(u))
	ascending.after(&w, "n.change", "n.task", after.Number, after.Tasks())
	all, err := list(ctx, q, func(c *dispatch.Changed) []any {
		return []any{number(&c.Task), &c.Number, &c.Deleted}
	}, `
		SELECT n.task, n.change, t.hidden
		FROM task_numbers n
			JOIN tasks t ON t.id = n.task
		WHERE `+w.String()+`
		ORDER BY n.change, n.task
		LIMIT CAST(`+w.arg(int64(p.Limit)+1)+` AS BIGINT)`, w.args...)
	if err != nil {
		return nil, err
	}
	var shown []dispatch.TaskID
	for _, c := range all {
		if !c.Deleted {
			shown = append(shown, c.Task)
		}
	}
	tasks, err := readTasks(ctx, q, u, shown, p.Most, now)
	whole := map[dispatch.TaskID]*dispatch.TaskRecord{}
	for i := range tasks {
		whole[tasks[i].ID] = &tasks[i]
	}
	for i, c := range all {
		all[i].Whole = whole[c.Task]
	}
	return all, err
}
