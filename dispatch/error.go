package dispatch

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what a caller can do about an error.
type Kind uint8

const (
	Internal       Kind = iota // a bug, ours
	Invalid                    // the request is wrong; do not repeat it unchanged
	SignInRequired             // the platform takes no token that we can get; the user must sign in or link an account
	Forbidden                  // the identity may not do this
	NotFound                   // no such thing, or another's
	Conflict                   // it has changed, or is in the wrong state; look again
	Unsupported                // this platform cannot
	Busy                       // come back later, see RetryAfter; nothing was taken
	Unavailable                // nothing was taken: repeat
	Uncertain                  // it may have been taken: look before repeating
	BadUpstream                // an answer that the protocol does not allow
	Misconfigured              // the operator must mend it: wrong client secret, missing permission
	LimitReached               // of the broker's own limits; come back later, see RetryAfter

	// Of the document that defines a service, which its user named and which is not the platform's.
	DocumentUnreachable // its server does not answer; come back later, see RetryAfter
	DocumentInvalid     // it is refused, too large, or defines no service; do not repeat the request unchanged

	kinds // count
)

var kindNames = [kinds]string{"internal", "invalid", "sign_in_required", "forbidden", "not_found", "conflict",
	"unsupported", "busy", "unavailable", "uncertain", "bad_upstream", "misconfigured", "limit_reached",
	"document_unreachable", "document_invalid"}

func (k Kind) String() string { return kindNames[k] }

// Kinds gives every kind, for tables that must know them all.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for k := range all {
		all[k] = Kind(k)
	}
	return all
}

// Error is the one error type that crosses package borders.
type Error struct {
	Kind       Kind
	Op         string // what was being done: "store.Save"
	Text       string // safe to show to the user, plain text without markup; may be empty
	Link       string // where the user can mend it, for SignInRequired
	Faults     []Fault
	RetryAfter time.Duration
	Answered   bool  // of Uncertain: the server itself answered, so nothing of the request is still on its way; of Database: it answered, and refuses to write
	Database   bool  // of Unavailable, Uncertain and Misconfigured: the database was asked, and not a platform
	Err        error // the cause, for the log only
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

// KindOf returns the kind of err, Internal when err is of no known kind. It must not be asked of nil.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is an error of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// OfDatabase returns the first error of the database that err is or wraps, and nil where there is none: the database did not
// answer, or refused to write, and no platform is to blame.
func OfDatabase(err error) *Error {
	if e, ok := err.(*Error); ok && e.Database {
		return e
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return OfDatabase(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			if found := OfDatabase(wrapped); found != nil {
				return found
			}
		}
	}
	return nil
}

// TextFor returns what the user may be told about err.
func TextFor(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Text != "" {
		return e.Text
	}
	return "Something went wrong on our side."
}

// InvalidBody is the error for a request whose body is wrong in one place.
func InvalidBody(op, text string, path ...any) *Error {
	return &Error{Kind: Invalid, Op: op, Text: text,
		Faults: []Fault{{Loc: append([]any{"body"}, path...), Msg: text, Type: "value_error"}}}
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}
