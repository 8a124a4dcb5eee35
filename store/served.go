package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// ownerOf is the name of an owner's lines together in the table turns. SQL derives it from a line's name by removing the task.
func ownerOf(u dispatch.UserID) string { return string(u) + "/" }

// renewAndCount renews the lease like renew, and records that the given jobs, whose creates are intended, got slots one after the
// other.
func renewAndCount(ctx context.Context, q tx, l dispatch.Lease, now int64, ttl time.Duration, jobs []dispatch.Job) error {
	if len(jobs) == 0 {
		return renew(ctx, q, l, now, ttl)
	}
	last, err := q.RenewServing(ctx, query.RenewServingParams{Until: now + ttl.Microseconds(), N: int64(len(jobs)), ID: l.Account, Generation: l.Generation})
	if missing(err) == nil && err != nil {
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

// keepTurns writes the turns always in the same order, so that two transactions cannot deadlock. The statement is not generated
// because sqlc cannot vary its number of rows.
func keepTurns(ctx context.Context, q tx, a dispatch.Account, served map[string]int64) error {
	names := make([]string, 0, len(served))
	for name := range served {
		names = append(names, name)
	}
	slices.Sort(names)
	args := make([]any, 0, 3*len(names))
	for _, name := range names {
		args = append(args, a, name, served[name])
	}
	_, err := q.ExecContext(ctx, "INSERT INTO turns (account, line, served) VALUES "+strings.TrimPrefix(q.rows(0, 3, len(names)), ", ")+
		" ON CONFLICT (account, line) DO UPDATE SET served = excluded.served", args...)
	return err
}
