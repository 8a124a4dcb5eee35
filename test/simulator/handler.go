package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// problem is the reason why a server refuses a request. Each protocol encodes it differently.
type problem struct {
	status        int
	code, message string
}

// handler wraps the handlers of all routes: it counts the requests and applies the faults that a test set.
type handler struct {
	faults *Faults
	oracle *Oracle
	refuse func(http.ResponseWriter, problem)
}

const maxBody = 64 << 20

// call is one request.
type call struct {
	*http.Request
	route   string
	account string   // "" if nobody is signed in
	denied  *problem // the reason why account is ""
}

func (h handler) handle(w http.ResponseWriter, c call, next func(http.ResponseWriter, call) *problem) {
	done := sync.OnceFunc(h.oracle.enter(c.route, c.account))
	defer done()
	// net/http notices a disconnected client, which must end a latency early, only after the body was read.
	body, err := io.ReadAll(io.LimitReader(c.Body, maxBody))
	if err != nil {
		return
	}
	c.Body = io.NopCloser(bytes.NewReader(body))
	f := h.faults.next(c.route)
	if !sleep(c.Context(), f.Latency) {
		return
	}
	a := newAnswer()
	if f.After || f.Status == 0 && !f.Cut {
		h.serve(a, c, next)
	}
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
	if f.Status != 0 {
		a = newAnswer()
		h.refuse(a, problem{f.Status, f.code(), f.Message})
	}
	f.apply(a)
	if f.Form == AsIs {
		done() // the client has the whole response, and may send its next request, before this function returns
	}
	f.send(c.Context(), w, a)
}

func (f Fault) code() string {
	if f.Code == "" {
		return http.StatusText(f.Status)
	}
	return f.Code
}

func (h handler) serve(a *answer, c call, next func(http.ResponseWriter, call) *problem) {
	p := c.denied
	if p == nil {
		p = next(a, c)
	}
	if p != nil {
		h.refuse(a, *p)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.Encode(v)
}

// origin returns the scheme and host by which the client addressed the server.
func origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func nowFrom(now func() time.Time) time.Time {
	if now == nil {
		return time.Now()
	}
	return now()
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// object is a JSON object in a response.
type object = map[string]any
