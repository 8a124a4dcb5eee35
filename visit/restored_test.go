package visit

import (
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestReconcile_ListingOfARestoredJob(t *testing.T) {
	now := time.Unix(1e9, 0)
	nonces := dispatch.Nonces("").With(1, "aa")
	at := func(ref string, s dispatch.Status, t dispatch.Tag, created time.Time) listedAttempt {
		return listedAttempt{dispatch.Listed{Ref: dispatch.Ref{ID: ref}, Created: created,
			Report: dispatch.Report{Status: s}}, t}
	}
	own, other, again := dispatch.Tag{Job: 7, Attempt: 1, Nonce: "aa"}, dispatch.Tag{Job: 7, Attempt: 1, Nonce: "zz"},
		dispatch.Tag{Job: 7, Attempt: 2, Nonce: "bb"}
	third := dispatch.Tag{Job: 7, Attempt: 3, Nonce: "cc"}
	waits := dispatch.Job{Handover: dispatch.Handover{Phase: dispatch.Waiting},
		Condition: dispatch.Condition{Status: dispatch.Accepted}}
	paused := dispatch.Job{Wish: dispatch.Wish{Paused: true}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
		Condition: dispatch.Condition{Status: dispatch.Accepted, Attention: dispatch.Paused}}
	turnedAway := dispatch.Job{Handover: dispatch.Handover{Phase: dispatch.Waiting, Attempt: 1, Nonces: nonces},
		Condition: dispatch.Condition{Status: dispatch.Accepted}}
	creating := dispatch.Job{Handover: dispatch.Handover{Phase: dispatch.Creating, Attempt: 1, Nonces: nonces},
		Condition: dispatch.Condition{Status: dispatch.Accepted}}
	runs := dispatch.Job{Handover: dispatch.Handover{Phase: dispatch.Started, Attempt: 1, Nonces: nonces,
		Ref: dispatch.Ref{ID: "p"}}, Condition: dispatch.Condition{Status: dispatch.Running}}
	failed := dispatch.Job{Handover: dispatch.Handover{Phase: dispatch.Ended, Attempt: 1, Nonces: nonces,
		Ref: dispatch.Ref{ID: "p"}}, Condition: dispatch.Condition{Status: dispatch.Failed}}
	finished := dispatch.Job{Handover: dispatch.Handover{Phase: dispatch.Ended, Attempt: 1, Nonces: nonces,
		Ref: dispatch.Ref{ID: "p"}}, Condition: dispatch.Condition{Status: dispatch.Finished}}
	moved := dispatch.Job{Target: dispatch.Target{Account: "elsewhere/shared"},
		Handover: dispatch.Handover{Phase: dispatch.Waiting}, Condition: dispatch.Condition{Status: dispatch.Accepted}}
	for name, c := range map[string]struct {
		job    dispatch.Job
		listed []listedAttempt
		phase  dispatch.Phase
		status dispatch.Status
		why    dispatch.Attention
		ref    string
	}{
		"waits, and has finished since": {waits, []listedAttempt{at("x", dispatch.Finished, again, now)},
			dispatch.Ended, dispatch.Finished, dispatch.None, "x"},
		"waits, and runs": {waits, []listedAttempt{at("x", dispatch.Running, again, now)}, dispatch.Started,
			dispatch.Running, dispatch.None, "x"},
		"waits, and was canceled there": {waits, []listedAttempt{at("x", dispatch.Canceled, again, now)},
			dispatch.Ended, dispatch.Canceled, dispatch.None, "x"},
		"waits, and was created": {waits, []listedAttempt{at("x", dispatch.Accepted, again, now)}, dispatch.Starting,
			dispatch.Submitted, dispatch.InDoubt, "x"},
		"waits, and failed, to be read again": {waits, []listedAttempt{at("x", dispatch.Failed, again, now)},
			dispatch.Started, dispatch.Submitted, dispatch.InDoubt, "x"},
		"waits paused, and has finished": {paused, []listedAttempt{at("x", dispatch.Finished, again, now)},
			dispatch.Ended, dispatch.Finished, dispatch.None, "x"},
		"waits, and was retried": {waits, []listedAttempt{at("y", dispatch.Finished, third, now),
			at("x", dispatch.Failed, own, now)}, dispatch.Ended, dispatch.Finished, dispatch.None, "y"},
		"waits, and two count": {waits, []listedAttempt{at("y", dispatch.Running, again, now),
			at("x", dispatch.Running, again, now)}, dispatch.Ended, dispatch.Failed, dispatch.SubmissionUnknown, ""},
		"waits, of an earlier job with that id": {waits,
			[]listedAttempt{at("x", dispatch.Finished, again, now.Add(-2*time.Hour))},
			dispatch.Waiting, dispatch.Accepted, dispatch.None, ""},
		"waits elsewhere": {moved, []listedAttempt{at("x", dispatch.Running, again, now)}, dispatch.Ended,
			dispatch.Failed, dispatch.SubmissionUnknown, ""},
		"waits after an attempt": {turnedAway, []listedAttempt{at("x", dispatch.Finished, own, now)}, dispatch.Waiting,
			dispatch.Accepted, dispatch.None, ""},
		"waits after another attempt": {turnedAway, []listedAttempt{at("x", dispatch.Finished, other, now)},
			dispatch.Ended, dispatch.Failed, dispatch.SubmissionUnknown, ""},
		"in doubt, and was made again": {creating, []listedAttempt{at("x", dispatch.Finished, again, now)},
			dispatch.Ended, dispatch.Finished, dispatch.None, "x"},
		"in doubt, and was created": {creating, []listedAttempt{at("x", dispatch.Accepted, own, now)},
			dispatch.Starting, dispatch.Submitted, dispatch.InDoubt, "x"},
		"in doubt, created, and made again": {creating, []listedAttempt{at("y", dispatch.Running, again, now),
			at("x", dispatch.Accepted, own, now)}, dispatch.Started, dispatch.Running, dispatch.None, "y"},
		"runs": {runs, []listedAttempt{at("p", dispatch.Running, own, now)}, dispatch.Started, dispatch.Running,
			dispatch.None, "p"},
		"runs, and was retried": {runs, []listedAttempt{at("y", dispatch.Finished, third, now),
			at("p", dispatch.Failed, own, now)}, dispatch.Ended, dispatch.Finished, dispatch.None, "y"},
		"failed, and was retried": {failed, []listedAttempt{at("y", dispatch.Running, third, now)}, dispatch.Started,
			dispatch.Running, dispatch.None, "y"},
		"finished": {finished, []listedAttempt{at("y", dispatch.Running, third, now)}, dispatch.Ended,
			dispatch.Finished, dispatch.None, "p"},
	} {
		v := visitOf(listedJobs{})
		v.account = "p/shared"
		c.job.ID, c.job.Desired, c.job.Created = 7, dispatch.WantRun, now.Add(-time.Hour)
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
		if adopted := c.ref != "" && c.ref != "p"; adopted && !c.listed[0].tag.Marks(got) {
			t.Errorf("%s: a later listing does not recognize attempt %d with %q", name, got.Attempt, got.Nonces)
		}
		if c.why == dispatch.SubmissionUnknown && !strings.Contains(got.Failure, c.listed[0].Ref.ID+" ") &&
			!strings.Contains(got.Failure, c.listed[0].Ref.ID+".") {
			t.Errorf("%s: the failure does not name the platform's job: %s", name, got.Failure)
		}
	}
}
