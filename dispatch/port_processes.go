package dispatch

import (
	"context"
	"time"
)

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

// Processes stores the processes of users. The processes of other users are NotFound.
type Processes interface {
	// SaveProcess stores a process, in place of the user's process with the same id, if the quota admits it.
	SaveProcess(ctx context.Context, u UserID, p StoredProcess, within ProcessQuota) error
	// Process returns a process of the user.
	Process(ctx context.Context, u UserID, id string) (StoredProcess, error)
	// Processes returns at most so many processes of the user whose ids come after the given one, in an order of ids that
	// the database chooses and keeps.
	Processes(ctx context.Context, u UserID, after string, most int) ([]StoredProcess, error)
	// DeleteProcess deletes a process of the user.
	DeleteProcess(ctx context.Context, u UserID, id string) error
}
