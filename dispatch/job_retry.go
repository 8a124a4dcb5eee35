package dispatch

import (
	"regexp"
	"slices"
	"time"
)

// Cause is what made a job fail at its platform.
type Cause string

const (
	CausedByPlatform Cause = "platform" // the same request may succeed later
	CausedByRequest  Cause = "request"  // it fails again; also if the cause is not known
)

// FailureRule says what causes the failures that it matches. Matches is applied to what the platform says about a
// failure: its message, and the last errors of the job's log.
type FailureRule struct {
	Matches *regexp.Regexp
	Cause   Cause
}

// FailureRules are a platform's own rules, which precede those for all platforms. The first one that matches decides.
type FailureRules []FailureRule

func (r FailureRules) cause(text string) Cause {
	for _, rule := range slices.Concat(r, commonFailures) {
		if rule.Matches.MatchString(text) {
			return rule.Cause
		}
	}
	return CausedByRequest
}

// commonFailures are rules for all platforms. What points to the request comes first: a failure that mentions both is
// not repeated.
var commonFailures = FailureRules{
	{regexp.MustCompile(
		`(?i)NoDataAvailable|no data (is )?available|OutOfMemory|out of memory|OOMKilled|memory limit|Parameter(Missing|Invalid|Required)|invalid (parameter|argument|input)|` +
			`not (authori[sz]ed|permitted|allowed)|permission denied|unauthori[sz]ed|forbidden|(payment|credits?|budget).{0,40}(required|exceeded|insufficient)|insufficient.{0,20}credits?`), CausedByRequest},
	{regexp.MustCompile(
		`(?i)executor ?lost|(lost|failed) (node|executor|worker)|(node|executor|worker)( \S+)? (was |is )?(lost|gone|preempted|evicted)|pod( \S+)? (was )?evicted|preempted|spot.{0,20}(interrupt|reclaim)|` +
			`FetchFailed|connection (was )?(reset|refused|aborted|timed out|closed)|broken pipe|i/o timeout|read timed out|gateway time-?out|bad gateway|(temporarily|service) unavailable|` +
			`internal server error|too many requests|\b(http|status)( error)?( code)?[ :=]*(429|5\d\d)\b|no space left on device|temporary failure in name resolution|could not resolve host|no such host`), CausedByPlatform},
}

// retriedByItself returns a job that has just failed as it waits for another attempt, if the platform caused the
// failure and the owner allowed one more. Only a failure that the platform itself reported counts: then nothing of the
// attempt runs any more.
func (j Job) retriedByItself(before Job, o Outcome, now time.Time) Job {
	reported := o.Asked == AskStatus && o.Err == nil && o.Report.Status == Failed && before.Phase != Ended &&
		j.Attention == None
	if !reported || !j.Retryable() || j.Retried >= j.Retries || o.Failures.cause(o.Report.Message) != CausedByPlatform {
		return j
	}
	again := j.Retry(now)
	again.Retried = j.Retried + 1
	if again.Paused {
		return again
	}
	again.Due = now.Add(o.Timing.retryPause(j.Retried))
	return again.WithAttention(Retrying, j.Failure)
}

// retryPause returns the pause after a number of retries.
func (t Timing) retryPause(retried int) time.Duration {
	return min(t.RetryPause<<min(retried, MostRetries), time.Hour)
}

// Retry returns a failed job reset for another attempt. Its previous platform job moves to Past, so that a late
// response about it is never mistaken for the new attempt. A job of a paused task waits until that is resumed.
func (j Job) Retry(now time.Time) Job {
	if j.Ref != (Ref{}) {
		j.Past = append(slices.Clone(j.Past), j.Ref)
	}
	if j.Costs != nil {
		j = j.forgetMetering(j.Ref)
	}
	j.Spent += Bookable(j.Costs)
	j.Phase, j.Epoch, j.Attempt, j.Retried = Waiting, j.Epoch+1, j.Attempt+1, 0
	j.Ref, j.SendBy, j.Begun, j.IntentLease = Ref{}, time.Time{}, 0, 0
	j.Condition = Condition{Status: Accepted, Updated: now, Moved: now}
	j.Plan, j.Removal, j.Result = Plan{Due: now}, Removal{}, nil
	return j.idlePaused()
}

// Retryable reports whether the owner may run the job again.
func (j Job) Retryable() bool {
	return j.Phase == Ended && j.Status == Failed && j.Desired == WantRun && !j.Hidden
}

// retryElsewhere is how long a job that its owner retries waits to be moved to another placement, if none is open. It
// is longer than moves need, which are planned each second.
const retryElsewhere = 15 * time.Second

// RetryAmong returns a failed job as Retry does. If its task has several placements it is moved to another one than
// that where it failed, if any is open.
func (j Job) RetryAmong(several bool, now time.Time) Job {
	j = j.Retry(now)
	if several && !j.Paused {
		j.Due = now.Add(retryElsewhere)
		j = j.WithAttention(Retrying, "")
	}
	return j
}
