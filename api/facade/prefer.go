package facade

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// LongestWait bounds the wait that a client can prefer.
const LongestWait = time.Minute

// Preferences is what a client asks for in the header Prefer (RFC 7240).
type Preferences struct {
	Async bool          // respond-async
	Wait  time.Duration // at most LongestWait; 0: none

	// Return is minimal or representation, Status the status that a job is to have (OGC API - Processes, Part 4); "":
	// no preference.
	Return, Status string
}

// PreferencesIn returns what the headers of a request ask for. What is not understood is ignored, as the RFC demands.
func PreferencesIn(h http.Header) (p Preferences) {
	for one := range strings.SplitSeq(strings.Join(h.Values("Prefer"), ","), ",") {
		one, _, _ = strings.Cut(one, ";")
		name, value, _ := strings.Cut(one, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			p.Async = true
		case "return":
			p.Return = strings.ToLower(strings.Trim(value, `" `))
		case "status":
			p.Status = strings.ToLower(strings.Trim(value, `" `))
		case "wait":
			n, err := strconv.Atoi(strings.Trim(value, `" `))
			if err == nil && n > 0 && p.Wait == 0 { // the first of several counts
				p.Wait = time.Duration(min(n, int(LongestWait/time.Second))) * time.Second
			}
		}
	}
	return p
}
