package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// period is the length in microseconds of the periods of the table period_counts; its triggers and queries contain it too.
const period = 300_000_000

// oldestPeriod returns the period from which on quotas of a day read what is counted by period.
func oldestPeriod(now int64) int64 { return (now-dispatch.Day.Microseconds())/period - 1 }

// purgedPeriod returns the period before which counts are deleted: a week later than needed, so that quotas of a day hold also after a
// clock was ahead for some days.
func purgedPeriod(now int64) int64 { return oldestPeriod(now - 7*dispatch.Day.Microseconds()) }

// alike reports whether the jobs are those of a new task, which count counts at once: SQLite's triggers count job by job.
func (a *acceptance) alike() bool {
	first := a.jobs[0].Job
	return a.task != nil && !slices.ContainsFunc(a.jobs, func(j dispatch.Draft) bool {
		return j.Phase != dispatch.Waiting || j.Paused || j.Owner != first.Owner || j.Status != first.Status
	})
}

// count counts the new jobs unless the triggers did.
func (a *acceptance) count(ctx context.Context, q tx) error {
	if !a.counted {
		return nil
	}
	j, n := a.jobs[0].Job, int64(len(a.jobs))
	bytes := a.bytes - int64(len(a.shared)) - a.sent
	sums := dispatch.SumUpdated([2]int64{}, a.now)
	return errors.Join(
		q.CountTaskAccepted(ctx, query.CountTaskAcceptedParams{Task: a.id, Status: j.Status, N: n, First: n * sums[0], Second: n * sums[1]}),
		q.CountPeriodAccepted(ctx, query.CountPeriodAcceptedParams{Owner: j.Owner, Account: j.Account, Period: a.now / period, N: n}),
		q.CountOwnerAccepted(ctx, query.CountOwnerAcceptedParams{Owner: j.Owner, Account: j.Account, N: n, Bytes: bytes}),
		q.CountLineAccepted(ctx, query.CountLineAcceptedParams{Account: j.Account, Owner: j.Owner, Task: a.id, N: n}),
		q.CountAccountAccepted(ctx, j.Account, n))
}

// correcting is the name of the lock of those who correct counts. Two who read the same difference would both add it.
const correcting = "correct counts"

// WrongCounts returns how many of the kept counts differ from the jobs. That is always 0, unless somebody changed the tables by
// hand, or a restored database is incomplete. It reads all jobs.
func (s *Store) WrongCounts(ctx context.Context) (wrong int, err error) {
	found := errors.New("not to be committed")
	err = s.in(allow(ctx, upkeepWithin), s.write, "WrongCounts", func(q tx, now int64) error {
		if wrong, err = correctCounts(ctx, q.Queries, now); err != nil {
			return err
		}
		return found
	})
	if errors.Is(err, found) {
		err = nil
	}
	return wrong, err
}

// CorrectCounts makes the kept counts equal to the jobs, and returns how many differed. Other processes may go on meanwhile.
func (s *Store) CorrectCounts(ctx context.Context) (corrected int, err error) {
	err = s.in(allow(ctx, upkeepWithin), s.write, "CorrectCounts", func(q tx, now int64) error {
		if err := s.lockInTransaction(ctx, q, correcting); err != nil {
			return err
		}
		corrected, err = correctCounts(ctx, q.Queries, now)
		return err
	})
	return corrected, err
}

func correctCounts(ctx context.Context, q *query.Queries, now int64) (corrected int, err error) {
	for _, correct := range []func(context.Context) (int64, error){
		q.CorrectLineCounts, q.CorrectAccountCounts, q.CorrectOwnerCounts, q.CorrectTaskCounts,
		func(ctx context.Context) (int64, error) { return q.CorrectPeriodCounts(ctx, oldestPeriod(now)) },
	} {
		n, err := correct(ctx)
		if err != nil {
			return 0, err
		}
		corrected += int(n)
	}
	return corrected, nil
}

// sharded lists the tables of counts: the columns of their keys, without the shard, and those of their counts.
var sharded = []struct {
	table      string
	keys, sums []string
}{
	{"line_counts", []string{"account", "owner", "task"}, []string{"waiting", "held"}},
	{"account_counts", []string{"account"}, []string{"waiting", "held", "started"}},
	{"owner_counts", []string{"owner", "account"}, []string{"waiting", "held", "bytes", "jobs", "costs", "priced"}},
	{"period_counts", []string{"owner", "account", "period"}, []string{"jobs"}},
	{"ledger", []string{"owner", "account", "month", "unit"}, []string{"costs", "runs"}},
	{"label_costs", []string{"owner", "name", "month", "account", "unit", "value"}, []string{"costs", "runs"}},
	{"task_costs", []string{"task", "unit"}, []string{"costs", "runs"}},
	{"task_counts", []string{"task", "status"}, []string{"jobs", "progress", "first", "second", "epochs"}},
}

// shardsAtOnce is how many rows one transaction merges; a connection that changes one of these counts waits for it.
const shardsAtOnce = 500

// mergeShards adds the counts that connections to PostgreSQL have written to shard 0, and deletes their rows. Counts that a
// transaction is changing are left for the next time. On SQLite there are none.
func (s *Store) mergeShards(ctx context.Context) error {
	if !s.remote {
		return nil
	}
	for _, t := range sharded {
		text := merging(t.table, t.keys, t.sums)
		for merged := shardsAtOnce; merged == shardsAtOnce; {
			err := s.in(ctx, s.write, "Purge", func(q tx, _ int64) error {
				if err := s.lockInTransaction(ctx, q, "merge counts"); err != nil {
					return err
				}
				return q.QueryRowContext(ctx, text, shardsAtOnce).Scan(&merged)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// merging returns the statement that merges some rows of a table of counts. It is not generated, because SQLite cannot delete in
// a common table expression.
func merging(table string, keys, sums []string) string {
	key, sum := strings.Join(keys, ", "), strings.Join(sums, ", ")
	var same, summed, added []string
	for _, k := range append([]string{"shard"}, keys...) {
		same = append(same, "c."+k+" = unmerged."+k)
	}
	for _, n := range sums {
		summed = append(summed, "SUM("+n+")")
		added = append(added, n+" = c."+n+" + excluded."+n)
	}
	return fmt.Sprintf(`WITH unmerged AS (SELECT %[2]s, shard FROM %[1]s WHERE shard <> 0 ORDER BY %[2]s, shard LIMIT $1 FOR UPDATE SKIP LOCKED),
	gone AS (DELETE FROM %[1]s c USING unmerged WHERE %[3]s RETURNING c.*),
	merged AS (INSERT INTO %[1]s AS c (%[2]s, shard, %[4]s) SELECT %[2]s, 0, %[5]s FROM gone GROUP BY %[2]s
		ON CONFLICT (%[2]s, shard) DO UPDATE SET %[6]s)
	SELECT count(*) FROM gone`,
		table, key, strings.Join(same, " AND "), sum, strings.Join(summed, ", "), strings.Join(added, ", "))
}
