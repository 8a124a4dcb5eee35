package dispatch

import (
	"cmp"
	"time"
)

// Timing sets how long the broker waits between requests, and when it gives up. Request deadlines, leases and safety
// margins do not depend on it. A field that is 0 has its default.
type Timing struct {
	Poll         time.Duration // longest pause between two status reads of a job; 1 min
	Pause        time.Duration // longest pause before a request that failed is repeated; 10 min
	Check        time.Duration // between two checks of a request in doubt; 1 min
	UnknownCheck time.Duration // between two searches for a job whose submission stays unknown; 1 h
	// between two checks of what an operator must change: a platform without a list, or without configuration; 10 min
	Recheck time.Duration

	SignInHold   time.Duration // until an account whose user must sign in is tried again; 1 h
	OperatorHold time.Duration // until an account that an operator must repair is tried again; 5 min
	TokenRetry   time.Duration // longest pause before a token is requested again; 1 min

	// minimum time until a start in doubt is repeated at a prompt platform, see Promptness; 2 min
	PromptSettle time.Duration
	// a first status later than this after a start shows nothing about the platform's lag; 5 min
	FirstStatus time.Duration
	LongestLag  time.Duration // a longer lag counts as this long; 15 min: no longer lag was ever observed

	// before the first retry of a job that its platform failed; the next ones are twice as long each; 1 min
	RetryPause time.Duration

	SignInWithin time.Duration // a job fails after it has waited this long for its user to sign in; 14 days
	// a job fails after the platform has turned it away, or it was unknown, for this long; 24 h
	GiveUpAfter time.Duration
	// a job that has not changed for this long shows Stalled, and Limits.FreeStalled frees its slot; 6 h
	StalledAfter time.Duration
}

// Complete returns t with the defaults of the fields that are 0.
func (t Timing) Complete() Timing {
	for _, field := range []struct {
		pause *time.Duration
		value time.Duration
	}{
		{&t.Poll, time.Minute},
		{&t.Pause, 10 * time.Minute},
		{&t.Check, time.Minute},
		{&t.UnknownCheck, time.Hour},
		{&t.Recheck, 10 * time.Minute},
		{&t.SignInHold, time.Hour},
		{&t.OperatorHold, 5 * time.Minute},
		{&t.TokenRetry, time.Minute},
		{&t.PromptSettle, 2 * time.Minute},
		{&t.FirstStatus, 5 * time.Minute},
		{&t.LongestLag, 15 * time.Minute},
		{&t.RetryPause, time.Minute},
		{&t.SignInWithin, 14 * 24 * time.Hour},
		{&t.GiveUpAfter, 24 * time.Hour},
		{&t.StalledAfter, 6 * time.Hour},
	} {
		*field.pause = cmp.Or(*field.pause, field.value)
	}
	return t
}

// PollAfter returns the pause between two status reads of a job that has not moved for age.
func (t Timing) PollAfter(age time.Duration) time.Duration {
	return min(max(FirstPoll, age/10), t.Poll)
}

// PauseAfter returns the pause after a number of failed tries in a row, the last with err. It is at least the
// Retry-After of err.
func (t Timing) PauseAfter(tries int, err error) time.Duration {
	return max(RetryAfter(err), min(FirstPoll<<min(max(tries, 0), 10), t.Pause))
}

// crashPause returns the pause after a number of requests in a row at which the adapter panicked or the process ended.
func (t Timing) crashPause(tries int) time.Duration {
	pauses := [...]time.Duration{FirstPoll, t.Check, t.Pause, t.UnknownCheck}
	return pauses[min(tries, len(pauses)-1)]
}

// atOnce returns how soon after a start its first status must be read to count as no lag. It is longer than the pause
// before the first status read.
func (t Timing) atOnce() time.Duration { return max(t.Check/2, 2*FirstPoll) }

// SettlesAfter returns how long a job's statuses must show no sign of a start in doubt before the start counts as lost.
func (t Timing) settlesAfter(p Promptness) time.Duration {
	least := startPolls * t.Check
	if p.Starts >= PromptStarts {
		least = t.PromptSettle
	}
	return max(least, lagSafety*min(p.Lag, t.LongestLag))
}

// startCheck returns the pause between two status reads of a start in doubt that settles after the given time: a
// twelfth of that time, at least a sixth of Check and at most Check.
func (t Timing) startCheck(settlesAfter time.Duration) time.Duration {
	return min(max(settlesAfter/12, t.Check/6), t.Check)
}

// ReadWithin is how long reads wait for fresher statuses.
const ReadWithin = 5 * time.Second

// EnterWithin is how long a call waits for others to end, or for a send time.
const EnterWithin = 10 * time.Second

const tokenWithin = 10 * time.Second

// CheckWithin is how long a submitting client waits for the check of its parameters. Parameters that cannot be checked
// in that time are checked when the job is submitted to the platform.
const CheckWithin = 5 * time.Second
