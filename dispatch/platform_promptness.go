package dispatch

import (
	"cmp"
	"context"
	"time"
)

// PromptStarts is after how many confirmed starts in a row, of which the first status told, a platform counts as prompt.
const PromptStarts = 25

// lagSafety is how many times the worst lag seen a start in doubt is given to show.
const lagSafety = 4

// Promptness is what the statuses of a platform have shown after starts that it confirmed.
type Promptness struct {
	Starts int           // confirmed starts in a row of which the first status read told
	Lag    time.Duration // the longest time seen from a start until a status told of it
}

// settlesAfter returns how long the statuses of a job must not tell of a start in doubt until the start counts as lost: the time that the
// operator set, or what the platform has shown.
func (b *Backend) settlesAfter(t Timing, p Promptness) time.Duration {
	return cmp.Or(b.StartSettlesAfter, t.settlesAfter(p))
}

// StartsSeen is what statuses have just shown of starts, for [Store.NoteStarts].
type StartsSeen struct {
	Prompt int           // starts of which the first status told
	Lagged bool          // a status did not tell of a start: the row of prompt starts ends before Prompt
	Lag    time.Duration // the longest
}

// add notes what a status shows: how the job was before it was read and is since, and how long its start request could take.
func (s *StartsSeen) add(was, is Job, send time.Duration, t Timing) {
	if is.Checked.Equal(was.Checked) || was.Phase != Started && was.Phase != Starting {
		return
	}
	since := max(0, is.Checked.Sub(is.SendBy.Add(-send)))
	started := was.Phase == Started
	switch told := is.Seen.running(); {
	case started && is.Seen == Accepted, told && was.Seen == Accepted:
		s.Lagged, s.Prompt, s.Lag = true, 0, max(s.Lag, min(since, t.LongestLag))
	case !started || !told || was.Seen != "" || since > max(t.FirstStatus, t.atOnce()):
	case since > t.atOnce():
		s.Lag = max(s.Lag, since)
		s.Prompt++
	default:
		s.Prompt++
	}
}

// tells reports whether s changes what p says of a platform: of one that is prompt further prompt starts do not.
func (s StartsSeen) tells(p Promptness) bool {
	return s.Lagged && p.Starts > 0 || s.Prompt > 0 && p.Starts < PromptStarts || s.Lag > p.Lag
}

// noteStarts keeps what was seen of starts, if that changes anything.
func (v *visit) noteStarts(ctx context.Context) error {
	if v.starts.tells(v.agenda.Starts) {
		if err := v.broker.Store.NoteStarts(ctx, v.backend.Name, v.starts); err != nil {
			return err
		}
	}
	v.starts = StartsSeen{}
	return nil
}

// sawStart notes what a saved answer shows of a start. Where one request creates and starts there is none to settle.
func (v *visit) sawStart(was, is Job) {
	if v.backend.Platform.TwoStep() {
		v.starts.add(was, is, v.backend.Limits.Send, v.timing)
	}
}
