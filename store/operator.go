package store

import (
	"context"

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
func (s *Store) Troubled(ctx context.Context, setAside bool, n int) ([]dispatch.Job, error) {
	ctx = allow(ctx, listWithin)
	return result(ctx, s.readOnly, s.read, "Troubled", func(q tx, _ int64) ([]dispatch.Job, error) {
		where := "phase NOT IN ('waiting', 'ended') AND attention <> ''" // at their platforms
		if setAside {
			where = "attention = 'set_aside' AND NOT hidden" // and not retried since
		}
		return selectJobs(ctx, q, `
			WHERE `+where+`
			ORDER BY moved, id
			LIMIT CAST($1 AS BIGINT)`, n)
	})
}

// eventsAtOnce is how many events one transaction deletes.
const eventsAtOnce = 500
