package store

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Census counts by platform if no other process does. Its reads are not of one moment.
func (s *Store) Census(
	ctx context.Context, process string, lease time.Duration,
) (found dispatch.Census, ours bool, err error) {
	err = s.in(ctx, s.write, "Census", func(q tx, now int64) error {
		rows, err := exec(ctx, q, `
			UPDATE census
			SET holder = $1, ends = $2
			WHERE holder = $1 OR ends <= $3 OR ends > $4`,
			process, now+lease.Microseconds(), now, now+longestCensus.Microseconds())
		ours = rows > 0
		return err
	})
	if err != nil || !ours {
		return dispatch.Census{}, false, err
	}
	err = s.readOnly(allow(ctx, upkeepWithin), s.read, "Census", func(q tx, now int64) error {
		c := census{q: q, now: now, platforms: map[string]*dispatch.PlatformCensus{}}
		if err := c.count(ctx); err != nil {
			return err
		}
		found.Platforms = c.list()
		if found.Hooks, err = countDeliveries(ctx, q, now); err != nil {
			return err
		}
		found.Limited, err = countLimited(ctx, q)
		return err
	})
	return found, err == nil, err
}

// longestCensus is longer than any lease of a census. One that ends later was taken before the clock was set back.
const longestCensus = time.Hour

// EndCensus lets another process count at once.
func (s *Store) EndCensus(ctx context.Context, process string) error {
	return fail("EndCensus", run(ctx, s.on(s.write), "UPDATE census SET ends = 0 WHERE holder = $1", process))
}

// census counts by platform.
type census struct {
	q         querier
	now       int64
	platforms map[string]*dispatch.PlatformCensus
}

func (c census) of(platform string) *dispatch.PlatformCensus {
	if c.platforms[platform] == nil {
		c.platforms[platform] = &dispatch.PlatformCensus{Platform: platform, Held: map[dispatch.Status]int{},
			Attention: map[dispatch.Attention]int{}, Holds: map[dispatch.Attention]int{}}
	}
	return c.platforms[platform]
}

func (c census) list() (all []dispatch.PlatformCensus) {
	for _, p := range c.platforms {
		all = append(all, *p)
	}
	return all
}

// count counts everything.
func (c census) count(ctx context.Context) error {
	return errors.Join(c.countUnfinished(ctx), c.countEnded(ctx), c.countHeld(ctx), c.countHolds(ctx), c.measure(ctx),
		c.hear(ctx))
}

// countUnfinished counts accounts with unfinished jobs, and their waiting jobs.
func (c census) countUnfinished(ctx context.Context) error {
	return each(ctx, c.q, func(r row) error {
		var platform string
		var waiting, accounts int
		if err := r.Scan(&platform, number(&waiting), number(&accounts)); err != nil {
			return err
		}
		c.of(platform).Waiting, c.of(platform).Accounts = waiting, accounts
		return nil
	}, `
		SELECT accounts.platform, CAST(SUM(a.waiting) AS BIGINT), count(*)
		FROM (
			SELECT account, SUM(waiting) AS waiting
			FROM account_counts
			GROUP BY account
			HAVING SUM(waiting) <> 0 OR SUM(held) <> 0
		) AS a
			JOIN accounts ON accounts.id = a.account
		GROUP BY 1`)
}

func (c census) countEnded(ctx context.Context) error {
	return c.numbers(ctx, func(p *dispatch.PlatformCensus, n int64) { p.Ended = int(n) }, `
		SELECT accounts.platform, CAST(SUM(c.jobs - c.waiting - c.held) AS BIGINT)
		FROM owner_counts c
			JOIN accounts ON accounts.id = c.account
		GROUP BY 1`)
}

// countHeld reads accounts that hold slots, and not all jobs that wait: CROSS keeps SQLite from that.
func (c census) countHeld(ctx context.Context) error {
	return each(ctx, c.q, func(r row) error {
		var platform string
		var status dispatch.Status
		var attention dispatch.Attention
		var n int
		if err := r.Scan(&platform, text(&status), text(&attention), number(&n)); err != nil {
			return err
		}
		p := c.of(platform)
		p.Held[status] += n
		if attention != dispatch.None {
			p.Attention[attention] += n
		}
		return nil
	}, `
		SELECT accounts.platform, jobs.status, jobs.attention, count(*)
		FROM account_counts c
			CROSS JOIN jobs
			CROSS JOIN accounts
		WHERE c.held > 0 AND jobs.account = c.account AND accounts.id = c.account
			AND jobs.step IN ('settle', 'start', 'poll', 'cancel') AND jobs.phase NOT IN ('waiting', 'ended')
		GROUP BY 1, 2, 3`)
}

func (c census) countHolds(ctx context.Context) error {
	return each(ctx, c.q, func(r row) error {
		var platform string
		var attention dispatch.Attention
		var n int
		if err := r.Scan(&platform, text(&attention), number(&n)); err != nil {
			return err
		}
		c.of(platform).Holds[attention] = n
		return nil
	}, `
		SELECT platform, hold_attention, count(*)
		FROM accounts
		WHERE hold > 0 AND hold > CAST($1 AS BIGINT)
		GROUP BY 1, 2`, c.now)
}

// measure measures how long jobs and accounts wait, and how far ahead send times are booked.
func (c census) measure(ctx context.Context) error {
	err := c.numbers(ctx, func(p *dispatch.PlatformCensus, created int64) { p.Oldest = span(max(0, c.now-created)) }, `
		SELECT accounts.platform, min(jobs.created)
		FROM jobs
			JOIN accounts ON accounts.id = jobs.account
		WHERE jobs.phase = 'waiting' AND NOT jobs.paused
		GROUP BY 1`)
	if err != nil {
		return err
	}
	err = c.numbers(ctx, func(p *dispatch.PlatformCensus, due int64) { p.Lag = span(max(0, c.now-due)) }, `
		SELECT platform, min(due)
		FROM accounts
		WHERE due > 0 AND due <= $1 AND lease_until <= $1
		GROUP BY 1`, c.now)
	if err != nil {
		return err
	}
	return c.numbers(ctx, func(p *dispatch.PlatformCensus, next int64) { p.Booked = span(max(0, next-c.now)) },
		"SELECT platform, next FROM schedules")
}

// numbers calls f with each row of a query, which is a platform and a number.
func (c census) numbers(ctx context.Context, f func(*dispatch.PlatformCensus, int64), text string, args ...any) error {
	return each(ctx, c.q, func(r row) error {
		var platform string
		var n int64
		if err := r.Scan(&platform, &n); err != nil {
			return err
		}
		f(c.of(platform), n)
		return nil
	}, text, args...)
}

func (c census) hear(ctx context.Context) error {
	return each(ctx, c.q, func(r row) error {
		var platform string
		var answered, failed time.Time
		if err := r.Scan(&platform, instant(&answered), instant(&failed)); err != nil {
			return err
		}
		c.of(platform).Answered, c.of(platform).Failed = answered, failed
		return nil
	}, "SELECT name, answered, failed FROM platforms")
}

// countDeliveries counts what waits to be sent to hooks. A delivery that waits for an earlier one of the same job, or
// for the end of the pause of its receiver, is not due.
func countDeliveries(ctx context.Context, q tx, now int64) (found dispatch.HookCensus, err error) {
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
	limited := map[dispatch.Attention]int{}
	err := each(ctx, q, func(r row) error {
		var why dispatch.Attention // "": their owner paused them
		var n int
		if err := r.Scan(text(&why), number(&n)); err != nil {
			return err
		}
		limited[cmp.Or(why, dispatch.Paused)] = n
		return nil
	}, `
		SELECT t.paused_for, count(*)
		FROM tasks t
		WHERE t.paused AND NOT t.hidden AND (
			SELECT SUM(c.jobs) FROM task_counts c
			WHERE c.task = t.id AND c.status NOT IN ('finished', 'failed', 'canceled')) > 0
		GROUP BY t.paused_for`)
	return limited, err
}

// HookTroubles is what operators should know of hooks.
type HookTroubles struct {
	dispatch.HookCensus
	Failing int // hooks with messages that have not arrived for long
	Gone    int // hooks whose receiver wants nothing more
}

// HookTroubles counts hooks whose messages do not arrive, since longer than the duration for Failing. It reads all
// hooks.
func (s *Store) HookTroubles(ctx context.Context, longer time.Duration) (found HookTroubles, err error) {
	err = s.readOnly(ctx, s.read, "HookTroubles", func(q tx, now int64) error {
		err := q.QueryRowContext(ctx, `
			SELECT COUNT(CASE WHEN gone THEN 1 END), COUNT(CASE WHEN failures > 0 AND NOT gone AND EXISTS (
				SELECT 1 FROM deliveries d
				WHERE d.hook = hooks.id AND d.due > 0 AND d.queued < $1) THEN 1 END)
			FROM hooks`, now-longer.Microseconds()).Scan(number(&found.Gone), number(&found.Failing))
		if err == nil {
			found.HookCensus, err = countDeliveries(ctx, q, now)
		}
		return err
	})
	return found, err
}

// since returns the time from then, which may be 0 for never, to now.
func since(then, now int64) time.Duration {
	if then == 0 {
		return 0
	}
	return span(max(0, now-then))
}
