package ogcapi

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// exception is the body of an error response (exception.yaml; RFC 7807).
type exception struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"` // correlation id
}

func (e exception) Error() string { return e.Type + ": " + e.Detail }

// The types of exceptions that the standard names.
const (
	exceptions        = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/"
	typeNoProcess     = exceptions + "no-such-process"
	typeNoJob         = exceptions + "no-such-job"
	typeNotReady      = exceptions + "result-not-ready"
	typeNoOutput      = exceptions + "no-such-output"
	typeBadQuery      = exceptions + "invalid-query-parameter-value"
	typeBadRequest    = "about:blank" // RFC 7807, section 4.2: nothing beyond the status
	mediaProblem      = "application/problem+json"
	textAlreadyGone   = "The job was dismissed before."
	textNoSuchProcess = "There is no such process. GET /processes lists them."
)

var (
	errNoPath    = exception{Status: http.StatusNotFound, Detail: "There is nothing at this address."}
	errNoProcess = exception{Type: typeNoProcess, Status: http.StatusNotFound, Detail: textNoSuchProcess}
	errNoJob     = exception{Type: typeNoJob, Status: http.StatusNotFound, Detail: "There is no such job."}
	errNotReady  = exception{Type: typeNotReady, Status: http.StatusNotFound,
		Detail: "The job has not ended. Read its status until it is successful."}
	errGone = exception{Status: http.StatusGone, Detail: textAlreadyGone}
)

func badQuery(format string, args ...any) error {
	return exception{Type: typeBadQuery, Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return exception{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// exceptionFor returns the response for an error.
func exceptionFor(in *request, err error) (exception, map[string]string) {
	if e, ok := err.(exception); ok {
		return e, nil
	}
	p := in.Problem(in.Context(), err)
	e := exceptionOf(p)
	if !p.Own && p.Kind == dispatch.NotFound {
		e.Type = typeNoJob
	}
	return e, p.Header
}

func exceptionOf(p facade.Problem) exception {
	e := exception{Status: p.Status, Detail: p.Message, Instance: p.RequestID}
	if e.Status == http.StatusUnprocessableEntity { // the standard knows only 400 for what is wrong in a request
		e.Status = http.StatusBadRequest
	}
	for _, f := range p.Faults {
		if text := faultText(f); !strings.Contains(e.Detail, f.Msg) {
			e.Detail += " " + text
		}
	}
	return e
}

// faultText returns a fault with its place in an execute request.
func faultText(f dispatch.Fault) string {
	var path []string
	for _, part := range f.Loc {
		path = append(path, dispatch.Shortened(fmt.Sprint(part)))
	}
	at := strings.Join(path, ".")
	for from, to := range map[string]string{"body.parameters": "inputs", "body.dimension": "inputs",
		"body.format": "inputs." + inputFormat, "body.options.pin": "inputs." + inputPin} {
		if rest, found := strings.CutPrefix(at, from); found {
			at = to + rest
		}
	}
	return at + ": " + strings.TrimSuffix(f.Msg, ".") + "."
}

// Refuse writes a refusal of the server itself.
func (f *Facade) Refuse(w http.ResponseWriter, r *http.Request, p facade.Problem) {
	facade.AllowOrigins(w.Header(), exposed)
	f.refuse(w, r, exceptionOf(p), p.Header)
}

// refuse writes an exception. It is a problem of RFC 7807 only for clients that ask for that, because others decode
// nothing but JSON.
func (f *Facade) refuse(w http.ResponseWriter, r *http.Request, e exception, header map[string]string) {
	e.Type = cmp.Or(e.Type, typeBadRequest)
	e.Title = cmp.Or(e.Title, titles[e.Type], http.StatusText(e.Status))
	e.Instance = cmp.Or(e.Instance, w.Header().Get("X-Correlation-ID"))
	if strings.Contains(r.Header.Get("Accept"), mediaProblem) {
		w.Header().Set("Content-Type", mediaProblem)
	}
	facade.SendError(w, e.Status, header, e)
}

var titles = map[string]string{
	typeNoProcess: "no such process", typeNoJob: "no such job", typeNotReady: "result not ready",
	typeNoOutput: "no such output",
	typeBadQuery: "invalid query parameter value",
}
