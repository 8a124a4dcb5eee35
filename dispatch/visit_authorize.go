package dispatch

import (
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
	t, err = v.broker.token(ctx, v.account)
	if err == nil {
		if v.broker.blocked.tokenObtained(v.account) {
			err = v.broker.Store.Hold(ctx, v.account, 0, None, "")
		}
		return t, err == nil, firstOf(err, v.renew(ctx))
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
	return t, false, firstOf(err, v.blockAccount(ctx))
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
		failed = firstOf(failed, a.Err)
		if Is(a.Err, SignInRequired) || Is(a.Err, Misconfigured) {
			refused = a.Err
		}
	}
	switch {
	case failed == nil:
		v.refusals = 0
	case Is(refused, SignInRequired):
		v.broker.Tokens.Invalidate(v.account, f.token)
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
	d := v.broker.blocked.add(v.account, v.blockedBy, v.noToken, v.timing)
	if err := v.broker.Store.Hold(ctx, v.account, d, attentionFor(v.blockedBy), TextFor(v.blockedBy)); err != nil {
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
	v.broker.saved.all()                // submissions that wait for their jobs are answered with the reason
	if v.backend.Access == AccessUser { // the reason shows on all waiting jobs of the user
		v.broker.notifyUser(UserID(v.account.Identity()))
	}
	level := slog.LevelInfo
	if Is(v.blockedBy, Misconfigured) {
		level = slog.LevelError
	}
	// A hold that is repeated is logged the 1st, 2nd, 4th, 8th… time.
	if n := v.broker.blocked.countHold(v.account, KindOf(v.blockedBy)); n&(n-1) == 0 {
		v.broker.Log.Log(ctx, level, "account held", "account", string(v.account), "for", d, "times", n, "error", v.blockedBy)
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
	if _, err := v.broker.token(ctx, v.account); err != nil {
		return false, nil
	}
	v.broker.blocked.forget(v.account)
	v.blockedBy, v.noToken = nil, false
	return true, v.broker.Store.Hold(ctx, v.account, 0, None, "")
}

// failWithoutSignIn fails the jobs whose user did not sign in within Timing.SignInWithin. Such a job may have been
// created at the platform, but was not started there. Its platform job becomes an orphan, which is removed if a token
// becomes available again.
func (v *visit) failWithoutSignIn(ctx context.Context) error {
	patience := v.timing.SignInWithin
	given, err := v.broker.Store.FailWithoutSignIn(ctx, v.account, patience,
		fmt.Sprintf("The job waited %s for your sign-in, and was given up. %s", days(patience), TextFor(v.blockedBy)))
	var created []Job
	for _, j := range given {
		v.broker.notifySaved(ctx, Job{}, j, v.blockedBy)
		if j.Ref != (Ref{}) {
			j.Due = v.now()
			created = append(created, j.withOrphan(j.Ref))
		}
	}
	if len(created) > 0 {
		_, err = v.broker.Store.Save(ctx, created)
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

// HandleSignIn resumes a user's accounts that waited for a sign-in, if there is a token now. Call it when a request
// with the user's own token arrives. newToken is whether this process sees the token for the first time: then another
// process may have held an account shortly before.
func (b *Broker) HandleSignIn(ctx context.Context, u UserID, newToken bool) {
	look := b.blocked.firstInMinute(u) || newToken
	for _, a := range b.accountsOf(u) {
		if (b.blocked.endIfSettled(a) || look && b.awaitsSignIn(ctx, a)) && !b.lacksSignIn(ctx, a) {
			b.resumeAccount(ctx, a)
		}
	}
}

// lacksSignIn reports whether a sign-in is still missing. The account is then held as before, so that its user, who may
// be reading it, sees the reason.
func (b *Broker) lacksSignIn(ctx context.Context, a Account) bool {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	_, err := b.token(ctx, a)
	if !Is(err, SignInRequired) {
		return false
	}
	b.blocked.add(a, err, true, b.Timing.complete())
	return true
}

// HandleAccessChange resumes all accounts of a user after a sign-in, a link or a permission changed, however recently
// they were blocked.
func (b *Broker) HandleAccessChange(ctx context.Context, u UserID) {
	for _, a := range b.accountsOf(u) {
		b.blocked.forget(a)
		b.resumeAccount(ctx, a)
	}
}

// PauseUntilSignIn stops a user's live jobs until the user signs in again, because the user withdrew the permission to
// act on their behalf.
func (b *Broker) PauseUntilSignIn(ctx context.Context, u UserID) error {
	var errs []error
	for _, a := range b.accountsOf(u) {
		unfinished, err := b.hasUnfinished(ctx, u, a)
		if err == nil && unfinished {
			b.blocked.pause(a)
			err = b.Store.Hold(ctx, a, b.Timing.complete().SignInHold, NeedsSignIn,
				"You withdrew the permission to act on your behalf. Your jobs continue after your next sign-in.")
			b.notifyUser(u)
		}
		if !Is(err, NotFound) { // the user never had jobs there
			errs = append(errs, err)
		}
	}
	return firstOf(errs...)
}

// hasUnfinished reports whether a user's account has work left. The agenda omits paused jobs, and the count those that
// have ended and left something to be canceled.
func (b *Broker) hasUnfinished(ctx context.Context, u UserID, a Account) (bool, error) {
	g, err := b.agendaOf(ctx, a, 1)
	if err != nil || !g.done() {
		return !g.done(), err
	}
	info, err := b.Store.AccountInfo(ctx, u, []Account{a}, nil)
	return err == nil && info[0].Live > 0, err
}

// accountsOf returns the user's own accounts: one at each platform with AccessUser.
func (b *Broker) accountsOf(u UserID) (accounts []Account) {
	for _, backend := range b.Backends {
		if backend.Access == AccessUser {
			accounts = append(accounts, backend.Account(u))
		}
	}
	return accounts
}

func (b *Broker) resumeAccount(ctx context.Context, a Account) {
	if err := b.Store.Hold(ctx, a, 0, None, ""); err != nil {
		b.Log.Log(ctx, LogLevel(err), "ending the hold of an account failed", "account", string(a), "error", err)
		return
	}
	b.wake(a)
	b.notifyUser(UserID(a.Identity()))
}

// awaitsSignIn reports whether an account is held until its user signs in. Another process may have stored that hold.
func (b *Broker) awaitsSignIn(ctx context.Context, a Account) bool {
	g, err := b.agendaOf(ctx, a, 1)
	return err == nil && g.Why == NeedsSignIn && g.Now.Before(g.Hold)
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
