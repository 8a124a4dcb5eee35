package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// renewAndCount renews the lease like renew, and records that the given jobs, whose creates are intended, got slots
// one after the other. Their counts were just written, so that nobody else has locked them.
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
	type line struct {
		owner dispatch.UserID
		task  dispatch.TaskID
	}
	served := map[line]int64{} // the last slot of each line
	for i, j := range jobs {
		served[line{j.Owner, j.Task}] = last - int64(len(jobs)-1-i)
	}
	of := slices.SortedFunc(maps.Keys(served), func(a, b line) int { return cmp.Compare(served[a], served[b]) })
	var all []command
	for _, of := range of { // the last one of an owner is the owner's
		all = append(all, command{`
			UPDATE line_counts SET served = $1 WHERE account = $2 AND owner = $3 AND task = $4`,
			[]any{served[of], string(l.Account), string(of.owner), int64(of.task)}}, command{`
			UPDATE owner_counts SET served = $1 WHERE owner = $2 AND account = $3`,
			[]any{served[of], string(of.owner), string(l.Account)}})
	}
	return q.runAll(ctx, all)
}
