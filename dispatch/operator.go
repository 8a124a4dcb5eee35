package dispatch

import "time"

// OperatorHold keeps an account, or all accounts of a platform, from submitting until an operator ends it.
type OperatorHold struct {
	Scope  string // the name of a platform, or an [Account]
	Notice string // why, for users; not ""
	By     string // the operator
	Since  time.Time
}

// RefuseHeld returns the error of a synchronous run while an operator holds its account or platform, with the
// operator's notice; nil for "".
func RefuseHeld(notice string) error {
	if notice == "" {
		return nil
	}
	return &Error{Kind: Unavailable, Op: "dispatch.BeginSyncRun", RetryAfter: time.Minute,
		Text: "The operator of this service has put this platform on hold: " + notice}
}

// JobEvent is one thing that happened to a job. It holds no secrets: texts are those that users may see.
type JobEvent struct {
	Job       JobID
	At        time.Time
	What      string // "changed"; a request: create, start, status, list, cancel; or what a user or an operator did
	Phase     Phase
	Status    Status
	Attention Attention
	Attempt   int
	Outcome   string        // of a request: "ok", or the kind of its error
	Took      time.Duration // of a request
	Detail    string        // the text of an error, or the job's identifier at its platform
}
