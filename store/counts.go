package store

import (
	"context"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
)

// period is the length in microseconds of the periods of the table period_counts.
const period = 300_000_000

// oldestPeriod returns the period from which on quotas of a day read what is counted by period.
func oldestPeriod(now int64) int64 { return (now-dispatch.Day.Microseconds())/period - 1 }

// purgedPeriod returns the period before which counts are deleted: a week later than needed, so that quotas of a day
// hold also after a clock was ahead for some days.
func purgedPeriod(now int64) int64 { return oldestPeriod(now - 7*dispatch.Day.Microseconds()) }

// correcting is the name of the lock of those who correct counts. Two who read the same difference would both add it.
const correcting = "correct counts"

// WrongCounts returns how many of the kept counts differ from the jobs. That is always 0, unless somebody changed the
// tables by hand, or a restored database is incomplete. It reads all jobs.
func (s *Store) WrongCounts(ctx context.Context) (wrong int, err error) {
	found := errors.New("not to be committed")
	err = s.in(allow(ctx, upkeepWithin), s.write, "WrongCounts", func(q tx, now int64) error {
		if wrong, err = correctCounts(ctx, q, now); err != nil {
			return err
		}
		return found
	})
	if errors.Is(err, found) {
		err = nil
	}
	return wrong, err
}

// CorrectCounts makes the kept counts equal to the jobs, and returns how many differed. Other processes may go on
// meanwhile.
func (s *Store) CorrectCounts(ctx context.Context) (int, error) {
	ctx = allow(ctx, upkeepWithin)
	return result(ctx, s.in, s.write, "CorrectCounts", func(q tx, now int64) (int, error) {
		if err := s.lockInTransaction(ctx, q, correcting); err != nil {
			return 0, err
		}
		return correctCounts(ctx, q, now)
	})
}

// correctCounts adds to the counts what they lack. One statement sees jobs and counts at one moment, so jobs may change
// meanwhile; only another correction may not.
func correctCounts(ctx context.Context, q querier, now int64) (corrected int, err error) {
	for _, c := range []struct {
		text string
		args []any
	}{
		{correctQueues, nil}, {correctAccounts, nil}, {correctOwners, nil}, {correctTasks, nil},
		{correctPeriods, []any{oldestPeriod(now), period}},
	} {
		n, err := exec(ctx, q, c.text, c.args...)
		if err != nil {
			return 0, err
		}
		corrected += int(n)
	}
	return corrected, nil
}

// The statements of correctCounts. They implement the rule of effects.count.
const (
	correctQueues = `
		INSERT INTO queue_counts (account, owner, task, waiting, held)
		SELECT d.account, d.owner, d.task, CAST(SUM(d.waiting) AS BIGINT), CAST(SUM(d.held) AS BIGINT) FROM (
			SELECT account, owner, task,
				SUM(CASE WHEN phase = 'waiting' AND NOT paused THEN 1 ELSE 0 END) AS waiting,
				SUM(CASE WHEN phase = 'waiting' THEN 0 ELSE 1 END) AS held
			FROM jobs WHERE phase <> 'ended' GROUP BY account, owner, task
			UNION ALL SELECT account, owner, task, -waiting, -held FROM queue_counts
		) AS d GROUP BY d.account, d.owner, d.task HAVING SUM(d.waiting) <> 0 OR SUM(d.held) <> 0
		ON CONFLICT (account, owner, task) DO UPDATE SET waiting = queue_counts.waiting + excluded.waiting,
			held = queue_counts.held + excluded.held`

	correctAccounts = `
		INSERT INTO account_counts (account, waiting, held, started)
		SELECT d.account, CAST(SUM(d.waiting) AS BIGINT), CAST(SUM(d.held) AS BIGINT), CAST(SUM(d.started) AS BIGINT) FROM (
			SELECT account, SUM(CASE WHEN phase = 'waiting' AND NOT paused THEN 1 ELSE 0 END) AS waiting,
				SUM(CASE WHEN phase = 'waiting' THEN 0 ELSE 1 END) AS held,
				SUM(CASE WHEN phase = 'started' THEN 1 ELSE 0 END) AS started
			FROM jobs WHERE phase <> 'ended' GROUP BY account
			UNION ALL SELECT account, -waiting, -held, -started FROM account_counts
		) AS d GROUP BY d.account HAVING SUM(d.waiting) <> 0 OR SUM(d.held) <> 0 OR SUM(d.started) <> 0
		ON CONFLICT (account) DO UPDATE SET waiting = account_counts.waiting + excluded.waiting,
			held = account_counts.held + excluded.held, started = account_counts.started + excluded.started`

	// Sums of costs may have rounding errors.
	correctOwners = `
		INSERT INTO owner_counts (owner, account, waiting, held, bytes, jobs, priced, costs)
		SELECT d.owner, d.account, CAST(SUM(d.waiting) AS BIGINT), CAST(SUM(d.held) AS BIGINT), CAST(SUM(d.bytes) AS BIGINT),
			CAST(SUM(d.jobs) AS BIGINT), CAST(SUM(d.priced) AS BIGINT), SUM(d.costs) FROM (
			SELECT owner, account, SUM(CASE WHEN phase = 'waiting' THEN 1 ELSE 0 END) AS waiting,
				SUM(CASE WHEN phase IN ('waiting', 'ended') THEN 0 ELSE 1 END) AS held,
				SUM(CASE WHEN phase = 'ended' THEN 0 ELSE bytes END) AS bytes, count(*) AS jobs,
				SUM(CASE WHEN costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END) AS priced,
				SUM(CASE WHEN costs BETWEEN 0 AND 1e12 THEN costs ELSE 0 END) AS costs
			FROM jobs GROUP BY owner, account
			UNION ALL SELECT owner, account, -waiting, -held, -bytes, -jobs, -priced, -costs FROM owner_counts
		) AS d GROUP BY d.owner, d.account
		HAVING SUM(d.waiting) <> 0 OR SUM(d.held) <> 0 OR SUM(d.bytes) <> 0 OR SUM(d.jobs) <> 0 OR SUM(d.priced) <> 0
			OR abs(SUM(d.costs)) > 0.001
		ON CONFLICT (owner, account) DO UPDATE SET waiting = owner_counts.waiting + excluded.waiting,
			held = owner_counts.held + excluded.held, bytes = owner_counts.bytes + excluded.bytes,
			jobs = owner_counts.jobs + excluded.jobs, priced = owner_counts.priced + excluded.priced,
			costs = owner_counts.costs + excluded.costs`

	correctTasks = `
		INSERT INTO task_counts (task, status, jobs, progress)
		SELECT d.task, d.status, CAST(SUM(d.jobs) AS BIGINT), CAST(SUM(d.progress) AS BIGINT) FROM (
			SELECT task, status, count(*) AS jobs,
				SUM(CASE WHEN progress BETWEEN 0 AND 100 THEN CAST(floor(progress * 1000000 + 0.5) AS BIGINT) ELSE 0 END)
					AS progress
			FROM jobs WHERE task <> 0 AND NOT hidden GROUP BY task, status
			UNION ALL SELECT task, status, -jobs, -progress FROM task_counts
		) AS d GROUP BY d.task, d.status
		HAVING SUM(d.jobs) <> 0 OR SUM(d.progress) <> 0
		ON CONFLICT (task, status) DO UPDATE SET jobs = task_counts.jobs + excluded.jobs,
			progress = task_counts.progress + excluded.progress`

	// From a period on.
	correctPeriods = `
		INSERT INTO period_counts (owner, account, period, jobs)
		SELECT d.owner, d.account, d.period, CAST(SUM(d.jobs) AS BIGINT) FROM (
			SELECT owner, account, created / CAST($2 AS BIGINT) AS period, count(*) AS jobs FROM jobs
			WHERE created >= CAST($1 AS BIGINT) * CAST($2 AS BIGINT) GROUP BY owner, account, created / CAST($2 AS BIGINT)
			UNION ALL SELECT owner, account, period, -jobs FROM period_counts WHERE period >= CAST($1 AS BIGINT)
		) AS d GROUP BY d.owner, d.account, d.period HAVING SUM(d.jobs) <> 0
		ON CONFLICT (owner, account, period) DO UPDATE SET jobs = period_counts.jobs + excluded.jobs`
)
