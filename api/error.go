package api

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
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// refusal is an error response before it is written.
type refusal struct {
	status  int
	code    string
	message string
	details map[string]any
	faults  []dispatch.Fault
	header  map[string]string
	cause   error // optional
}

func (r refusal) Error() string { return r.code + ": " + r.message }

func (r refusal) Unwrap() error { return r.cause }

// kinds maps the kind of a domain error to its response. All handlers use this table.
var kinds = map[dispatch.Kind]refusal{
	dispatch.Internal:       {status: 500, code: "INTERNAL_ERROR"},
	dispatch.Invalid:        {status: 422, code: "VALIDATION_ERROR"},
	dispatch.SignInRequired: {status: 409, code: "SIGN_IN_REQUIRED"},
	dispatch.Forbidden:      {status: 403, code: "FORBIDDEN"},
	dispatch.NotFound:       {status: 404, code: "JOB_NOT_FOUND"},
	dispatch.Conflict:       {status: 409, code: "CONFLICT"},
	dispatch.Unsupported:    {status: 501, code: "UNSUPPORTED"},
	dispatch.Busy:           {status: 503, code: "PLATFORM_BUSY"},
	dispatch.Unavailable:    {status: 503, code: "PLATFORM_UNAVAILABLE"},
	dispatch.Uncertain:      {status: 502, code: "PLATFORM_UNCERTAIN"},
	dispatch.BadUpstream:    {status: 502, code: "PLATFORM_ERROR"},
	dispatch.Misconfigured:  {status: 502, code: "PLATFORM_ERROR"},
	dispatch.LimitReached:   {status: 429, code: "RATE_LIMITED"},

	dispatch.DocumentUnreachable: {status: 503, code: "APPLICATION_UNREACHABLE"},
	dispatch.DocumentInvalid:     {status: 422, code: "APPLICATION_INVALID"},
}

const internalText = "The service failed with an internal error. Repeat the request; if it fails again, report its " +
	"request_id to the operator."

var (
	errNoDocument = refusal{status: http.StatusNotFound, code: "DOCUMENT_NOT_FOUND",
		message: "No document is stored for this job. Its platform stores the service itself, or the document could not be " +
			"read when the job was accepted."}
	errNoJob   = &dispatch.Error{Kind: dispatch.NotFound, Op: "api"}
	errNoToken = refusal{status: 401, code: "AUTHENTICATION_FAILED", message: "The request needs a valid bearer token.",
		header: map[string]string{"WWW-Authenticate": "Bearer"}}
	errBadToken = refusal{status: 401, code: "AUTHENTICATION_FAILED",
		message: "The bearer token is not valid for this service. Sign in at its identity provider and use the new token.",
		header:  map[string]string{"WWW-Authenticate": `Bearer error="invalid_token"`}}
	errOldToken = refusal{status: 401, code: "AUTHENTICATION_FAILED",
		message: "The bearer token has expired. Get a new one and repeat the request.",
		header:  map[string]string{"WWW-Authenticate": `Bearer error="invalid_token", error_description="The token has expired"`}}
	errNoSubject = refusal{status: 401, code: "AUTHENTICATION_FAILED",
		message: "The bearer token names no user: it has no claim sub. " +
			"Signing in again does not help. The operator of the identity provider must add the claim, " +
			"in Keycloak by the client scope basic.",
		header: map[string]string{
			"WWW-Authenticate": `Bearer error="invalid_token", error_description="The token has no claim sub"`}}
	errLongToken = refusal{status: 401, code: "AUTHENTICATION_FAILED",
		message: fmt.Sprintf("The bearer token has more than %d bytes. Signing in again does not help. "+
			"The operator of the identity provider must put less into it, such as fewer roles.", identity.MaxToken),
		header: map[string]string{"WWW-Authenticate": fmt.Sprintf(
			`Bearer error="invalid_token", error_description="The token has more than %d bytes"`, identity.MaxToken)}}
	errNoPath   = refusal{status: 404, code: "NOT_FOUND", message: "There is nothing at this address."}
	errNoHealth = refusal{status: 503, code: "SERVICE_UNAVAILABLE",
		message: "The database does not respond. Try again in a few seconds.", header: map[string]string{"Retry-After": "5"}}
	errNoIssuer = refusal{status: 503, code: "SERVICE_UNAVAILABLE",
		message: "The token cannot be verified because the identity provider does not respond. Try again in a few seconds.",
		header:  map[string]string{"Retry-After": "5"}}
)

// refusalFor returns the response for err.
func refusalFor(err error) refusal {
	if r, ok := errors.AsType[refusal](err); ok {
		return r
	}
	if _, ok := errors.AsType[unhealthy](err); ok {
		return errNoHealth
	}
	if e := dispatch.DatabaseError(err); e != nil {
		return refusal{status: errNoHealth.status, code: errNoHealth.code, message: dispatch.TextFor(e),
			header: errNoHealth.header}
	}
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok {
		e = &dispatch.Error{Kind: dispatch.Internal, Err: err}
	}
	r := kinds[e.Kind]
	r.message = dispatch.TextFor(e)
	switch e.Kind {
	case dispatch.Internal:
		r.message = internalText
	case dispatch.Invalid, dispatch.DocumentInvalid:
		r.faults = faultsOf(e)
	case dispatch.NotFound:
		r.message = "There is no such job."
	case dispatch.SignInRequired:
		r.details = map[string]any{"link": nullable(e.Link)}
	case dispatch.Busy, dispatch.LimitReached, dispatch.DocumentUnreachable:
		r.header = retryAfter(max(e.RetryAfter, time.Second))
	case dispatch.Unavailable:
		if e.RetryAfter > 0 {
			r.header = retryAfter(e.RetryAfter)
		}
		if errors.Is(e, context.DeadlineExceeded) {
			r.status = http.StatusGatewayTimeout
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

func retryAfter(d time.Duration) map[string]string {
	return map[string]string{"Retry-After": strconv.Itoa(int(math.Ceil(d.Seconds())))}
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (r refusal) body(requestID string) any {
	b := wire.ErrorResponse{Status: "error", ErrorCode: r.code, Message: r.message, Details: r.details,
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
	refusal
	requestID string
}

func (a errorAnswer) GetStatus() int               { return a.status }
func (a errorAnswer) MarshalJSON() ([]byte, error) { return json.Marshal(a.body(a.requestID)) }
func (a errorAnswer) GetHeaders() http.Header {
	h := http.Header{}
	for name, value := range a.header {
		h.Set(name, value)
	}
	return h
}

// answerFor returns the response for err and logs what the client is not told.
func (a *api) answerFor(ctx context.Context, err error) errorAnswer {
	r := refusalFor(err)
	switch {
	case ctx.Err() != nil:
	case isDatabaseFailure(err):
		a.databaseFailed(ctx, err)
	case r.status >= 500 && !dispatch.Is(err, dispatch.Unsupported): // which is a fact about the request, and no failure
		a.Log.Log(ctx, failureLevel(err), "request failed", "error", err)
	}
	return errorAnswer{r, callIn(ctx).id}
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

// refuse writes the response for err outside an operation, such as in a middleware.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if f := callIn(r.Context()).facade; f != nil {
		f.Refuse(w, r, a.problem(r.Context(), err))
		return
	}
	answer := a.answerFor(r.Context(), err)
	for name, value := range answer.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.Log.DebugContext(r.Context(), "answer not written", "error", err)
	}
}
