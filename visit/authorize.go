package visit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// signInTakes is the minimum time between blocking an account and a request that unblocks it. An earlier request cannot
// follow a sign-in.
const signInTakes = 5 * time.Second

// authorize gets the token for the steps that are due. Without one nothing is sent, and the reason is stored on the
// waiting jobs.
func (v *visit) authorize(ctx context.Context) (t dispatch.Token, ok bool, err error) {
	t, err = v.visits.Token(ctx, v.account)
	if err == nil {
		if v.visits.accounts.tokenObtained(v.account) {
			err = v.visits.Store.Hold(ctx, v.account, 0, dispatch.None, "")
		}
		return t, err == nil, cmp.Or(err, v.renew(ctx))
	}
	if dispatch.DatabaseError(err) != nil { // the vault failed, not the platform, and no sign-in is missing
		return t, false, err
	}
	v.blockedBy, v.noToken = v.backend.TokenError(err), true
	v.unsaved = append(v.unsaved, platformResponse{outcomes: v.blockedOutcomes()})
	err = v.saveAll(ctx)
	if v.queue.onlyEnded() { // nobody has to act for that
		v.blockedBy, v.noToken = nil, false
		return t, false, err
	}
	return t, false, cmp.Or(err, v.blockAccount(ctx))
}

// blockedOutcomes returns, when no request can be sent, an outcome with the reason for each due job that is or may be
// at the platform and is not busy.
func (v *visit) blockedOutcomes() (outcomes []jobOutcome) {
	add := func(kind stepKind, jobs []dispatch.Job) {
		for _, j := range jobs {
			if v.busy[j.ID] {
				continue
			}
			o := kind.outcome(j)
			if kind == stepList && j.Phase == dispatch.Ended {
				o = stepCancelOrphan.outcome(j)
			}
			o.Err = v.blockedBy
			outcomes = append(outcomes, jobOutcome{j, o})
		}
	}
	add(stepMeter, v.agenda.Meter)
	add(stepRemove, v.agenda.Remove)
	add(stepList, slices.Concat(v.agenda.Cancel, v.agenda.Settle, v.agenda.Poll))
	return outcomes
}

// noteTokenRefusal records whether the platform accepted a request's token. After the first refusal another token is
// used, and responses to requests with the refused one no longer count. The second refusal in a row blocks the account.
func (v *visit) noteTokenRefusal(f platformResponse) {
	if f.refusals != v.refusals || len(f.outcomes) == 0 {
		return
	}
	var refused, failed error
	for _, a := range f.outcomes {
		failed = cmp.Or(failed, a.Err)
		if dispatch.Is(a.Err, dispatch.SignInRequired) || dispatch.Is(a.Err, dispatch.Misconfigured) {
			refused = a.Err
		}
	}
	switch {
	case failed == nil:
		v.refusals = 0
	case dispatch.Is(refused, dispatch.SignInRequired):
		v.visits.Tokens.Invalidate(v.account, f.token)
		v.refusals++
	}
	if v.refusals > 1 || dispatch.Is(refused, dispatch.Misconfigured) {
		v.blockedBy = v.backend.TokenError(refused)
	}
}

// blockAccount holds the account after it was found that no request can be sent, and stores the reason on all its
// waiting jobs.
func (v *visit) blockAccount(ctx context.Context) error {
	if v.blockedBy == nil {
		return nil
	}
	d := v.visits.accounts.block(v.account, v.blockedBy, v.noToken, v.timing)
	if err := v.visits.Store.Hold(ctx, v.account, d, dispatch.AttentionFor(v.blockedBy),
		dispatch.TextFor(v.blockedBy)); err != nil {
		return err
	}
	if dispatch.Is(v.blockedBy, dispatch.SignInRequired) {
		if ended, err := v.endHoldIfSignedIn(ctx); ended || err != nil {
			return err
		}
		if err := v.failWithoutSignIn(ctx); err != nil {
			return err
		}
	}
	v.visits.Hub.Saved.All()                     // submissions that wait for their jobs are answered with the reason
	if v.backend.Access == dispatch.AccessUser { // the reason shows on all waiting jobs of the user
		v.visits.Hub.NotifyUser(dispatch.UserID(v.account.Identity()))
	}
	level := slog.LevelInfo
	if dispatch.Is(v.blockedBy, dispatch.Misconfigured) {
		level = slog.LevelError
	}
	// A hold that is repeated is logged the 1st, 2nd, 4th, 8th… time.
	if n := v.visits.accounts.countHold(v.account, dispatch.KindOf(v.blockedBy)); n&(n-1) == 0 {
		v.visits.Log.Log(ctx, level, "account held", "account", string(v.account), "for", d, "times", n, "error",
			v.blockedBy)
	}
	v.resume, v.refusals, v.blockedBy, v.noToken = time.Now().Add(min(d, v.timing.TokenRetry)), 0, nil, false
	return nil
}

// endHoldIfSignedIn ends the hold that was just stored if there is a token by now: a process that received one from the
// user since this visit asked for it may have looked for holds before this one was stored.
func (v *visit) endHoldIfSignedIn(ctx context.Context) (ended bool, err error) {
	if !v.noToken {
		return false, nil
	}
	if _, err := v.visits.Token(ctx, v.account); err != nil {
		return false, nil
	}
	v.visits.accounts.forget(v.account)
	v.blockedBy, v.noToken = nil, false
	return true, v.visits.Store.Hold(ctx, v.account, 0, dispatch.None, "")
}

// failWithoutSignIn fails the jobs whose user did not sign in within Timing.SignInWithin. Such a job may have been
// created at the platform, but was not started there. Its platform job becomes an orphan, which is removed if a token
// becomes available again.
func (v *visit) failWithoutSignIn(ctx context.Context) error {
	patience := v.timing.SignInWithin
	given, err := v.visits.Store.FailWithoutSignIn(ctx, v.account, patience,
		fmt.Sprintf("The job waited %s for your sign-in, and was given up. %s", days(patience),
			dispatch.TextFor(v.blockedBy)))
	var created []dispatch.Job
	for _, j := range given {
		v.visits.Hub.NotifySaved(ctx, dispatch.Job{}, j, v.blockedBy)
		if j.Ref != (dispatch.Ref{}) {
			j.Due = v.now()
			created = append(created, j.WithOrphan(j.Ref))
		}
	}
	if len(created) > 0 {
		_, err = v.visits.Store.Save(ctx, created)
	}
	return err
}

// days formats a long duration in days.
func days(d time.Duration) string {
	if n := d.Round(24*time.Hour) / (24 * time.Hour); n > 1 {
		return fmt.Sprintf("%d days", n)
	}
	return d.String()
}

// accounts records, of the accounts that this process visits, why it can send no request, or why platforms turned
// submissions away.
type accounts struct {
	mu     sync.Mutex
	states map[dispatch.Account]accountState
	seen   map[dispatch.UserID]bool // users with a request in this minute
	minute time.Time
}

type accountState struct {
	// blocked until a request of the user, a change of access, or a token ends it; zero: not
	since   time.Time
	noToken bool // no token was available; false: the platform refused the tokens
	tries   int  // failed token requests in a row, for a reason that may pass

	// holds in a row for one kind of reason, until a token is available again that the platform does not refuse
	kind  dispatch.Kind
	holds int

	refused   int // submissions in a row that were turned away; those within [dispatch.FirstPoll] count once
	refusedAt time.Time
}

// change changes the state of an account.
func (d *accounts) change(a dispatch.Account, f func(*accountState)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.states[a]
	if f(&s); s == (accountState{}) {
		delete(d.states, a)
	} else {
		dispatch.SetInMap(&d.states, a, s)
	}
}

// block records a blocked account and returns for how long it is held.
func (d *accounts) block(a dispatch.Account, err error, empty bool, t dispatch.Timing) (hold time.Duration) {
	kind := dispatch.KindOf(err)
	d.change(a, func(s *accountState) {
		if kind != dispatch.SignInRequired && kind != dispatch.Misconfigured {
			hold = min(t.PauseAfter(s.tries, err), t.TokenRetry)
			s.tries++
			return
		}
		if hold = t.SignInHold; kind == dispatch.Misconfigured {
			hold = t.OperatorHold
		}
		if s.since.IsZero() {
			s.since, s.noToken = time.Now(), empty
		}
	})
	return hold
}

// countHold counts a hold of an account, and returns how many there were in a row for this kind of reason.
func (d *accounts) countHold(a dispatch.Account, k dispatch.Kind) (n int) {
	d.change(a, func(s *accountState) {
		if s.kind != k {
			s.kind, s.holds = k, 0
		}
		s.holds++
		n = s.holds
	})
	return n
}

// endIfSettled unblocks an account, unless it was blocked less than signInTakes ago, and reports whether it did.
func (d *accounts) endIfSettled(a dispatch.Account) (ended bool) {
	d.change(a, func(s *accountState) {
		if ended = !s.since.IsZero() && time.Since(s.since) >= signInTakes; ended {
			s.since, s.noToken = time.Time{}, false
		}
	})
	return ended
}

// forget unblocks an account, however recently it was blocked.
func (d *accounts) forget(a dispatch.Account) {
	d.change(a, func(s *accountState) { *s = accountState{refused: s.refused, refusedAt: s.refusedAt} })
}

// pause blocks an account until its user makes the next request.
func (d *accounts) pause(a dispatch.Account) {
	d.change(a, func(s *accountState) { s.since, s.noToken = time.Now().Add(-signInTakes), true })
}

// tokenObtained records that a token is available, and reports whether that unblocks the account.
func (d *accounts) tokenObtained(a dispatch.Account) (unblocked bool) {
	d.change(a, func(s *accountState) {
		unblocked = s.noToken
		if s.tries = 0; s.since.IsZero() || s.noToken {
			s.since, s.noToken, s.kind, s.holds = time.Time{}, false, 0, 0
		}
	})
	return unblocked
}

// firstInMinute reports whether this is the user's first request within a minute.
func (d *accounts) firstInMinute(u dispatch.UserID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.minute) >= time.Minute {
		d.seen, d.minute = nil, now
	}
	first := !d.seen[u]
	dispatch.SetInMap(&d.seen, u, true)
	return first
}

// countRefusal counts a submission that was turned away, and returns how many came before it.
func (d *accounts) countRefusal(a dispatch.Account) (before int) {
	d.change(a, func(s *accountState) {
		if now := time.Now(); s.refused == 0 || now.Sub(s.refusedAt) >= dispatch.FirstPoll {
			s.refused, s.refusedAt = s.refused+1, now
		}
		before = s.refused - 1
	})
	return before
}

// endRefusals records that the platform started a job.
func (d *accounts) endRefusals(a dispatch.Account) {
	d.change(a, func(s *accountState) { s.refused, s.refusedAt = 0, time.Time{} })
}
