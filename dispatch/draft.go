package dispatch

import (
	"iter"
	"time"
)

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

// Draft is a job to be stored with its body: a Request in JSON or, for a task's job, its value. With a dimension it
// stands for all jobs of a task, which are made one after the other while they are stored.
type Draft struct {
	Job
	Body      []byte
	Document  *Document  // that defines its service; nil: none, or the task's
	Hooks     []Hook     // that are notified of the job alone; a store that keeps hooks stores them with it
	Dimension *Dimension // has the values of the jobs; nil: it is one job
	Trial     int        // how many of these jobs are not paused; 0: all
}

// CountJobs returns how many jobs the drafts stand for.
func CountJobs(drafts []Draft) (n int) {
	for _, d := range drafts {
		if d.Dimension == nil {
			n++
		} else {
			n += d.Dimension.Jobs()
		}
	}
	return n
}

// EachJob returns a draft for each job that the drafts stand for.
func EachJob(drafts []Draft) iter.Seq[Draft] {
	return func(yield func(Draft) bool) {
		for _, d := range drafts {
			if d.Dimension == nil {
				if !yield(d) {
					return
				}
				continue
			}
			for body, names := range d.Dimension.Each() {
				d.Number++
				d.Body, d.Names = body, names
				if d.Trial > 0 && d.Number > d.Trial {
					d.Paused, d.Attention = true, Paused
				}
				if !yield(d) {
					return
				}
			}
		}
	}
}

// Bytes returns the bytes of the request, which count in Quota.Bytes. A process that was sent with the request is a
// part of it.
func (d Draft) Bytes() int64 {
	return int64(len(d.Body)) + d.Document.Sent()
}
