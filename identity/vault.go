package identity

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// SealedRows are the encrypted texts of all tables.
type SealedRows interface {
	// SealedRows returns rows of a table that are not encrypted with the given key, in the order of their ids and after
	// an id, n at most.
	SealedRows(ctx context.Context, table, otherThan, after string, n int) ([]dispatch.SealedRow, error)
	// Reseal stores another text of a row, and reports whether it did: not if the row has changed since it was read.
	Reseal(ctx context.Context, r dispatch.SealedRow, s dispatch.Sealed) (bool, error)
	// SealedCounts counts the rows of all tables by their keys.
	SealedCounts(context.Context) ([]dispatch.SealedCount, error)
}

// Vault stores users' grants and the tokens that processes share, as encrypted texts. It has no keys. Times are from
// the clock of the process that encrypts.
type Vault interface {
	// Grant returns a user's grant at a provider; NotFound.
	Grant(ctx context.Context, u dispatch.UserID, issuer string) (dispatch.Grant, error)
	// Grants returns all grants of a user, at all providers.
	Grants(context.Context, dispatch.UserID) ([]dispatch.Grant, error)
	// KeepGrant stores a new grant in place of its owner's earlier one at the same provider, and ends the holds of the
	// owner's accounts that waited for a sign-in. An offline grant also ends a withdrawal and its pending revocations:
	// the owner gave the permission again, and a provider that is asked to revoke one grant may revoke all grants that
	// the user gave the client (Keycloak does).
	KeepGrant(context.Context, dispatch.Grant) error
	// RenewGrant stores the sealed text and the times of a grant. Conflict if the grant has changed since it was read.
	RenewGrant(context.Context, dispatch.Grant) (dispatch.Grant, error)
	// EraseGrant deletes a grant; NotFound, also for a grant of another user.
	EraseGrant(ctx context.Context, u dispatch.UserID, id string) error
	// Withdraw takes a grant out of use because its owner withdrew the permission: the grant is to be revoked, and
	// HasWithdrawn holds from now on. NotFound, also for a grant of another user.
	Withdraw(ctx context.Context, u dispatch.UserID, id string) error
	// HasWithdrawn reports whether the user withdrew the permission at a provider and has not given it again.
	HasWithdrawn(ctx context.Context, u dispatch.UserID, issuer string) (bool, error)
	// Revocations returns the revocations that are pending at a provider, and those of all providers that are pending
	// since before a time, oldest first, n at most.
	Revocations(ctx context.Context, issuer string, before time.Time, n int) ([]dispatch.Revocation, error)
	// HasRevocation reports whether a revocation is still pending.
	HasRevocation(ctx context.Context, id string) (bool, error)
	// EraseRevocation deletes a revocation that is over.
	EraseRevocation(ctx context.Context, id string) error

	// KeepToken stores a token that processes share, in place of the one under its name, until it expires.
	KeepToken(context.Context, dispatch.SealedToken) error
	// EraseToken deletes the token under a name if it expires at that time.
	EraseToken(ctx context.Context, name string, expires time.Time) error
	// EraseTokens deletes all shared tokens of a user.
	EraseTokens(context.Context, dispatch.UserID) error
	// FindToken returns the token that was last stored under a name, and when it expires; NotFound.
	FindToken(ctx context.Context, name string) (dispatch.Sealed, time.Time, error)
	// UseOnce reports whether a name is used for the first time, and stores the name until the given time.
	UseOnce(ctx context.Context, name string, until time.Time) (first bool, err error)

	// AccountsWithJobs returns the accounts that have a job which has not ended.
	AccountsWithJobs(context.Context) ([]dispatch.Account, error)
}
