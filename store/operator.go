package store

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// HoldScope stores a hold and wakes the accounts that it concerns.
func (s *Store) HoldScope(ctx context.Context, h dispatch.OperatorHold) error {
	return s.in(ctx, s.write, "HoldScope", func(q tx, now int64) error {
		err := run(ctx, q, `
			INSERT INTO operator_holds (scope, notice, held_by, since)
			VALUES ($1, $2, $3, $4)
			ON CONFLICT (scope) DO UPDATE SET notice = excluded.notice, held_by = excluded.held_by, since = excluded.since`,
			h.Scope, storableText(h.Notice), storableText(h.By), now)
		if err != nil {
			return err
		}
		return wakeScope(ctx, q, h.Scope, now)
	})
}

// wakeScope wakes the accounts of a scope that have unfinished jobs.
func wakeScope(ctx context.Context, q tx, scope string, now int64) error {
	return run(ctx, q, `
		UPDATE accounts
		SET wakes = wakes + 1, due = $1
		WHERE (id = $2 OR substr(id, 1, length($2) + 1) = $2 || '/')
			AND EXISTS (
				SELECT 1 FROM account_counts c
				WHERE c.account = accounts.id AND (c.waiting <> 0 OR c.held <> 0))`, now, scope)
}

// ReleaseScope ends a hold and wakes the accounts that it concerned.
func (s *Store) ReleaseScope(ctx context.Context, scope string) error {
	return s.in(ctx, s.write, "ReleaseScope", func(q tx, now int64) error {
		n, err := exec(ctx, q, "DELETE FROM operator_holds WHERE scope = $1", scope)
		if err == nil && n == 0 {
			return &dispatch.Error{Kind: dispatch.NotFound, Op: "store.ReleaseScope",
				Text: "No operator holds " + scope + "."}
		}
		if err != nil {
			return err
		}
		return wakeScope(ctx, q, scope, now)
	})
}

// HasAccount reports whether jobs of an account were ever accepted.
func (s *Store) HasAccount(ctx context.Context, a dispatch.Account) (bool, error) {
	known, err := value[bool](ctx, s.on(s.read), "SELECT EXISTS (SELECT 1 FROM accounts WHERE id = $1)", a)
	return known, fail("HasAccount", err)
}

// OperatorHolds returns all holds, by scope.
func (s *Store) OperatorHolds(ctx context.Context) ([]dispatch.OperatorHold, error) {
	all, err := list(ctx, s.on(s.read), func(h *dispatch.OperatorHold) []any {
		return []any{&h.Scope, &h.Notice, &h.By, instant(&h.Since)}
	}, "SELECT scope, notice, held_by, since FROM operator_holds ORDER BY scope")
	return all, fail("OperatorHolds", err)
}

// Troubled returns jobs that need attention, those first whose state is oldest.
func (s *Store) Troubled(ctx context.Context, setAside bool, n int) (jobs []dispatch.Job, err error) {
	err = s.readOnly(allow(ctx, listWithin), s.read, "Troubled", func(q tx, _ int64) error {
		where := "phase NOT IN ('waiting', 'ended') AND attention <> ''" // at their platforms
		if setAside {
			where = "attention = 'set_aside' AND NOT hidden" // and not retried since
		}
		jobs, err = selectJobs(ctx, q, `
			WHERE `+where+`
			ORDER BY moved, id
			LIMIT CAST($1 AS BIGINT)`, n)
		return err
	})
	return jobs, err
}

// AddEvents stores what happened to jobs. Those of jobs that were deleted meanwhile, as by Forget, are left out.
func (s *Store) AddEvents(ctx context.Context, events []dispatch.JobEvent) error {
	return s.in(ctx, s.write, "AddEvents", func(q tx, _ int64) error {
		there, err := existing(ctx, q, events)
		if err != nil {
			return err
		}
		rows := newBulk(q, "events", "job", "at", "what", "phase", "status", "attention", "attempt",
			"outcome", "took", "detail")
		defer rows.close()
		for _, e := range events {
			if !there[e.Job] {
				continue
			}
			if err := rows.add(ctx, e.Job, micros(e.At), e.What, e.Phase, e.Status, e.Attention, e.Attempt,
				e.Outcome, e.Took.Microseconds(), storableText(e.Detail)); err != nil {
				return err
			}
		}
		return rows.flush(ctx)
	})
}

// existing returns which of the jobs of events are stored.
func existing(ctx context.Context, q tx, events []dispatch.JobEvent) (map[dispatch.JobID]bool, error) {
	there := map[dispatch.JobID]bool{}
	var ids []dispatch.JobID
	for _, e := range events {
		if _, listed := there[e.Job]; !listed {
			there[e.Job], ids = false, append(ids, e.Job)
		}
	}
	w := whereAny(q, "id", ids)
	stored, err := list(ctx, q, single[dispatch.JobID], "SELECT id FROM jobs WHERE "+w.String(), w.args...)
	for _, id := range stored {
		there[id] = true
	}
	return there, err
}

// Events returns what happened to a job.
func (s *Store) Events(ctx context.Context, id dispatch.JobID, n int) ([]dispatch.JobEvent, error) {
	events, err := list(ctx, s.on(s.read), func(e *dispatch.JobEvent) []any {
		return []any{number(&e.Job), instant(&e.At), &e.What, text(&e.Phase), text(&e.Status), text(&e.Attention),
			number(&e.Attempt), &e.Outcome, duration(&e.Took), &e.Detail}
	}, `
		SELECT job, at, what, phase, status, attention, attempt, outcome, took, detail
		FROM events
		WHERE job = $1
		ORDER BY at
		LIMIT CAST($2 AS BIGINT)`, id, n)
	return events, fail("Events", err)
}

// eventsAtOnce is how many events one transaction deletes.
const eventsAtOnce = 500

// PurgeEvents deletes events that are older than keep, in many small transactions.
func (s *Store) PurgeEvents(ctx context.Context, keep time.Duration) error {
	for deleted := int64(1); deleted > 0 && ctx.Err() == nil; {
		err := s.in(ctx, s.write, "PurgeEvents", func(q tx, now int64) (err error) {
			deleted, err = exec(ctx, q, `
				DELETE FROM events
				WHERE at <= (
					SELECT max(e.at)
					FROM (SELECT at FROM events WHERE at < $1 ORDER BY at LIMIT CAST($2 AS BIGINT)) AS e)`,
				now-keep.Microseconds(), eventsAtOnce)
			return err
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
