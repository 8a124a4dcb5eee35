package openeo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// refusal is an error with a code of the openEO API (https://api.openeo.org/draft/errors.json).
type refusal struct {
	status  int
	code    string
	message string
}

func (r refusal) Error() string { return r.code + ": " + r.message }

// refused returns an error of the openEO API.
func refused(status int, code, message string) error { return refusal{status, code, message} }

var (
	errNoPath = refused(http.StatusNotFound, "NotFound",
		"There is nothing at this address. GET the root of the API lists what there is.")
	errNoToken = refused(http.StatusUnauthorized, "AuthenticationRequired",
		"The request needs an access token: sign in first.")
	errScheme = refused(http.StatusForbidden, "AuthenticationSchemeInvalid",
		"Send an access token of the identity provider at /credentials/oidc, as Bearer oidc/{provider}/{token}. User "+
			"name and password are not accepted.")
	errProvider = refused(http.StatusForbidden, "TokenInvalid",
		"There is no such identity provider. The one at /credentials/oidc is "+providerID+": send its tokens as "+
			"Bearer oidc/"+providerID+"/{token}.")
	errUnsupported = refused(http.StatusNotImplemented, "FeatureUnsupported", textUnsupported)
)

const textUnsupported = "This part of the openEO API is not offered here."

// badParameter returns the error of a query parameter. The standard has no code for those alone.
func badParameter(name, why string) error {
	return refused(http.StatusBadRequest, "ProcessParameterInvalid", "The query parameter "+name+" "+why+".")
}

// missing is the error of something that does not exist, with its openEO code.
type missing struct {
	error
	code string
}

func (e missing) Unwrap() error { return e.error }

// notFound gives an error of kind NotFound the code that openEO has for what was looked for; other errors stay.
func notFound(err error, code string) error {
	if dispatch.Is(err, dispatch.NotFound) {
		return missing{err, code}
	}
	return err
}

// codes maps the kinds of the domain's errors to openEO's statuses and codes. A status of 0 stays that of the server.
var codes = map[dispatch.Kind]refusal{
	dispatch.Internal:       {http.StatusInternalServerError, "Internal", ""},
	dispatch.Invalid:        {http.StatusBadRequest, "ProcessGraphInvalid", ""},
	dispatch.SignInRequired: {http.StatusForbidden, "PermissionsInsufficient", ""},
	dispatch.Forbidden:      {http.StatusForbidden, "PermissionsInsufficient", ""},
	dispatch.NotFound:       {http.StatusNotFound, "NotFound", ""},
	dispatch.Conflict:       {http.StatusBadRequest, "JobLocked", ""},
	dispatch.Unsupported:    {http.StatusNotImplemented, "FeatureUnsupported", ""},
	dispatch.Busy:           {http.StatusServiceUnavailable, "InfrastructureBusy", ""},
	dispatch.Unavailable:    {http.StatusServiceUnavailable, "InfrastructureMaintenance", ""},
	dispatch.Uncertain:      {http.StatusBadGateway, "Internal", ""},
	dispatch.BadUpstream:    {http.StatusBadGateway, "Internal", ""},
	dispatch.Misconfigured:  {http.StatusBadGateway, "Internal", ""},
	dispatch.LimitReached:   {http.StatusTooManyRequests, "InfrastructureBusy", ""},

	dispatch.DocumentUnreachable: {http.StatusServiceUnavailable, "InfrastructureBusy", ""},
	dispatch.DocumentInvalid:     {http.StatusBadRequest, "ProcessUnsupported", ""},
}

// ownCodes maps statuses of the server's own refusals, which concern headers, bodies and rates.
var ownCodes = map[int]string{
	http.StatusRequestTimeout: "RequestTimeout", http.StatusTooManyRequests: "InfrastructureBusy",
	http.StatusServiceUnavailable:   "InfrastructureBusy",
	http.StatusInternalServerError:  "Internal",
	http.StatusUnsupportedMediaType: "ContentTypeInvalid", http.StatusRequestEntityTooLarge: "ProcessGraphComplexity",
	http.StatusUnauthorized: "TokenInvalid",
}

// refuse writes the response for an error.
func (f *Facade) refuse(s facade.Server, w http.ResponseWriter, r *http.Request, err error) {
	if own, ok := errors.AsType[refusal](err); ok {
		f.write(w, own, facade.Problem{RequestID: w.Header().Get("X-Correlation-ID")})
		return
	}
	p := s.Problem(r.Context(), err)
	answer := refusalFor(p)
	if m, ok := errors.AsType[missing](err); ok {
		answer.code = m.code
	}
	f.write(w, answer, p)
}

// Refuse writes a refusal of the server itself.
func (f *Facade) Refuse(w http.ResponseWriter, _ *http.Request, p facade.Problem) {
	facade.AllowOrigins(w.Header(), exposed)
	f.write(w, refusalFor(p), p)
}

// refusalFor returns a problem in the words of openEO. A token that is not valid or has expired is 403 there: clients
// then get a new one.
func refusalFor(p facade.Problem) refusal {
	answer := refusal{p.Status, ownCodes[p.Status], withFaults(p)}
	if !p.Own {
		known := codes[p.Kind]
		answer.status, answer.code = known.status, known.code
	}
	for _, fault := range p.Faults {
		switch fault.Type {
		case "json_invalid", "unreadable":
			answer.status, answer.code = http.StatusBadRequest, "ContentTypeInvalid"
		case "json_too_deep", "too_many_members", "number_too_large":
			answer.status, answer.code = http.StatusBadRequest, "ProcessGraphComplexity"
		}
	}
	switch {
	case p.Own && p.Status == http.StatusUnauthorized:
		answer.status = http.StatusForbidden
	case answer.code == "":
		answer.code = "Internal"
	}
	return answer
}

// withFaults returns the text of a problem, with what is wrong in the request, which openEO has no further members for.
func withFaults(p facade.Problem) string {
	text := p.Message
	for _, fault := range p.Faults {
		if strings.Contains(text, strings.TrimSuffix(fault.Msg, ".")) {
			continue
		}
		var at []string
		for _, part := range fault.Loc {
			at = append(at, fmt.Sprint(part))
		}
		text += fmt.Sprintf(" %.300s: %s.", strings.Join(at, "."), strings.TrimSuffix(fault.Msg, "."))
	}
	return text
}

// write writes an error response.
func (f *Facade) write(w http.ResponseWriter, answer refusal, p facade.Problem) {
	h := w.Header()
	if answer.status == http.StatusUnauthorized && p.Header["WWW-Authenticate"] == "" {
		h.Set("WWW-Authenticate", "Bearer")
	}
	facade.SendError(w, answer.status, p.Header,
		errorBody{p.RequestID, answer.code, answer.message, append([]link{}, signInLinks(p.Link)...)})
}

// errorBody is the body of an error response.
type errorBody struct {
	ID      string `json:"id"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Links   []link `json:"links"`
}
