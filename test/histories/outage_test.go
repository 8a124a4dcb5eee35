package histories

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// outage is a period in which the store does not respond. It begins at a planned call, which may be committed although
// its response is lost.
type outage struct {
	mu sync.Mutex
	// number of calls until the outage begins, with the one at which it begins; 0 means that none is planned
	after   int
	commits bool
	lasts   time.Duration
	longest time.Duration
	until   time.Time
}

// plan plans an outage that begins at the n-th call from now.
func (o *outage) plan(n int, lasts time.Duration, commits bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.after, o.lasts, o.commits, o.longest = n, lasts, commits, max(o.longest, lasts)
}

// strike counts one call, and returns whether it does not reach the store and whether its response is lost.
func (o *outage) strike() (away, lost bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return true, false
	}
	if o.after == 0 {
		return false, false
	}
	if o.after--; o.after > 0 {
		return false, false
	}
	o.until = time.Now().Add(o.lasts)
	return !o.commits, o.commits
}

func (o *outage) away() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Before(o.until)
}

// end returns the end of the last outage.
func (o *outage) end() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.until
}

func unanswered(k dispatch.Kind) error {
	return &dispatch.Error{Kind: k, Op: "store", Text: "The database does not answer."}
}

func (s *storeOf) NoteResponse(ctx ctxt, platform, failure string, unless time.Duration) error {
	s.beside()
	if s.h.outage.away() {
		return unanswered(dispatch.Unavailable)
	}
	if failure != "" {
		s.h.locked(func() { s.h.silences++ })
	}
	return s.Store.NoteResponse(ctx, platform, failure, unless)
}

func (s *storeOf) Listable(ctx ctxt, a dispatch.Account, base string) ([]dispatch.Job, error) {
	s.beside()
	if s.h.outage.away() {
		return nil, unanswered(dispatch.Unavailable)
	}
	return s.Store.Listable(ctx, a, base)
}

func (s *storeOf) Wake(ctx ctxt, a dispatch.Account) error {
	s.beside()
	if s.h.outage.away() {
		return unanswered(dispatch.Unavailable)
	}
	return s.Store.Wake(ctx, a)
}

// everyCall is the step between the calls at which an outage begins, from a random one on: 1 tests each call.
const everyCall = 3

// TestOutage_OfTheDatabase makes the database unavailable for 5 s, a minute and ten minutes, from each of the first 24
// calls on, with that call committed or not, for both protocols and two processes. It checks that each job runs once
// and ends, that no platform id is lost, and that the platform is not recorded as unresponsive.
func TestOutage_OfTheDatabase(t *testing.T) {
	platforms := map[string]func(conformance.Link) dispatch.Platform{
		"two steps": func(l conformance.Link) dispatch.Platform { return conformance.TwoStep{Link: l} },
		"one step":  func(l conformance.Link) dispatch.Platform { return conformance.OneStep{Link: l} },
	}
	for name, platform := range platforms {
		for _, lasts := range []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute} {
			for _, commits := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %v, committed %v", name, lasts, commits), func(t *testing.T) {
					for call := 1 + rand.IntN(everyCall); call <= 24; call += everyCall {
						synctest.Test(t, func(t *testing.T) { awayAt(t, platform, call, lasts, commits) })
					}
				})
			}
		}
	}
}

func awayAt(t *testing.T, platform func(conformance.Link) dispatch.Platform, call int, lasts time.Duration,
	commits bool) {
	h := calm(t, dispatch.Limits{Jobs: 4, Requests: 2, Send: 30 * time.Second})
	h.platform = platform
	_, h.twoStep = platform(conformance.Link{}).(conformance.TwoStep)
	h.procs = []*process{h.start("one"), h.start("two")}
	time.Sleep(time.Second)
	h.procs[0].acceptTask("ann", request(), 3)
	h.outage.plan(call, lasts, commits)
	time.Sleep(lasts)
	time.Sleep(3 * time.Hour)
	h.check()
	for id, j := range h.jobs {
		if j.Phase != dispatch.Ended {
			h.violated("job %d is %s %s %q after %d attempts", id, j.Phase, j.Status, j.Attention, j.Attempt)
		}
	}
	if h.silences > 0 {
		h.violated("the platform was recorded as unresponsive %d times", h.silences)
	}
	for _, p := range h.procs {
		if n := p.Unsaved(); n > 0 {
			h.violated("%d responses are not saved", n)
		}
		p.stop()
		<-p.done
	}
	time.Sleep(time.Hour)
	for _, w := range h.wrong {
		t.Errorf("call %d: %s", call, w)
	}
}
