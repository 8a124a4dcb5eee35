package dispatch

import (
	"testing"
	"time"
)

func TestReconcile_ListingOfARestoredJob(t *testing.T) {
	now := time.Unix(1e9, 0)
	nonces := Nonces("").with(1, "aa")
	ref := Ref{ID: "p"}
	known, later := tag{job: 7, attempt: 1, nonce: "aa"}, tag{job: 7, attempt: 2, nonce: "bb"}
	for name, c := range map[string]struct {
		job    Job
		tag    tag
		phase  Phase
		status Status
		why    Attention
		ref    Ref
	}{
		"waits, and was made since":        {Job{Phase: Waiting, Status: Accepted}, later, Creating, Unknown, SubmissionUnknown, Ref{}},
		"in doubt, and was made again":     {Job{Phase: Creating, Attempt: 1, Nonces: nonces, Status: Accepted}, later, Creating, Unknown, SubmissionUnknown, Ref{}},
		"in doubt, and is there":           {Job{Phase: Creating, Attempt: 1, Nonces: nonces, Status: Accepted}, known, Starting, Submitted, InDoubt, ref},
		"in doubt, there, and made again":  {Job{Phase: Creating, Attempt: 1, Nonces: nonces, Status: Unknown, Attention: SubmissionUnknown}, known, Creating, Unknown, SubmissionUnknown, Ref{}},
		"waits after an attempt":           {Job{Phase: Waiting, Attempt: 1, Nonces: nonces, Status: Accepted}, known, Waiting, Accepted, None, Ref{}},
		"runs":                             {Job{Phase: Started, Attempt: 1, Nonces: nonces, Status: Running, Ref: ref}, known, Started, Running, None, ref},
		"ended, and was carried out again": {Job{Phase: Ended, Attempt: 1, Nonces: nonces, Status: Failed}, later, Ended, Failed, None, Ref{}},
	} {
		c.job.ID, c.job.Desired = 7, WantRun
		got := reconcile(c.job, c.tag, Listed{Ref: ref}, usual, now)
		if got.Phase != c.phase || got.Status != c.status || got.Attention != c.why || got.Ref != c.ref {
			t.Errorf("%s: %s %s %q %v", name, got.Phase, got.Status, got.Attention, got.Ref)
		}
		if changed := got.Phase != c.job.Phase || got.Status != c.job.Status; changed != (got.Epoch != c.job.Epoch) {
			t.Errorf("%s: turn %d, then %d", name, c.job.Epoch, got.Epoch)
		}
	}
}

// A job that was set aside is not sent again, whatever a later listing leaves out, unless the operator chose that.
func TestReconcile_JobSetAsideIsNotSentAgain(t *testing.T) {
	v := visitOf(listedJobs{})
	aside := Job{Phase: Creating, Status: Unknown, Attention: SubmissionUnknown}
	if v.notListed(aside).Repeat || !v.notListed(Job{Phase: Creating, Status: Accepted}).Repeat {
		t.Error("it is sent again, or another is not")
	}
	if v.backend.AtLeastOnce = true; !v.notListed(aside).Repeat {
		t.Error("it is not sent again where that was chosen")
	}
}
