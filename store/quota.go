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
		has, err := holding(ctx, q, u, quota, now)
		if err != nil {
			return err
		}
		if err := quota.Admit(has, n, bytes); err != nil {
			return err
		}
	}
	return nil
}

// holding returns what an owner has within a quota, as far as the quota needs it.
func holding(
	ctx context.Context, q tx, u dispatch.UserID, quota dispatch.Quota, now int64,
) (has dispatch.QuotaUse, err error) {
	unstarted, unstartedBytes, err := countUnstarted(ctx, q, u, quota.Account, now)
	if err != nil {
		return has, err
	}
	if quota.Bytes > 0 {
		if has.Bytes, err = countBytes(ctx, q, u, now); err != nil {
			return has, err
		}
		has.Bytes += unstartedBytes
	}
	if quota.Costs > 0 {
		if has.Charge, err = highestCharge(ctx, q, u, quota.Account, now); err != nil {
			return has, err
		}
	}
	if quota.Live == 0 && quota.Daily == 0 {
		return has, nil
	}
	since := now - dispatch.Day.Microseconds()
	live, lately, err := countOwned(ctx, q, u, quota.Account, since)
	if err != nil {
		return has, err
	}
	runs, runsLately, err := countSyncRuns(ctx, q, u, quota.Account, now, int64(quota.Live), since, int64(quota.Daily))
	has.Live, has.Lately = live+runs+unstarted, lately+runsLately
	return has, err
}

// The following count at one account, or at all if it is "".

// countOwned counts an owner's jobs that have not ended, and those that were created since a time, which is at most a
// dispatch.Day ago. Those created within the period in which the time lies are counted one by one.
func countOwned(
	ctx context.Context, q querier, u dispatch.UserID, a dispatch.Account, since int64,
) (live, lately int, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT CAST(
			COALESCE((
				SELECT SUM(l.waiting + l.held) FROM owner_counts l
				WHERE l.owner = $1 AND (CAST($2 AS TEXT) = '' OR l.account = CAST($2 AS TEXT))), 0)
			+ COALESCE((
				SELECT SUM(t.jobs) FROM task_changes t
				WHERE t.owner = $1 AND (CAST($2 AS TEXT) = '' OR t.account = CAST($2 AS TEXT))), 0) AS BIGINT),
		CAST(
			COALESCE((
				SELECT SUM(p.jobs) FROM period_counts p
				WHERE p.owner = $1 AND p.period > $3 AND (CAST($2 AS TEXT) = '' OR p.account = CAST($2 AS TEXT))), 0)
			+ (
				SELECT count(*) FROM jobs d
				WHERE d.owner = $1 AND d.created > $4 AND d.created < $5
					AND (CAST($2 AS TEXT) = '' OR d.account = CAST($2 AS TEXT))) AS BIGINT)`,
		u, a, since/period, since, (since/period+1)*period).Scan(number(&live), number(&lately))
	return live, lately, err
}

// countSyncRuns counts an owner's synchronous runs like countOwned: of each no more than given.
func countSyncRuns(
	ctx context.Context, q querier, u dispatch.UserID, a dispatch.Account, now, mostLive, since, mostLately int64,
) (live, lately int, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT (
			SELECT count(*) FROM (
				SELECT 1 FROM sync_runs l
				WHERE l.owner = $1 AND l.ended = 0 AND l.lapses > $3
					AND (CAST($2 AS TEXT) = '' OR l.account = CAST($2 AS TEXT))
				LIMIT CAST($4 AS BIGINT)) AS a),
		(
			SELECT count(*) FROM (
				SELECT 1 FROM sync_runs d
				WHERE d.owner = $1 AND d.created > $5
					AND (CAST($2 AS TEXT) = '' OR d.account = CAST($2 AS TEXT))
				LIMIT CAST($6 AS BIGINT)) AS b)`, u, a, now, mostLive, since, mostLately).Scan(number(&live), number(&lately))
	return live, lately, err
}

// countUnstarted counts an owner's jobs and tasks that are not started, and the bytes of their requests.
func countUnstarted(
	ctx context.Context, q querier, u dispatch.UserID, a dispatch.Account, now int64,
) (n int, bytes int64, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT count(*), CAST(COALESCE(SUM(octet_length(body)), 0) AS BIGINT)
		FROM unstarted
		WHERE owner = $1 AND expires > $2 AND (CAST($3 AS TEXT) = '' OR account = CAST($3 AS TEXT))`,
		u, now, a).Scan(number(&n), &bytes)
	return n, bytes, err
}

// countBytes returns the bytes of the requests of an owner's unfinished jobs, and of those of unfinished synchronous
// runs. The shared request of a task, with a process that was sent with it, counts once: it hops from task to task in
// the index.
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
				WHERE r.owner = $1 AND r.ended = 0 AND r.lapses > $2), 0) AS BIGINT)`, u, now)
}
