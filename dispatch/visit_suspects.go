package dispatch

import (
	"slices"
	"sync"
	"time"
)

// mostBegun is how many submissions of a job in a row may end in a crash before the job is set aside.
const mostBegun = 3

// aloneAgain is when a visit looks again whether it may submit a suspect. It is woken earlier when it may.
const aloneAgain = 5 * time.Second

const setAsideText = "Three times in a row the broker crashed while it submitted this job, so the job is not submitted again by itself."

// suspectsAtOnce is how many jobs this process submits at once that were in hand at one crash.
const suspectsAtOnce = 32

// suspects bounds how many jobs this process submits at once whose last submission was begun and brought no answer. Most such jobs
// only happened to be in hand when the process was killed. Those of one crash go many at once; if the process is killed again,
// the few that were in hand go last, one at a time. So only one job is in hand at a third crash.
type suspects struct{ once, often gate }

// gate bounds how many suspects of one kind are submitted at once.
type gate struct {
	mu    sync.Mutex
	taken int
	queue []Account // whose visits wait, in the order in which they came
	next  Account   // whose turn it is for the last place, until the time below
	until time.Time
}

// turnFor is how long the account whose turn it is has to use it.
const turnFor = time.Second

// acquire reports whether the account's visit may submit a suspect now, of whom so many may be under way. If not, the account is queued.
func (s *gate) acquire(a Account, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= most || s.taken == most-1 && s.next != a && time.Now().Before(s.until) {
		if !slices.Contains(s.queue, a) {
			s.queue = append(s.queue, a)
		}
		return false
	}
	s.taken, s.until = s.taken+1, time.Time{}
	s.queue = slices.DeleteFunc(s.queue, func(b Account) bool { return a == b })
	return true
}

// release lets the next suspect be submitted. It gives the account that has waited longest; "": none.
func (s *gate) release() (next Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if len(s.queue) > 0 {
		next, s.queue = s.queue[0], s.queue[1:]
		s.next, s.until = next, time.Now().Add(turnFor)
	}
	return next
}

// busy reports whether suspects are under way, or one is about to be.
func (s *gate) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken > 0 || time.Now().Before(s.until)
}

// acquire lets the account's visit submit j now, and gives the gate to leave then; nil: not now.
func (s *suspects) acquire(a Account, j Job) *gate {
	switch {
	case j.Begun == 1 && s.once.acquire(a, suspectsAtOnce):
		return &s.once
	case j.Begun > 1 && !s.once.busy() && s.often.acquire(a, 1):
		return &s.often
	}
	return nil
}

// maySubmit reports whether j may be submitted now. A job that is to be set aside is given that verdict instead.
func (v *visit) maySubmit(j Job) bool {
	if j.Begun == 0 {
		return true
	}
	if j.Begun >= mostBegun {
		v.setAside(j)
		return false
	}
	g := v.broker.suspects.acquire(v.account, j)
	if g == nil {
		v.suspectsAt = time.Now().Add(aloneAgain)
		return false
	}
	set(&v.gated, j.ID, g)
	return true
}

// restCrowded is how long to wait while suspects wait to be submitted: until then, or until something else is due.
func (v *visit) restCrowded() time.Duration {
	d := time.Until(v.suspectsAt)
	if next := earlier(v.agenda.Next, v.after(v.agenda.NextPoll, v.noSlotBefore[Reading])); !next.IsZero() {
		d = min(d, max(next.Sub(v.now()), agendaFresh))
	}
	return d
}

// setAside has a job end with the next save.
func (v *visit) setAside(j Job) {
	s := step{jobs: []Job{j}}
	v.mark(s.jobs, true)
	o := Outcome{Asked: AskNothing, Attempt: j.Attempt, Turn: j.Turn}
	v.unsaved = append(v.unsaved, platformResponse{platformRequest{step: s}, []jobOutcome{{j, o}}})
}

// submitted lets the next suspect be submitted once what became of a job is saved, or it was not sent.
func (v *visit) submitted(id JobID) {
	g := v.gated[id]
	if g == nil {
		return
	}
	delete(v.gated, id)
	v.suspectsAt = time.Time{}
	if next := g.release(); next != "" {
		v.broker.woken.signal(next)
	}
}

// releaseGates gives back what admits took.
func (v *visit) releaseGates() {
	for id := range v.gated {
		v.submitted(id)
	}
}
