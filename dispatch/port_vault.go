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

// Grant is a user's permission to act on their behalf while they are not connected. A user has at most one at each identity provider.
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

// Sealed is an encrypted text.
type Sealed struct {
	Key  string // name of the key
	Text string
}

// Vault stores users' grants and the tokens that processes share, as encrypted texts. It has no keys. Times are from the clock of the process
// that encrypts.
type Vault interface {
	// Grant returns a user's grant at a provider; NotFound.
	Grant(ctx context.Context, u UserID, issuer string) (Grant, error)
	// Grants returns all grants of a user, at all providers.
	Grants(context.Context, UserID) ([]Grant, error)
	// KeepGrant stores a new grant in place of its owner's earlier one at the same provider. An offline grant also ends a withdrawal and
	// its pending revocations: the owner gave the permission again, and a provider that is asked to revoke one grant may revoke all grants
	// that the user gave the client (Keycloak does).
	KeepGrant(context.Context, Grant) error
	// RenewGrant stores the sealed text and the times of a grant. Conflict if the grant has changed since it was read.
	RenewGrant(context.Context, Grant) (Grant, error)
	// EraseGrant deletes a grant; NotFound, also for a grant of another user.
	EraseGrant(ctx context.Context, u UserID, id string) error
	// Withdraw takes a grant out of use because its owner withdrew the permission: the grant is to be revoked, and HasWithdrawn holds from
	// now on. NotFound, also for a grant of another user.
	Withdraw(ctx context.Context, u UserID, id string) error
	// HasWithdrawn reports whether the user withdrew the permission at a provider and has not given it again.
	HasWithdrawn(ctx context.Context, u UserID, issuer string) (bool, error)
	// Revocations returns grants that are still to be revoked at a provider, and those of all providers that are pending since before a time, oldest
	// first, n at most. Of their times only Created is set: since when the revocation is pending.
	Revocations(ctx context.Context, issuer string, before time.Time, n int) ([]Grant, error)
	// EraseRevocation deletes a grant that was revoked.
	EraseRevocation(ctx context.Context, id string) error
	// ForeignGrants returns grants that are not sealed with the given key, n at most.
	ForeignGrants(ctx context.Context, key string, n int) ([]Grant, error)

	// KeepToken stores a token that processes share under a name, until it expires.
	KeepToken(ctx context.Context, name string, s Sealed, expires time.Time) error
	// FindToken returns the token that was last stored under a name, and when it expires; NotFound.
	FindToken(ctx context.Context, name string) (Sealed, time.Time, error)
	// UseOnce reports whether a name is used for the first time, and stores the name until the given time.
	UseOnce(ctx context.Context, name string, until time.Time) (first bool, err error)

	// AccountsWithJobs returns the accounts that have a job which has not ended.
	AccountsWithJobs(context.Context) ([]Account, error)
}
