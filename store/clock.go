package store

import (
	"context"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
)

// followClock moves planned times if the clock was set back since a process last served: otherwise they would wait for the clock to
// catch up. The size of the step is known up to the time between two calls of NoteServed and is never overestimated, so that nothing
// becomes due earlier than planned.
func (s *Store) followClock(ctx context.Context, q tx, now int64) error {
	soon := now + dispatch.ClockJump.Microseconds()
	if last, err := q.LastServed(ctx); err != nil || last <= soon {
		return err
	}
	if err := s.lockInTransaction(ctx, q, "clock"); err != nil { // two processes would move the times twice
		return err
	}
	last, err := q.LastServed(ctx)
	if err != nil || last <= soon {
		return err
	}
	return errors.Join(q.MoveServed(ctx, now), q.MoveJobs(ctx, last-now, soon, micros(dispatch.Never)), q.MoveAccounts(ctx, soon, last-now))
}
