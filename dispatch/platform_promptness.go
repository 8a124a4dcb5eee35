package dispatch

import (
	"cmp"
	"time"
)

// PromptStarts is the number of confirmed starts in a row that the first status read must show before a platform counts
// as prompt.
const PromptStarts = 25

// lagSafety is the safety factor for starts in doubt: a status must show such a start within lagSafety times the
// longest lag seen.
const lagSafety = 4

// Promptness is what the statuses of a platform have shown after starts that it confirmed.
type Promptness struct {
	Starts int           // confirmed starts in a row that the first status read showed
	Lag    time.Duration // the longest time seen from a start until a status showed it
}

// SettlesAfter returns for how long the statuses of a job must show no start before a start in doubt counts as lost:
// the time that the operator set, or else the time that follows from p.
func (b *Backend) SettlesAfter(t Timing, p Promptness) time.Duration {
	return cmp.Or(b.StartSettlesAfter, t.settlesAfter(p))
}

// StartsSeen is what the latest statuses have shown about starts, for [conformance.Store.NoteStarts].
type StartsSeen struct {
	Prompt int           // starts that the first status read showed
	Lagged bool          // a status did not show a start: the count of prompt starts restarts with Prompt
	Lag    time.Duration // the longest lag seen
}

// Add records what a status shows about a start. before and after are the job before and after the status was read;
// send is the time limit of its start request.
func (s *StartsSeen) Add(before, after Job, send time.Duration, t Timing) {
	if after.Checked.Equal(before.Checked) || before.Phase != Started && before.Phase != Starting {
		return
	}
	since := max(0, after.Checked.Sub(after.SendBy.Add(-send)))
	started := before.Phase == Started
	switch running := after.Seen.running(); {
	case started && after.Seen == Accepted, running && before.Seen == Accepted:
		s.Lagged, s.Prompt, s.Lag = true, 0, max(s.Lag, min(since, t.LongestLag))
	case !started || !running || before.Seen != "" || since > max(t.FirstStatus, t.atOnce()):
	case since > t.atOnce():
		s.Lag = max(s.Lag, since)
		s.Prompt++
	default:
		s.Prompt++
	}
}

// WouldChange reports whether s changes p. Further prompt starts of a platform that is already prompt change nothing.
func (s StartsSeen) WouldChange(p Promptness) bool {
	return s.Lagged && p.Starts > 0 || s.Prompt > 0 && p.Starts < PromptStarts || s.Lag > p.Lag
}
