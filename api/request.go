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
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/dispatch"
)

var labels = []string{string(dispatch.OpenEO), string(dispatch.OGCProcess)}

const longestJob = 366 * 24 * time.Hour // longest time limit that a request can set

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

// parse reads a BaseJobRequest and returns all its faults. Unknown members are ignored; member names are
// case-sensitive.
func (a *api) parse(ctx context.Context, body []byte) (dispatch.Request, []dispatch.Fault) {
	f, faults := a.openObject(body)
	if f == nil {
		return dispatch.Request{}, faults
	}
	r := a.atOneHome(ctx, a.jobIn(f), a.homesOf(f))
	return r, append(faults, *f.faults...)
}

// jobIn reads the members that jobs and tasks share.
func (a *api) jobIn(f *form) dispatch.Request {
	r := dispatch.Request{
		Title:      f.text("title", a.Limits.Title),
		Label:      f.label(),
		Parameters: f.object("parameters"),
	}
	if f.members["format"] != nil || !a.namesService(f) {
		r.Format = f.format()
	}
	r.Options, r.Notify = f.options(a.Limits.Text)
	r.Service, r.Label = a.service(f, r.Label)
	r.Annotations = f.annotations()
	return r
}

// namesService reports whether a form names a service without faults. Its results then have a format even if the
// request names none.
func (a *api) namesService(f *form) bool {
	silent := *f
	silent.faults = &[]dispatch.Fault{}
	a.service(&silent, silent.label())
	return len(*silent.faults) == 0
}

// format reads the name of a format, which the service's platform decides about.
func (f *form) format() string {
	text := f.text("format", dispatch.LongestFormat)
	if string(f.members["format"]) == `""` {
		f.fault("format", "string_too_short", "String should have at least 1 character")
	}
	return text
}

// label reads the protocol of the service; "" if it is absent and the catalogue knows it.
func (f *form) label() dispatch.Label {
	if f.members["label"] == nil && f.namesListed() {
		return ""
	}
	if string(f.members["label"]) == `"`+protocolOf[dispatch.OGCProcess]+`"` { // what GET /services calls protocol
		return dispatch.OGCProcess
	}
	return dispatch.Label(f.choice("label", labels))
}

// namesListed reports whether the service is named by its id in the catalogue.
func (f *form) namesListed() bool {
	var s form
	return json.Unmarshal(f.members["service"], &s.members) == nil && s.isReference()
}

// isReference reports whether the form of a service has the id of the catalogue, and neither endpoint nor application.
func (f *form) isReference() bool {
	return f.members["id"] != nil && f.members["endpoint"] == nil && f.members["application"] == nil
}

// service reads a service: its endpoint and application, or the id that it has in the catalogue, where its label is
// known too.
func (a *api) service(f *form, l dispatch.Label) (dispatch.Service, dispatch.Label) {
	s := f.nested("service")
	if s == nil {
		return dispatch.Service{}, l
	}
	return a.serviceIn(f, s, l)
}

// serviceIn reads a service from its form s, for a request with the label l.
func (a *api) serviceIn(f, s *form, l dispatch.Label) (dispatch.Service, dispatch.Label) {
	if s.isReference() {
		return a.listedService(f, s, l)
	}
	return dispatch.Service{
		Endpoint:    s.text("endpoint", a.Limits.Text),
		Namespace:   s.optionalText("namespace", a.Limits.Text),
		Application: s.text("application", a.Limits.Text),
	}, l
}

// openObject returns the members of the object in body; nil if it cannot be read.
func (a *api) openObject(body []byte) (*form, []dispatch.Fault) {
	if len(body) == 0 {
		return nil, []dispatch.Fault{{Loc: []any{"body"}, Type: "missing", Msg: "Field required"}}
	}
	if fault := malformed(body); fault != nil {
		return nil, []dispatch.Fault{*fault}
	}
	faults, whole := inspect(body, a.Limits.Depth, a.Limits.Members)
	if !whole {
		return nil, faults
	}
	f := &form{at: []any{"body"}, faults: new([]dispatch.Fault)}
	if err := json.Unmarshal(body, &f.members); err != nil || f.members == nil {
		return nil, []dispatch.Fault{{Loc: []any{"body"}, Type: "model_attributes_type",
			Msg: "Input should be a valid dictionary or object to extract fields from"}}
	}
	return f, faults
}

// form reads the members of a JSON object and collects their faults, with the messages of the deployed service.
type form struct {
	at      []any
	members map[string]json.RawMessage
	faults  *[]dispatch.Fault
}

func (f *form) fault(name, kind, msg string) { f.faultAt(kind, msg, name) }

// faultAt records a fault at a place below the form.
func (f *form) faultAt(kind, msg string, place ...any) {
	*f.faults = append(*f.faults, dispatch.Fault{Loc: append(append([]any{}, f.at...), place...), Msg: msg, Type: kind})
}

// required returns a member, or nil and a fault if it is missing.
func (f *form) required(name string) json.RawMessage {
	raw := f.members[name]
	if raw == nil {
		f.fault(name, "missing", "Field required")
	}
	return raw
}

func (f *form) text(name string, limit int) string {
	if raw := f.required(name); raw != nil {
		return f.textIn(raw, name, limit)
	}
	return ""
}

func (f *form) optionalText(name string, limit int) *string {
	raw := f.members[name]
	if raw == nil || raw[0] == 'n' {
		return nil
	}
	text := f.textIn(raw, name, limit)
	return &text
}

func (f *form) textIn(raw json.RawMessage, name string, limit int) (text string) {
	switch {
	case raw[0] != '"' || json.Unmarshal(raw, &text) != nil:
		f.fault(name, "string_type", "Input should be a valid string")
	case utf8.RuneCountInString(text) > limit:
		f.fault(name, "string_too_long", fmt.Sprintf("String should have at most %d characters", limit))
	case strings.ContainsRune(text, 0):
		f.fault(name, "value_error", "String should not contain the NUL character")
	}
	return text
}

func (f *form) choice(name string, allowed []string) string {
	raw := f.required(name)
	if raw == nil {
		return ""
	}
	var text string
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		for _, word := range allowed {
			if text == word {
				return word
			}
		}
	}
	last := len(allowed) - 1
	f.fault(name, "enum", fmt.Sprintf("Input should be '%s' or '%s'", strings.Join(allowed[:last], "', '"), allowed[last]))
	return ""
}

func (f *form) object(name string) json.RawMessage {
	raw := f.required(name)
	if raw != nil && raw[0] != '{' {
		f.fault(name, "dict_type", "Input should be a valid dictionary")
	}
	return raw
}

func (f *form) optionalObject(name string) json.RawMessage {
	if raw := f.members[name]; raw == nil || raw[0] == 'n' {
		return nil
	}
	return f.object(name)
}

// options returns the options unchanged except for notify, which is not kept with the request, after checking those
// that the broker itself acts on.
func (f *form) options(limit int) (json.RawMessage, []dispatch.Notify) {
	raw := f.optionalObject("options")
	own := &form{at: append(append([]any{}, f.at...), "options"), faults: f.faults}
	if raw == nil || json.Unmarshal(raw, &own.members) != nil {
		return raw, nil
	}
	own.flag("validate", true)
	own.flag("pin", false)
	own.seconds("max_duration", longestJob)
	own.count("retries", dispatch.MostRetries)
	asked := own.members["notify"]
	if asked == nil {
		return raw, nil
	}
	var notify []dispatch.Notify
	if asked[0] != 'n' {
		notify = own.notify(limit)
	}
	if delete(own.members, "notify"); len(own.members) == 0 {
		return nil, notify
	}
	raw, _ = json.Marshal(own.members) // its members were JSON
	return raw, notify
}

// notify reads the address to notify of the request's job or task.
func (f *form) notify(limit int) []dispatch.Notify {
	n := f.nested("notify")
	if n == nil {
		return nil
	}
	told := noticeTo(n.text("url", limit), n.events())
	if secret := n.optionalText("secret", limit); secret != nil {
		told.Secret = dispatch.Secret(*secret)
	}
	return []dispatch.Notify{told}
}

func (f *form) flag(name string, otherwise bool) bool {
	raw := f.members[name]
	if raw == nil || raw[0] == 'n' {
		return otherwise
	}
	if json.Unmarshal(raw, &otherwise) != nil {
		f.fault(name, "bool_type", "Input should be a valid boolean")
	}
	return otherwise
}

// seconds checks an optional duration in whole seconds.
func (f *form) seconds(name string, most time.Duration) {
	raw, n := f.members[name], int64(0)
	switch {
	case raw == nil || raw[0] == 'n':
	case json.Unmarshal(raw, &n) != nil:
		f.fault(name, "int_type", "Input should be a valid integer: seconds")
	case n < 1:
		f.fault(name, "greater_than_equal", "Input should be greater than or equal to 1")
	case n > int64(most.Seconds()):
		f.fault(name, "less_than_equal", fmt.Sprintf("Input should be less than or equal to %.0f", most.Seconds()))
	}
}

// count checks an optional whole number.
func (f *form) count(name string, most int) {
	raw, n := f.members[name], 0
	switch {
	case raw == nil || raw[0] == 'n':
	case json.Unmarshal(raw, &n) != nil:
		f.fault(name, "int_type", "Input should be a valid integer")
	case n < 0:
		f.fault(name, "greater_than_equal", "Input should be greater than or equal to 0")
	case n > most:
		f.fault(name, "less_than_equal", fmt.Sprintf("Input should be less than or equal to %d", most))
	}
}

// budget checks the optional budget of a task.
func (f *form) budget() {
	raw := f.members["budget"]
	if raw == nil || raw[0] == 'n' {
		return
	}
	in := &form{at: append(append([]any{}, f.at...), "budget"), faults: f.faults}
	if json.Unmarshal(raw, &in.members) == nil {
		in.only("amount", "unit")
	}
	b, ok := dispatch.ParseBudget(raw)
	switch {
	case !ok:
		f.fault("budget", "value_error",
			fmt.Sprintf("Input should be a number above 0 and at most %g, or an object with such an amount and a unit",
				dispatch.HighestCosts))
	case utf8.RuneCountInString(b.Unit) > longestUnit ||
		strings.ContainsFunc(b.Unit, func(r rune) bool { return !unicode.IsGraphic(r) }):
		f.fault("budget", "string_too_long",
			fmt.Sprintf("The unit should have at most %d characters, and no control characters", longestUnit))
	}
}

// longestUnit is the length of the longest name of a unit in characters. Platforms' longer names are not kept.
const longestUnit = 40

// trial checks the optional number of jobs that a task runs on trial.
func (f *form) trial() {
	raw, n := f.members["trial"], 0
	switch {
	case raw == nil || raw[0] == 'n':
	case json.Unmarshal(raw, &n) != nil:
		f.fault("trial", "int_type", "Input should be a valid integer: a number of jobs")
	case n < 1:
		f.fault("trial", "greater_than_equal", "Input should be greater than or equal to 1")
	}
}

// nested returns a form for a member that is an object; nil if it is not one.
func (f *form) nested(name string) *form {
	raw := f.required(name)
	if raw == nil {
		return nil
	}
	n := &form{at: append(append([]any{}, f.at...), name), faults: f.faults}
	if raw[0] != '{' || json.Unmarshal(raw, &n.members) != nil {
		f.fault(name, "model_attributes_type", "Input should be a valid dictionary or object to extract fields from")
		return nil
	}
	return n
}
