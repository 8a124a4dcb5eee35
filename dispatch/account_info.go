package dispatch

import "time"

// AccountInfo is the state of an account for a user. Account "" stands for all accounts together; only Live, Lately and
// Bytes are set for it.
type AccountInfo struct {
	Account Account
	Hold    time.Time // nothing is submitted until then; zero: the account is not held
	Why     Attention // reason of the hold
	Notice  string    // text of the hold
	Held    int       // slots in use by jobs of all users

	Waiting, Active int   // the user's jobs that wait, and that hold a slot
	Live, Lately    int   // the user's jobs that have not ended, and that were submitted within a [Day]
	Bytes           int64 // of the requests of the user's jobs that have not ended; set only for all accounts together

	Queue            int       // jobs of all users that wait for this platform
	Answered, Failed time.Time // when the platform last answered, and when it last failed to answer
	Failure          string    // why it failed to answer; safe to show

	Starts Promptness // of the platform
}

// State is what a user can expect of a platform.
type State string

const (
	StateOK             State = "ok"
	StateUnknown        State = "unknown" // no request was sent to it yet
	StateUnreachable    State = "unreachable"
	StateBusy           State = "busy" // it accepts no more submissions for now
	StateSignInRequired State = "sign_in_required"
	StateMisconfigured  State = "misconfigured"
	StateForbidden      State = "forbidden"
)

// holds maps the reason of a hold to the state that users see.
var holds = map[Attention]State{NeedsSignIn: StateSignInRequired, NeedsOperator: StateMisconfigured,
	NotTaken: StateBusy, Full: StateBusy, Unreachable: StateUnreachable}

// State returns the state of the account's platform.
func (s AccountInfo) State() State {
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
