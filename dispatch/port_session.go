package dispatch

import (
	"context"
	"time"
)

// Session is a browser that is signed in to the page of this service.
type Session struct {
	ID      string // hash of the secret that the browser has
	Owner   UserID
	Issuer  string // the identity provider
	SID     string // the provider's name of its own session; "": not known
	Created time.Time
	Ends    time.Time // unless it is used
	Version int64     // SessionStore.RenewSession refuses any other version
	Sealed            // the user's tokens
}

// SessionStore stores sessions, so that every process can serve every browser. It has no keys. Times are from the clock
// of the process that encrypts.
type SessionStore interface {
	// AddSession stores a new session. Of its owner's sessions it keeps the newest, most of them.
	AddSession(ctx context.Context, s Session, most int) error
	// Session returns a session, which may be past its end; NotFound.
	Session(ctx context.Context, id string) (Session, error)
	// RenewSession stores the sealed text of a session. Conflict if the session has changed since it was read, or was
	// ended.
	RenewSession(context.Context, Session) (Session, error)
	// ExtendSession moves the end of a session, if it has not been ended, to a later time.
	ExtendSession(ctx context.Context, id string, ends time.Time) error
	// EndSession deletes a session, if it exists.
	EndSession(ctx context.Context, id string) error
	// EndSessions deletes the sessions that belong to a provider's session and to a user, and returns their number. ""
	// stands for any, in one of the two.
	EndSessions(ctx context.Context, issuer, sid string, u UserID) (int, error)
}
