package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// Refusal is an error response before it is written.
type Refusal struct {
	Status  int
	Code    string
	Message string
	Details map[string]any
	faults  []dispatch.Fault
	Header  map[string]string
	Cause   error // optional
}

func (r Refusal) Error() string { return r.Code + ": " + r.Message }

func (r Refusal) Unwrap() error { return r.Cause }

// Codes are all codes of error responses.
var Codes = []string{"APPLICATION_INVALID", "APPLICATION_UNREACHABLE", "AUTHENTICATION_FAILED", "CONFLICT",
	"DOCUMENT_NOT_FOUND", "FORBIDDEN", "GRANT_NOT_FOUND", "HOOK_NOT_FOUND", "INTERNAL_ERROR", "JOB_NOT_FOUND",
	"METHOD_NOT_ALLOWED", "NOT_FOUND", "PAYLOAD_TOO_LARGE", "PLATFORM_BUSY", "PLATFORM_ERROR", "PLATFORM_UNAVAILABLE",
	"PLATFORM_UNCERTAIN", "RATE_LIMITED", "REQUEST_TIMEOUT", "RESULTS_NOT_FOUND", "SERVICE_NOT_FOUND",
	"SERVICE_UNAVAILABLE", "SIGN_IN_REQUIRED", "TASK_NOT_FOUND", "UNSUPPORTED", "UNSUPPORTED_MEDIA_TYPE",
	"UPGRADE_REQUIRED", "VALIDATION_ERROR"}

// Kinds maps the kind of a domain error to its response. All handlers use this table.
var Kinds = map[dispatch.Kind]Refusal{
	dispatch.Internal:       {Status: 500, Code: "INTERNAL_ERROR"},
	dispatch.Invalid:        {Status: 422, Code: "VALIDATION_ERROR"},
	dispatch.SignInRequired: {Status: 409, Code: "SIGN_IN_REQUIRED"},
	dispatch.Forbidden:      {Status: 403, Code: "FORBIDDEN"},
	dispatch.NotFound:       {Status: 404, Code: "JOB_NOT_FOUND"},
	dispatch.Conflict:       {Status: 409, Code: "CONFLICT"},
	dispatch.Unsupported:    {Status: 501, Code: "UNSUPPORTED"},
	dispatch.Busy:           {Status: 503, Code: "PLATFORM_BUSY"},
	dispatch.Unavailable:    {Status: 503, Code: "PLATFORM_UNAVAILABLE"},
	dispatch.Uncertain:      {Status: 502, Code: "PLATFORM_UNCERTAIN"},
	dispatch.BadUpstream:    {Status: 502, Code: "PLATFORM_ERROR"},
	dispatch.Misconfigured:  {Status: 502, Code: "PLATFORM_ERROR"},
	dispatch.LimitReached:   {Status: 429, Code: "RATE_LIMITED"},

	dispatch.DocumentUnreachable: {Status: 503, Code: "APPLICATION_UNREACHABLE"},
	dispatch.DocumentInvalid:     {Status: 422, Code: "APPLICATION_INVALID"},
}

const InternalText = "The service failed with an internal error. Repeat the request; if it fails again, report its " +
	"request_id to the operator."

var (
	ErrNoToken  = Unauthorized("The request needs a valid bearer token.")
	ErrBadToken = Unauthorized("The bearer token is not valid for this service. Sign in at its identity provider and "+
		"use the new token.", `error="invalid_token"`)
	ErrOldToken = Unauthorized("The bearer token has expired. Get a new one and repeat the request.",
		`error="invalid_token"`, `error_description="The token has expired"`)
	ErrNoSubject = Unauthorized("The bearer token names no user: it has no claim sub. Signing in again does not help. "+
		"The operator of the identity provider must add the claim, in Keycloak by the client scope basic.",
		`error="invalid_token"`, `error_description="The token has no claim sub"`)
	ErrLongToken = Unauthorized(fmt.Sprintf("The bearer token has more than %d bytes. Signing in again does not help. "+
		"The operator of the identity provider must put less into it, such as fewer roles.", identity.MaxToken),
		`error="invalid_token"`, fmt.Sprintf(`error_description="The token has more than %d bytes"`, identity.MaxToken))
	ErrNoPath   = Refusal{Status: 404, Code: "NOT_FOUND", Message: "There is nothing at this address."}
	errNoHealth = Refusal{Status: 503, Code: "SERVICE_UNAVAILABLE",
		Message: "The database does not respond. Try again in a few seconds.",
		Header:  map[string]string{"Retry-After": "5"}}
	ErrNoIssuer = Refusal{Status: 503, Code: "SERVICE_UNAVAILABLE",
		Message: "The token cannot be verified because the identity provider does not respond. Try again in a few " +
			"seconds.",
		Header: map[string]string{"Retry-After": "5"}}
)

// Unauthorized returns the response to a request whose caller is not known, with the parameters of its challenge (RFC
// 6750, section 3).
func Unauthorized(message string, parameters ...string) Refusal {
	challenge := strings.TrimSpace("Bearer " + strings.Join(parameters, ", "))
	return Refusal{Status: http.StatusUnauthorized, Code: "AUTHENTICATION_FAILED", Message: message,
		Header: map[string]string{"WWW-Authenticate": challenge}}
}

// RefusalFor returns the response for err.
func RefusalFor(err error) Refusal {
	if r, ok := errors.AsType[Refusal](err); ok {
		return r
	}
	if _, ok := errors.AsType[unhealthy](err); ok {
		return errNoHealth
	}
	if e := dispatch.DatabaseError(err); e != nil {
		return Refusal{Status: errNoHealth.Status, Code: errNoHealth.Code, Message: dispatch.TextFor(e),
			Header: errNoHealth.Header}
	}
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok {
		e = &dispatch.Error{Kind: dispatch.Internal, Err: err}
	}
	r := Kinds[e.Kind]
	r.Message = dispatch.TextFor(e)
	switch e.Kind {
	case dispatch.Internal:
		r.Message = InternalText
	case dispatch.Invalid, dispatch.DocumentInvalid:
		r.faults = faultsOf(e)
	case dispatch.NotFound:
		r.Message = "There is no such job."
	case dispatch.SignInRequired:
		r.Details = map[string]any{"link": nullable(e.Link)}
	case dispatch.Busy, dispatch.LimitReached, dispatch.DocumentUnreachable:
		r.Header = RetryAfter(max(e.RetryAfter, time.Second))
	case dispatch.Unavailable:
		if e.RetryAfter > 0 {
			r.Header = RetryAfter(e.RetryAfter)
		}
		if errors.Is(e, context.DeadlineExceeded) {
			r.Status = http.StatusGatewayTimeout
		}
	}
	return r
}

// faultsOf returns at least one fault, so that a client that shows only the faults shows something.
func faultsOf(e *dispatch.Error) []dispatch.Fault {
	if len(e.Faults) > 0 {
		return e.Faults
	}
	return dispatch.InvalidBody(e.Op, dispatch.TextFor(e)).Faults
}

func RetryAfter(d time.Duration) map[string]string {
	return map[string]string{"Retry-After": strconv.Itoa(int(math.Ceil(d.Seconds())))}
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (r Refusal) body(requestID string) any {
	b := wire.ErrorResponse{Status: "error", ErrorCode: r.Code, Message: r.Message, Details: r.Details,
		RequestID: &requestID}
	if r.faults == nil {
		return b
	}
	detail := make([]wire.ValidationError, len(r.faults))
	for i, f := range r.faults {
		detail[i] = wire.ValidationError(f)
	}
	b.Details = maps.Clone(b.Details)
	if b.Details == nil {
		b.Details = map[string]any{}
	}
	b.Details["errors"] = detail
	return wire.HTTPValidationError{ErrorResponse: b, Detail: detail}
}

// errorAnswer is a refusal as an error that huma writes.
type errorAnswer struct {
	Refusal
	requestID string
}

func (a errorAnswer) GetStatus() int               { return a.Status }
func (a errorAnswer) MarshalJSON() ([]byte, error) { return json.Marshal(a.body(a.requestID)) }
func (a errorAnswer) GetHeaders() http.Header {
	h := http.Header{}
	for name, value := range a.Header {
		h.Set(name, value)
	}
	return h
}

// AnswerFor returns the response for err and logs what it leaves out.
func (a *Answers) AnswerFor(ctx context.Context, err error) errorAnswer {
	r := RefusalFor(err)
	switch {
	case ctx.Err() != nil:
	case IsDatabaseFailure(err):
		a.DatabaseFailed(ctx, err)
	case r.Status >= 500 &&
		!dispatch.Is(err, dispatch.Unsupported): // which is a fact about the request, and no failure
		a.log.Log(ctx, failureLevel(err), "request failed", "error", err)
	}
	return errorAnswer{r, In(ctx).ID}
}

// failureLevel returns the level of a request that failed: a warning if another server failed, such as a platform that
// does not give a result, and an error if the broker or its operator has something to mend.
func failureLevel(err error) slog.Level {
	switch dispatch.KindOf(err) {
	case dispatch.Busy, dispatch.Unavailable, dispatch.Uncertain, dispatch.BadUpstream, dispatch.DocumentUnreachable:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// Refuse writes the response for err outside an operation, such as in a middleware.
func (a *Answers) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if f := In(r.Context()).Facade; f != nil {
		f.Refuse(w, r, a.Problem(r.Context(), err))
		return
	}
	answer := a.AnswerFor(r.Context(), err)
	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.log.DebugContext(r.Context(), "answer not written", "error", err)
	}
}

// RequestWithin bounds the time of a request whose response is not streamed. It is shorter than the server's write
// timeout, so that the client still gets a response.
const RequestWithin = facade.Within

var TooSlow = Refusal{Status: http.StatusServiceUnavailable, Code: "SERVICE_UNAVAILABLE",
	Message: "The request was stopped because it took longer than 110 seconds. Repeat it later.",
	Header:  RetryAfter(30 * time.Second)}

// Problem returns an error as façades show it.
func (a *Answers) Problem(ctx context.Context, err error) facade.Problem {
	answer := a.AnswerFor(ctx, err)
	p := facade.Problem{Status: answer.Status, Message: answer.Message, Faults: answer.faults,
		Header: maps.Clone(answer.Header), RequestID: answer.requestID}
	if own, ok := errors.AsType[Refusal](err); ok {
		p.Own, p.Faults = true, own.faults
		return p
	}
	p.Kind = dispatch.KindOf(err)
	if e, ok := errors.AsType[*dispatch.Error](err); ok {
		p.Link = e.Link
	}
	if p.Kind == dispatch.NotFound {
		p.Message = dispatch.TextFor(err)
	}
	return p
}

// RequestError turns NotFound into Invalid for requests that create something: the platform does not know what the
// request names, and no job is concerned.
func RequestError(err error) error {
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok || e.Kind != dispatch.NotFound {
		return err
	}
	about := *e
	about.Kind = dispatch.Invalid
	return &about
}

// InvalidQuery returns the error for a parameter of the query.
func InvalidQuery(name, msg string) error {
	return Invalid([]dispatch.Fault{{Loc: []any{"query", name}, Type: "value_error", Msg: msg}})
}

func Invalid(faults []dispatch.Fault) error {
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "api", Text: "The request is not valid.", Faults: faults}
}

var ErrStopping = Refusal{Status: http.StatusServiceUnavailable, Code: "SERVICE_UNAVAILABLE",
	Message: "The service is stopping. Connect again in a few seconds.", Header: RetryAfter(time.Second)}

var ErrNoTask = Refusal{Status: http.StatusNotFound, Code: "TASK_NOT_FOUND", Message: "There is no such task."}

// TaskError turns NotFound into the response for a missing task.
func TaskError(err error) error {
	if dispatch.Is(err, dispatch.NotFound) {
		return ErrNoTask
	}
	return err
}
