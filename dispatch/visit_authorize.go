package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const signInTakes = 5 * time.Second // who is seen sooner than this after a denial has not done anything about it

// authorize gets the token for the steps that are due. Without one nothing is asked, and whoever waits is told why.
func (v *visit) authorize(ctx context.Context) (t Token, ok bool, err error) {
	t, err = v.broker.token(ctx, v.account)
	if err == nil {
		if v.broker.blocked.tokenObtained(v.account) {
			err = v.broker.Store.Hold(ctx, v.account, 0, None, "")
		}
		return t, err == nil, firstOf(err, v.renew(ctx))
	}
	if OfDatabase(err) != nil { // of the vault: it says nothing about the platform, nor about who must sign in
		return t, false, err
	}
	v.blockedBy, v.noToken = v.backend.blame(err), true
	v.unsaved = append(v.unsaved, platformResponse{outcomes: v.blockedOutcomes()})
	return t, false, firstOf(v.saveAll(ctx), v.blockAccount(ctx))
}

// blockedOutcomes is what those due learn that are or may be at the platform, when nothing can be asked.
func (v *visit) blockedOutcomes() (outcomes []jobOutcome) {
	for _, j := range slices.Concat(v.agenda.Cancel, v.agenda.Settle, v.agenda.Poll) {
		if v.busy[j.ID] {
			continue
		}
		o := Outcome{Asked: AskStatus, Attempt: j.Attempt, Turn: j.Turn, Ref: j.Ref, Err: v.blockedBy}
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

// noteTokenRefusal notes whether the platform took a request's token. One refusal only brings another token; requests that left
// with the refused one say nothing new. The second in a row stops the account.
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
		v.broker.Tokens.Refused(v.account, f.token)
		v.refusals++
	}
	if v.refusals > 1 || Is(refused, Misconfigured) {
		v.blockedBy = v.backend.blame(refused)
	}
}

// blockAccount stops the account when it was just learnt that nothing can be asked, and says why on all its waiting jobs.
func (v *visit) blockAccount(ctx context.Context) error {
	if v.blockedBy == nil {
		return nil
	}
	d := v.broker.blocked.add(v.account, v.blockedBy, v.noToken, v.timing)
	if err := v.broker.Store.Hold(ctx, v.account, d, reason(v.blockedBy), TextFor(v.blockedBy)); err != nil {
		return err
	}
	if Is(v.blockedBy, SignInRequired) {
		if err := v.giveUp(ctx); err != nil {
			return err
		}
	}
	if v.backend.Access == AccessUser { // one word for all that waits
		v.broker.show(UserID(v.account.Identity()))
	}
	level := slog.LevelInfo
	if Is(v.blockedBy, Misconfigured) {
		level = slog.LevelError
	}
	v.broker.Log.Log(ctx, level, "account stopped", "account", string(v.account), "for", d, "error", v.blockedBy)
	v.resume, v.refusals, v.blockedBy, v.noToken = time.Now().Add(min(d, v.timing.TokenRetry)), 0, nil, false
	return nil
}

// giveUp lets the jobs fail whose user was needed for too long. What was created for them at the platform is inert: it is
// removed if there is ever a token again.
func (v *visit) giveUp(ctx context.Context) error {
	patience := v.timing.SignInWithin
	given, err := v.broker.Store.GiveUp(ctx, v.account, patience,
		fmt.Sprintf("The job waited %s for your sign-in, and was given up. %s", days(patience), TextFor(v.blockedBy)))
	var created []Job
	for _, j := range given {
		v.broker.tell(ctx, Job{}, j, v.blockedBy)
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

// days says a long time in words.
func days(d time.Duration) string {
	if n := d.Round(24*time.Hour) / (24 * time.Hour); n > 1 {
		return fmt.Sprintf("%d days", n)
	}
	return d.String()
}

// SignedIn says that a user made a request with a token of theirs: what waited for that goes on.
func (b *Broker) SignedIn(ctx context.Context, u UserID) {
	look := b.blocked.firstInMinute(u)
	for _, a := range b.accountsOf(u) {
		if b.blocked.endIfSettled(a) || look && b.awaitsSignIn(ctx, a) {
			b.goOn(ctx, a)
		}
	}
}

// AccessChanged says that a user did something about their access to platforms: all that they have goes on, however lately it
// was stopped.
func (b *Broker) AccessChanged(ctx context.Context, u UserID) {
	for _, a := range b.accountsOf(u) {
		b.blocked.forget(a)
		b.goOn(ctx, a)
	}
}

// Pause stops what a user has that is live, until they are seen again, because they took back their leave to act for them.
func (b *Broker) Pause(ctx context.Context, u UserID) error {
	var errs []error
	for _, a := range b.accountsOf(u) {
		g, err := b.agendaOf(ctx, a, 1)
		if err == nil && !g.done() {
			b.blocked.pause(a)
			err = b.Store.Hold(ctx, a, b.Timing.complete().SignInHold, NeedsSignIn, "You took back the leave to act for you. Your next sign-in lets the jobs go on.")
			b.show(u)
		}
		if !Is(err, NotFound) { // they never had anything there
			errs = append(errs, err)
		}
	}
	return firstOf(errs...)
}

// accountsOf are those that a user has at platforms in their own name.
func (b *Broker) accountsOf(u UserID) (accounts []Account) {
	for _, backend := range b.Backends {
		if backend.Access == AccessUser {
			accounts = append(accounts, backend.Account(u))
		}
	}
	return accounts
}

func (b *Broker) goOn(ctx context.Context, a Account) {
	if err := b.Store.Hold(ctx, a, 0, None, ""); err != nil {
		b.Log.WarnContext(ctx, "account stays stopped", "account", string(a), "error", err)
		return
	}
	b.wake(a)
	b.show(UserID(a.Identity()))
}

// awaitsSignIn reports whether an account is stopped until its user signs in, which another process may have found out.
func (b *Broker) awaitsSignIn(ctx context.Context, a Account) bool {
	g, err := b.agendaOf(ctx, a, 1)
	return err == nil && g.Why == NeedsSignIn && g.Now.Before(g.Hold)
}

// blockedAccounts is what this process knows of accounts for which nothing can be asked.
type blockedAccounts struct {
	mu     sync.Mutex
	since  map[Account]block // until someone does something
	tries  map[Account]int   // tokens in a row that could not be had for now
	seen   map[UserID]bool   // users, in this minute
	minute time.Time
}

type block struct {
	at      time.Time
	noToken bool // there was no token; else the platform did not take any
}

// add notes a denial and says for how long.
func (d *blockedAccounts) add(a Account, err error, empty bool, t Timing) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind := KindOf(err)
	if kind != SignInRequired && kind != Misconfigured {
		set(&d.tries, a, d.tries[a]+1)
		return min(t.pause(d.tries[a]-1, err), t.TokenRetry)
	}
	if _, denied := d.since[a]; !denied {
		set(&d.since, a, block{time.Now(), empty})
	}
	if kind == Misconfigured {
		return t.OperatorHold
	}
	return t.SignInHold
}

// endIfSettled forgets a denial, unless it has just begun, and reports whether it did.
func (d *blockedAccounts) endIfSettled(a Account) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	is, denied := d.since[a]
	if !denied || time.Since(is.at) < signInTakes {
		return false
	}
	delete(d.since, a)
	return true
}

// forget ends a denial, however lately it began.
func (d *blockedAccounts) forget(a Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, a)
	delete(d.tries, a)
}

// pause notes a denial that ends as soon as the user is seen.
func (d *blockedAccounts) pause(a Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set(&d.since, a, block{time.Now().Add(-signInTakes), true})
}

// tokenObtained notes that there is a token, and reports whether that ends a denial.
func (d *blockedAccounts) tokenObtained(a Account) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tries, a)
	if is, denied := d.since[a]; !denied || !is.noToken {
		return false
	}
	delete(d.since, a)
	return true
}

// firstInMinute reports whether a user is seen for the first time in a minute.
func (d *blockedAccounts) firstInMinute(u UserID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.minute) >= time.Minute {
		d.seen, d.minute = nil, now
	}
	first := !d.seen[u]
	set(&d.seen, u, true)
	return first
}

// rows counts how often in a row something happened to accounts. What happens within [firstPoll] counts once: those were
// under way together.
type rows struct {
	mu sync.Mutex
	n  map[Account]int
	at map[Account]time.Time
}

// count notes that it happens, and gives how often it had before.
func (r *rows) count(a Account) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.n[a] == 0 || now.Sub(r.at[a]) >= firstPoll {
		set(&r.n, a, r.n[a]+1)
		set(&r.at, a, now)
	}
	return r.n[a] - 1
}

func (r *rows) end(a Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.n, a)
	delete(r.at, a)
}

func set[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
