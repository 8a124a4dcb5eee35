package store

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// AddEvents stores what happened to jobs. Those of jobs that were deleted meanwhile, as by Forget, are left out.
func (s *Store) AddEvents(ctx context.Context, events []dispatch.JobEvent) error {
	return s.in(ctx, s.write, "AddEvents", func(q tx, _ int64) error {
		there, err := existing(ctx, q, events)
		if err != nil {
			return err
		}
		rows := newBulk(q, "events", "job", "at", "what", "phase", "status", "attention", "attempt",
			"outcome", "took", "detail")
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

// PurgeEvents deletes events that are older than keep, in many small transactions.
func (s *Store) PurgeEvents(ctx context.Context, keep time.Duration) error {
	for ctx.Err() == nil {
		deleted, err := result(ctx, s.in, s.write, "PurgeEvents", func(q tx, now int64) (int64, error) {
			return exec(ctx, q, `
				DELETE FROM events
				WHERE at <= (
					SELECT max(e.at)
					FROM (SELECT at FROM events WHERE at < $1 ORDER BY at LIMIT CAST($2 AS BIGINT)) AS e)`,
				now-keep.Microseconds(), eventsAtOnce)
		})
		if err != nil || deleted == 0 {
			return err
		}
	}
	return ctx.Err()
}
