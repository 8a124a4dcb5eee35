package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"
)

// Kind classifies an error by what a caller can do about it.
type Kind uint8

const (
	Internal Kind = iota // a bug in the broker
	Invalid              // the request is wrong; do not repeat it unchanged
	// the platform accepts no token that the broker can get; the user must sign in or link an account
	SignInRequired
	Forbidden     // the identity may not do this
	NotFound      // it does not exist, or belongs to another user
	Conflict      // it has changed, or is in the wrong state; read it again
	Unsupported   // this platform cannot do it
	Busy          // nothing was accepted; repeat later, see RetryAfter
	Unavailable   // nothing was accepted; repeat
	Uncertain     // it may have been accepted; check before repeating
	BadUpstream   // a response that the protocol does not allow
	Misconfigured // the operator must fix it: wrong client secret, missing permission
	LimitReached  // one of the broker's own limits is reached; repeat later, see RetryAfter

	// Errors of the document that defines a service. The user named it, and it does not belong to the platform.
	DocumentUnreachable // its server does not respond; repeat later, see RetryAfter
	DocumentInvalid     // it is refused, too large, or defines no service; do not repeat the request unchanged

	kinds // the number of kinds
)

var kindNames = [kinds]string{"internal", "invalid", "sign_in_required", "forbidden", "not_found", "conflict",
	"unsupported", "busy", "unavailable", "uncertain", "bad_upstream", "misconfigured", "limit_reached",
	"document_unreachable", "document_invalid"}

func (k Kind) String() string { return kindNames[k] }

// Kinds returns all kinds, for tables that must be complete.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for k := range all {
		all[k] = Kind(k)
	}
	return all
}

// Error is the one error type that crosses package boundaries.
type Error struct {
	Kind       Kind
	Op         string // what was being done: "store.Save"
	Text       string // safe to show to the user, plain text without markup; may be empty
	Link       string // for SignInRequired: where the user can resolve it
	Faults     []Fault
	RetryAfter time.Duration
	// Uncertain: the server itself responded, so the request is over; Database: it responded, and refuses to write
	Answered bool
	Database bool  // for Unavailable, Uncertain and Misconfigured: the request was to the database, not to a platform
	Err      error // the cause, for the log only
}

// Fault is one thing that is wrong in a request.
type Fault struct {
	Loc  []any  `json:"loc"` // names and indexes from the root of the request: "body", "service", "endpoint"
	Msg  string `json:"msg"`
	Type string `json:"type"`
}

func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return fmt.Sprintf("%s: %s: %s", e.Op, e.Kind, e.Text)
	case e.Text == "":
		return fmt.Sprintf("%s: %s: %v", e.Op, e.Kind, e.Err)
	}
	return fmt.Sprintf("%s: %s: %s (%v)", e.Op, e.Kind, e.Text, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err, or Internal if err is of no known kind. err must not be nil.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is an error of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// LogLevel returns the level at which work that is tried again logs its failure: a warning, and less for an error of
// the database, whose outages are logged once for all work that they concern.
func LogLevel(err error) slog.Level {
	if DatabaseError(err) != nil {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// DatabaseError returns the first database error that err is or wraps; nil if there is none. A database error means
// that the database did not respond or refused to write, and that no platform caused it.
func DatabaseError(err error) *Error {
	if e, ok := err.(*Error); ok && e.Database {
		return e
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return DatabaseError(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			if found := DatabaseError(wrapped); found != nil {
				return found
			}
		}
	}
	return nil
}

// TextFor returns the text about err that may be shown to the user.
func TextFor(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Text != "" {
		return e.Text
	}
	return "The service failed with an internal error."
}

// InvalidBody returns the error for a request whose body is wrong in one place.
func InvalidBody(op, text string, path ...any) *Error {
	return &Error{Kind: Invalid, Op: op, Text: text,
		Faults: []Fault{{Loc: append([]any{"body"}, path...), Msg: text, Type: "value_error"}}}
}

// Shortened cuts text that is quoted back to a client: to at most 300 bytes and an ellipsis.
func Shortened(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// RetryAfter returns after which time an error asks for the next request; 0: it does not say.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// RecoverAsError turns a panic into an Internal error and logs it with its stack. Defer it directly, not from another
// deferred function.
func RecoverAsError(ctx context.Context, log *slog.Logger, op string, err *error) {
	r := recover()
	if r == nil {
		return
	}
	log.ErrorContext(ctx, "panic", "operation", op, "error", fmt.Sprint(r), "stack", string(debug.Stack()))
	*err = &Error{Kind: Internal, Op: op, Err: fmt.Errorf("panic: %v", r)}
}
