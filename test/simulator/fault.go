package simulator

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Fault describes which requests fail, and how. In JSON, durations are nanoseconds.
type Fault struct {
	Route  string  `json:"route,omitempty"`  // such as "POST /jobs/{id}/results"; "": every route
	Skip   int     `json:"skip,omitempty"`   // number of requests to let pass first
	Times  int     `json:"times,omitempty"`  // number of requests to strike then; 0: all
	Chance float64 `json:"chance,omitempty"` // probability for each request; 0: always
	Beyond int     `json:"beyond,omitempty"` // strike only requests beyond this many per second; 0: all

	Latency time.Duration `json:"latency,omitempty"` // before anything else

	// After applies the fault after the request has taken effect. Otherwise Status and Cut prevent the effect.
	After bool `json:"after,omitempty"`
	Cut   bool `json:"cut,omitempty"` // close the connection without a response

	Status     int           `json:"status,omitempty"` // respond with this status in place of the server's response
	Code       string        `json:"code,omitempty"`   // in the protocol's error body
	Message    string        `json:"message,omitempty"`
	RetryAfter time.Duration `json:"retry_after,omitempty"` // rounded to seconds

	Header           map[string]string `json:"header,omitempty"` // headers to set; "" removes, as in {"Location": ""}
	RelativeLocation bool              `json:"relative_location,omitempty"`
	Body             string            `json:"body,omitempty"` // in place of the server's
	Pad              int               `json:"pad,omitempty"`  // number of blanks before the body
	Form             Form              `json:"form,omitempty"`
	Pause            time.Duration     `json:"pause,omitempty"` // between two bytes of a Slow body

	second time.Time // beginning of the current second of Beyond
	passed int       // requests since then
}

// Form is how a body is sent.
type Form string

const (
	AsIs      Form = ""
	HTML      Form = "html"      // an HTML page in its place
	Truncated Form = "truncated" // the first half only, said to be all
	Torn      Form = "torn"      // the connection is cut in the middle
	Endless   Form = "endless"   // the body never ends
	Slow      Form = "slow"      // a byte at a time, separated by Pause
)

// onlyDelays reports whether f does not change the response.
func (f Fault) onlyDelays() bool {
	return !f.Cut && f.Status == 0 && f.Header == nil && !f.RelativeLocation && f.Body == "" && f.Pad == 0 &&
		f.Form == AsIs
}

// Faults holds the active faults. The zero value has none.
type Faults struct {
	Seed uint64 // for Chance

	mu     sync.Mutex
	active []Fault
	random *rand.Rand
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
		if f.Route != "" && f.Route != route || decided && !f.onlyDelays() || !fs.matches(f) {
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

// matches decides whether f strikes a matching request, and counts it. A used-up fault has Times -1.
func (fs *Faults) matches(f *Fault) bool {
	if f.Skip > 0 {
		f.Skip--
		return false
	}
	if f.Chance > 0 && fs.roll() >= f.Chance || f.Beyond > 0 && !f.tooMany(time.Now()) {
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

func (fs *Faults) roll() float64 {
	if fs.random == nil {
		fs.random = rand.New(rand.NewPCG(fs.Seed, 1))
	}
	return fs.random.Float64()
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
	if f.Pad > 0 {
		padded := append(bytes.Repeat([]byte(" "), f.Pad), a.body.Bytes()...)
		a.body = *bytes.NewBuffer(padded)
	}
	switch f.Form {
	case HTML:
		a.header.Set("Content-Type", "text/html; charset=utf-8")
		a.body.Reset()
		a.body.WriteString(
			"<!doctype html><html><head><title>Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>\n")
	case Truncated:
		a.body.Truncate(a.body.Len() / 2)
	}
}

// send writes a response in the fault's form.
func (f Fault) send(ctx context.Context, w http.ResponseWriter, a *answer) {
	maps.Copy(w.Header(), a.header)
	// the response to HEAD tells the length of the file
	headed := a.body.Len() == 0 && a.header.Get("Content-Length") != ""
	if !headed && (f.Form == AsIs || f.Form == HTML || f.Form == Torn) {
		w.Header().Set("Content-Length", strconv.Itoa(a.body.Len()))
	}
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(a.status)
	body := a.body.Bytes()
	switch f.Form {
	case Torn:
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
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
