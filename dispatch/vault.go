package dispatch

import "time"

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
	Version int64     // identity.Vault.RenewGrant refuses any other version
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
