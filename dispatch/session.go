package dispatch

import "time"

// Session is a browser that is signed in to the page of this service.
type Session struct {
	ID      string // hash of the secret that the browser has
	Owner   UserID
	Issuer  string // the identity provider
	SID     string // the provider's name of its own session; "": not known
	Created time.Time
	Ends    time.Time // unless it is used
	Version int64     // identity.SessionStore.RenewSession refuses any other version
	Sealed            // the user's tokens
}
