package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// quotaLock is the name of the lock under which a user's jobs are counted.
func quotaLock(u dispatch.UserID) string { return "jobs of " + string(u) }

// lockCount serializes, within this process, the callers that count a user's jobs, before they take a connection.
// admit does so between processes, which needs a connection. It returns the function that ends the turn.
func (s *Store) lockCount(
	ctx context.Context, op string, u dispatch.UserID, within []dispatch.Quota,
) (end func(), err error) {
	if s.locks == nil || len(within) == 0 {
		return func() {}, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	end, err = s.turns.acquire(ctx, quotaLock(u))
	return end, fail(op, err)
}

// admit returns nil if an owner may have n more jobs with requests of so many bytes. Other transactions that count
// for this owner wait until this one ends.
func (s *Store) admit(
	ctx context.Context, q tx, u dispatch.UserID, n int, bytes int64, within []dispatch.Quota, now int64,
) error {
	if len(within) == 0 {
		return nil
	}
	if err := s.lockInTransaction(ctx, q, quotaLock(u)); err != nil {
		return err
	}
	for _, quota := range within {
		used, err := holding(ctx, q, u, quota, now)
		if err != nil {
			return err
		}
		if err := quota.Admit(used, n, bytes); err != nil {
			return err
		}
	}
	return nil
}

// holding returns what an owner has within a quota, as far as the quota needs it.
func holding(
	ctx context.Context, q tx, u dispatch.UserID, quota dispatch.Quota, now int64,
) (used dispatch.QuotaUse, err error) {
	if quota.Bytes > 0 {
		if used.Bytes, err = countBytes(ctx, q, u, now); err != nil {
			return used, err
		}
	}
	if quota.Costs > 0 {
		if used.Charge, err = highestCharge(ctx, q, u, quota.Account, now); err != nil {
			return used, err
		}
	}
	if quota.Live > 0 || quota.Daily > 0 {
		used.Live, used.Lately, err = countOwned(ctx, q, u, quota.Account, now, now-dispatch.Day.Microseconds())
	}
	return used, err
}

// countOwned counts what an owner has at one account, or at all if it is "": jobs and synchronous runs that have not
// ended, with what is not started yet, and the jobs and runs that were created since a time, which is at most a
// dispatch.Day ago. Jobs created within the period in which the time lies are counted one by one.
func countOwned(
	ctx context.Context, q querier, u dispatch.UserID, a dispatch.Account, now, since int64,
) (live, lately int, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT CAST(
			COALESCE((
				SELECT SUM(l.waiting + l.held) FROM owner_counts l
				WHERE l.owner = $1 AND (CAST($2 AS TEXT) = '' OR l.account = CAST($2 AS TEXT))), 0)
			+ COALESCE((
				SELECT SUM(t.jobs) FROM task_changes t
				WHERE t.owner = $1 AND (CAST($2 AS TEXT) = '' OR t.account = CAST($2 AS TEXT))), 0)
			+ (
				SELECT count(*) FROM sync_runs s
				WHERE s.owner = $1 AND s.ended = 0 AND s.lapses > $6
					AND (CAST($2 AS TEXT) = '' OR s.account = CAST($2 AS TEXT)))
			+ (
				SELECT count(*) FROM unstarted n
				WHERE n.owner = $1 AND n.expires > $6
					AND (CAST($2 AS TEXT) = '' OR n.account = CAST($2 AS TEXT))) AS BIGINT),
		CAST(
			COALESCE((
				SELECT SUM(p.jobs) FROM period_counts p
				WHERE p.owner = $1 AND p.period > $3 AND (CAST($2 AS TEXT) = '' OR p.account = CAST($2 AS TEXT))), 0)
			+ (
				SELECT count(*) FROM jobs d
				WHERE d.owner = $1 AND d.created > $4 AND d.created < $5
					AND (CAST($2 AS TEXT) = '' OR d.account = CAST($2 AS TEXT)))
			+ (
				SELECT count(*) FROM sync_runs r
				WHERE r.owner = $1 AND r.created > $4
					AND (CAST($2 AS TEXT) = '' OR r.account = CAST($2 AS TEXT))) AS BIGINT)`,
		u, a, since/period, since, (since/period+1)*period, now).Scan(number(&live), number(&lately))
	return live, lately, err
}

// countBytes returns the bytes of the requests of an owner's unfinished jobs and synchronous runs, and of what is not
// started yet. The shared request of a task, with a process that was sent with it, counts once: it hops from task to
// task in the index.
func countBytes(ctx context.Context, q querier, u dispatch.UserID, now int64) (int64, error) {
	return value[int64](ctx, q, `
		WITH RECURSIVE hop (task) AS (
			SELECT (
				SELECT a.task FROM jobs a
				WHERE a.owner = $1 AND a.task > 0 AND a.phase <> 'ended'
				ORDER BY a.task
				LIMIT 1)
			UNION ALL
			SELECT (
				SELECT b.task FROM jobs b
				WHERE b.owner = $1 AND b.task > hop.task AND b.phase <> 'ended'
				ORDER BY b.task
				LIMIT 1)
			FROM hop
			WHERE hop.task IS NOT NULL
		)
		SELECT CAST(
			COALESCE((SELECT SUM(c.bytes) FROM owner_counts c WHERE c.owner = $1), 0)
			+ COALESCE((SELECT SUM(t.bytes) FROM task_changes t WHERE t.owner = $1), 0)
			+ COALESCE((SELECT SUM(octet_length(tasks.request) + tasks.sent) FROM hop JOIN tasks ON tasks.id = hop.task), 0)
			+ COALESCE((
				SELECT SUM(octet_length(r.request)) FROM sync_runs r
				WHERE r.owner = $1 AND r.ended = 0 AND r.lapses > $2), 0)
			+ COALESCE((
				SELECT SUM(octet_length(n.body)) FROM unstarted n WHERE n.owner = $1 AND n.expires > $2), 0) AS BIGINT)`, u, now)
}
