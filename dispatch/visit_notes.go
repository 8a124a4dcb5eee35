package dispatch

import (
	"context"
	"sync"
	"time"
)

const (
	noteEvery = 10 * time.Second // minimum time between two notes of the same state of a platform
	noteSoon  = time.Second      // minimum time until a note of another state
)

// platformNotes holds what this process last stored about platforms, so that it does not store every response.
type platformNotes struct {
	mu   sync.Mutex
	last map[string]platformNote
}

type platformNote struct {
	at     time.Time
	silent bool
}

// mustStore reports whether the state of a platform must be stored now, and if so records it as stored.
func (n *platformNotes) mustStore(platform string, silent bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, known := n.last[platform]
	age := time.Since(was.at)
	if known && (age < noteSoon || age < noteEvery && was.silent == silent) {
		return false
	}
	if n.last == nil {
		n.last = map[string]platformNote{}
	}
	n.last[platform] = platformNote{time.Now(), silent}
	return true
}

// noteResponse stores, no more often than noted allows, that a platform responded, or why it did not. A refusal counts
// as a response.
func (v *visit) noteResponse(ctx context.Context, o Outcome) error {
	silent := Is(o.Err, Unavailable) || Is(o.Err, Uncertain)
	answered := o.Err == nil && o.Ref != (Ref{}) || Is(o.Err, Busy) || Is(o.Err, NotFound)
	if o.Unsent || !silent && !answered || !v.visits.noted.mustStore(v.backend.Name, silent) {
		return nil
	}
	failure := ""
	if silent {
		failure = TextFor(o.Err)
	}
	return v.visits.Store.NoteResponse(ctx, v.backend.Name, failure, 0)
}

// noteStarts stores what was seen of starts, if that changes the platform's Promptness.
func (v *visit) noteStarts(ctx context.Context) error {
	if v.starts.wouldChange(v.agenda.Starts) {
		if err := v.visits.Store.NoteStarts(ctx, v.backend.Name, v.starts); err != nil {
			return err
		}
	}
	v.starts = StartsSeen{}
	return nil
}

// noteStart records what a saved response shows about a start. If the platform creates and starts a job with one
// request, there is no start to settle.
func (v *visit) noteStart(was, is Job) {
	if v.backend.Platform.TwoStep() {
		v.starts.add(was, is, v.backend.Limits.Send, v.timing)
	}
}
