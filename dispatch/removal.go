package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Remover removes an ended job from its platform, with its results. NotFound if the platform does not have it any more,
// Unsupported if it cannot remove jobs. It may be repeated.
type Remover interface {
	Remove(context.Context, Token, Ref) error
}

// Removal is the state of removing an ended job from its platform. Zero: nobody asked for that.
type Removal struct {
	// when the next platform job of the job is removed; zero: none is. It waits for the end of the job, and for its
	// costs
	Due     time.Time `json:"due,omitzero"`
	Since   time.Time `json:"since,omitzero"`   // of the first request
	Tries   int       `json:"tries,omitempty"`  // requests in a row that failed
	Removed time.Time `json:"removed,omitzero"` // when the last platform job was removed; zero: it was not
}

// removalPatience is how long a removal that fails is repeated.
const removalPatience = 7 * 24 * time.Hour

// removalPause is the longest pause between two requests of a removal.
const removalPause = 6 * time.Hour

// RemovalDue returns when a platform job of j is to be removed next; zero: none is, or not yet.
func (j Job) RemovalDue() time.Time {
	if j.Phase != Ended || len(j.Orphans) > 0 || len(j.Unmetered) > 0 {
		return time.Time{}
	}
	return j.Removal.Due
}

// Removable reports whether something of j may be at its platform that the broker submitted. An imported job was
// submitted by another program.
func (j Job) Removable() bool {
	return j.Attempt > 0 && j.Removal == (Removal{})
}

// RemovableRef returns the platform job of j that is removed next: those of attempts before a retry, then that of the
// last one; zero if there is none.
func (j Job) RemovableRef() Ref {
	if len(j.Past) > 0 {
		return j.Past[0]
	}
	return j.Ref
}

// applyRemoval applies the response to a removal.
func applyRemoval(j Job, o Outcome, now time.Time) Job {
	if j.RemovalDue().IsZero() || o.Ref != j.RemovableRef() {
		return j
	}
	if j.Removal.Since.IsZero() {
		j.Removal.Since = now
	}
	switch {
	case o.Err == nil, Is(o.Err, NotFound):
		return j.removed(o.Ref, now)
	case Is(o.Err, Unsupported), now.Sub(j.Removal.Since) >= removalPatience:
		if j.Removal.Due, j.Updated = (time.Time{}), now; j.Attention != None { // it shows why the job failed
			return j
		}
		return j.WithAttention(NotRemoved, fmt.Sprintf("The platform did not remove the job: %s", TextFor(o.Err)))
	}
	j.Removal.Due = now.Add(max(RetryAfter(o.Err), min(FirstPoll<<min(j.Removal.Tries, 14), removalPause)))
	j.Removal.Tries++
	return j
}

// removed returns j without a platform job that is removed.
func (j Job) removed(r Ref, now time.Time) Job {
	j.Removal.Tries = 0
	if i := slices.Index(j.Past, r); i >= 0 {
		j.Past = slices.Delete(slices.Clone(j.Past), i, i+1)
		if j.Ref != (Ref{}) || len(j.Past) > 0 {
			return j
		}
	}
	j.Removal.Due, j.Removal.Removed, j.Updated = time.Time{}, now, now
	return j
}

// RemovedText is why a job has no results any more.
func (j Job) RemovedText() string {
	return fmt.Sprintf("The job was removed from its platform on %s, and its results with it.",
		j.Removal.Removed.UTC().Format(time.DateOnly))
}
