package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// wake stores that there is something new for an account's visit. An account that is already due keeps its place in the
// queue.
func wake(ctx context.Context, q querier, a dispatch.Account, now int64) error {
	_, err := q.ExecContext(ctx, `
		INSERT INTO accounts (id, wakes, due)
		VALUES ($1, 1, $2)
		ON CONFLICT (id) DO UPDATE SET wakes = accounts.wakes + 1,
			due = CASE WHEN accounts.due BETWEEN 1 AND excluded.due THEN accounts.due ELSE excluded.due END`,
		a, now)
	return err
}

// endHold lets an account submit again, and wakes it.
func endHold(ctx context.Context, q querier, a dispatch.Account, now int64) error {
	_, err := q.ExecContext(ctx, `
		UPDATE accounts
		SET hold = 0, hold_attention = '', hold_notice = '', sign_in_since = 0
		WHERE id = $1`, a)
	if err != nil {
		return err
	}
	return wake(ctx, q, a, now)
}
