package dispatch

import (
	"cmp"
	"context"
	"time"
)

// PromptStarts is after how many confirmed starts in a row, of which the first status told, a platform counts as prompt.
const PromptStarts = 25

const (
	promptWithin = 2 * minute  // least time after which a start in doubt is repeated where the platform is prompt
	lagSafety    = 4           // times the worst lag seen
	longestLag   = 15 * minute // a lag beyond counts as this long: none longer was ever seen
	firstSight   = 5 * minute  // a first status later than that after the start shows nothing
)

// atOnce is within what time after a start the first status must come to show that there is no lag to speak of. It is not
// below the pause until the first look, also where a minute is shortened.
const atOnce = max(minute/2, 2*firstPoll)

// Promptness is what the statuses of a platform have shown after starts that it confirmed.
type Promptness struct {
	Starts int           // confirmed starts in a row of which the first status read told
	Lag    time.Duration // the longest time seen from a start until a status told of it
}

// SettlesAfter is for how long the statuses of a job must not tell of a start in doubt until it is taken for lost.
func (p Promptness) SettlesAfter() time.Duration {
	least := startLooks * lookEvery
	if p.Starts >= PromptStarts {
		least = promptWithin
	}
	return max(least, lagSafety*min(p.Lag, longestLag))
}

// SettlesAfter is for how long the statuses of a job must not tell of a start in doubt until it is taken for lost: what the
// operator chose, or what the platform has shown.
func (b *Backend) SettlesAfter(p Promptness) time.Duration {
	return cmp.Or(b.StartSettlesAfter, p.SettlesAfter())
}

// StartsSeen is what statuses have just shown of starts, for [Store.NoteStarts].
type StartsSeen struct {
	Prompt int           // starts of which the first status told
	Lagged bool          // a status did not tell of a start: the row of prompt starts ends before Prompt
	Lag    time.Duration // the longest
}

// add notes what a status shows: how the job was before it was read and is since, and how long its start request could take.
func (s *StartsSeen) add(was, is Job, send time.Duration) {
	if is.Checked.Equal(was.Checked) || was.Phase != Started && was.Phase != Starting {
		return
	}
	since := max(0, is.Checked.Sub(is.SendBy.Add(-send)))
	started := was.Phase == Started
	switch told := is.Seen.running(); {
	case started && is.Seen == Accepted, told && was.Seen == Accepted:
		s.Lagged, s.Prompt, s.Lag = true, 0, max(s.Lag, min(since, longestLag))
	case !started || !told || was.Seen != "" || since > max(firstSight, atOnce):
	case since > atOnce:
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
		v.starts.add(was, is, v.backend.Limits.Send)
	}
}

// lookAgain is the pause until the status of a start in doubt is read again that settles after so long: a twelfth of it, ten
// seconds at least and a minute at most.
func lookAgain(settlesAfter time.Duration) time.Duration {
	return min(max(settlesAfter/12, lookEvery/6), lookEvery)
}
