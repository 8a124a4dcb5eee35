package dispatch

import (
	"context"
	"time"
)

// GrantKind is where a user's permission comes from, and with that how long it lasts.
type GrantKind string

const (
	SessionGrant GrantKind = "session" // from the session that the user has at the identity provider; it ends with that
	OfflineGrant GrantKind = "offline" // the user agreed to it; it lasts until they or the provider take it back
)

// Grant is a user's permission to act on their behalf while they are not connected. A user has at most one at each identity provider.
type Grant struct {
	ID      string // of letters and digits
	Owner   UserID
	Issuer  string // the identity provider
	Kind    GrantKind
	Created time.Time
	Renewed time.Time // when the provider last gave a token for it
	Expires time.Time // unless it is renewed; zero: no end is known
	Version int64     // Vault.RenewGrant refuses any other
	Sealed
}

// Sealed is a text that only the holder of a key can read.
type Sealed struct {
	Key  string // its name
	Text string
}

// Vault stores sealed texts. It cannot read them. Times are those of the process that seals.
type Vault interface {
	// Grant gives a user's grant at a provider; NotFound.
	Grant(ctx context.Context, u UserID, issuer string) (Grant, error)
	// Grants returns all grants of a user, at all providers.
	Grants(context.Context, UserID) ([]Grant, error)
	// KeepGrant keeps a new grant in place of the one that its owner had there. An offline grant ends a withdrawal, and
	// with it what is yet to be revoked: its owner gave the permission again, and a provider may revoke all grants that a
	// user gave a client when it is asked to revoke one (Keycloak does).
	KeepGrant(context.Context, Grant) error
	// RenewGrant keeps what is sealed and the times of a grant that has not changed since it was read; else Conflict.
	RenewGrant(context.Context, Grant) (Grant, error)
	// EraseGrant forgets a grant; NotFound, also for another's.
	EraseGrant(ctx context.Context, u UserID, id string) error
	// Withdraw takes a grant out of use, because its owner took the permission back: it is to be revoked, and
	// HasWithdrawn holds from now on. NotFound, also for another's.
	Withdraw(ctx context.Context, u UserID, id string) error
	// HasWithdrawn reports whether the user took back their permission at a provider and has not given it again.
	HasWithdrawn(ctx context.Context, u UserID, issuer string) (bool, error)
	// Revocations returns grants that the provider is yet to revoke, oldest first, n at most. Of the times only Created
	// is set: since when.
	Revocations(ctx context.Context, n int) ([]Grant, error)
	// EraseRevocation forgets one that is revoked.
	EraseRevocation(ctx context.Context, id string) error
	// ForeignGrants gives grants that are not sealed with a key, n at most.
	ForeignGrants(ctx context.Context, key string, n int) ([]Grant, error)

	// KeepToken keeps a token that processes share under a name, until it ends.
	KeepToken(ctx context.Context, name string, s Sealed, expires time.Time) error
	// FindToken gives what was left under a name last, and when it ends; NotFound.
	FindToken(ctx context.Context, name string) (Sealed, time.Time, error)
	// UseOnce reports whether a name is used for the first time, and remembers it until then.
	UseOnce(ctx context.Context, name string, until time.Time) (first bool, err error)

	// Working gives the accounts that have a job which has not ended.
	Working(context.Context) ([]Account, error)
}
