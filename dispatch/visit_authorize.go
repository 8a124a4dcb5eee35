package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// signInTakes is the minimum time between blocking an account and a request that unblocks it. An earlier request cannot
// follow a sign-in.
const signInTakes = 5 * time.Second

// authorize gets the token for the steps that are due. Without one nothing is sent, and the reason is stored on the
// waiting jobs.
func (v *visit) authorize(ctx context.Context) (t Token, ok bool, err error) {
	t, err = v.visits.token(ctx, v.account)
	if err == nil {
		if v.visits.blocked.tokenObtained(v.account) {
			err = v.visits.Store.Hold(ctx, v.account, 0, None, "")
		}
		return t, err == nil, cmp.Or(err, v.renew(ctx))
	}
	if DatabaseError(err) != nil { // the vault failed, not the platform, and no sign-in is missing
		return t, false, err
	}
	v.blockedBy, v.noToken = v.backend.tokenError(err), true
	v.unsaved = append(v.unsaved, platformResponse{outcomes: v.blockedOutcomes()})
	err = v.saveAll(ctx, nil)
	if v.queue.onlyEnded() { // nobody has to act for that
		v.blockedBy, v.noToken = nil, false
		return t, false, err
	}
	return t, false, cmp.Or(err, v.blockAccount(ctx))
}

// blockedOutcomes returns, when no request can be sent, an outcome with the reason for each due job that is or may be
// at the platform and is not busy.
func (v *visit) blockedOutcomes() (outcomes []jobOutcome) {
	for _, j := range v.agenda.Meter {
		if !v.busy[j.ID] {
			outcomes = append(outcomes, jobOutcome{j, Outcome{Asked: AskMeter, Ref: j.unmetered().Ref, Err: v.blockedBy}})
		}
	}
	for _, j := range v.agenda.Remove {
		if !v.busy[j.ID] {
			outcomes = append(outcomes, jobOutcome{j, Outcome{Asked: AskRemove, Ref: j.removable(), Err: v.blockedBy}})
		}
	}
	for _, j := range slices.Concat(v.agenda.Cancel, v.agenda.Settle, v.agenda.Poll) {
		if v.busy[j.ID] {
			continue
		}
		o := Outcome{Asked: AskStatus, Attempt: j.Attempt, Epoch: j.Epoch, Ref: j.Ref, Err: v.blockedBy}
		switch j.Phase {
		case Creating:
			o.Asked = AskSearch
		case Ended:
			o.Asked, o.Ref = AskOrphan, j.Orphans[0]
		}
		outcomes = append(outcomes, jobOutcome{j, o})
	}
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
		if Is(a.Err, SignInRequired) || Is(a.Err, Misconfigured) {
			refused = a.Err
		}
	}
	switch {
	case failed == nil:
		v.refusals = 0
	case Is(refused, SignInRequired):
		v.visits.Tokens.Invalidate(v.account, f.token)
		v.refusals++
	}
	if v.refusals > 1 || Is(refused, Misconfigured) {
		v.blockedBy = v.backend.tokenError(refused)
	}
}

// blockAccount holds the account after it was found that no request can be sent, and stores the reason on all its
// waiting jobs.
func (v *visit) blockAccount(ctx context.Context) error {
	if v.blockedBy == nil {
		return nil
	}
	d := v.visits.blocked.add(v.account, v.blockedBy, v.noToken, v.timing)
	if err := v.visits.Store.Hold(ctx, v.account, d, attentionFor(v.blockedBy), TextFor(v.blockedBy)); err != nil {
		return err
	}
	if Is(v.blockedBy, SignInRequired) {
		if ended, err := v.endHoldIfSignedIn(ctx); ended || err != nil {
			return err
		}
		if err := v.failWithoutSignIn(ctx); err != nil {
			return err
		}
	}
	v.visits.Hub.saved.all()            // submissions that wait for their jobs are answered with the reason
	if v.backend.Access == AccessUser { // the reason shows on all waiting jobs of the user
		v.visits.Hub.notifyUser(UserID(v.account.Identity()))
	}
	level := slog.LevelInfo
	if Is(v.blockedBy, Misconfigured) {
		level = slog.LevelError
	}
	// A hold that is repeated is logged the 1st, 2nd, 4th, 8th… time.
	if n := v.visits.blocked.countHold(v.account, KindOf(v.blockedBy)); n&(n-1) == 0 {
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
	if _, err := v.visits.token(ctx, v.account); err != nil {
		return false, nil
	}
	v.visits.blocked.forget(v.account)
	v.blockedBy, v.noToken = nil, false
	return true, v.visits.Store.Hold(ctx, v.account, 0, None, "")
}

// failWithoutSignIn fails the jobs whose user did not sign in within Timing.SignInWithin. Such a job may have been
// created at the platform, but was not started there. Its platform job becomes an orphan, which is removed if a token
// becomes available again.
func (v *visit) failWithoutSignIn(ctx context.Context) error {
	patience := v.timing.SignInWithin
	given, err := v.visits.Store.FailWithoutSignIn(ctx, v.account, patience,
		fmt.Sprintf("The job waited %s for your sign-in, and was given up. %s", days(patience), TextFor(v.blockedBy)))
	var created []Job
	for _, j := range given {
		v.visits.Hub.notifySaved(ctx, Job{}, j, v.blockedBy)
		if j.Ref != (Ref{}) {
			j.Due = v.now()
			created = append(created, j.withOrphan(j.Ref))
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
	since  map[Account]block     // until a request of the user, a change of access, or a token ends it
	tries  map[Account]int       // failed token requests in a row, for a reason that may pass
	holds  map[Account]holdCount // until a token is available again that the platform does not refuse
	seen   map[UserID]bool       // users with a request in this minute
	minute time.Time
}

// holdCount counts the holds of an account in a row for one kind of reason.
type holdCount struct {
	kind Kind
	n    int
}

type block struct {
	at      time.Time
	noToken bool // no token was available; false: the platform refused the tokens
}

// add records a blocked account and returns for how long it is held.
func (d *blockedAccounts) add(a Account, err error, empty bool, t Timing) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind := KindOf(err)
	if kind != SignInRequired && kind != Misconfigured {
		setInMap(&d.tries, a, d.tries[a]+1)
		return min(t.pause(d.tries[a]-1, err), t.TokenRetry)
	}
	if _, denied := d.since[a]; !denied {
		setInMap(&d.since, a, block{time.Now(), empty})
	}
	if kind == Misconfigured {
		return t.OperatorHold
	}
	return t.SignInHold
}

// countHold counts a hold of an account, and returns how many there were in a row for this kind of reason.
func (d *blockedAccounts) countHold(a Account, k Kind) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 1
	if before := d.holds[a]; before.kind == k {
		n += before.n
	}
	setInMap(&d.holds, a, holdCount{k, n})
	return n
}

// endIfSettled unblocks an account, unless it was blocked less than signInTakes ago, and reports whether it did.
func (d *blockedAccounts) endIfSettled(a Account) bool {
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
func (d *blockedAccounts) forget(a Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, a)
	delete(d.tries, a)
	delete(d.holds, a)
}

// pause blocks an account until its user makes the next request.
func (d *blockedAccounts) pause(a Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	setInMap(&d.since, a, block{time.Now().Add(-signInTakes), true})
}

// tokenObtained records that a token is available, and reports whether that unblocks the account.
func (d *blockedAccounts) tokenObtained(a Account) bool {
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
func (d *blockedAccounts) firstInMinute(u UserID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.minute) >= time.Minute {
		d.seen, d.minute = nil, now
	}
	first := !d.seen[u]
	setInMap(&d.seen, u, true)
	return first
}

// streaks counts consecutive events for each account. Events within [firstPoll] count once, because their requests were
// under way together.
type streaks struct {
	mu sync.Mutex
	n  map[Account]int
	at map[Account]time.Time
}

// count records an event and returns how many came before it.
func (r *streaks) count(a Account) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.n[a] == 0 || now.Sub(r.at[a]) >= firstPoll {
		setInMap(&r.n, a, r.n[a]+1)
		setInMap(&r.at, a, now)
	}
	return r.n[a] - 1
}

func (r *streaks) end(a Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.n, a)
	delete(r.at, a)
}

func setInMap[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
