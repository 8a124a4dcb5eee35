package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const noGrant = "There is no such grant."

const grantColumns = "id, owner, issuer, kind, created, renewed, expires, version, key, sealed"

func grantPlaces(g *dispatch.Grant) []any {
	return []any{&g.ID, text(&g.Owner), &g.Issuer, text(&g.Kind), instant(&g.Created), instant(&g.Renewed),
		instant(&g.Expires), &g.Version, &g.Key, &g.Text}
}

// Grant returns a user's grant at a provider.
func (s *Store) Grant(ctx context.Context, u dispatch.UserID, issuer string) (dispatch.Grant, error) {
	g, err := one(ctx, s.on(s.read), grantPlaces, `
		SELECT `+grantColumns+`
		FROM grants
		WHERE owner = $1 AND issuer = $2`, u, issuer)
	return g, noSuch("Grant", noGrant, err)
}

// Grants returns all grants of a user.
func (s *Store) Grants(ctx context.Context, u dispatch.UserID) ([]dispatch.Grant, error) {
	grants, err := grantsOf(ctx, s.on(s.read), u)
	return grants, fail("Grants", err)
}

func grantsOf(ctx context.Context, q querier, u dispatch.UserID) ([]dispatch.Grant, error) {
	return list(ctx, q, grantPlaces, `
		SELECT `+grantColumns+`
		FROM grants
		WHERE owner = $1
		ORDER BY created, id`, u)
}

// KeepGrant stores a new grant in place of its owner's previous one at that provider, and ends the holds that it makes
// untrue. The accounts' rows are written last, as in Wake.
func (s *Store) KeepGrant(ctx context.Context, g dispatch.Grant) error {
	return s.in(ctx, s.write, "KeepGrant", func(q tx, now int64) error {
		if g.Kind == dispatch.OfflineGrant {
			err := runEach(ctx, q, []command{
				{"DELETE FROM withdrawals WHERE owner = $1 AND issuer = $2", []any{g.Owner, g.Issuer}},
				{"DELETE FROM revocations WHERE owner_hash = $1 AND issuer = $2", []any{g.Owner.Hash(), g.Issuer}},
			})
			if err != nil {
				return err
			}
		}
		err := run(ctx, q, `
			INSERT INTO grants (id, owner, issuer, kind, key, sealed, created, renewed, expires)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (owner, issuer) DO UPDATE SET id = excluded.id, kind = excluded.kind, key = excluded.key,
				sealed = excluded.sealed, created = excluded.created, renewed = excluded.renewed,
				expires = excluded.expires, version = 1`,
			g.ID, g.Owner, g.Issuer, g.Kind, g.Key, g.Text, micros(g.Created), micros(g.Renewed), micros(g.Expires))
		if err != nil {
			return err
		}
		return endSignInHolds(ctx, q, g.Owner, now)
	})
}

// endSignInHolds ends the holds of a user's own accounts that wait for the user's sign-in, and wakes these accounts.
func endSignInHolds(ctx context.Context, q tx, u dispatch.UserID, now int64) error {
	accounts, err := list(ctx, q, single[dispatch.Account], `
		SELECT a.id FROM accounts a
		WHERE a.hold_attention = 'sign_in_required' AND a.hold > CAST($1 AS BIGINT)
			AND a.id IN (SELECT c.account FROM owner_counts c WHERE c.owner = $2)`, now, u)
	for _, a := range accounts {
		if a.Identity() == string(u) {
			err = errors.Join(err, endHold(ctx, q, a, now))
		}
	}
	return err
}

// Withdraw takes a grant out of use because its owner withdrew the permission.
func (s *Store) Withdraw(ctx context.Context, u dispatch.UserID, id string) error {
	return s.in(ctx, s.write, "Withdraw", func(q tx, now int64) error {
		rows, err := keepRevocation(ctx, q, u, id, now)
		if err != nil {
			return err
		}
		if rows == 0 {
			return noSuch("Withdraw", noGrant, sql.ErrNoRows)
		}
		issuer, err := value[string](ctx, q, "DELETE FROM grants WHERE id = $1 AND owner = $2 RETURNING issuer", id, u)
		if err != nil {
			return err
		}
		return run(ctx, q, `
			INSERT INTO withdrawals (owner, issuer)
			VALUES ($1, $2)
			ON CONFLICT (owner, issuer) DO NOTHING`, u, issuer)
	})
}

// keepRevocation makes a revocation of a grant, and returns how many it made.
func keepRevocation(ctx context.Context, q tx, u dispatch.UserID, id string, now int64) (int64, error) {
	return exec(ctx, q, `
		INSERT INTO revocations (id, owner_hash, issuer, kind, key, sealed, created)
		SELECT g.id, CAST($1 AS TEXT), g.issuer, g.kind, g.key, g.sealed, CAST($2 AS BIGINT)
		FROM grants g
		WHERE g.owner = $3 AND g.id = $4
		ON CONFLICT (id) DO NOTHING`, u.Hash(), now, u, id)
}

// HasWithdrawn reports whether the user withdrew the permission and has not given it again.
func (s *Store) HasWithdrawn(ctx context.Context, u dispatch.UserID, issuer string) (bool, error) {
	withdrawn, err := value[bool](ctx, s.on(s.read), `
		SELECT EXISTS (SELECT 1 FROM withdrawals WHERE owner = $1 AND issuer = $2)`, u, issuer)
	return withdrawn, fail("HasWithdrawn", err)
}

// Revocations returns up to n revocations that are pending at a provider, or since before a time.
func (s *Store) Revocations(
	ctx context.Context, issuer string, before time.Time, n int,
) ([]dispatch.Revocation, error) {
	pending, err := list(ctx, s.on(s.read), func(r *dispatch.Revocation) []any {
		return []any{&r.ID, &r.OwnerHash, &r.Issuer, text(&r.Kind), instant(&r.Created), &r.Key, &r.Text}
	}, `
		SELECT id, owner_hash, issuer, kind, created, key, sealed
		FROM revocations
		WHERE issuer = $1 OR created < $2
		ORDER BY created, id
		LIMIT CAST($3 AS BIGINT)`, issuer, micros(before), n)
	return pending, fail("Revocations", err)
}

// HasRevocation reports whether a revocation is still pending.
func (s *Store) HasRevocation(ctx context.Context, id string) (bool, error) {
	waits, err := value[bool](ctx, s.on(s.read), "SELECT EXISTS (SELECT 1 FROM revocations WHERE id = $1)", id)
	return waits, fail("HasRevocation", err)
}

// EraseRevocation deletes a revocation that is over.
func (s *Store) EraseRevocation(ctx context.Context, id string) error {
	return fail("EraseRevocation", run(ctx, s.on(s.write), "DELETE FROM revocations WHERE id = $1", id))
}

// RenewGrant stores the sealed token and the times of a grant, unless the grant changed meanwhile: then it returns
// Conflict.
func (s *Store) RenewGrant(ctx context.Context, g dispatch.Grant) (dispatch.Grant, error) {
	renewed, err := one(ctx, s.on(s.write), grantPlaces, `
		UPDATE grants
		SET key = $1, sealed = $2, renewed = $3, expires = $4, version = version + 1
		WHERE id = $5 AND version = $6
		RETURNING `+grantColumns, g.Key, g.Text, micros(g.Renewed), micros(g.Expires), g.ID, g.Version)
	return renewed, fail("RenewGrant", changed("RenewGrant", err))
}

// EraseGrant deletes a grant.
func (s *Store) EraseGrant(ctx context.Context, u dispatch.UserID, id string) error {
	return noSuch("EraseGrant", noGrant,
		runFound(ctx, s.on(s.write), "DELETE FROM grants WHERE id = $1 AND owner = $2", id, u))
}

// KeepToken stores a token that processes share, until it expires.
func (s *Store) KeepToken(ctx context.Context, t dispatch.SealedToken) error {
	return fail("KeepToken", run(ctx, s.on(s.write), `
		INSERT INTO tokens (name, owner, key, sealed, expires)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (name) DO UPDATE
		SET owner = excluded.owner, key = excluded.key, sealed = excluded.sealed, expires = excluded.expires
		WHERE NOT $6 OR tokens.expires <= excluded.expires`,
		t.Name, t.Owner, t.Key, t.Text, micros(t.Expires), t.Longest))
}

// EraseToken deletes the token under a name if it expires at that time.
func (s *Store) EraseToken(ctx context.Context, name string, expires time.Time) error {
	return fail("EraseToken", run(ctx, s.on(s.write), "DELETE FROM tokens WHERE name = $1 AND expires = $2",
		name, micros(expires)))
}

// EraseTokens deletes all shared tokens of a user.
func (s *Store) EraseTokens(ctx context.Context, u dispatch.UserID) error {
	return fail("EraseTokens", run(ctx, s.on(s.write), "DELETE FROM tokens WHERE owner = $1", u))
}

// UseOnce reports whether a name is used for the first time. Purge deletes the name after until.
func (s *Store) UseOnce(ctx context.Context, name string, until time.Time) (bool, error) {
	n, err := exec(ctx, s.on(s.write), `
		INSERT INTO tokens (name, key, sealed, expires)
		VALUES ($1, '', '', $2)
		ON CONFLICT (name) DO NOTHING`, name, micros(until))
	return n == 1, fail("UseOnce", err)
}

// FindToken returns the token last stored under a name, and when it expires.
func (s *Store) FindToken(ctx context.Context, name string) (found dispatch.Sealed, expires time.Time, err error) {
	err = s.readOnly(ctx, s.read, "FindToken", func(q tx, now int64) error {
		return q.QueryRowContext(ctx, `
			SELECT key, sealed, expires
			FROM tokens
			WHERE name = $1 AND expires > $2`, name, now).Scan(&found.Key, &found.Text, instant(&expires))
	})
	return found, expires, err
}

// AccountsWithJobs returns the accounts that have a job which has not ended.
func (s *Store) AccountsWithJobs(ctx context.Context) ([]dispatch.Account, error) {
	accounts, err := list(ctx, s.on(s.read), single[dispatch.Account], `
		SELECT a.id FROM accounts a
		WHERE EXISTS (
			SELECT 1 FROM jobs j
			WHERE j.account = a.id AND j.step IN ('cancel', 'wait', 'paused', 'settle', 'start', 'poll'))
		ORDER BY a.id`)
	return accounts, fail("AccountsWithJobs", err)
}
