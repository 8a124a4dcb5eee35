package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Record returns a job of its owner.
func (s *Store) Record(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	r, err := s.RecordIncludingHidden(ctx, u, id)
	if err == nil && r.Hidden {
		return dispatch.Record{}, fail("Record", sql.ErrNoRows)
	}
	return r, err
}

// RecordIncludingHidden returns a job of its owner even if the job is hidden.
func (s *Store) RecordIncludingHidden(
	ctx context.Context, u dispatch.UserID, id dispatch.JobID,
) (dispatch.Record, error) {
	return result(ctx, s.readOnly, s.read, "Record", func(q tx, now int64) (dispatch.Record, error) {
		return ownRecord(ctx, q, u, id, now)
	})
}

func ownRecord(
	ctx context.Context, q querier, u dispatch.UserID, id dispatch.JobID, now int64,
) (r dispatch.Record, err error) {
	var row recordRow
	var account accountState
	var shared, dimension string // of its task
	columns := append(whole(&row.Job), &row.pruned, &row.body, &shared, &dimension)
	columns = append(append(columns, account.columns()...), &row.changed)
	err = q.QueryRowContext(ctx, `
		SELECT `+jobColumns+`, jobs.pruned, requests.body, COALESCE(tasks.request, ''), COALESCE(tasks.dimension, ''),
			`+accountStateColumns+`,
			CASE WHEN tasks.spread AND jobs.account <> tasks.account
				THEN EXISTS (
					SELECT 1 FROM task_placements h
					WHERE h.task = jobs.task AND h.account = jobs.account AND h.changed_to <> '')
				ELSE EXISTS (
					SELECT 1 FROM definitions
					WHERE definitions.task = jobs.task AND definitions.changed_to <> ''
						AND definitions.job = CASE WHEN jobs.task = 0 THEN jobs.id ELSE 0 END)
				END
		FROM jobs
			JOIN requests ON requests.job = jobs.id
			JOIN accounts ON accounts.id = jobs.account
			LEFT JOIN platforms ON platforms.name = accounts.platform
			LEFT JOIN tasks ON tasks.id = jobs.task
		WHERE jobs.id = $1 AND jobs.owner = $2`,
		id, u).Scan(columns...)
	if err != nil {
		return r, err
	}
	r = dispatch.Record{Job: redefined(account.shownOn(row.Job, now), row.changed), Pruned: row.pruned, Read: at(now)}
	r.Request, err = requestOf(r.Job, row.body, shared, dimension)
	return r, err
}

// showHold sets the attention of the account on a job that was not started and is not paused, if the account
// currently submits nothing.
func showHold(j dispatch.Job, h hold, now int64) dispatch.Job {
	if j.Phase.Inert() && h.until > now && j.Attention != dispatch.Paused {
		j.Attention, j.Notice = h.why, h.notice
	}
	return j
}

// Records returns the owner's jobs that belong to no task, by creation.
func (s *Store) Records(ctx context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.Record, error) {
	ctx = allow(ctx, listWithin)
	return result(ctx, s.readOnly, s.read, "Records", func(q tx, now int64) ([]dispatch.Record, error) {
		return listRecords(ctx, q, u, p, now)
	})
}

// changeOwn changes a job for its owner, and wakes its account if the rule says so.
func (s *Store) changeOwn(ctx context.Context, op string, u dispatch.UserID, id dispatch.JobID,
	rule func(dispatch.Job, time.Time) (next dispatch.Job, wakes bool)) (dispatch.Job, error) {
	return result(ctx, s.in, s.write, op, func(q tx, now int64) (dispatch.Job, error) {
		wakes := false
		j, err := changeOwnJob(ctx, q, u, id, func(j dispatch.Job) (next dispatch.Job) {
			next, wakes = rule(j, at(now))
			return next
		})
		if err != nil || !wakes {
			return j, err
		}
		return j, wake(ctx, q, j.Account, now)
	})
}

// changeOwnJob changes a job of its owner that is not hidden.
func changeOwnJob(ctx context.Context, q tx, u dispatch.UserID, id dispatch.JobID, rule func(dispatch.Job) dispatch.Job,
) (dispatch.Job, error) {
	var w where
	w.and("jobs.id = " + w.arg(int64(id)) + " AND jobs.owner = " + w.arg(string(u)) + " AND NOT jobs.hidden")
	return firstOf(changeJobs(ctx, q, w, func(j stored) (dispatch.Job, bool) { return rule(j.Job), true }))
}

// MarkAwaited makes the owner's statuses that are older than fresh due now, and plans the others for when they will be.
// Repeated reads are at least gap apart.
func (s *Store) MarkAwaited(
	ctx context.Context, u dispatch.UserID, scope dispatch.Scope, fresh, gap time.Duration,
) (woken []dispatch.Account, err error) {
	if live, err := s.anyLive(ctx, u); err != nil || !live {
		return nil, err
	}
	return result(ctx, s.in, s.write, "MarkAwaited", func(q tx, now int64) ([]dispatch.Account, error) {
		jobs, err := markAwaited(ctx, q, u, scope, fresh, gap, now)
		if err != nil {
			return nil, err
		}
		return wakeToRead(ctx, q, jobs, now)
	})
}

// anyLive reports whether a job of the owner has not ended. It spares readers of ended jobs the wait for a writer.
func (s *Store) anyLive(ctx context.Context, u dispatch.UserID) (bool, error) {
	all, err := usageOf(ctx, s.on(s.read), u)
	return slices.ContainsFunc(all, func(at dispatch.Usage) bool { return at.Live > 0 }), fail("MarkAwaited", err)
}

// awaitedJob is a job whose status its owner waits for.
type awaitedJob struct {
	account dispatch.Account
	awaited bool
	due     int64
}

// markAwaited marks the jobs of a scope whose status is to be read. A fresh status becomes due when it will be stale. A
// status with a time in the future is stale: the clock was set back.
func markAwaited(
	ctx context.Context, q querier, u dispatch.UserID, scope dispatch.Scope, fresh, gap time.Duration, now int64,
) ([]awaitedJob, error) {
	w := where{args: []any{u, now, now - fresh.Microseconds(), gap.Microseconds(), max(fresh, gap).Microseconds()}}
	w.and(inScope(&w, scope))
	return list(ctx, q, func(j *awaitedJob) []any { return []any{text(&j.account), &j.awaited, number(&j.due)} }, `
		UPDATE jobs
		SET awaited = checked < $3 OR checked > $2,
			due = CASE
				WHEN checked > $2 THEN $2
				WHEN checked >= $3 THEN checked + CAST($5 AS BIGINT)
				WHEN due <= $2 THEN due
				WHEN checked + CAST($4 AS BIGINT) <= $2 THEN $2
				WHEN checked + CAST($4 AS BIGINT) < due THEN checked + CAST($4 AS BIGINT)
				ELSE due END
		WHERE owner = $1 AND NOT hidden AND phase = 'started' AND NOT awaited AND tries < 2
			AND (checked < $3 OR checked > $2 OR polls = 0 AND due > checked + CAST($5 AS BIGINT)) AND `+w.String()+`
		RETURNING account, awaited, due`,
		w.args...)
}

// inScope is the condition that a job is in a scope.
func inScope(w *where, scope dispatch.Scope) string {
	var either []string
	if scope.Job != 0 {
		either = append(either, "id = "+w.arg(scope.Job))
	}
	if scope.Alone {
		either = append(either, "task = 0")
	}
	switch {
	case scope.Tasks:
		either = append(either, "task <> 0")
	case scope.Task != 0:
		either = append(either, "task <> 0 AND task = CAST("+w.arg(scope.Task)+" AS BIGINT)")
	}
	if len(either) == 0 {
		return "FALSE"
	}
	return "(" + strings.Join(either, " OR ") + ")"
}

// turnSoon: an account whose booked send time comes within this time is not woken.
const turnSoon = time.Minute

// wakeToRead wakes the accounts of awaited jobs, plans visits for those that become due later, and returns the
// accounts that it woke.
func wakeToRead(
	ctx context.Context, q querier, jobs []awaitedJob, now int64,
) (woken []dispatch.Account, err error) {
	due := map[dispatch.Account]int64{} // 0: due now
	for _, j := range jobs {
		if j.awaited {
			j.due = 0
		}
		if first, known := due[j.account]; !known || j.due < first {
			due[j.account] = j.due
		}
	}
	for _, a := range slices.Sorted(maps.Keys(due)) {
		if due[a] > 0 {
			err = errors.Join(err, planVisit(ctx, q, a, due[a], now))
			continue
		}
		// An account with a booked status read whose visit is planned for that time at the latest, and soon, is
		// skipped.
		n, failed := exec(ctx, q, `
			UPDATE accounts
			SET wakes = wakes + 1, due = CASE WHEN due BETWEEN 1 AND $2 THEN due ELSE $2 END
			WHERE id = $1 AND NOT (lease_until <= $2 AND reading_send_time > $2 AND due BETWEEN 1 AND reading_send_time AND due <= $3)`,
			a, now, now+turnSoon.Microseconds())
		if err = errors.Join(err, failed); n > 0 {
			woken = append(woken, a)
		}
	}
	return woken, err
}

// planVisit has an account visited at a time at the latest. A running visit reads the agenda again.
func planVisit(ctx context.Context, q querier, a dispatch.Account, due, now int64) error {
	_, err := q.ExecContext(ctx, `
		UPDATE accounts
		SET wakes = wakes + 1, due = CASE WHEN due BETWEEN 1 AND $2 THEN due ELSE $2 END
		WHERE id = $1 AND (lease_until > $3 OR NOT due BETWEEN 1 AND $2)`,
		a, due, now)
	return err
}

// AnyAwaited reports whether a newer status is being read for any started job.
func (s *Store) AnyAwaited(ctx context.Context, u dispatch.UserID, scope dispatch.Scope) (bool, error) {
	w := where{args: []any{u}}
	n, err := value[int](ctx, s.on(s.read), `
		SELECT count(*)
		FROM jobs
		WHERE owner = $1 AND NOT hidden AND phase = 'started' AND awaited AND `+inScope(&w, scope),
		w.args...)
	return n > 0, fail("AnyAwaited", err)
}

// FinishedRuns returns the owner's latest finished jobs of a service at an account.
func (s *Store) FinishedRuns(
	ctx context.Context, u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash, n int,
) ([]dispatch.FinishedRun, error) {
	runs, err := finishedRuns(ctx, s.on(s.read), u, a, service, n)
	return runs, fail("FinishedRuns", err)
}

// runColumns are the columns of a dispatch.FinishedRun.
const runColumns = "jobs.costs, jobs.unit, jobs.duration, jobs.task, jobs.send_by, jobs.moved"

// placesOf returns where runColumns are scanned to.
func placesOf(r *dispatch.FinishedRun) []any {
	return []any{&r.Costs, &r.Unit, duration(&r.Duration), number(&r.Task), instant(&r.SendBy), instant(&r.Ended)}
}

func finishedRuns(
	ctx context.Context, q querier, u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash, n int,
) ([]dispatch.FinishedRun, error) {
	return list(ctx, q, placesOf, `
		SELECT `+runColumns+`
		FROM jobs
		WHERE owner = $1 AND account = $2 AND service = $3 AND status = 'finished'
		ORDER BY moved DESC
		LIMIT CAST($4 AS BIGINT)`,
		u, a, service, n)
}

// FinishedRunsOfTask returns the latest finished jobs of a task.
func (s *Store) FinishedRunsOfTask(ctx context.Context, id dispatch.TaskID, n int) ([]dispatch.FinishedRun, error) {
	runs, err := list(ctx, s.on(s.read), placesOf, `
		SELECT `+runColumns+`
		FROM jobs
		WHERE task = CAST($1 AS BIGINT) AND task <> 0 AND status = 'finished' AND NOT hidden
		ORDER BY moved DESC, id DESC
		LIMIT CAST($2 AS BIGINT)`,
		id, n)
	return runs, fail("FinishedRunsOfTask", err)
}

// FinishedRequests returns the owner's latest finished jobs of a service at an account, with their requests unless
// these are too long.
func (s *Store) FinishedRequests(
	ctx context.Context, u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash, n int,
) ([]dispatch.FinishedRun, error) {
	runs, err := list(ctx, s.on(s.read), func(r *dispatch.FinishedRun) []any {
		return append(placesOf(r), (*[]byte)(&r.Body))
	}, `
		SELECT `+runColumns+`, CASE WHEN octet_length(requests.body) <= $4 THEN requests.body ELSE '' END
		FROM jobs
			JOIN requests ON requests.job = jobs.id
		WHERE jobs.owner = $1 AND jobs.account = $2 AND jobs.service = $3 AND jobs.status = 'finished'
		ORDER BY jobs.moved DESC
		LIMIT CAST($5 AS BIGINT)`,
		u, a, service, dispatch.PartMost, n)
	return runs, fail("FinishedRequests", err)
}

// Underway returns when the jobs of a task that are at their platform were submitted.
func (s *Store) Underway(ctx context.Context, id dispatch.TaskID) ([]time.Time, error) {
	all, err := list(ctx, s.on(s.read), func(sent *time.Time) []any { return []any{instant(sent)} }, `
		SELECT send_by
		FROM jobs
		WHERE task = CAST($1 AS BIGINT) AND task <> 0 AND NOT hidden AND status IN ('submitted', 'queued', 'running')`,
		id)
	return all, fail("Underway", err)
}

// usageOf returns the accounts at which an owner has any jobs, with how many of these have not ended.
func usageOf(ctx context.Context, q querier, u dispatch.UserID) ([]dispatch.Usage, error) {
	return list(ctx, q, func(at *dispatch.Usage) []any { return []any{text(&at.Account), number(&at.Live)} }, `
		SELECT account, waiting + held
		FROM owner_counts
		WHERE owner = $1 AND jobs > 0
		ORDER BY account`,
		u)
}

// Usage counts the owner's jobs and synchronous runs at each account.
func (s *Store) Usage(ctx context.Context, u dispatch.UserID, d time.Duration) ([]dispatch.Usage, error) {
	return result(ctx, s.readOnly, s.read, "Usage", func(q tx, now int64) ([]dispatch.Usage, error) {
		usage, err := list(ctx, q, func(use *dispatch.Usage) []any {
			return []any{text(&use.Account), number(&use.Live), number(&use.Jobs), &use.Costs}
		}, `
			SELECT each.account, CAST(SUM(each.live) AS BIGINT), CAST(SUM(each.jobs) AS BIGINT),
				CASE WHEN SUM(each.priced) > 0 THEN SUM(each.costs) END
			FROM (
				SELECT account, waiting + held AS live, jobs, priced, costs
				FROM owner_counts
				WHERE owner = $1 AND jobs > 0
				UNION ALL
				SELECT account, CASE WHEN ended = 0 AND lapses > $2 THEN 1 ELSE 0 END, 1, 0, 0
				FROM sync_runs
				WHERE owner = $1
			) AS each
			GROUP BY each.account`, u, now)
		if err == nil {
			usage, err = withLedger(ctx, q, usage, u)
		}
		for i, use := range usage {
			if use.Costs != nil {
				*use.Costs = rounded(*use.Costs)
			}
			if err == nil {
				_, usage[i].Lately, err = countOwned(ctx, q, u, use.Account, now, now-d.Microseconds())
			}
		}
		// Databases differ in their collation.
		slices.SortFunc(usage, func(a, b dispatch.Usage) int { return cmp.Compare(a.Account, b.Account) })
		return usage, err
	})
}
