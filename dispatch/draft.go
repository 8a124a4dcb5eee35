package dispatch

import "time"

// KeyLife is how long an idempotency key is kept.
const KeyLife = 24 * time.Hour

// Key is a client's idempotency key for a request: repeating the request with it submits nothing twice. Zero: the
// client sent none.
type Key struct {
	Text        string // unique for its owner
	Fingerprint string // of the request
}

// KeyTarget names the task or job that was stored when a key was first used. Both are zero for a new key.
type KeyTarget struct {
	Task TaskID
	Job  JobID
}

// Draft is a job to be stored with its body: a Request in JSON or, for a task's job, its value.
type Draft struct {
	Job
	Body     []byte
	Document *Document // that defines its service; nil: none, or the task's
	Hooks    []Hook    // that are notified of the job alone; a store that keeps hooks stores them with it
}

// Bytes returns the bytes of the request, which count in Quota.Bytes. A process that was sent with the request is a
// part of it.
func (d Draft) Bytes() int64 {
	return int64(len(d.Body)) + d.Document.Sent()
}
