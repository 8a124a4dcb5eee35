package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"time"
)

// Platform is one configured back-end. An adapter holds no state of users; the token is an argument.
// Every error is an [*Error]; a method returns soon after ctx is done. A request that was not sent because ctx was done
// fails with Unavailable. A request that was sent and got no response fails with Uncertain, or with Unavailable if it
// can be repeated without harm.
type Platform interface {
	// TwoStep reports whether a job is created and started by two requests. A created job does nothing until it is
	// started, so a create whose outcome is unknown may be repeated.
	TwoStep() bool

	// Base checks the syntax of a service and returns the URL below which the platform will list its jobs ("": the
	// endpoint). It sends no request. The error is Invalid, with its Faults.
	Base(Service) (string, error)

	// Submit creates the job if Submission.Ref is zero, and starts it otherwise. It sends at most one request that
	// has an effect. The SubmitResult holds what is known, also beside an error.
	Submit(context.Context, Token, Submission) (SubmitResult, error)

	// Status reads the status of a job. A status word without a counterpart is Unknown, with a nil error.
	Status(context.Context, Token, Ref) (Report, error)

	// Results returns the results of a finished job as a STAC Collection, or Conflict if the job has not finished.
	Results(context.Context, Token, Ref) (json.RawMessage, error)
}

// Optional abilities of a platform. The broker finds them by type assertion, so an adapter must not be wrapped.
type (
	// Lister lists the jobs of an account below one base. A caller that stops early has seen only a part of them.
	Lister interface {
		List(ctx context.Context, t Token, base string) iter.Seq2[Listed, error]
	}
	// Canceler cancels a running job for good, or removes a job that was not started. It may be repeated.
	Canceler interface {
		Cancel(context.Context, Token, Ref) error
	}
	// SyncRunner runs a request while the client waits. The caller closes the result's Body. When ctx ends, the run is
	// canceled if the platform supports it.
	SyncRunner interface {
		RunSync(context.Context, Token, Submission) (*SyncResult, error)
	}
	// Logger returns the log entries of a job, oldest first.
	Logger interface {
		Logs(context.Context, Token, Ref) ([]LogEntry, error)
	}
	// GraphRunner runs processes that are sent with a request, see [Request].Process. CheckGraph checks such a request
	// without sending anything: the form of its graph and its permissions. d is the dimension of a task, or nil. The
	// error is Invalid or DocumentInvalid.
	GraphRunner interface {
		CheckGraph(ctx context.Context, r Request, d *Dimension) error
	}
	// FileOpener opens a file that results link to, at whatever server it is. The token is sent to the platform's own
	// server only. The file is not read beforehand: its body is the response as it arrives.
	FileOpener interface {
		OpenFile(context.Context, Token, FileRequest) (*File, error)
	}
	// Accountant returns what the account of a token may still spend, as the platform says it; nil: it says nothing.
	Accountant interface {
		Balance(context.Context, Token) (*Amount, error)
	}
	// Prober checks whether the platform can be used. The error is for operators.
	Prober interface {
		Probe(context.Context, Token) error
	}
)

// Submission is a request on its way to a platform.
type Submission struct {
	Tag     string // stored with the job if the platform supports it
	Ref     Ref    // of the created job that is to be started; zero: create
	Request        // only of a job that is to be created

	// Definition is the document that the request is pinned to, see [Pinner]; nil: none.
	Definition json.RawMessage

	// Created is called with the platform job that was created for a synchronous run, before anything is read of that
	// job. Nothing is read of it after an error, which RunSync returns. Nil: nobody needs to know.
	Created func(context.Context, Ref) error

	// Runs is called before a request is sent whose response is the results, and takes as long as the run, because the
	// process only runs synchronously. The request is sent with the context that it returns. After an error nothing is
	// sent, and Submit returns the error. Nil: the request has the context of Submit.
	Runs func(context.Context) (context.Context, error)
}

// SubmitResult is the outcome of one call of Submit.
type SubmitResult struct {
	Ref     Ref
	Started bool
	Result  []byte // a STAC Collection, if the platform responded with the result itself; then the job is finished

	Versions Versions // of a job that was created; no request is sent to find them out
}

// Report is the state of a job at its platform.
type Report struct {
	Status   Status        // "": no report
	Progress *float64      // percent
	Message  string        // the platform's words, plain text, bounded
	Costs    *float64      // in Unit
	Unit     string        // in which the platform charges; "": it does not, or does not name one
	Duration time.Duration // run time of a job that has ended; 0: not reported
	Metered  Metered       // what a job that has ended used
	Partial  bool          // a read of the job by itself may report more usage

	// When a job that runs or has ended began to run, and when it ended, by the platform's clock; zero: not reported.
	Started, Ended time.Time
}

// Listed is one job in a listing.
type Listed struct {
	Ref     Ref
	Tag     string    // "": the platform does not store it
	Created time.Time // zero: not reported
	Report  Report
}

// SyncResult is the result of a synchronous run, streamed as the platform sends it.
type SyncResult struct {
	ContentType string
	Costs       *float64 // nil: the platform does not report them with the result
	Run         JobID    // of the run; set by the broker
	Body        io.ReadCloser
}

// ErrTooLong is in the error of a synchronous run that took too long for a client to wait, or would take too long. A
// job can do the same work.
var ErrTooLong = errors.New("too long for a synchronous run")

// FileRequest is a request for a file, or for a range of it.
type FileRequest struct {
	URL    string              // filled in by the broker
	Head   bool                // only the headers are wanted
	Header map[string][]string // of HTTP: a range, and conditions on the version of the file
}

// File is the response to a FileRequest: of success, or that a condition is not met or a range not there. Its Body must
// be closed.
type File struct {
	Status int                 // of HTTP
	Header map[string][]string // of HTTP
	Body   io.ReadCloser
}

// LogEntry is one line that a platform logged about a job.
type LogEntry struct {
	Time    time.Time
	Level   string // error, warning, info, debug
	Message string
}

// Token is an access token for a platform.
type Token struct {
	Secret Secret // "": the platform needs none
	Issuer string // "": unknown
}

// Tokens provides the tokens of accounts. Errors: SignInRequired if the user must act first, Misconfigured if the
// operator must, Unavailable if it may work later.
type Tokens interface {
	Token(context.Context, Account) (Token, error)
	// Invalidate reports that the platform rejected a token. The next call of Token returns another one, if there is
	// one.
	Invalidate(Account, Token)
}

// Secret is a text that prints, logs and marshals as [redacted].
type Secret string

const redacted = "[redacted]"

func (Secret) String() string               { return redacted }
func (Secret) GoString() string             { return redacted }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }

// Reveal returns the text itself, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// Engine decides where and when visits run.
type Engine interface {
	// Wake schedules a visit of an account that has work. It is only a hint; the account's row is authoritative.
	Wake(Account)
	// Broadcast notifies the other processes of the jobs that were saved, and of the owners who see a change. It is
	// only a hint, too.
	Broadcast([]JobID, []UserID)
}

// Clock is the time of day for a store whose database has no clock of its own. It may jump.
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
	Name     string // no slash
	Label    Label
	Endpoint string   // absolute URL
	Aliases  []string // other addresses of the same platform
	Access   Access
	Platform Platform
	Limits   Limits
	// repeat a one-step submission whose outcome stays unknown; the job may then run twice
	AtLeastOnce bool
	ProxyAssets bool                       // files of results are passed on to users, who do not reach their server
	Quota       Quota                      // of each user who shares the account
	Entitled    func(context.Context) bool // reports whether the user of a request may run jobs here; nil: everyone may

	// Failures are rules that distinguish failures that the platform caused from those that requests caused.
	Failures FailureRules

	// StartSettlesAfter is how long the status of a job must not show a start in doubt before the start is repeated;
	// 0: learned from the platform, see [Promptness].
	StartSettlesAfter time.Duration
}

// Account returns the account under which u's jobs run at the backend.
func (b *Backend) Account(u UserID) Account {
	if b.Access == AccessUser {
		return Account(b.Name + "/" + string(u))
	}
	return Account(b.Name + "/" + string(b.Access))
}

// Limits of a platform. Jobs and Requests are counted per account, Pace is the platform's.
type Limits struct {
	Jobs     int           // slots: maximum number of jobs at the platform at once; 0: until the platform refuses one
	Requests int           // maximum number of steps at once
	Pace     time.Duration // minimum time between two requests, over all accounts and replicas; 0: none
	Send     time.Duration // deadline of a request
	MinPoll  time.Duration // minimum time between two reads of the same status

	// FreeStalled frees the slots of stalled jobs, see [Job.FreesSlot]. The platform may then have more than Jobs at
	// once.
	FreeStalled bool
}

// Lease is how long a process keeps an account after its last renewal.
func (l Limits) Lease() time.Duration { return l.Send + 15*time.Second }
