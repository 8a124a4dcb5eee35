package dispatch

import (
	"strings"
	"testing"
	"time"
)

func TestReconcile_ListingOfARestoredJob(t *testing.T) {
	now := time.Unix(1e9, 0)
	nonces := Nonces("").with(1, "aa")
	at := func(ref string, s Status, t tag, created time.Time) listedAttempt {
		return listedAttempt{Listed{Ref: Ref{ID: ref}, Created: created, Report: Report{Status: s}}, t}
	}
	own, other, again := tag{job: 7, attempt: 1, nonce: "aa"}, tag{job: 7, attempt: 1, nonce: "zz"},
		tag{job: 7, attempt: 2, nonce: "bb"}
	third := tag{job: 7, attempt: 3, nonce: "cc"}
	waits := Job{Phase: Waiting, Status: Accepted}
	paused := Job{Phase: Waiting, Status: Accepted, Paused: true, Attention: Paused}
	turnedAway := Job{Phase: Waiting, Attempt: 1, Nonces: nonces, Status: Accepted}
	creating := Job{Phase: Creating, Attempt: 1, Nonces: nonces, Status: Accepted}
	runs := Job{Phase: Started, Attempt: 1, Nonces: nonces, Status: Running, Ref: Ref{ID: "p"}}
	failed := Job{Phase: Ended, Attempt: 1, Nonces: nonces, Status: Failed, Ref: Ref{ID: "p"}}
	finished := Job{Phase: Ended, Attempt: 1, Nonces: nonces, Status: Finished, Ref: Ref{ID: "p"}}
	moved := Job{Phase: Waiting, Status: Accepted, Account: "elsewhere/shared"}
	for name, c := range map[string]struct {
		job    Job
		listed []listedAttempt
		phase  Phase
		status Status
		why    Attention
		ref    string
	}{
		"waits, and has finished since": {waits, []listedAttempt{at("x", Finished, again, now)}, Ended, Finished,
			None, "x"},
		"waits, and runs": {waits, []listedAttempt{at("x", Running, again, now)}, Started, Running,
			None, "x"},
		"waits, and was canceled there": {waits, []listedAttempt{at("x", Canceled, again, now)}, Ended, Canceled,
			None, "x"},
		"waits, and was created": {waits, []listedAttempt{at("x", Accepted, again, now)}, Starting, Submitted,
			InDoubt, "x"},
		"waits, and failed, to be read again": {waits, []listedAttempt{at("x", Failed, again, now)}, Started, Submitted,
			InDoubt, "x"},
		"waits paused, and has finished": {paused, []listedAttempt{at("x", Finished, again, now)}, Ended, Finished,
			None, "x"},
		"waits, and was retried": {waits, []listedAttempt{at("y", Finished, third, now), at("x", Failed, own,
			now)}, Ended, Finished, None, "y"},
		"waits, and two count": {waits, []listedAttempt{at("y", Running, again, now), at("x", Running, again,
			now)}, Ended, Failed, SubmissionUnknown, ""},
		"waits, of an earlier job with that id": {waits, []listedAttempt{at("x", Finished, again, now.Add(-2*time.Hour))},
			Waiting, Accepted, None, ""},
		"waits elsewhere": {moved, []listedAttempt{at("x", Running, again, now)}, Ended, Failed,
			SubmissionUnknown, ""},
		"waits after an attempt": {turnedAway, []listedAttempt{at("x", Finished, own, now)}, Waiting, Accepted,
			None, ""},
		"waits after another attempt": {turnedAway, []listedAttempt{at("x", Finished, other, now)}, Ended, Failed,
			SubmissionUnknown, ""},
		"in doubt, and was made again": {creating, []listedAttempt{at("x", Finished, again, now)}, Ended, Finished,
			None, "x"},
		"in doubt, and was created": {creating, []listedAttempt{at("x", Accepted, own, now)}, Starting, Submitted,
			InDoubt, "x"},
		"in doubt, created, and made again": {creating, []listedAttempt{at("y", Running, again, now),
			at("x", Accepted, own, now)}, Started, Running, None, "y"},
		"runs": {runs, []listedAttempt{at("p", Running, own, now)}, Started, Running, None,
			"p"},
		"runs, and was retried": {runs, []listedAttempt{at("y", Finished, third, now), at("p", Failed, own,
			now)}, Ended, Finished, None, "y"},
		"failed, and was retried": {failed, []listedAttempt{at("y", Running, third, now)}, Started, Running,
			None, "y"},
		"finished": {finished, []listedAttempt{at("y", Running, third, now)}, Ended, Finished,
			None, "p"},
	} {
		v := visitOf(listedJobs{})
		v.account = "p/shared"
		c.job.ID, c.job.Desired, c.job.Created = 7, WantRun, now.Add(-time.Hour)
		if c.job.Account == "" {
			c.job.Account = v.account
		}
		got := v.reconcile(c.job, c.listed)
		if got.Phase != c.phase || got.Status != c.status || got.Attention != c.why || got.Ref.ID != c.ref {
			t.Errorf("%s: %s %s %q %v", name, got.Phase, got.Status, got.Attention, got.Ref)
		}
		if changed := got.Phase != c.job.Phase || got.Status != c.job.Status ||
			got.Ref != c.job.Ref; changed != (got.Epoch != c.job.Epoch) {
			t.Errorf("%s: epoch %d, then %d", name, c.job.Epoch, got.Epoch)
		}
		if adopted := c.ref != "" && c.ref != "p"; adopted && !c.listed[0].tag.marks(got) {
			t.Errorf("%s: a later listing does not recognize attempt %d with %q", name, got.Attempt, got.Nonces)
		}
		if c.why == SubmissionUnknown && !strings.Contains(got.Failure, c.listed[0].Ref.ID+" ") &&
			!strings.Contains(got.Failure, c.listed[0].Ref.ID+".") {
			t.Errorf("%s: the failure does not name the platform's job: %s", name, got.Failure)
		}
	}
}
