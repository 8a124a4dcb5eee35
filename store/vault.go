package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

var _ dispatch.Vault = (*Store)(nil)

// Grant returns a user's grant at a provider.
func (s *Store) Grant(ctx context.Context, u dispatch.UserID, issuer string) (dispatch.Grant, error) {
	row, err := s.queries(s.read).GetGrant(ctx, u, issuer)
	if err != nil {
		return dispatch.Grant{}, noGrant("Grant", err)
	}
	return grantOf(row), nil
}

// Grants returns all grants of a user.
func (s *Store) Grants(ctx context.Context, u dispatch.UserID) ([]dispatch.Grant, error) {
	rows, err := s.queries(s.read).ListGrants(ctx, u)
	return grantsOf(rows), fail("Grants", err)
}

// KeepGrant stores a new grant in place of its owner's previous one at that provider, and ends the holds that it makes
// untrue. The accounts' rows are written last, as in Wake.
func (s *Store) KeepGrant(ctx context.Context, g dispatch.Grant) error {
	return s.in(ctx, s.write, "KeepGrant", func(q tx, now int64) error {
		if g.Kind == dispatch.OfflineGrant {
			if err := q.EndWithdrawal(ctx, g.Owner, g.Issuer); err != nil {
				return err
			}
			if err := q.EraseRevocations(ctx, g.Owner.Hash(), g.Issuer); err != nil {
				return err
			}
		}
		err := q.KeepGrant(ctx, query.KeepGrantParams{ID: g.ID, Owner: g.Owner, Issuer: g.Issuer,
			Kind: g.Kind, Key: g.Key, Sealed: g.Text, Created: micros(g.Created), Renewed: micros(g.Renewed), Expires: micros(g.Expires)})
		if err != nil {
			return err
		}
		return endSignInHolds(ctx, q, g.Owner, now)
	})
}

// endSignInHolds ends the holds of a user's own accounts that wait for the user's sign-in, and wakes these accounts.
func endSignInHolds(ctx context.Context, q tx, u dispatch.UserID, now int64) error {
	accounts, err := q.ListSignInHolds(ctx, now, u)
	for _, a := range accounts {
		if a.Identity() == string(u) {
			err = errors.Join(err, q.Hold(ctx, query.HoldParams{ID: a, Now: now}), q.Wake(ctx, a, now))
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
			return noGrant("Withdraw", sql.ErrNoRows)
		}
		issuer, err := q.EraseWithdrawn(ctx, id, u)
		if err != nil {
			return err
		}
		return q.NoteWithdrawal(ctx, u, issuer)
	})
}

func keepRevocation(ctx context.Context, q tx, u dispatch.UserID, id string, now int64) (int64, error) {
	return q.KeepRevocation(ctx, query.KeepRevocationParams{OwnerHash: u.Hash(), Now: now, Owner: u, ID: id})
}

// HasWithdrawn reports whether the user withdrew the permission and has not given it again.
func (s *Store) HasWithdrawn(ctx context.Context, u dispatch.UserID, issuer string) (bool, error) {
	withdrawn, err := s.queries(s.read).HasWithdrawn(ctx, u, issuer)
	return withdrawn, fail("HasWithdrawn", err)
}

// Revocations returns up to n revocations that are pending at a provider, or since before a time.
func (s *Store) Revocations(ctx context.Context, issuer string, before time.Time, n int) ([]dispatch.Revocation,
	error) {
	rows, err := s.queries(s.read).ListRevocations(ctx, issuer, micros(before), int64(n))
	pending := make([]dispatch.Revocation, len(rows))
	for i, r := range rows {
		pending[i] = dispatch.Revocation{ID: r.ID, OwnerHash: r.OwnerHash, Issuer: r.Issuer, Kind: r.Kind,
			Created: at(r.Created),
			Sealed:  dispatch.Sealed{Key: r.Key, Text: r.Sealed}}
	}
	return pending, fail("Revocations", err)
}

// HasRevocation reports whether a revocation is still pending.
func (s *Store) HasRevocation(ctx context.Context, id string) (bool, error) {
	waits, err := s.queries(s.read).HasRevocation(ctx, id)
	return waits, fail("HasRevocation", err)
}

// EraseRevocation deletes a revocation that is over.
func (s *Store) EraseRevocation(ctx context.Context, id string) error {
	return fail("EraseRevocation", s.queries(s.write).EraseRevocation(ctx, id))
}

// RenewGrant stores the sealed token and the times of a grant, unless the grant changed meanwhile: then it returns Conflict.
func (s *Store) RenewGrant(ctx context.Context, g dispatch.Grant) (dispatch.Grant, error) {
	row, err := s.queries(s.write).RenewGrant(ctx, query.RenewGrantParams{ID: g.ID, Version: g.Version, Key: g.Key, Sealed: g.Text,
		Renewed: micros(g.Renewed), Expires: micros(g.Expires)})
	if errors.Is(err, sql.ErrNoRows) {
		return dispatch.Grant{}, conflict("RenewGrant")
	}
	return grantOf(row), fail("RenewGrant", err)
}

// EraseGrant deletes a grant.
func (s *Store) EraseGrant(ctx context.Context, u dispatch.UserID, id string) error {
	rows, err := s.queries(s.write).EraseGrant(ctx, id, u)
	if err == nil && rows == 0 {
		err = sql.ErrNoRows
	}
	return noGrant("EraseGrant", err)
}

// KeepToken stores a token that processes share, until it expires.
func (s *Store) KeepToken(ctx context.Context, t dispatch.SealedToken) error {
	return fail("KeepToken", s.queries(s.write).KeepToken(ctx, query.KeepTokenParams{Name: t.Name, Owner: t.Owner,
		Key: t.Key, Sealed: t.Text,
		Expires: micros(t.Expires), Longest: t.Longest}))
}

// EraseToken deletes the token under a name if it expires at that time.
func (s *Store) EraseToken(ctx context.Context, name string, expires time.Time) error {
	return fail("EraseToken", s.queries(s.write).EraseToken(ctx, name, micros(expires)))
}

// EraseTokens deletes all shared tokens of a user.
func (s *Store) EraseTokens(ctx context.Context, u dispatch.UserID) error {
	return fail("EraseTokens", s.queries(s.write).EraseTokens(ctx, u))
}

// UseOnce reports whether a name is used for the first time. Purge deletes the name after until.
func (s *Store) UseOnce(ctx context.Context, name string, until time.Time) (bool, error) {
	rows, err := s.queries(s.write).UseOnce(ctx, name, micros(until))
	return rows == 1, fail("UseOnce", err)
}

// FindToken returns the token last stored under a name, and when it expires.
func (s *Store) FindToken(ctx context.Context, name string) (dispatch.Sealed, time.Time, error) {
	now, err := s.now(ctx, s.read)
	if err != nil {
		return dispatch.Sealed{}, time.Time{}, fail("FindToken", err)
	}
	row, err := s.queries(s.read).FindToken(ctx, name, now)
	return dispatch.Sealed{Key: row.Key, Text: row.Sealed}, at(row.Expires), fail("FindToken", err)
}

// AccountsWithJobs returns the accounts that have a job which has not ended.
func (s *Store) AccountsWithJobs(ctx context.Context) ([]dispatch.Account, error) {
	accounts, err := s.queries(s.read).ListWorking(ctx)
	return accounts, fail("AccountsWithJobs", err)
}

func grantOf(r query.Grant) dispatch.Grant {
	return dispatch.Grant{ID: r.ID, Owner: r.Owner, Issuer: r.Issuer, Kind: r.Kind, Created: at(r.Created), Renewed: at(r.Renewed),
		Expires: at(r.Expires), Version: r.Version, Sealed: dispatch.Sealed{Key: r.Key, Text: r.Sealed}}
}

func grantsOf(rows []query.Grant) []dispatch.Grant {
	grants := make([]dispatch.Grant, len(rows))
	for i, r := range rows {
		grants[i] = grantOf(r)
	}
	return grants
}

// noGrant is fail for grants, whose errors must not speak of jobs.
func noGrant(op string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return &dispatch.Error{Kind: dispatch.NotFound, Op: "store." + op, Text: "There is no such grant.", Err: err}
	}
	return fail(op, err)
}
