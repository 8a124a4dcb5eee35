package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// followClock moves planned times if the clock was set back since a process last served: otherwise they would wait for
// the clock to catch up. So it moves the ends of leases, whose holders may have died, but not of those that were taken
// since: they end before that process served. The size of the step is known up to the time between two calls of
// NoteServed and is never overestimated, so that nothing becomes due earlier than planned.
func (s *Store) followClock(ctx context.Context, q tx, now int64) error {
	soon := now + dispatch.ClockJump.Microseconds()
	if last, err := lastServed(ctx, q); err != nil || last <= soon {
		return err
	}
	if err := s.lockInTransaction(ctx, q, "clock"); err != nil { // two processes would move the times twice
		return err
	}
	last, err := lastServed(ctx, q)
	if err != nil || last <= soon {
		return err
	}
	back := last - now
	if err := run(ctx, q, "UPDATE served SET seen = $1 WHERE seen > $1", now); err != nil {
		return err
	}
	err = run(ctx, q, `
		UPDATE jobs
		SET due = due - $1, send_by = CASE WHEN send_by > $2 THEN send_by - $1 ELSE send_by END
		WHERE due > CAST($2 AS BIGINT)`, back, soon)
	if err != nil {
		return err
	}
	return run(ctx, q, `
		UPDATE accounts
		SET due = CASE WHEN due > $2 THEN due - $1 ELSE due END,
			hold = CASE WHEN hold > $2 THEN hold - $1 ELSE hold END,
			lease_until = CASE WHEN lease_until > $3 THEN lease_until - $1 ELSE lease_until END
		WHERE due > CAST($2 AS BIGINT) OR hold > CAST($2 AS BIGINT) OR lease_until > CAST($3 AS BIGINT)`,
		back, soon, last)
}

// lastServed returns when a process last served a platform; 0: never.
func lastServed(ctx context.Context, q querier) (int64, error) {
	return value[int64](ctx, q, "SELECT COALESCE(max(seen), 0) FROM served")
}
