package store

import (
	"cmp"
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Stats counts by platform if no other process does. Its reads are not of one moment.
func (s *Store) Stats(
	ctx context.Context, process string, lease time.Duration,
) (found dispatch.Stats, ours bool, err error) {
	err = s.in(ctx, s.write, "Stats", func(q tx, now int64) error {
		rows, err := exec(ctx, q, `
			UPDATE stats_lease
			SET holder = $1, ends = $2
			WHERE holder = $1 OR ends <= $3 OR ends > $4`,
			process, now+lease.Microseconds(), now, now+longestLease.Microseconds())
		ours = rows > 0
		return err
	})
	if err != nil || !ours {
		return dispatch.Stats{}, false, err
	}
	err = s.readOnly(allow(ctx, upkeepWithin), s.read, "Stats", func(q tx, now int64) error {
		if found.Platforms, err = countPlatforms(ctx, q, now); err != nil {
			return err
		}
		if found.Hooks, err = countDeliveries(ctx, q, now); err != nil {
			return err
		}
		found.Limited, err = countLimited(ctx, q)
		return err
	})
	return found, err == nil, err
}

// longestLease is longer than any lease to count. One that ends later was taken before the clock was set back.
const longestLease = time.Hour

// EndStats lets another process count at once.
func (s *Store) EndStats(ctx context.Context, process string) error {
	return fail("EndStats", run(ctx, s.on(s.write), "UPDATE stats_lease SET ends = 0 WHERE holder = $1", process))
}

// statsRow is what one part of platformStats found at a platform.
type statsRow struct {
	what, platform string
	status         dispatch.Status
	attention      dispatch.Attention
	n, more        int64
}

func (r *statsRow) columns() []any {
	return []any{&r.what, &r.platform, text(&r.status), text(&r.attention), &r.n, &r.more}
}

// platformStats counts by platform. It reads the accounts that hold slots, and not all jobs that wait: CROSS keeps
// SQLite from that.
const platformStats = `
	SELECT 'unfinished', accounts.platform, '', '', CAST(SUM(a.waiting) AS BIGINT), count(*)
	FROM account_counts a
		JOIN accounts ON accounts.id = a.account
	WHERE a.waiting <> 0 OR a.held <> 0
	GROUP BY accounts.platform
	UNION ALL
	SELECT 'ended', accounts.platform, '', '', CAST(SUM(c.jobs - c.waiting - c.held) AS BIGINT), 0
	FROM owner_counts c
		JOIN accounts ON accounts.id = c.account
	GROUP BY accounts.platform
	UNION ALL
	SELECT 'held', accounts.platform, jobs.status, jobs.attention, count(*), 0
	FROM account_counts c
		CROSS JOIN jobs
		CROSS JOIN accounts
	WHERE c.held > 0 AND jobs.account = c.account AND accounts.id = c.account
		AND jobs.step IN ('settle', 'start', 'poll', 'cancel') AND jobs.phase NOT IN ('waiting', 'ended')
	GROUP BY accounts.platform, jobs.status, jobs.attention
	UNION ALL
	SELECT 'hold', platform, '', hold_attention, count(*), 0
	FROM accounts
	WHERE hold > 0 AND hold > CAST($1 AS BIGINT)
	GROUP BY platform, hold_attention
	UNION ALL
	SELECT 'created', accounts.platform, '', '', min(jobs.created), 0
	FROM jobs
		JOIN accounts ON accounts.id = jobs.account
	WHERE jobs.phase = 'waiting' AND NOT jobs.paused
	GROUP BY accounts.platform
	UNION ALL
	SELECT 'due', platform, '', '', min(due), 0
	FROM accounts
	WHERE due > 0 AND due <= CAST($1 AS BIGINT) AND lease_until <= CAST($1 AS BIGINT)
	GROUP BY platform
	UNION ALL
	SELECT 'heard', name, '', '', answered, failed
	FROM platforms`

// countPlatforms counts by platform.
func countPlatforms(ctx context.Context, q querier, now int64) (all []dispatch.PlatformStats, err error) {
	rows, err := list(ctx, q, (*statsRow).columns, platformStats, now)
	places := map[string]int{}
	for _, r := range rows {
		i, known := places[r.platform]
		if !known {
			i = len(all)
			places[r.platform] = i
			all = append(all, dispatch.PlatformStats{Platform: r.platform, Held: map[dispatch.Status]int{},
				Attention: map[dispatch.Attention]int{}, Holds: map[dispatch.Attention]int{}})
		}
		r.addTo(&all[i], now)
	}
	return all, err
}

func (r statsRow) addTo(p *dispatch.PlatformStats, now int64) {
	n := int(r.n)
	switch r.what {
	case "unfinished":
		p.Waiting, p.Accounts = n, int(r.more)
	case "ended":
		p.Ended = n
	case "held":
		p.Held[r.status] += n
		if r.attention != dispatch.None {
			p.Attention[r.attention] += n
		}
	case "hold":
		p.Holds[r.attention] = n
	case "created":
		p.Oldest = since(r.n, now)
	case "due":
		p.Lag = since(r.n, now)
	case "heard":
		p.Answered, p.Failed = at(r.n), at(r.more)
	}
}

// countDeliveries counts what waits to be sent to hooks. A delivery that waits for an earlier one of the same job, or
// for the end of the pause of its receiver, is not due.
func countDeliveries(ctx context.Context, q tx, now int64) (found dispatch.HookStats, err error) {
	var due int64
	err = q.QueryRowContext(ctx, waitingHooks+`
		SELECT CAST(COALESCE(SUM(each.waiting), 0) AS BIGINT), COALESCE(MIN(each.due), 0)
		FROM (
			SELECT (SELECT count(*) FROM deliveries c WHERE c.hook = hooks.id AND c.due > 0) AS waiting, (
				SELECT d.due
				FROM deliveries d
				WHERE d.hook = hooks.id AND d.due > 0 AND d.due <= $1 AND hooks.hold <= $1
					AND NOT EXISTS (
						SELECT 1 FROM deliveries e
						WHERE e.hook = d.hook AND e.job = d.job AND e.task = d.task AND e.epoch < d.epoch AND e.due + 0 > 0)
				ORDER BY d.due
				LIMIT 1
			) AS due
			FROM hop JOIN hooks ON hooks.id = hop.hook
			WHERE NOT hooks.gone
		) AS each`, now).Scan(number(&found.Waiting), &due)
	if err != nil {
		return found, err
	}
	found.Lag = since(due, now)
	queued, err := value[int64](ctx, q, `
		SELECT COALESCE((
			SELECT d.queued
			FROM deliveries d
			WHERE d.due > 0 AND EXISTS (SELECT 1 FROM hooks h WHERE h.id = d.hook)
			ORDER BY d.queued
			LIMIT 1), 0)`)
	if err != nil {
		return found, err
	}
	found.Oldest = since(queued, now)
	// Nothing is sent by mail for a while after a mail, either: only receivers that accept nothing have failures.
	found.Paused, err = value[int](ctx, q, `
		SELECT count(*)
		FROM hooks
		WHERE hold > 0 AND hold > CAST($1 AS BIGINT) AND failures > 0 AND NOT gone`, now)
	return found, err
}

// countLimited counts the tasks with unfinished jobs that start none for now.
func countLimited(ctx context.Context, q tx) (map[dispatch.Attention]int, error) {
	type pause struct {
		why dispatch.Attention // "": their owner paused them
		n   int
	}
	limited := map[dispatch.Attention]int{}
	return limited, eachRow(ctx, q, func(p *pause) []any { return []any{text(&p.why), number(&p.n)} },
		func(p *pause) error {
			limited[cmp.Or(p.why, dispatch.Paused)] = p.n
			return nil
		}, `
		SELECT t.paused_for, count(*)
		FROM tasks t
		WHERE t.paused AND NOT t.hidden AND (
			SELECT SUM(c.jobs) FROM task_counts c
			WHERE c.task = t.id AND c.status NOT IN ('finished', 'failed', 'canceled')) > 0
		GROUP BY t.paused_for`)
}

// HookTroubles is what operators should know of hooks.
type HookTroubles struct {
	dispatch.HookStats
	Failing int // hooks with messages that have not arrived for long
	Gone    int // hooks whose receiver wants nothing more
}

// HookTroubles counts hooks whose messages do not arrive, since longer than the duration for Failing. It reads all
// hooks.
func (s *Store) HookTroubles(ctx context.Context, longer time.Duration) (HookTroubles, error) {
	return result(ctx, s.readOnly, s.read, "HookTroubles", func(q tx, now int64) (found HookTroubles, err error) {
		err = q.QueryRowContext(ctx, `
			SELECT COUNT(CASE WHEN gone THEN 1 END), COUNT(CASE WHEN failures > 0 AND NOT gone AND EXISTS (
				SELECT 1 FROM deliveries d
				WHERE d.hook = hooks.id AND d.due > 0 AND d.queued < $1) THEN 1 END)
			FROM hooks`, now-longer.Microseconds()).Scan(number(&found.Gone), number(&found.Failing))
		if err == nil {
			found.HookStats, err = countDeliveries(ctx, q, now)
		}
		return found, err
	})
}

// since returns the time from then, which may be 0 for never, to now.
func since(then, now int64) time.Duration {
	if then == 0 {
		return 0
	}
	return span(max(0, now-then))
}
