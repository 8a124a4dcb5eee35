package visit

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	noteEvery = 10 * time.Second // minimum time between two notes of the same state of a platform
	noteSoon  = time.Second      // minimum time until a note of another state
)

// PlatformNotes holds what this process last stored about platforms, so that it does not store every response.
type PlatformNotes struct {
	mu   sync.Mutex
	last map[string]platformNote
}

type platformNote struct {
	at     time.Time
	silent bool
}

// MustStore reports whether the state of a platform must be stored now, and if so records it as stored.
func (n *PlatformNotes) MustStore(platform string, silent bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, known := n.last[platform]
	age := time.Since(last.at)
	if known && (age < noteSoon || age < noteEvery && last.silent == silent) {
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
func (v *visit) noteResponse(ctx context.Context, o dispatch.Outcome) error {
	silent := dispatch.Is(o.Err, dispatch.Unavailable) || dispatch.Is(o.Err, dispatch.Uncertain)
	answered := o.Err == nil && o.Ref != (dispatch.Ref{}) || dispatch.Is(o.Err, dispatch.Busy) ||
		dispatch.Is(o.Err, dispatch.NotFound)
	if o.Unsent || !silent && !answered || !v.visits.noted.MustStore(v.backend.Name, silent) {
		return nil
	}
	failure := ""
	if silent {
		failure = dispatch.TextFor(o.Err)
	}
	return v.visits.Store.NoteResponse(ctx, v.backend.Name, failure, 0)
}

// noteStarts stores what was seen of starts, if that changes the platform's Promptness.
func (v *visit) noteStarts(ctx context.Context) error {
	if v.starts.WouldChange(v.agenda.Starts) {
		if err := v.visits.Store.NoteStarts(ctx, v.backend.Name, v.starts); err != nil {
			return err
		}
	}
	v.starts = dispatch.StartsSeen{}
	return nil
}

// noteStart records what a saved response shows about a start. If the platform creates and starts a job with one
// request, there is no start to settle.
func (v *visit) noteStart(before, after dispatch.Job) {
	if v.backend.Platform.TwoStep() {
		v.starts.Add(before, after, v.backend.Limits.Send, v.timing)
	}
}
