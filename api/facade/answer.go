package facade

import (
	"cmp"
	"maps"
	"net/http"

	"github.com/eodispatch/eodispatch/dispatch"
)

const mediaJSON = "application/json"

// Answer is a successful response.
type Answer struct {
	Status    int // 0: 200 or, if there is nothing to write, 204
	Header    http.Header
	Body      any    // as JSON
	Data      []byte // in place of Body
	MediaType string // "": application/json
	// Write writes the body in place of Body, after the headers have been set; it calls WriteHeader. If it fails the
	// connection is cut, so that the client does not take a part for the whole.
	Write func(http.ResponseWriter) error
}

// Send writes the response. Clients compare the media type as a whole, so it has no parameters.
func (a *Answer) Send(w http.ResponseWriter) {
	h := w.Header()
	maps.Copy(h, a.Header)
	text := a.Data
	if a.Body != nil {
		text = encode(a.Body)
	}
	if text == nil && a.Write == nil {
		w.WriteHeader(cmp.Or(a.Status, http.StatusNoContent))
		return
	}
	if a.Write == nil || h.Get("Content-Type") == "" {
		h.Set("Content-Type", cmp.Or(a.MediaType, mediaJSON))
	}
	if a.Write != nil {
		if a.Write(w) != nil {
			panic(http.ErrAbortHandler) // a part of the response may have been sent
		}
		return
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = w.Write(text) // the client may have gone
}

// SendError writes an error response with a body in JSON, of the media type that is set already, if one is.
func SendError(w http.ResponseWriter, status int, header map[string]string, body any) {
	h := w.Header()
	for name, value := range header {
		h.Set(name, value)
	}
	h.Set("Content-Type", cmp.Or(h.Get("Content-Type"), mediaJSON))
	text := encode(body)
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone
}

// encode returns v in JSON.
func encode(v any) []byte {
	text, err := dispatch.Encode(v)
	if err != nil {
		panic(err) // a bug: only values that have a JSON are written
	}
	return text
}

// Permit answers a browser that asks whether pages of other origins may send requests of some methods with some headers
// besides Authorization and X-Correlation-ID.
func Permit(w http.ResponseWriter, methods, headers string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", "Authorization, "+headers+", X-Correlation-ID")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
