package dispatch

import (
	"context"
	"time"
)

// GrantKind is the source of a user's permission, which determines how long the permission lasts.
type GrantKind string

const (
	SessionGrant GrantKind = "session" // from the user's session at the identity provider; it ends with the session
	OfflineGrant GrantKind = "offline" // the user agreed to it; it lasts until the user or the provider withdraws it
)

// Grant is a user's permission to act on their behalf while they are not connected. A user has at most one at each
// identity provider.
type Grant struct {
	ID      string // of letters and digits
	Owner   UserID
	Issuer  string // the identity provider
	Kind    GrantKind
	Created time.Time
	Renewed time.Time // when the provider last issued a token for it
	Expires time.Time // unless it is renewed; zero: no end is known
	Version int64     // Vault.RenewGrant refuses any other version
	Sealed
}

// Revocation is a grant that is out of use and that the identity provider is yet to revoke. It does not name its owner,
// because it outlasts what is stored of them.
type Revocation struct {
	ID        string // of the grant
	OwnerHash string // UserID.Hash
	Issuer    string
	Kind      GrantKind
	Created   time.Time // since when it is pending
	Sealed
}

// Sealed is an encrypted text.
type Sealed struct {
	Key  string // name of the key
	Text string
}

// SealedToken is an encrypted token that processes share.
type SealedToken struct {
	Name  string
	Owner UserID // the user whose token it is; "": nobody's
	Sealed
	Expires time.Time
	Longest bool // keep the stored token if it expires later
}

// SealedRow is an encrypted text with the row of the database that it belongs to.
type SealedRow struct {
	Table, ID string
	Owner     string // the user; in revocations UserID.Hash; "" in a table whose texts are not bound to a user
	Issuer    string // "" in a table whose texts are not bound to an issuer
	Sealed
}

// SealedCount is the number of rows of a table that are encrypted with a key.
type SealedCount struct {
	Table, Key string
	Rows       int
}

// SealedRows are the encrypted texts of all tables.
type SealedRows interface {
	// SealedRows returns rows of a table that are not encrypted with the given key, in the order of their ids and after
	// an id, n at most.
	SealedRows(ctx context.Context, table, otherThan, after string, n int) ([]SealedRow, error)
	// Reseal stores another text of a row, and reports whether it did: not if the row has changed since it was read.
	Reseal(ctx context.Context, r SealedRow, s Sealed) (bool, error)
	// SealedCounts counts the rows of all tables by their keys.
	SealedCounts(context.Context) ([]SealedCount, error)
}

// Vault stores users' grants and the tokens that processes share, as encrypted texts. It has no keys. Times are from
// the clock of the process that encrypts.
type Vault interface {
	// Grant returns a user's grant at a provider; NotFound.
	Grant(ctx context.Context, u UserID, issuer string) (Grant, error)
	// Grants returns all grants of a user, at all providers.
	Grants(context.Context, UserID) ([]Grant, error)
	// KeepGrant stores a new grant in place of its owner's earlier one at the same provider, and ends the holds of the
	// owner's accounts that waited for a sign-in. An offline grant also ends a withdrawal and its pending revocations:
	// the owner gave the permission again, and a provider that is asked to revoke one grant may revoke all grants that
	// the user gave the client (Keycloak does).
	KeepGrant(context.Context, Grant) error
	// RenewGrant stores the sealed text and the times of a grant. Conflict if the grant has changed since it was read.
	RenewGrant(context.Context, Grant) (Grant, error)
	// EraseGrant deletes a grant; NotFound, also for a grant of another user.
	EraseGrant(ctx context.Context, u UserID, id string) error
	// Withdraw takes a grant out of use because its owner withdrew the permission: the grant is to be revoked, and
	// HasWithdrawn holds from now on. NotFound, also for a grant of another user.
	Withdraw(ctx context.Context, u UserID, id string) error
	// HasWithdrawn reports whether the user withdrew the permission at a provider and has not given it again.
	HasWithdrawn(ctx context.Context, u UserID, issuer string) (bool, error)
	// Revocations returns the revocations that are pending at a provider, and those of all providers that are pending
	// since before a time, oldest first, n at most.
	Revocations(ctx context.Context, issuer string, before time.Time, n int) ([]Revocation, error)
	// HasRevocation reports whether a revocation is still pending.
	HasRevocation(ctx context.Context, id string) (bool, error)
	// EraseRevocation deletes a revocation that is over.
	EraseRevocation(ctx context.Context, id string) error

	// KeepToken stores a token that processes share, in place of the one under its name, until it expires.
	KeepToken(context.Context, SealedToken) error
	// EraseToken deletes the token under a name if it expires at that time.
	EraseToken(ctx context.Context, name string, expires time.Time) error
	// EraseTokens deletes all shared tokens of a user.
	EraseTokens(context.Context, UserID) error
	// FindToken returns the token that was last stored under a name, and when it expires; NotFound.
	FindToken(ctx context.Context, name string) (Sealed, time.Time, error)
	// UseOnce reports whether a name is used for the first time, and stores the name until the given time.
	UseOnce(ctx context.Context, name string, until time.Time) (first bool, err error)

	// AccountsWithJobs returns the accounts that have a job which has not ended.
	AccountsWithJobs(context.Context) ([]Account, error)
}
