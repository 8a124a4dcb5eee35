package simulator

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Fault describes which requests fail, and how.
type Fault struct {
	Route  string // such as "POST /jobs/{id}/results"; "": every route
	Skip   int    // number of requests to let pass first
	Times  int    // number of requests to strike then; 0: all
	Beyond int    // strike only requests beyond this many per second; 0: all

	Latency time.Duration // before anything else

	// After applies the fault after the request has taken effect. Otherwise Status and Cut prevent the effect.
	After bool
	Cut   bool // close the connection without a response

	Status     int    // respond with this status in place of the server's response
	Code       string // in the protocol's error body
	Message    string
	RetryAfter time.Duration // rounded to seconds

	Header           map[string]string // headers to set; "" removes, as in {"Location": ""}
	RelativeLocation bool
	Body             string // in place of the server's
	Form             Form
	Pause            time.Duration // between two bytes of a Slow body

	second time.Time // beginning of the current second of Beyond
	passed int       // requests since then
}

// Form is how a body is sent.
type Form string

const (
	AsIs    Form = ""
	HTML    Form = "html"    // an HTML page in its place
	Endless Form = "endless" // the body never ends
	Slow    Form = "slow"    // a byte at a time, separated by Pause
)

// onlyDelays reports whether f does not change the response.
func (f Fault) onlyDelays() bool {
	return !f.Cut && f.Status == 0 && f.Header == nil && !f.RelativeLocation && f.Body == "" &&
		f.Form == AsIs
}

// Faults holds the active faults. The zero value has none.
type Faults struct {
	mu     sync.Mutex
	active []Fault
}

// Add activates more faults, after the existing ones.
func (fs *Faults) Add(f ...Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.active = append(fs.active, f...)
}

// Set replaces the active faults; Set() removes all.
func (fs *Faults) Set(f ...Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.active = slices.Clone(f)
}

// next returns the fault of the next request on a route. Latencies add up; the first fault that does more than delay
// decides the rest, and later ones are kept for later requests.
func (fs *Faults) next(route string) Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var all Fault
	for i := range fs.active {
		f := &fs.active[i]
		decided := !all.onlyDelays()
		if f.Route != "" && f.Route != route || decided && !f.onlyDelays() || !f.matches() {
			continue
		}
		latency := all.Latency + f.Latency
		if !decided {
			all = *f
		}
		all.Latency = latency
	}
	fs.active = slices.DeleteFunc(fs.active, func(f Fault) bool { return f.Times < 0 })
	return all
}

// matches decides whether f strikes a request on its route, and counts it. A used-up fault has Times -1.
func (f *Fault) matches() bool {
	if f.Skip > 0 {
		f.Skip--
		return false
	}
	if f.Beyond > 0 && !f.tooMany(time.Now()) {
		return false
	}
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			f.Times = -1
		}
	}
	return true
}

// tooMany counts a request and reports whether it exceeds Beyond.
func (f *Fault) tooMany(now time.Time) bool {
	if now.Sub(f.second) >= time.Second {
		f.second, f.passed = now, 0
	}
	f.passed++
	return f.passed > f.Beyond
}

// answer is a response that can still be changed.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{header: http.Header{}, status: http.StatusOK} }

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// apply changes a response as the fault demands.
func (f Fault) apply(a *answer) {
	if f.RetryAfter > 0 {
		a.header.Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Round(time.Second)/time.Second)))
	}
	for name, value := range f.Header {
		a.header.Set(name, value)
		if value == "" {
			a.header.Del(name)
		}
	}
	if u, err := url.Parse(a.header.Get("Location")); err == nil && f.RelativeLocation {
		a.header.Set("Location", u.RequestURI())
	}
	if f.Body != "" {
		a.body.Reset()
		a.body.WriteString(f.Body)
	}
	if f.Form == HTML {
		a.header.Set("Content-Type", "text/html; charset=utf-8")
		a.body.Reset()
		a.body.WriteString(
			"<!doctype html><html><head><title>Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>\n")
	}
}

// send writes a response in the fault's form.
func (f Fault) send(ctx context.Context, w http.ResponseWriter, a *answer) {
	maps.Copy(w.Header(), a.header)
	// the response to HEAD tells the length of the file
	headed := a.body.Len() == 0 && a.header.Get("Content-Length") != ""
	if !headed && (f.Form == AsIs || f.Form == HTML) {
		w.Header().Set("Content-Length", strconv.Itoa(a.body.Len()))
	}
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(a.status)
	body := a.body.Bytes()
	switch f.Form {
	case Slow:
		trickle(ctx, w, body, f.Pause)
	case Endless:
		w.Write(body)
		for blanks := bytes.Repeat([]byte(" "), 4096); ctx.Err() == nil; {
			if _, err := w.Write(blanks); err != nil {
				return
			}
		}
	default:
		w.Write(body)
	}
}

func trickle(ctx context.Context, w http.ResponseWriter, body []byte, pause time.Duration) {
	for i := range body {
		if i > 0 && !sleep(ctx, pause) {
			return
		}
		if _, err := w.Write(body[i : i+1]); err != nil {
			return
		}
		http.NewResponseController(w).Flush()
	}
}

// sleep reports whether d passed before ctx was done.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
