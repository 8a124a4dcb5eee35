package call

import (
	"sync"
	"time"
)

const reasonEvery = time.Second // minimum interval between two log lines for one reason

const reasonsKnown = 100 // number of reasons that are counted separately

// ReasonCounts counts what requests are refused for, so that an operator notices a wrong setting at once and a flood of
// requests does not fill the log: each reason is logged at most once a second, with the number of requests since its
// last line. The zero value is ready to use.
type ReasonCounts struct {
	mu      sync.Mutex
	tallies map[string]*tally
}

type tally struct {
	logged time.Time
	since  int
}

// Count returns the number of requests to log now; 0 means that no line is due yet.
func (t *ReasonCounts) Count(reason string, now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tallies == nil || t.tallies[reason] == nil && len(t.tallies) >= reasonsKnown {
		t.tallies = map[string]*tally{}
	}
	if t.tallies[reason] == nil {
		t.tallies[reason] = &tally{}
	}
	counted := t.tallies[reason]
	counted.since++
	if now.Sub(counted.logged) < reasonEvery {
		return 0
	}
	n := counted.since
	counted.logged, counted.since = now, 0
	return n
}
