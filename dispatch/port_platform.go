package dispatch

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"time"
)

// Platform is what the broker asks of one configured back-end. An adapter holds no user state; the token is an argument.
// Every error is an [*Error]; a method returns soon after ctx is done. What was not sent because ctx was done before is
// Unavailable; what was sent and not answered is Uncertain, or Unavailable where repeating is harmless.
type Platform interface {
	// TwoStep reports whether the first step only creates a job, which does nothing until it is started. Then a create
	// whose fate is unknown may be repeated: what is lost is inert.
	TwoStep() bool

	// Base checks the spelling of a service and gives the address below which the platform will keep its jobs ("" is
	// the endpoint), without asking anybody. What is wrong is Invalid, with its Faults.
	Base(Service) (string, error)

	// Submit takes the next step towards a running job and sends at most one request that has an effect: it creates
	// while Submission.Ref is zero, else starts. It returns what is known, even with an error.
	Submit(context.Context, Token, Submission) (Step, error)

	// Status says how a job stands. A word that has no match is Unknown with a nil error.
	Status(context.Context, Token, Ref) (Report, error)

	// Results gives the results of a finished job as a STAC Collection; Conflict while it has not finished.
	Results(context.Context, Token, Ref) (json.RawMessage, error)
}

// What only some platforms can do. The broker asserts once and treats a platform that cannot accordingly; so adapters
// are never wrapped.
type (
	// Lister lists an account's jobs, those below one base. Whoever stops early has seen a part.
	Lister interface {
		List(ctx context.Context, t Token, base string) iter.Seq2[Listed, error]
	}
	// Canceler stops a job or removes one that was not started, at once and for good. It may be repeated.
	Canceler interface {
		Cancel(context.Context, Token, Ref) error
	}
	// SyncRunner runs a request while the client waits. The caller closes the result's Body. When ctx ends, the run is
	// canceled where the platform can. A result beside an error has no Body, and tells only the Ref.
	SyncRunner interface {
		RunSync(context.Context, Token, Submission) (*SyncResult, error)
	}
	// Logger gives what a job logged, oldest first.
	Logger interface {
		Logs(context.Context, Token, Ref) ([]LogEntry, error)
	}
	// Prober says whether the platform can be used: nil, or what is wrong. For an operator who asks.
	Prober interface {
		Probe(context.Context, Token) error
	}
)

// Submission is a request on its way to a platform.
type Submission struct {
	Tag string // to be kept with the job where the platform can
	Ref Ref    // set when it is created and to be started
	Request
}

// Step is what one call of Submit learnt.
type Step struct {
	Ref     Ref
	Started bool
	Result  []byte // a STAC Collection, when the platform answered with the result itself: the job is finished
}

// Report is how a job stands at its platform.
type Report struct {
	Status   Status        // "": no report
	Progress *float64      // percent
	Message  string        // the platform's words, plain text, bounded
	Costs    *float64      // in the platform's own unit
	Duration time.Duration // of what has ended: how long it ran; 0: not told
}

// Listed is one job in a listing.
type Listed struct {
	Ref     Ref
	Tag     string // "" where the platform does not keep it
	Process string
	Created time.Time // zero where the platform does not tell
	Report  Report
}

// SyncResult is the result of a synchronous run: what the platform sent, as it comes.
type SyncResult struct {
	ContentType string
	Body        io.ReadCloser
	Ref         Ref // of the platform job that was made of the run; zero where there is none
}

// LogEntry is one line that a platform logged about a job.
type LogEntry struct {
	Time    time.Time
	Level   string // error, warning, info, debug
	Message string
}

// Token is what a platform takes for an identity's word.
type Token struct {
	Secret Secret // "" where the platform asks for none
	Issuer string // who issued it; "" where that is not known
}

// Tokens gives the token with which to act for an account. Errors: SignInRequired when the user must act first,
// Misconfigured when the operator must, Unavailable when it may work later.
type Tokens interface {
	Token(context.Context, Account) (Token, error)
	// Refused says that the platform did not take a token: the next one will be another, where there is one.
	Refused(Account, Token)
}

// Secret is a text that prints, logs and marshals as [redacted].
type Secret string

const redacted = "[redacted]"

func (Secret) String() string               { return redacted }
func (Secret) GoString() string             { return redacted }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }

// Reveal gives the text itself, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// Engine decides where and when visits run.
type Engine interface {
	// Wake says that there is something to do for an account. It is a hint: the truth is in the account's row.
	Wake(Account)
	// Tell tells the other processes which jobs were saved, and to which owners something looks different since; likewise
	// a hint.
	Tell([]JobID, []UserID)
}

// Clock tells the time of day to a store whose database has no clock of its own. It may jump.
type Clock interface{ Now() time.Time }

// Access is how the broker acts at a platform.
type Access string

const (
	AccessUser   Access = "user"   // as the requesting user
	AccessShared Access = "shared" // under one account for all
	AccessOpen   Access = "open"   // without a token
)

// Backend is one configured platform.
type Backend struct {
	Name        string // no slash
	Label       Label
	Endpoint    string   // absolute URL
	Aliases     []string // other addresses of the same
	Access      Access
	Platform    Platform
	Limits      Limits
	AtLeastOnce bool                       // repeat a one-step submission whose fate stays unknown: it may then run twice
	Quota       Quota                      // of each user here, where several share an account
	Entitled    func(context.Context) bool // whether who makes a request may run anything here; nil: everybody may

	// StartSettlesAfter is for how long statuses must not tell of a start in doubt until it is repeated; 0: learned, see
	// [Promptness].
	StartSettlesAfter time.Duration
}

// Account is the account that u's jobs have at the backend.
func (b *Backend) Account(u UserID) Account {
	if b.Access == AccessUser {
		return Account(b.Name + "/" + string(u))
	}
	return Account(b.Name + "/" + string(b.Access))
}

// Limits of a platform. Jobs and Requests are counted per account, Pace is the platform's.
type Limits struct {
	Jobs     int           // slots: jobs at the platform at once; 0: as many as it takes, until it refuses one
	Requests int           // steps at once
	Pace     time.Duration // between two requests, over all accounts and replicas; 0: none
	Send     time.Duration // how long a request may take
	MinPoll  time.Duration // between two questions for the same status

	// FreeStalled frees the slots of stalled jobs, see [Job.FreesSlot]. The platform may then have more than Jobs at once.
	FreeStalled bool
}

// free is how many jobs may be brought to the platform now, with so many there: as many as can be sent at once, and where
// slots are plenty as many again, so that none stands idle until somebody looks anew.
func (l Limits) free(held int) int {
	if l.Jobs == 0 || l.Jobs-held > 3*l.Requests {
		return 2 * l.Requests
	}
	return min(l.Jobs-held, l.Requests)
}

// Lease is how long an account is ours after the last sign of life.
func (l Limits) Lease() time.Duration { return l.Send + 15*time.Second }
