package dispatch

import "time"

// StoredProcess is a process that a user has stored.
type StoredProcess struct {
	ID      string
	Body    []byte // JSON, as it was sent
	Updated time.Time
}

// ProcessQuota bounds what one user may store.
type ProcessQuota struct {
	Processes int
	Bytes     int64 // of all bodies together
}

// Admit returns nil if a user who has other processes of so many bytes may have one more.
func (q ProcessQuota) Admit(others int, bytes, more int64) error {
	if others < q.Processes && bytes+more <= q.Bytes {
		return nil
	}
	return &Error{Kind: LimitReached, Op: "dispatch.ProcessQuota", RetryAfter: time.Hour,
		Text: "You have stored too many processes, or they are too large together. Delete some first."}
}
