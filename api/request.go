package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// readBody reads the whole body of a request. The body must arrive within the time limit and must not be compressed;
// without a Content-Type it is taken for JSON.
func (a *api) readBody(in *request) ([]byte, error) { return a.readUpTo(in, a.Limits.Body, "") }

// readUpTo is readBody with a limit in bytes. The error text contains the limit, followed by reason.
func (a *api) readUpTo(in *request, most int64, reason string) ([]byte, error) {
	r, w := humago.Unwrap(in.http)
	return a.readWithin(w, r, most, reason)
}

// readWithin reads the whole body of a request, which must be JSON by its headers, of at most the given number of
// bytes.
func (a *api) readWithin(w http.ResponseWriter, r *http.Request, most int64, reason string) ([]byte, error) {
	if err := checkPlainJSON(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > most {
		return nil, tooLarge(most, reason)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, unreadable(err, reason) // the read deadline stays, because the server still reads the rest
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

func checkPlainJSON(h http.Header) error {
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return refusal{status: http.StatusUnsupportedMediaType, code: "UNSUPPORTED_MEDIA_TYPE",
			message: "The request body must not be compressed. Send it without Content-Encoding.",
			header:  map[string]string{"Accept-Encoding": "identity"}}
	}
	kind := h.Get("Content-Type")
	if kind == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(kind)
	charset := params["charset"]
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") ||
		charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refusal{status: http.StatusUnsupportedMediaType, code: "UNSUPPORTED_MEDIA_TYPE",
			message: "The request body must be JSON in UTF-8. Send it with Content-Type: application/json."}
	}
	return nil
}

func tooLarge(most int64, reason string) refusal {
	return refusal{status: http.StatusRequestEntityTooLarge, code: "PAYLOAD_TOO_LARGE",
		message: fmt.Sprintf("The request body is larger than the limit of %d bytes%s.", most, reason),
		header:  map[string]string{"Connection": "close"}}
}

func unreadable(err error, reason string) error {
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(over.Limit, reason)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refusal{status: http.StatusRequestTimeout, code: "REQUEST_TIMEOUT",
			message: "The request body did not arrive in time.", header: map[string]string{"Connection": "close"}}
	}
	return invalid([]dispatch.Fault{{Loc: []any{"body"}, Type: "unreadable",
		Msg: "The body is shorter than its Content-Length"}})
}

func (r *request) key(body []byte) (dispatch.Key, []dispatch.Fault) {
	req, _ := humago.Unwrap(r.http)
	return keyOf(req, body)
}

// keyOf reads the header Idempotency-Key. The key stands for the method, the path and the bytes of the body.
func keyOf(req *http.Request, body []byte) (dispatch.Key, []dispatch.Fault) {
	texts := req.Header.Values("Idempotency-Key")
	if len(texts) == 0 {
		return dispatch.Key{}, nil
	}
	if text := texts[0]; len(texts) > 1 || text == "" || len(text) > 255 || !printable(text) {
		return dispatch.Key{}, []dispatch.Fault{{Loc: []any{"header", "Idempotency-Key"}, Type: "value_error",
			Msg: "Input should be one value of 1 to 255 printable ASCII characters"}}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", req.Method, req.URL.Path)
	h.Write(body)
	return dispatch.Key{Text: texts[0], Fingerprint: hex.EncodeToString(h.Sum(nil))}, nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// parse reads a BaseJobRequest and returns all its faults.
func (a *api) parse(ctx context.Context, body []byte) (dispatch.Request, []dispatch.Fault) {
	given, f, ok := readInto[wire.BaseJobRequest](a, body)
	if !ok {
		return dispatch.Request{}, f.all
	}
	r := a.atOneHome(ctx, a.jobIn(f, given, given.Service, "service"), a.homesOf(given))
	return r, f.sorted()
}

// jobIn returns the request of a job, or what jobs and tasks share, for a service at a place in the body.
func (a *api) jobIn(f *faults, given wire.BaseJobRequest, s wire.ServiceChoice, at ...any) dispatch.Request {
	r := dispatch.Request{Title: given.Title, Parameters: json.RawMessage(given.Parameters), Format: given.Format,
		Annotations: annotations(f, given.Annotations)}
	r.Options, r.Notify = options(f, given.Options)
	r.Service, r.Label = a.service(f, s, label(f, given.Label, s), at...)
	return r
}

// label returns the protocol of a service; "" if it is absent and the catalogue knows it.
func label(f *faults, given string, s wire.ServiceChoice) dispatch.Label {
	switch {
	case given == "" && !isReference(s):
		f.add("missing", "Field required", "label")
	case given == protocolOf[dispatch.OGCProcess]: // what GET /services calls protocol
		return dispatch.OGCProcess
	}
	return dispatch.Label(given)
}

// isReference reports whether a service is named by its id in the catalogue.
func isReference(s wire.ServiceChoice) bool {
	return s.ID != "" && s.Endpoint == "" && s.Application == ""
}

// service returns the service that a request with a label names, by its endpoint and application, or by the id that it
// has in the catalogue, where its label is known too.
func (a *api) service(f *faults, s wire.ServiceChoice, l dispatch.Label, at ...any) (dispatch.Service, dispatch.Label) {
	if f.within(at...) {
		return dispatch.Service{}, l
	}
	if isReference(s) {
		homes := a.listedHomes(f, s, l, at...)
		if len(homes) == 0 {
			return dispatch.Service{}, l
		}
		return homes[0].Service, homes[0].Label
	}
	for name, text := range map[string]string{"endpoint": s.Endpoint, "application": s.Application} {
		if s.ID != "" && text == "" { // the schema takes it for a reference
			f.add("missing", "Field required", append(slices.Clone(at), name)...)
		}
	}
	return dispatch.Service{Endpoint: s.Endpoint, Namespace: s.Namespace, Application: s.Application}, l
}

// options returns the options unchanged, except for notify, which is not kept with the request.
func options(f *faults, raw wire.Object) (json.RawMessage, []dispatch.Notify) {
	var members map[string]json.RawMessage
	if f.within("options") || json.Unmarshal(raw, &members) != nil || members["notify"] == nil {
		return json.RawMessage(raw), nil
	}
	var given *wire.Notify
	(&decoding{faults: &faults{}}).value(members["notify"], reflect.ValueOf(&given).Elem())
	var notify []dispatch.Notify
	if given != nil {
		one := noticeTo(given.URL, eventsOf(f, given.HookRequest, "options", "notify"))
		one.Secret = dispatch.Secret(given.Secret)
		notify = []dispatch.Notify{one}
	}
	if delete(members, "notify"); len(members) == 0 {
		return nil, notify
	}
	rest, _ := json.Marshal(members) // its members were JSON
	return rest, notify
}

// budgetIn returns a budget at a place in the body; zero if there is none.
func budgetIn(f *faults, given wire.Budget, at ...any) (b dispatch.Budget) {
	if len(given.RawMessage) == 0 || isNull(given.RawMessage) || f.within(at...) {
		return b
	}
	b, ok := dispatch.ParseBudget(given.RawMessage)
	if !ok {
		f.add("value_error", fmt.Sprintf("Input should be a number above 0 and at most %g, or an object with such an "+
			"amount and a unit", dispatch.HighestCosts), at...)
	} else if strings.ContainsFunc(b.Unit, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		f.add("value_error", "The unit should have no control characters", append(slices.Clone(at), "unit")...)
	}
	return b
}

// longestUnit is the length of the longest name of a unit in characters. Platforms' longer names are not kept.
const longestUnit = 40
