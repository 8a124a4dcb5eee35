package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
)

// ReadBody reads the whole body of a request. The body must arrive within the time limit and must not be compressed;
// without a Content-Type it is taken for JSON.
func (a *Document) ReadBody(in *Request) ([]byte, error) { return a.ReadUpTo(in, a.Limits.Body, "") }

// ReadUpTo is ReadBody with a limit in bytes. The error text contains the limit, followed by reason.
func (a *Document) ReadUpTo(in *Request, most int64, reason string) ([]byte, error) {
	r, w := humago.Unwrap(in.HTTP)
	return a.ReadWithin(w, r, most, reason)
}

// ReadWithin reads the whole body of a request, which must be JSON by its headers, of at most the given number of
// bytes.
func (a *Document) ReadWithin(w http.ResponseWriter, r *http.Request, most int64, reason string) ([]byte, error) {
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
		return call.Refusal{Status: http.StatusUnsupportedMediaType, Code: "UNSUPPORTED_MEDIA_TYPE",
			Message: "The request body must not be compressed. Send it without Content-Encoding.",
			Header:  map[string]string{"Accept-Encoding": "identity"}}
	}
	kind := h.Get("Content-Type")
	if kind == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(kind)
	charset := params["charset"]
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") ||
		charset != "" && !strings.EqualFold(charset, "utf-8") {
		return call.Refusal{Status: http.StatusUnsupportedMediaType, Code: "UNSUPPORTED_MEDIA_TYPE",
			Message: "The request body must be JSON in UTF-8. Send it with Content-Type: application/json."}
	}
	return nil
}

func tooLarge(most int64, reason string) call.Refusal {
	return call.Refusal{Status: http.StatusRequestEntityTooLarge, Code: "PAYLOAD_TOO_LARGE",
		Message: fmt.Sprintf("The request body is larger than the limit of %d bytes%s.", most, reason),
		Header:  map[string]string{"Connection": "close"}}
}

func unreadable(err error, reason string) error {
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(over.Limit, reason)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return call.Refusal{Status: http.StatusRequestTimeout, Code: "REQUEST_TIMEOUT",
			Message: "The request body did not arrive in time.", Header: map[string]string{"Connection": "close"}}
	}
	return call.Invalid([]dispatch.Fault{{Loc: []any{"body"}, Type: "unreadable",
		Msg: "The body is shorter than its Content-Length"}})
}

func (r *Request) Key(body []byte) (dispatch.Key, []dispatch.Fault) {
	req, _ := humago.Unwrap(r.HTTP)
	return KeyOf(req, body)
}

// KeyOf reads the header Idempotency-Key. The key stands for the method, the path and the bytes of the body.
func KeyOf(req *http.Request, body []byte) (dispatch.Key, []dispatch.Fault) {
	texts := req.Header.Values("Idempotency-Key")
	if len(texts) == 0 {
		return dispatch.Key{}, nil
	}
	if text := texts[0]; len(texts) > 1 || text == "" || len(text) > 255 || !Printable(text) {
		return dispatch.Key{}, []dispatch.Fault{{Loc: []any{"header", "Idempotency-Key"}, Type: "value_error",
			Msg: "Input should be one value of 1 to 255 printable ASCII characters"}}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", req.Method, req.URL.Path)
	h.Write(body)
	return dispatch.Key{Text: texts[0], Fingerprint: hex.EncodeToString(h.Sum(nil))}, nil
}

func Printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
