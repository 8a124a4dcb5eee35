package broker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// In these tests, as in all that use with, time is that of testing/synctest.

// Waiting jobs wait for their user for two weeks, and then say so; what runs goes on with its last status.
func TestFailWithoutSignIn_UserDoesNotSignIn(t *testing.T) {
	detector.Skip(t)
	p := &script{}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		runs := h.accept(t)
		time.Sleep(10 * time.Second)
		h.tokens.set(failure(dispatch.SignInRequired))
		waits := h.accept(t)
		for day := range 16 {
			r := h.stored(t, waits.ID)
			over := r.Status == dispatch.Failed
			if day < 14 && (over || r.Attention != dispatch.NeedsSignIn) || day > 14 && !over {
				t.Fatalf("on day %d it is %s %q", day, r.Status, r.Attention)
			}
			time.Sleep(24 * time.Hour)
		}
		if r := h.stored(t, waits.ID); r.Failure != "The job waited 14 days for your sign-in, and was given up. "+
			"because" || r.Attention != dispatch.NeedsSignIn {
			t.Errorf("failed with %q %q", r.Failure, r.Attention)
		}
		if r := h.stored(t, runs.ID); r.Status != dispatch.Running || r.Attention != dispatch.NeedsSignIn {
			t.Errorf("what runs is %s %q", r.Status, r.Attention)
		}
	})
}

// What was created for such a user and never started is given up likewise; what lies at the platform is removed when
// they come back after all.
func TestFailWithoutSignIn_UserDoesNotSignInToStart(t *testing.T) {
	p := &script{}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		if s.Ref != (dispatch.Ref{}) {
			return dispatch.SubmitResult{}, failure(dispatch.Busy)
		}
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}}, nil
	}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		h.Timing.SignInWithin = 48 * time.Hour
		id := h.accept(t).ID
		time.Sleep(time.Second)
		h.tokens.set(failure(dispatch.SignInRequired))
		time.Sleep(24 * time.Hour)
		if r := h.stored(t, id); r.Phase != dispatch.Created || r.Attention != dispatch.NeedsSignIn {
			t.Fatalf("on the first day it is %s %s %q", r.Phase, r.Status, r.Attention)
		}
		time.Sleep(25 * time.Hour)
		r := h.stored(t, id)
		if r.Status != dispatch.Failed || r.Attention != dispatch.NeedsSignIn || r.Ref == (dispatch.Ref{}) ||
			len(r.Orphans) != 1 || p.cancels.Load() > 0 {
			t.Errorf("in the end it is %s %q %+v, canceled %d times", r.Status, r.Attention, r.Ref, p.cancels.Load())
		}
		time.Sleep(time.Hour)
		h.tokens.set(nil)
		h.HandleSignIn(t.Context(), "ann", false)
		time.Sleep(15 * time.Minute)
		if r := h.stored(t, id); r.Status != dispatch.Failed || len(r.Orphans) > 0 || p.cancels.Load() != 1 {
			t.Errorf("with its user back it is %s with %v, canceled %d times", r.Status, r.Orphans, p.cancels.Load())
		}
	})
}

// What a user mends by a page of ours counts at once, though a request of theirs so soon would not.
func TestAccessChanged_ResumesJobs(t *testing.T) {
	with(t, dispatch.AccessUser, &script{}, func(t *testing.T, h *testBroker) {
		h.tokens.set(failure(dispatch.SignInRequired))
		h.HandleSignIn(t.Context(), "ann", false)
		r := h.accept(t)
		h.tokens.set(nil)
		h.HandleSignIn(t.Context(), "ann", false)
		time.Sleep(time.Second)
		if r := h.stored(t, r.ID); r.Phase != dispatch.Waiting {
			t.Errorf("the request that was denied ended the denial: %s", r.Phase)
		}
		h.HandleAccessChange(t.Context(), "bob")
		h.HandleAccessChange(t.Context(), "ann")
		time.Sleep(time.Second)
		if r := h.stored(t, r.ID); r.Status != dispatch.Submitted || r.Attention != dispatch.None {
			t.Errorf("mended, it is %s %q", r.Status, r.Attention)
		}
	})
}

// TestHandleSignIn_KeepsTheReasonUntilThereIsAToken: a user who reads a job every few seconds sees each time that a
// sign-in is missing.
func TestHandleSignIn_KeepsTheReasonUntilThereIsAToken(t *testing.T) {
	with(t, dispatch.AccessUser, &script{}, func(t *testing.T, h *testBroker) {
		h.tokens.set(failure(dispatch.SignInRequired))
		id := h.accept(t).ID
		for range 5 {
			time.Sleep(7 * time.Second)
			h.HandleSignIn(t.Context(), "ann", false)
			if r := h.stored(t, id); r.Attention != dispatch.NeedsSignIn || r.Notice == "" {
				t.Errorf("it waits because of %q, %q", r.Attention, r.Notice)
			}
		}
		h.tokens.set(nil)
		time.Sleep(7 * time.Second)
		h.HandleSignIn(t.Context(), "ann", false)
		time.Sleep(time.Second)
		if r := h.stored(t, id); r.Phase == dispatch.Waiting || r.Attention != dispatch.None {
			t.Errorf("signed in, it is %s %q", r.Status, r.Attention)
		}
	})
}

// TestHandleSignIn_NewTokenCountsAtOnce: a token that this process sees for the first time ends a hold that another
// process stored, however lately the user was seen.
func TestHandleSignIn_NewTokenCountsAtOnce(t *testing.T) {
	with(t, dispatch.AccessUser, &script{}, func(t *testing.T, h *testBroker) {
		h.tokens.set(failure(dispatch.SignInRequired))
		id := h.accept(t).ID
		other := open(h.Store, h.Backends...)
		defer other.stop()
		other.tokens.set(failure(dispatch.SignInRequired))
		other.HandleSignIn(t.Context(), "ann", false)
		h.tokens.set(nil)
		other.tokens.set(nil)
		other.HandleSignIn(t.Context(), "ann", false)
		time.Sleep(time.Second)
		if r := h.stored(t, id); r.Phase != dispatch.Waiting {
			t.Fatalf("a known token is looked at again within the minute: %s", r.Phase)
		}
		other.HandleSignIn(t.Context(), "ann", true)
		time.Sleep(time.Second)
		if r := h.stored(t, id); r.Status != dispatch.Submitted || r.Attention != dispatch.None {
			t.Errorf("after the sign-in it is %s %q", r.Status, r.Attention)
		}
	})
}

// TestVisit_LogsARepeatedHoldRarely: an account for which there is no token for two hours is logged when that begins
// and when the number of attempts has doubled, and again when it happens anew.
func TestVisit_LogsARepeatedHoldRarely(t *testing.T) {
	for kind, times := range map[dispatch.Kind]int{dispatch.Unavailable: 8, dispatch.Misconfigured: 5,
		dispatch.SignInRequired: 2} {
		with(t, dispatch.AccessUser, &script{}, func(t *testing.T, h *testBroker) {
			held := func() int { return strings.Count(h.logs.String(), `msg="account held"`) }
			h.tokens.set(failure(kind))
			h.accept(t)
			time.Sleep(2*time.Hour - time.Minute)
			if n := held(); n == 0 || n > times {
				t.Errorf("%s: %d lines, want %d at most:\n%s", kind, n, times, h.logs)
			}
			before := held()
			h.tokens.set(nil)
			time.Sleep(2 * time.Hour)
			h.tokens.set(failure(kind))
			h.accept(t)
			time.Sleep(time.Second)
			if n := held(); n != before+1 {
				t.Errorf("%s: %d lines of another hold, want 1", kind, n-before)
			}
		})
	}
}

// overtaken is a store whose first hold is stored only after signIn was called.
type overtaken struct {
	conformance.Store
	signIn func()
}

func (l *overtaken) Hold(ctx context.Context, a dispatch.Account, d time.Duration, why dispatch.Attention,
	notice string) error {
	if first := l.signIn; d > 0 && first != nil {
		l.signIn = nil
		first()
	}
	return l.Store.Hold(ctx, a, d, why, notice)
}

// TestVisit_HoldThatASignInOvertookIsEnded: the user signs in at another process between the visit's question for a
// token and its hold.
func TestVisit_HoldThatASignInOvertookIsEnded(t *testing.T) {
	with(t, dispatch.AccessUser, &script{}, func(t *testing.T, h *testBroker) {
		h.stop()
		slow := &overtaken{Store: h.Store}
		b := open(slow, h.Backends...)
		defer b.stop()
		slow.signIn = func() { b.tokens.set(nil) }
		b.tokens.set(failure(dispatch.SignInRequired))
		id := b.accept(t).ID
		time.Sleep(time.Second)
		if r := h.stored(t, id); r.Status != dispatch.Submitted || r.Attention != dispatch.None {
			t.Errorf("it is %s %q", r.Status, r.Attention)
		}
	})
}

// TestPause_HoldsJobsUntilSignIn stops what waits until the user is seen again, and nothing of others.
func TestPause_HoldsJobsUntilSignIn(t *testing.T) {
	p := &script{}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		if err := h.PauseUntilSignIn(t.Context(), "ann"); err != nil { // nothing is live
			t.Fatal(err)
		}
		h.accept(t)
		if err := h.PauseUntilSignIn(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		r := h.accept(t)
		if r.Phase != dispatch.Waiting || r.Attention != dispatch.NeedsSignIn ||
			!strings.Contains(r.Notice, "You withdrew the permission") {
			t.Fatalf("%s %q %q", r.Phase, r.Attention, r.Notice)
		}
		h.HandleSignIn(t.Context(), "ann", false)
		time.Sleep(time.Second)
		if r := h.stored(t, r.ID); r.Status != dispatch.Submitted {
			t.Errorf("seen again, it is %s %q", r.Status, r.Attention)
		}
	})
}

func TestAccept_DailyQuota(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		h.UserDaily = 2
		h.accept(t)
		time.Sleep(time.Hour)
		h.accept(t)
		_, err := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{})
		if !dispatch.Is(err, dispatch.LimitReached) ||
			dispatch.TextFor(err) != "A user may submit 2 jobs in 24 hours. You submitted 2, and request 1." {
			t.Errorf("error %v", err)
		}
		if _, err := h.Accept(t.Context(), "bob", request("a"), dispatch.Key{}); err != nil {
			t.Errorf("another's: %v", err)
		}
		time.Sleep(23*time.Hour + time.Minute)
		if _, err := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{}); err != nil {
			t.Errorf("a day later: %v", err)
		}
		use, err := h.Usage(t.Context(), "ann")
		if err != nil || len(use) != 1 || use[0].Lately != 2 || use[0].Jobs != 3 || use[0].Live != 3 {
			t.Errorf("usage %+v %v", use, err)
		}
	})
}

// TestAudit_LogsWhoRequestedWhat has one line for each submit and each cancel, with who did it.
func TestAudit_LogsWhoRequestedWhat(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		if err := h.Delete(t.Context(), "ann", r.ID); err != nil {
			t.Fatal(err)
		}
		if err := h.Delete(t.Context(), "ann", r.ID); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("twice: %v", err)
		}
		for _, action := range []string{"submit", "cancel"} {
			n := 0
			for line := range strings.Lines(h.logs.String()) {
				if strings.Contains(line, "msg=audit action="+action+" user=ann") {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d audit lines for %s:\n%s", n, action, h.logs)
			}
		}
	})
}
