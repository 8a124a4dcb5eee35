package dispatch

import (
	"context"
	"sync"
	"time"
)

// Standing is the state of an account for a user. Account "" is all accounts together, of which only Live, Lately and Bytes are set.
type Standing struct {
	Account Account
	Hold    time.Time // until when nothing is submitted; zero: it is
	Why     Attention // of the hold
	Notice  string    // likewise
	Held    int       // slots in use, whoever's jobs have them

	Waiting, Active int   // the user's jobs that wait, and that hold a slot
	Live, Lately    int   // the user's jobs that have not ended, and that were submitted within a [Day]
	Bytes           int64 // of the requests of the user's jobs that have not ended; only of all accounts together

	Queue            int       // all jobs that wait for the platform, whoever's
	Answered, Failed time.Time // when the platform last answered, and last did not
	Failure          string    // why not; safe to show

	Starts Promptness // of the platform
}

// State is what a user can expect of a platform.
type State string

const (
	StateOK             State = "ok"
	StateUnknown        State = "unknown" // it was not asked yet
	StateUnreachable    State = "unreachable"
	StateBusy           State = "busy" // it takes no more for now
	StateSignInRequired State = "sign_in_required"
	StateMisconfigured  State = "misconfigured"
	StateForbidden      State = "forbidden"
)

// holds says what it means for its users that an account is held.
var holds = map[Attention]State{NeedsSignIn: StateSignInRequired, NeedsOperator: StateMisconfigured, NotTaken: StateBusy, Full: StateBusy, Unreachable: StateUnreachable}

// State returns the state of the account's platform.
func (s Standing) State() State {
	held, known := holds[s.Why]
	switch {
	case !s.Hold.IsZero() && known:
		return held
	case s.Failed.After(s.Answered):
		return StateUnreachable
	case s.Answered.IsZero():
		return StateUnknown
	}
	return StateOK
}

// Prospect is a platform and its state for a user.
type Prospect struct {
	*Backend
	Standing
	State State

	Settles time.Duration // when a start in doubt settles; 0: nothing is started in a step of its own
}

// Platforms returns all platforms with their state for a user, the user's jobs at all of them together, and the quota for those. It sends
// no request to a platform.
func (b *Broker) Platforms(ctx context.Context, u UserID) (all []Prospect, overall Standing, within Quota, err error) {
	accounts := []Account{""}
	stalled := map[Account]time.Duration{}
	for _, backend := range b.Backends {
		accounts = append(accounts, backend.Account(u))
		stalled[backend.Account(u)] = b.freesAfter(backend)
	}
	standings, err := b.Store.Standings(ctx, u, accounts, stalled)
	if err != nil {
		return nil, overall, within, err
	}
	for i, backend := range b.Backends {
		p := Prospect{Backend: backend, Standing: standings[i+1], State: standings[i+1].State()}
		if backend.Platform.TwoStep() {
			p.Settles = backend.settlesAfter(b.Timing.complete(), p.Starts)
		}
		if backend.checkEntitled(ctx) != nil {
			p.State = StateForbidden
		}
		all = append(all, p)
	}
	return all, standings[0], b.overall(), nil
}

const (
	noteEvery = 10 * time.Second // how often it is kept that a platform is as it was
	noteSoon  = time.Second      // how often that it is otherwise
)

// noted is what this process last stored about platforms, so that it does not store every response.
type noted struct {
	mu   sync.Mutex
	last map[string]note
}

type note struct {
	at     time.Time
	silent bool
}

// news reports whether the state of a platform is to be stored, and counts it as stored.
func (n *noted) news(platform string, silent bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, known := n.last[platform]
	age := time.Since(was.at)
	if known && (age < noteSoon || age < noteEvery && was.silent == silent) {
		return false
	}
	if n.last == nil {
		n.last = map[string]note{}
	}
	n.last[platform] = note{time.Now(), silent}
	return true
}

// noteAnswered stores, now and then, that a platform responded, or why it did not. A refusal counts as a response.
func (v *visit) noteAnswered(ctx context.Context, o Outcome) error {
	silent := Is(o.Err, Unavailable) || Is(o.Err, Uncertain)
	answered := o.Err == nil && o.Ref != (Ref{}) || Is(o.Err, Busy) || Is(o.Err, NotFound)
	if o.Unsent || !silent && !answered || !v.broker.noted.news(v.backend.Name, silent) {
		return nil
	}
	failure := ""
	if silent {
		failure = TextFor(o.Err)
	}
	return v.broker.Store.Answered(ctx, v.backend.Name, failure)
}
