package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Agenda implements visit.Store. It reads the wakes before the jobs, or with them: a change in between is either
// read with the jobs or counted as an unseen wake.
func (s *Store) Agenda(
	ctx context.Context, a dispatch.Account, n int, stalled time.Duration,
) (dispatch.Agenda, error) {
	return result(ctx, s.readOnly, s.agendas, "Agenda", func(q tx, now int64) (g dispatch.Agenda, err error) {
		l := accountReader{q: q, account: a, now: now, stalled: before(now, stalled)}
		next, held, err := l.overview(ctx, &g)
		if err != nil {
			return g, err
		}
		if err := l.steps(ctx, n, next, &g); err != nil {
			return g, err
		}
		if g.Held, err = l.withoutFreed(ctx, held); err != nil {
			return g, err
		}
		return g, l.queues(ctx, &g)
	})
}

// firstDue is when the first job of each step is due; 0: there is none.
type firstDue struct{ wait, start, cancel, settle, poll, unprepared, meter, remove int64 }

// overview reads the account with the observed promptness of its platform's starts, its slots in use, and when the
// first job of each step is due. One statement sees all of it at one moment. It does not use min(): until PostgreSQL
// has statistics on new rows, it would read all of them for that.
func (l accountReader) overview(ctx context.Context, g *dispatch.Agenda) (next firstDue, held int64, err error) {
	*g = dispatch.Agenda{Now: at(l.now)}
	err = l.q.QueryRowContext(ctx, `
		SELECT a.wakes, a.hold, a.hold_attention, a.restored, COALESCE(p.prompt_starts, 0), COALESCE(p.start_lag, 0),
			COALESCE((SELECT max(h.notice) FROM operator_holds h WHERE h.scope = a.id OR h.scope = $2), ''),
			CAST(COALESCE((SELECT SUM(c.held) FROM account_counts c WHERE c.account = $1), 0) AS BIGINT),
			CAST(COALESCE((SELECT SUM(c.started) FROM account_counts c WHERE c.account = $1), 0) AS BIGINT),
			COALESCE((SELECT j.due FROM jobs j WHERE j.account = $1 AND j.step = 'wait' ORDER BY j.due LIMIT 1), 0),
			COALESCE((SELECT j.due FROM jobs j WHERE j.account = $1 AND j.step = 'start' ORDER BY j.due LIMIT 1), 0),
			COALESCE((SELECT j.due FROM jobs j WHERE j.account = $1 AND j.step = 'cancel' ORDER BY j.due LIMIT 1), 0),
			COALESCE((SELECT j.due FROM jobs j WHERE j.account = $1 AND j.step = 'settle' ORDER BY j.due LIMIT 1), 0),
			COALESCE((SELECT j.due FROM jobs j WHERE j.account = $1 AND j.step = 'poll' ORDER BY j.due LIMIT 1), 0),
			COALESCE((
				SELECT j.due FROM jobs j
				WHERE j.account = $1 AND j.step = 'wait' AND j.attention = 'application_unreachable'
				ORDER BY j.due LIMIT 1), 0),
			COALESCE((
				SELECT j.meter_due FROM jobs j WHERE j.account = $1 AND j.meter_due > 0
				ORDER BY j.meter_due LIMIT 1), 0),
			COALESCE((
				SELECT j.removal_due FROM jobs j
				WHERE j.account = $1 AND j.removal_due > 0 AND j.phase = 'ended' AND j.orphans = '' AND j.meter_due = 0
				ORDER BY j.removal_due LIMIT 1), 0)
		FROM accounts a
			LEFT JOIN platforms p ON p.name = $2
		WHERE a.id = $1`,
		l.account, l.account.Platform()).
		Scan(number(&g.Wakes), instant(&g.Hold), text(&g.Why), number(&g.Restored), number(&g.Starts.Starts),
			duration(&g.Starts.Lag), &g.Operator, number(&held), number(&g.Active), number(&next.wait),
			number(&next.start),
			number(&next.cancel), number(&next.settle), number(&next.poll), number(&next.unprepared),
			number(&next.meter), number(&next.remove))
	g.NextWaiting, g.NextStart, g.NextPoll = at(next.wait), at(next.start), at(next.poll)
	g.Next = dispatch.Earlier(at(next.cancel), at(next.settle))
	g.NextUnprepared, g.NextMeter, g.NextRemove = at(next.unprepared), at(next.meter), at(next.remove)
	return next, held, err
}

// accountReader reads the state of one account.
type accountReader struct {
	q       tx
	account dispatch.Account
	now     int64
	stalled int64 // jobs without progress since then hold no slot
}

// before returns the time a span before now; 0, which is before everything, if the span is 0.
func before(now int64, span time.Duration) int64 {
	if span <= 0 {
		return 0
	}
	return now - span.Microseconds()
}

// steps reads the jobs of each step for which any is due.
func (l accountReader) steps(ctx context.Context, n int, next firstDue, g *dispatch.Agenda) (err error) {
	for _, s := range []struct {
		condition, due string
		first          int64 // when the first job is due; 0: there is none
		jobs           *[]dispatch.Job
	}{
		{"step = 'cancel'", "due", next.cancel, &g.Cancel},
		{"step = 'settle'", "due", next.settle, &g.Settle},
		{"step = 'start'", "due", next.start, &g.Start},
		{"step = 'poll'", "due", next.poll, &g.Poll},
		{"meter_due > 0", "meter_due", next.meter, &g.Meter},
		{"removal_due > 0 AND phase = 'ended' AND orphans = '' AND meter_due = 0", "removal_due", next.remove,
			&g.Remove},
	} {
		if err == nil && s.first > 0 && s.first <= l.now {
			*s.jobs, err = loadJobs(ctx, l.q, `
				WHERE account = $1 AND `+s.condition+` AND `+s.due+` <= $2
				ORDER BY `+s.due+`, id
				LIMIT CAST($3 AS BIGINT)`,
				l.account, l.now, n)
		}
	}
	return err
}

// queues reads the queues that have due waiting jobs. If none has, those that are due belong to tasks that a change
// under way stops, and the end of the change wakes the account.
func (l accountReader) queues(ctx context.Context, g *dispatch.Agenda) error {
	if g.NextWaiting.IsZero() || g.NextWaiting.After(g.Now) {
		return nil
	}
	all, err := l.allQueues(ctx)
	g.NextWaiting = time.Time{}
	for _, queue := range all {
		g.NextWaiting = dispatch.Earlier(g.NextWaiting, queue.Due)
		if micros(queue.Due) <= l.now {
			queue.Waiting = 0
			g.Queues = append(g.Queues, queue)
		}
	}
	return err
}

// withoutFreed returns how many slots are in use if so many jobs hold one, unless they stalled, see
// dispatch.Job.FreesSlot.
func (l accountReader) withoutFreed(ctx context.Context, held int64) (int, error) {
	if l.stalled == 0 {
		return int(held), nil
	}
	freed, err := value[int64](ctx, l.q, `
		SELECT count(*)
		FROM jobs
		WHERE account = $1 AND step IN ('poll', 'cancel') AND phase = 'started' AND status <> 'running' AND moved <= $2`,
		l.account, l.stalled)
	return int(held - freed), err
}

// allQueues returns the queues that have waiting jobs which are not paused, sorted, with their slots and turns; without
// queues of tasks that a change under way stops.
//
// It hops from queue to queue in the index: the cost depends on the number of queues that wait, not on that of their
// jobs, or of queues that are empty. The next one is of the same owner, or the first of the next owner: with a
// comparison of both columns at once, SQLite would read all jobs of the queue again. Due and head belong to a queue's
// first waiting job. Each value is a subquery, which is one search of an index, and no join: PostgreSQL, which expects
// a hundred queues, would read all jobs for a join.
func (l accountReader) allQueues(ctx context.Context) ([]dispatch.Queue, error) {
	queues, err := list(ctx, l.q, queueColumns, `
		WITH RECURSIVE hop (head) AS (
			SELECT (
				SELECT c.id FROM jobs c
				WHERE c.account = $1 AND c.phase = 'waiting' AND NOT c.paused
				ORDER BY c.owner, c.task, c.due, c.id LIMIT 1)
			UNION ALL
			SELECT COALESCE((
				SELECT d.id FROM jobs d
				WHERE d.account = $1 AND d.phase = 'waiting' AND NOT d.paused
					AND d.owner = (SELECT e.owner FROM jobs e WHERE e.id = hop.head)
					AND d.task > (SELECT f.task FROM jobs f WHERE f.id = hop.head)
				ORDER BY d.task, d.due, d.id LIMIT 1), (
				SELECT n.id FROM jobs n
				WHERE n.account = $1 AND n.phase = 'waiting' AND NOT n.paused
					AND n.owner > (SELECT m.owner FROM jobs m WHERE m.id = hop.head)
				ORDER BY n.owner, n.task, n.due, n.id LIMIT 1))
			FROM hop WHERE hop.head IS NOT NULL
		), queues (head, owner, task) AS MATERIALIZED (
			SELECT hop.head, (SELECT g.owner FROM jobs g WHERE g.id = hop.head),
				(SELECT i.task FROM jobs i WHERE i.id = hop.head)
			FROM hop WHERE hop.head IS NOT NULL
		)
		SELECT l.owner, l.task, COALESCE((SELECT j.due FROM jobs j WHERE j.id = l.head), 0), l.head,
			COALESCE((
				SELECT t.served FROM queue_counts t
				WHERE t.account = $1 AND t.owner = l.owner AND t.task = l.task), 0),
			COALESCE((SELECT o.served FROM owner_counts o WHERE o.owner = l.owner AND o.account = $1), 0),
			COALESCE((
				SELECT w.waiting FROM queue_counts w
				WHERE w.account = $1 AND w.owner = l.owner AND w.task = l.task), 0),
			COALESCE((
				SELECT h.held FROM queue_counts h
				WHERE h.account = $1 AND h.owner = l.owner AND h.task = l.task), 0),
			COALESCE((SELECT u.held FROM owner_counts u WHERE u.owner = l.owner AND u.account = $1), 0)
		FROM queues l
		WHERE NOT EXISTS (SELECT 1 FROM task_changes s WHERE s.task = l.task AND s.stops)`,
		l.account)
	// sorted in Go, because databases differ in their collation
	slices.SortFunc(queues, func(a, b dispatch.Queue) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Task, b.Task))
	})
	return queues, err
}

func queueColumns(l *dispatch.Queue) []any {
	return []any{text(&l.Owner), number(&l.Task), instant(&l.Due), number(&l.First), number(&l.Served),
		number(&l.OwnerServed), number(&l.Waiting), number(&l.Held), number(&l.OwnerHeld)}
}

// Queues returns all queues of an account that have waiting jobs.
func (s *Store) Queues(ctx context.Context, a dispatch.Account) ([]dispatch.Queue, error) {
	return result(ctx, s.in, s.read, "Queues", func(q tx, _ int64) ([]dispatch.Queue, error) {
		return accountReader{q: q, account: a}.allQueues(ctx)
	})
}

// Waiting returns the ids of the waiting jobs of a queue from one to another.
func (s *Store) Waiting(
	ctx context.Context, a dispatch.Account, l dispatch.Queue, from, to dispatch.Rank,
) ([]dispatch.JobID, error) {
	ids, err := list(ctx, s.on(s.read), single[dispatch.JobID], `
		SELECT id
		FROM jobs
		WHERE account = $1 AND owner = $2 AND task = CAST($3 AS BIGINT) AND phase = 'waiting' AND NOT paused
			AND (due, id) >= ($4, $5) AND (due, id) <= ($6, $7)
		ORDER BY due, id`,
		a, l.Owner, l.Task, micros(from.Due), from.ID, micros(to.Due), to.ID)
	return ids, fail("Waiting", err)
}

// WaitingBefore returns how many waiting jobs of a queue come before a rank.
func (s *Store) WaitingBefore(ctx context.Context, a dispatch.Account, l dispatch.Queue, to dispatch.Rank) (int,
	error) {
	n, err := value[int](ctx, s.on(s.read), `
		SELECT count(*)
		FROM jobs
		WHERE account = $1 AND owner = $2 AND task = CAST($3 AS BIGINT) AND phase = 'waiting' AND NOT paused
			AND (due, id) < ($4, $5)`,
		a, l.Owner, l.Task, micros(to.Due), to.ID)
	return n, fail("WaitingBefore", err)
}

// Ready returns the first n waiting jobs of a queue that are due.
func (s *Store) Ready(ctx context.Context, a dispatch.Account, l dispatch.Queue, n int) ([]dispatch.Job, error) {
	return result(ctx, s.readOnly, s.agendas, "Ready", func(q tx, now int64) ([]dispatch.Job, error) {
		return loadJobs(ctx, q, `
			WHERE account = $1 AND owner = $2 AND task = CAST($3 AS BIGINT) AND phase = 'waiting' AND NOT paused AND due <= $4
			ORDER BY due, id
			LIMIT CAST($5 AS BIGINT)`,
			a, l.Owner, l.Task, now, n)
	})
}

// Unprepared returns waiting jobs that are due and whose document could not be fetched.
func (s *Store) Unprepared(ctx context.Context, a dispatch.Account, n int) (jobs []dispatch.Job, err error) {
	err = s.readOnly(ctx, s.agendas, "Unprepared", func(q tx, now int64) error {
		jobs, err = loadJobs(ctx, q, `
			WHERE account = $1 AND step = 'wait' AND attention = 'application_unreachable' AND due <= $2
			ORDER BY due, id
			LIMIT CAST($3 AS BIGINT)`,
			a, now, n)
		return err
	})
	return jobs, err
}

// Listable returns the account's jobs below a base URL that a listing can report on.
func (s *Store) Listable(ctx context.Context, a dispatch.Account, base string) ([]dispatch.Job, error) {
	jobs, err := loadJobs(ctx, s.on(s.agendas), `
		WHERE account = $1 AND step IN ('settle', 'poll', 'cancel') AND base = $2 AND phase IN ('creating', 'started')
		ORDER BY due, id`,
		a, base)
	return jobs, fail("Listable", err)
}

// Running returns n started and wanted jobs of the account, by due.
func (s *Store) Running(ctx context.Context, a dispatch.Account, n int) ([]dispatch.Job, error) {
	jobs, err := loadJobs(ctx, s.on(s.agendas), `
		WHERE account = $1 AND step = 'poll'
		ORDER BY due, id
		LIMIT CAST($2 AS BIGINT)`,
		a, n)
	return jobs, fail("Running", err)
}

// Bases returns the bases of all the account's jobs, sorted in Go because databases differ in their collation.
func (s *Store) Bases(ctx context.Context, a dispatch.Account) ([]string, error) {
	bases, err := list(ctx, s.on(s.agendas), single[string], `
		SELECT DISTINCT base
		FROM jobs
		WHERE owner IN (SELECT owner FROM owner_counts WHERE account = $1) AND account = $1`, a)
	slices.Sort(bases)
	return bases, fail("Bases", err)
}
