package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
)

// ParamType is what kind of value a parameter takes, in words that a form can be built from.
type ParamType string

const (
	DateTime     ParamType = "datetime"
	DateInterval ParamType = "date-interval"
	BoundingBox  ParamType = "bounding-box"
	Polygon      ParamType = "polygon"
	Boolean      ParamType = "boolean"
	Integer      ParamType = "integer"
	Double       ParamType = "double"
	String       ParamType = "string"
	ArrayString  ParamType = "array-string"
	Object       ParamType = "object"
	Array        ParamType = "array"
)

// Parameter is one value that a service takes.
type Parameter struct {
	Name        string
	Type        ParamType
	Optional    bool
	Nullable    bool
	Description string
	Default     json.RawMessage   // nil: there is none
	Options     []json.RawMessage // the only values it takes, or its elements; none: any
	Minimum     *json.Number
	Maximum     *json.Number
	Schema      json.RawMessage // as the service's document has it
	Warning     string          // what of the schema is not understood, so that it is not checked; "": all is
}

// Describer tells what parameters a service takes, in the order of its document. The zero token will do where the
// platform shows its documents to everybody.
type Describer interface {
	Parameters(context.Context, Token, Service) ([]Parameter, error)
}

// Checker checks the parameters of a request before it is submitted: Invalid, with all Faults at once, and what is not permitted under an
// account that users share. Whether to check the parameters is [Request.Checked]. The dimension, if any, gives each job one more parameter;
// its faults name the index of the value. The zero token is enough where the platform shows its documents to everybody. A service without a
// description has no faults. The warning is for the job's owner, in plain text of at most a few hundred bytes. It names the given
// parameters whose schemas are not understood in full, see [Parameter.Warning]; "" if there are none.
type Checker interface {
	Check(context.Context, Token, Request, *Dimension) (warning string, err error)
}

// Preparer is a platform that needs, to submit a job, a document that its user keeps elsewhere. What is wrong with that
// document is [DocumentUnreachable] or [DocumentInvalid], and says nothing about the platform.
type Preparer interface {
	// Needs gives the URL of the document that must be fetched before a job of the service is submitted; "" if there is
	// none, or it is at hand. It asks nobody. After a fetch that failed it gives the error of that fetch, with the rest of
	// the pause until the next one as RetryAfter.
	Needs(Service) (string, error)
	// Prepare fetches that document and keeps it at hand for a while.
	Prepare(context.Context, Service) error
}

// Documenter gives the document that defines a service, which somebody may change while jobs wait for their turn; nil where
// the platform keeps the service itself.
type Documenter interface {
	Document(context.Context, Service) ([]byte, error)
}

// Permits lists what requests may do under an account that users share, beside running processes on public data: names of options and
// processes that may cost money, make the platform call other servers, or access what the account stores there. Nil permits everything,
// because the account is the user's own or none.
type Permits map[string]bool

// NewPermits returns the Permits of a shared account, with what its operator allows.
func NewPermits(allowed []string) Permits {
	p := Permits{}
	for _, name := range allowed {
		p[name] = true
	}
	return p
}

// Check returns Invalid, at a place of the request's body, unless what is permitted.
func (p Permits) Check(op, what string, path ...any) error {
	if p == nil || p[what] {
		return nil
	}
	return InvalidBody(op, fmt.Sprintf("%s is not permitted under the account that users of this platform share: it may cost money, call other "+
		"servers, or reach what others stored. The operator of this service permits it by service_account.allow.", short(what)), path...)
}

// Permitter checks, without a request to anybody, which options of a request are not permitted under the platform's account: Invalid.
type Permitter interface{ Permitted(Request) error }

// permitted checks what a request may do at a backend, as far as that can be told without its service's document.
func (b *Backend) permitted(r Request) error {
	if p, can := b.Platform.(Permitter); can {
		return p.Permitted(r)
	}
	return nil
}
