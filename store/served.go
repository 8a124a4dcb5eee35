package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// ownerOf is the name of an owner's lines together in the table turns. SQL derives it from a line's name by removing
// the task.
func ownerOf(u dispatch.UserID) string { return string(u) + "/" }

// renewAndCount renews the lease like renew, and records that the given jobs, whose creates are intended, got slots
// one after the other.
func renewAndCount(
	ctx context.Context, q tx, l dispatch.Lease, now int64, ttl time.Duration, jobs []dispatch.Job,
) error {
	if len(jobs) == 0 {
		return renew(ctx, q, l, now, ttl)
	}
	last, err := value[int64](ctx, q, `
		UPDATE accounts
		SET lease_until = $1, served = served + $2
		WHERE id = $3 AND generation = $4
		RETURNING served`, now+ttl.Microseconds(), len(jobs), l.Account, l.Generation)
	if errors.Is(err, sql.ErrNoRows) {
		return conflict("Renew")
	}
	if err != nil {
		return err
	}
	served := map[string]int64{}
	for i, j := range jobs {
		turn := last - int64(len(jobs)-1-i)
		served[lineOf(dispatch.Line{Owner: j.Owner, Task: j.Task})] = turn
		served[ownerOf(j.Owner)] = turn
	}
	return keepTurns(ctx, q, l.Account, served)
}

// keepTurns writes the turns always in the same order, so that two transactions cannot deadlock.
func keepTurns(ctx context.Context, q tx, a dispatch.Account, served map[string]int64) error {
	names := slices.Sorted(maps.Keys(served))
	args := make([]any, 0, 3*len(names))
	for _, name := range names {
		args = append(args, a, name, served[name])
	}
	return run(ctx, q, `
		INSERT INTO turns (account, line, served)
		VALUES `+strings.TrimPrefix(q.rows(0, 3, len(names)), ", ")+`
		ON CONFLICT (account, line) DO UPDATE SET served = excluded.served`, args...)
}
