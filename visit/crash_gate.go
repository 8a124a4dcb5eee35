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
type suspects struct {
	mu          sync.Mutex
	once, often int                // under way with one such submission, and with more
	waiting     []dispatch.Account // whose visits wait, in the order of their requests
}

// acquire reports whether the account's visit may submit now a job with so many such submissions. If not, the account
// is queued.
func (s *suspects) acquire(a dispatch.Account, begun int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case begun == 1 && s.once < suspectsAtOnce:
		s.once++
	case begun > 1 && s.once+s.often == 0:
		s.often++
	default:
		if !slices.Contains(s.waiting, a) {
			s.waiting = append(s.waiting, a)
		}
		return false
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(b dispatch.Account) bool { return a == b })
	return true
}

// release ends a submission, and returns the account that has waited longest; "" if none waits.
func (s *suspects) release(begun int) (next dispatch.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun == 1 {
		s.once--
	} else {
		s.often--
	}
	if len(s.waiting) > 0 {
		next, s.waiting = s.waiting[0], s.waiting[1:]
	}
	return next
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
	if !v.visits.suspects.acquire(v.account, j.Begun) {
		v.suspectsAt = time.Now().Add(aloneAgain)
		return false
	}
	dispatch.SetInMap(&v.gated, j.ID, j.Begun)
	return true
}

// setAside adds an outcome that ends the job at the next save.
func (v *visit) setAside(j dispatch.Job) {
	s := step{jobs: []dispatch.Job{j}}
	v.setBusy(s.jobs, true)
	o := dispatch.Outcome{Asked: dispatch.AskNothing, Attempt: j.Attempt, Epoch: j.Epoch}
	v.unsaved = append(v.unsaved, platformResponse{platformRequest{step: s}, []jobOutcome{{j, o}}})
}

// releaseGate ends the submission of a suspect whose outcome is saved or that was not sent, and wakes the account whose
// turn is next.
func (v *visit) releaseGate(id dispatch.JobID) {
	begun, gated := v.gated[id]
	if !gated {
		return
	}
	delete(v.gated, id)
	v.suspectsAt = time.Time{}
	if next := v.visits.suspects.release(begun); next != "" {
		v.visits.Hub.Woken.Signal(next)
	}
}
