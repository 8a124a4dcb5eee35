package dispatch

import (
	"slices"
	"sync"
	"time"
)

// mostBegun is how many submissions of a job in a row may end in a crash before the job is set aside.
const mostBegun = 3

// aloneAgain is when a visit looks again whether it may send a job alone. It is woken earlier when it may.
const aloneAgain = 5 * time.Second

const setAsideText = "Three times in a row the broker crashed while it submitted this job, so the job is not submitted again by itself."

// solitary lets this process submit one suspect at a time: a job whose last submission was begun and brought no answer. Most such
// jobs only happened to be in hand when the process was killed. If it is killed again, only one of them counts that against itself.
type solitary struct {
	mu    sync.Mutex
	taken bool
	queue []Account // whose visits wait, in the order in which they came
	next  Account   // whose turn it is, until the time below
	until time.Time
}

// turnFor is how long the account whose turn it is has to use it.
const turnFor = time.Second

// enter reports whether the account's visit may submit a suspect now. If not, the account is queued.
func (s *solitary) enter(a Account) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken || s.next != a && time.Now().Before(s.until) {
		if !slices.Contains(s.queue, a) {
			s.queue = append(s.queue, a)
		}
		return false
	}
	s.taken, s.until = true, time.Time{}
	s.queue = slices.DeleteFunc(s.queue, func(b Account) bool { return a == b })
	return true
}

// leave lets the next suspect be submitted. It gives the account that has waited longest; "": none.
func (s *solitary) leave() (next Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
	if len(s.queue) > 0 {
		next, s.queue = s.queue[0], s.queue[1:]
		s.next, s.until = next, time.Now().Add(turnFor)
	}
	return next
}

// admits reports whether j may be submitted now. A job that is to be set aside is given that verdict instead.
func (v *visit) admits(j Job) bool {
	switch {
	case j.Begun >= mostBegun:
		v.setAside(j)
		return false
	case j.Begun == 0:
		return true
	case v.alone != 0, !v.suspects.enter(v.account):
		v.crowded = time.Now().Add(aloneAgain)
		return false
	}
	v.alone = j.ID
	return true
}

// restCrowded is how long to wait while jobs wait to be sent alone: until then, or until something else is due.
func (v *visit) restCrowded() time.Duration {
	d := time.Until(v.crowded)
	if next := earlier(v.agenda.Next, v.after(v.agenda.NextLearn, v.shut[Reading])); !next.IsZero() {
		d = min(d, max(next.Sub(v.now()), glance))
	}
	return d
}

// setAside has a job end with the next save.
func (v *visit) setAside(j Job) {
	s := step{jobs: []Job{j}}
	v.mark(s.jobs, true)
	o := Outcome{Asked: AskNothing, Attempt: j.Attempt, Turn: j.Turn}
	v.unsaved = append(v.unsaved, flown{flight{step: s}, []answer{{j, o}}})
}

// sentAlone lets the next suspect be submitted once what became of the one of this visit is saved, or it was not sent.
func (v *visit) sentAlone(id JobID) {
	if v.alone == id {
		v.leaveAlone()
	}
}

// leaveAlone gives back what admits took.
func (v *visit) leaveAlone() {
	if v.alone == 0 {
		return
	}
	v.alone, v.crowded = 0, time.Time{}
	if next := v.suspects.leave(); next != "" {
		v.woken.signal(next)
	}
}
