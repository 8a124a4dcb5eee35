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
		if v.visits.blocked.tokenObtained(v.account) {
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
	d := v.visits.blocked.add(v.account, v.blockedBy, v.noToken, v.timing)
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
	if n := v.visits.blocked.countHold(v.account, dispatch.KindOf(v.blockedBy)); n&(n-1) == 0 {
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
	v.visits.blocked.forget(v.account)
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

// blockedAccounts records the accounts for which this process can send no request.
type blockedAccounts struct {
	mu     sync.Mutex
	since  map[dispatch.Account]block     // until a request of the user, a change of access, or a token ends it
	tries  map[dispatch.Account]int       // failed token requests in a row, for a reason that may pass
	holds  map[dispatch.Account]holdCount // until a token is available again that the platform does not refuse
	seen   map[dispatch.UserID]bool       // users with a request in this minute
	minute time.Time
}

// holdCount counts the holds of an account in a row for one kind of reason.
type holdCount struct {
	kind dispatch.Kind
	n    int
}

type block struct {
	at      time.Time
	noToken bool // no token was available; false: the platform refused the tokens
}

// add records a blocked account and returns for how long it is held.
func (d *blockedAccounts) add(a dispatch.Account, err error, empty bool, t dispatch.Timing) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind := dispatch.KindOf(err)
	if kind != dispatch.SignInRequired && kind != dispatch.Misconfigured {
		dispatch.SetInMap(&d.tries, a, d.tries[a]+1)
		return min(t.PauseAfter(d.tries[a]-1, err), t.TokenRetry)
	}
	if _, denied := d.since[a]; !denied {
		dispatch.SetInMap(&d.since, a, block{time.Now(), empty})
	}
	if kind == dispatch.Misconfigured {
		return t.OperatorHold
	}
	return t.SignInHold
}

// countHold counts a hold of an account, and returns how many there were in a row for this kind of reason.
func (d *blockedAccounts) countHold(a dispatch.Account, k dispatch.Kind) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 1
	if before := d.holds[a]; before.kind == k {
		n += before.n
	}
	dispatch.SetInMap(&d.holds, a, holdCount{k, n})
	return n
}

// endIfSettled unblocks an account, unless it was blocked less than signInTakes ago, and reports whether it did.
func (d *blockedAccounts) endIfSettled(a dispatch.Account) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	blocked, denied := d.since[a]
	if !denied || time.Since(blocked.at) < signInTakes {
		return false
	}
	delete(d.since, a)
	return true
}

// forget unblocks an account, however recently it was blocked.
func (d *blockedAccounts) forget(a dispatch.Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, a)
	delete(d.tries, a)
	delete(d.holds, a)
}

// pause blocks an account until its user makes the next request.
func (d *blockedAccounts) pause(a dispatch.Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dispatch.SetInMap(&d.since, a, block{time.Now().Add(-signInTakes), true})
}

// tokenObtained records that a token is available, and reports whether that unblocks the account.
func (d *blockedAccounts) tokenObtained(a dispatch.Account) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tries, a)
	blocked, denied := d.since[a]
	if !denied || blocked.noToken {
		delete(d.holds, a)
	}
	if !denied || !blocked.noToken {
		return false
	}
	delete(d.since, a)
	return true
}

// firstInMinute reports whether this is the user's first request within a minute.
func (d *blockedAccounts) firstInMinute(u dispatch.UserID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.minute) >= time.Minute {
		d.seen, d.minute = nil, now
	}
	first := !d.seen[u]
	dispatch.SetInMap(&d.seen, u, true)
	return first
}

// streaks counts consecutive events for each account. Events within [FirstPoll] count once, because their requests were
// under way together.
type streaks struct {
	mu sync.Mutex
	n  map[dispatch.Account]int
	at map[dispatch.Account]time.Time
}

// count records an event and returns how many came before it.
func (r *streaks) count(a dispatch.Account) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.n[a] == 0 || now.Sub(r.at[a]) >= dispatch.FirstPoll {
		dispatch.SetInMap(&r.n, a, r.n[a]+1)
		dispatch.SetInMap(&r.at, a, now)
	}
	return r.n[a] - 1
}

func (r *streaks) end(a dispatch.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.n, a)
	delete(r.at, a)
}
