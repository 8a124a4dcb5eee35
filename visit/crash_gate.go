package visit

import (
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// aloneAgain is how long a visit waits before it checks again whether it may submit a suspect. It is woken earlier when
// its turn comes.
const aloneAgain = 5 * time.Second

// suspectsAtOnce is the maximum number of concurrent submissions of jobs that were being submitted at one crash.
const suspectsAtOnce = 32

// suspects limits the concurrent submissions of suspects in this process. A suspect is a job whose last submission was
// begun and got no response. For most suspects that submission was only by chance under way when the process was
// killed. Jobs with one such submission go many at once. If the process is killed again, the few that were under way go
// last, one at a time. So only one submission is under way at a third crash.
type suspects struct{ once, often gate }

// gate limits how many suspects of one kind are submitted at once.
type gate struct {
	mu    sync.Mutex
	taken int
	queue []dispatch.Account // accounts whose visits wait, in the order of their requests
	next  dispatch.Account   // the account for which the last place is reserved, until the time below
	until time.Time
}

// reservedFor is how long a place stays reserved for the account whose turn it is.
const reservedFor = time.Second

// acquire reports whether the account's visit may submit a suspect now, if at most most may be under way. If not, the
// account is queued.
func (s *gate) acquire(a dispatch.Account, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= most || s.taken == most-1 && s.next != a && time.Now().Before(s.until) {
		if !slices.Contains(s.queue, a) {
			s.queue = append(s.queue, a)
		}
		return false
	}
	s.taken, s.until = s.taken+1, time.Time{}
	s.queue = slices.DeleteFunc(s.queue, func(b dispatch.Account) bool { return a == b })
	return true
}

// release frees the place of a suspect. It reserves the place for the account that has waited longest, and returns that
// account; "" if none waits.
func (s *gate) release() (next dispatch.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if len(s.queue) > 0 {
		next, s.queue = s.queue[0], s.queue[1:]
		s.next, s.until = next, time.Now().Add(reservedFor)
	}
	return next
}

// busy reports whether suspects are under way, or a place is reserved for one.
func (s *gate) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken > 0 || time.Now().Before(s.until)
}

// acquire returns the gate that admits j, which must be released after the submission; nil if the account's visit may
// not submit j now.
func (s *suspects) acquire(a dispatch.Account, j dispatch.Job) *gate {
	switch {
	case j.Begun == 1 && s.once.acquire(a, suspectsAtOnce):
		return &s.once
	case j.Begun > 1 && !s.once.busy() && s.often.acquire(a, 1):
		return &s.often
	}
	return nil
}

// maySubmit reports whether j may be submitted now. A job with MostBegun unanswered submissions is set aside instead.
func (v *visit) maySubmit(j dispatch.Job) bool {
	if j.Begun == 0 {
		return true
	}
	if j.Begun >= dispatch.MostBegun {
		v.setAside(j)
		return false
	}
	g := v.visits.suspects.acquire(v.account, j)
	if g == nil {
		v.suspectsAt = time.Now().Add(aloneAgain)
		return false
	}
	dispatch.SetInMap(&v.gated, j.ID, g)
	return true
}

// suspectsWaitTime returns how long to wait while suspects wait to be submitted: until suspectsAt, or until something
// else is due.
func (v *visit) suspectsWaitTime() time.Duration {
	d := time.Until(v.suspectsAt)
	if next := dispatch.Earlier(v.agenda.Next, v.after(v.agenda.NextPoll,
		v.noSendBefore[dispatch.Reading])); !next.IsZero() {
		d = min(d, max(next.Sub(v.now()), shortWait))
	}
	return d
}

// setAside adds an outcome that ends the job at the next save.
func (v *visit) setAside(j dispatch.Job) {
	s := step{jobs: []dispatch.Job{j}}
	v.setBusy(s.jobs, true)
	o := dispatch.Outcome{Asked: dispatch.AskNothing, Attempt: j.Attempt, Epoch: j.Epoch}
	v.unsaved = append(v.unsaved, platformResponse{platformRequest{step: s}, []jobOutcome{{j, o}}})
}

// releaseGate releases the gate of a job whose outcome is saved or that was not sent, and wakes the account whose turn
// is next.
func (v *visit) releaseGate(id dispatch.JobID) {
	g := v.gated[id]
	if g == nil {
		return
	}
	delete(v.gated, id)
	v.suspectsAt = time.Time{}
	if next := g.release(); next != "" {
		v.visits.Hub.Woken.Signal(next)
	}
}

// releaseGates releases all gates that this visit has acquired.
func (v *visit) releaseGates() {
	for id := range v.gated {
		v.releaseGate(id)
	}
}
