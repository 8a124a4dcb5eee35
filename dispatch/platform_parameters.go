package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// ParamType is the type of a parameter's value, in terms from which a form can be built.
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

// Parameter is one parameter of a service.
type Parameter struct {
	Name        string
	Type        ParamType
	Optional    bool
	Nullable    bool
	Description string
	Default     json.RawMessage   // nil: there is none
	Options     []json.RawMessage // the only values allowed for it, or for its elements; none: any
	Minimum     *json.Number
	Maximum     *json.Number
	Schema      json.RawMessage // as in the service's document
	Warning     string          // the part of the schema that is not understood and therefore not checked; "": none
}

// Describer returns the parameters of a service, in the order of its document. The zero token is enough if the
// platform's documents are public.
type Describer interface {
	Parameters(context.Context, Token, Service) ([]Parameter, error)
}

// OutputFormat is a format in which a platform gives results.
type OutputFormat struct {
	Name         string
	Title        string   // "": none
	GISDataTypes []string // raster, vector, table, pointcloud, other
}

// Formatter is a platform that lists the output formats of its services.
type Formatter interface {
	// Formats returns the output formats of a service, or of the platform for all; none if it does not list them. The
	// zero token is enough if the platform's documents are public.
	Formats(context.Context, Token, Service) ([]OutputFormat, error)
}

// Checker checks the parameters of a request before it is submitted, unless [Request.Checked] is false, and whether the
// request is permitted under an account that users share. The error is Invalid, with all Faults at once, or NotFound if
// the platform does not know the service. The dimension, if any, adds one parameter to each job; its faults name the
// index of the value. The zero token is enough if the platform's documents are public. A service without a description
// has no faults. The warning is for the job's owner, in plain text of at most a few hundred bytes. It names the given
// parameters whose schemas are not understood in full, see [Parameter.Warning]; "" if there are none.
type Checker interface {
	Check(context.Context, Token, Request, *Dimension) (warning string, err error)
}

// Preparer is a platform that needs, to submit a job, a document that its user keeps elsewhere. Errors of that document
// are [DocumentUnreachable] or [DocumentInvalid]. They are not errors of the platform.
type Preparer interface {
	// Needs returns the URL of the document that must be fetched before a job of the service is submitted; "" if there
	// is none, or it is available already. It sends no request. After a fetch that failed it returns the error of that
	// fetch, with the rest of the pause until the next one as RetryAfter.
	Needs(Service) (string, error)
	// Prepare fetches that document and keeps it available for a while.
	Prepare(context.Context, Service) error
}

// Documenter returns the document that defines a service, which may be changed while jobs wait for their turn; nil if
// the platform itself keeps the service.
type Documenter interface {
	Document(context.Context, Service) ([]byte, error)
}

// Permits lists what requests may do under an account that users share, beside running processes on public data: names
// of options and processes that may cost money, make the platform call other servers, or access what the account stores
// there. Nil permits everything, because the account is the user's own or none.
type Permits map[string]bool

// NewPermits returns the Permits of a shared account, with what its operator allows.
func NewPermits(allowed []string) Permits {
	p := Permits{}
	for _, name := range allowed {
		p[name] = true
	}
	return p
}

// Check returns Invalid, located at path in the request's body, unless what is permitted.
func (p Permits) Check(op, what string, path ...any) error {
	if p == nil || p[what] {
		return nil
	}
	return InvalidBody(op,
		fmt.Sprintf("%s is not permitted under the shared account of this platform: it may cost money, call other "+
			"servers, or read what others stored. The operator of this service can permit it (service_account.allow).",
			Shortened(what)), path...)
}

// CheckOptions checks those options of a request, of the platform's own, that need a permission.
func (p Permits) CheckOptions(op string, r Request, need func(name string) bool) error {
	var given map[string]json.RawMessage
	options := r.PlatformOptions()
	if p == nil || options == nil || json.Unmarshal(options, &given) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !need(name) {
			continue
		}
		if err := p.Check(op, name, "options", name); err != nil {
			return err
		}
	}
	return nil
}

// Permitter checks, without sending a request, whether the options of a request are permitted under the platform's
// account. If one is not, the error is Invalid.
type Permitter interface{ Permitted(Request) error }

// Permitted checks whether a request is permitted at a backend, as far as this can be checked without its service's
// document.
func (b *Backend) Permitted(r Request) error {
	if p, can := b.Platform.(Permitter); can {
		return p.Permitted(r)
	}
	return nil
}

// Difference returns what makes q another parameter than p; "": nothing does. Descriptions may differ.
func (p Parameter) Difference(q Parameter) string {
	number := func(n *json.Number) string {
		if n == nil {
			return ""
		}
		return n.String()
	}
	switch {
	case p.Type != q.Type:
		return fmt.Sprintf("type (%s, %s)", p.Type, q.Type)
	case p.Optional != q.Optional:
		return "being optional"
	case p.Nullable != q.Nullable:
		return "being nullable"
	case !equalJSON(p.Default, q.Default):
		return "default"
	case number(p.Minimum) != number(q.Minimum) || number(p.Maximum) != number(q.Maximum):
		return "bounds"
	case !slices.EqualFunc(p.Options, q.Options, equalJSON):
		return "allowed values"
	}
	return ""
}

// equalJSON reports whether two JSON texts have the same value, whatever the order of their members.
func equalJSON(a, b json.RawMessage) bool {
	canonical := func(text json.RawMessage) []byte {
		var v any
		if json.Unmarshal(text, &v) != nil {
			return text
		}
		again, _ := json.Marshal(v)
		return again
	}
	return bytes.Equal(canonical(a), canonical(b))
}
