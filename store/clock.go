package store

import (
	"context"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
)

// follow moves what is planned if the clock was set back since a process served last: else it would wait for the time to come
// again. By how much the clock was set back is known up to the time between two calls of Serve, and never overestimated, so that
// nothing comes sooner than it was planned.
func (s *Store) follow(ctx context.Context, q tx, now int64) error {
	soon := now + dispatch.ClockJump.Microseconds()
	if last, err := q.LastServed(ctx); err != nil || last <= soon {
		return err
	}
	if err := s.queue(ctx, q, "clock"); err != nil { // two processes would move it twice
		return err
	}
	last, err := q.LastServed(ctx)
	if err != nil || last <= soon {
		return err
	}
	return errors.Join(q.MoveServed(ctx, now), q.MoveJobs(ctx, last-now, soon), q.MoveAccounts(ctx, soon, last-now))
}
