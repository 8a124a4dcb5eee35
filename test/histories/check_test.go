package histories

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// The checks run in a bubble of testing/synctest, where sleeping takes no real time.

// accepted records the jobs that were stored, and checks that an idempotency key always refers to the same job.
func (h *history) accepted(s conformance.Store, k dispatch.Key, r dispatch.KeyTarget, jobs []dispatch.Draft) {
	if r != (dispatch.KeyTarget{}) {
		h.locked(func() {
			if h.byKey[k.Text] != r.Job {
				h.violated("key %s refers to job %d, but first referred to job %d", k.Text, r.Job, h.byKey[k.Text])
			}
		})
		return
	}
	h.locked(func() { h.byKey[k.Text] = jobs[0].ID })
	for i := range dispatch.CountJobs(jobs) { // those of a task follow each other
		j, err := s.Load(context.Background(), jobs[0].ID+dispatch.JobID(i))
		h.saw("accept", j, err)
	}
}

// sawTask records the committed state of all jobs of a task.
func (h *history) sawTask(what string, s conformance.Store, id dispatch.TaskID, err error) {
	if err != nil {
		return
	}
	h.mu.Lock()
	var ids []dispatch.JobID
	for _, j := range h.jobs {
		if j.Task == id {
			ids = append(ids, j.ID)
		}
	}
	h.mu.Unlock()
	slices.Sort(ids)
	for _, id := range ids {
		j, err := s.Load(context.Background(), id)
		h.saw(what, j, err)
	}
}

// sawMoves records how many jobs of a task moved, and which runs of former attempts they may leave behind.
func (h *history) sawMoves(n int, m dispatch.JobMove) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moves += n
	for _, j := range h.jobs {
		if n > 0 && j.Task == m.Task {
			for _, r := range j.Past {
				h.left[r] = true
			}
		}
	}
}

// sawBudgets records what the budgets of the tasks of jobs made of their other jobs.
func (h *history) sawBudgets(s conformance.Store, jobs []dispatch.Job, err error) {
	seen := map[dispatch.TaskID]bool{}
	for _, j := range jobs {
		if j.Budgeted && !seen[j.Task] {
			h.sawTask("budget", s, j.Task, err)
			seen[j.Task] = true
		}
	}
}

// checkBudgets checks, before any budget ends, that no task has more runs than its budget permits, if each costs what
// all others do. One may run before the costs of any are known, and the platform reports none of a run that its
// response completes. A job that was retried although it may have run, or a restored store, can have runs that nobody
// knows.
func (h *history) checkBudgets() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.world.Costs == 0 || h.atLeastOnce || len(h.unsure) > 0 || h.restored {
		return
	}
	runs := map[dispatch.TaskID]int{}
	for _, r := range h.world.Runs() {
		j, _ := h.jobOf(h.jobs, r)
		lost := j.Status == dispatch.Canceled && j.Attention == dispatch.SubmissionUnknown // so nobody reads its costs
		if len(r.Starts) > 0 && j.Budgeted && !r.Sync && !lost {
			runs[j.Task]++
		}
	}
	for id, n := range runs {
		t, err := h.store.Task(h.t.Context(), h.ownerOf(id), id)
		if err == nil && n > max(1, int(t.Budget.Amount/h.world.Costs)) {
			h.violated("task %d has %d runs that cost %g each, with a budget of %g", id, n, h.world.Costs,
				t.Budget.Amount)
		}
	}
}

func (h *history) ownerOf(id dispatch.TaskID) (owner dispatch.UserID) {
	for _, j := range h.jobs {
		if j.Task == id {
			owner = j.Owner
		}
	}
	return owner
}

// checkLedger checks that what is booked for a user is what the platforms reported of the user's jobs.
func (h *history) checkLedger() {
	for _, u := range users {
		booked, known := 0.0, h.leftCosts[u]
		usage, err := h.store.Usage(h.t.Context(), u, time.Hour)
		for _, at := range usage {
			for _, c := range at.Charges {
				booked += c.Costs
			}
		}
		h.locked(func() {
			for _, j := range h.jobs {
				if costs := j.AllCosts(); j.Owner == u && costs != nil {
					known += *costs
				}
			}
			if math.Abs(booked-known) > 1e-6 || err != nil {
				h.violated("%g is booked for %s, and the jobs cost %g: %v", booked, u, known, err)
			}
		})
	}
}

// retried records a retry. It begins a new life of the job, in which the job may run once more.
func (h *history) retried(was, j dispatch.Job) {
	if was.Phase != dispatch.Ended || was.Status != dispatch.Failed || was.Hidden {
		h.violated("job %d was %s %s when it was retried", j.ID, was.Phase, was.Status)
	}
	if was.Ref != (dispatch.Ref{}) && !slices.Contains(j.Past, was.Ref) {
		h.violated("job %d lost its ref %s when it was retried", j.ID, was.Ref)
	}
	if was.Attention == dispatch.SubmissionUnknown {
		h.unsure[j.ID] = true
	}
	h.lives[j.ID] = append(h.lives[j.ID], j.Attempt)
}

// retriedByItself records a retry that no owner asked for. It begins a new life of the job, too.
func (h *history) retriedByItself(was, j dispatch.Job) {
	if was.Phase == dispatch.Waiting || was.Phase == dispatch.Ended || was.Desired != dispatch.WantRun ||
		j.Phase != dispatch.Waiting || j.Retried != was.Retried+1 || j.Retried > j.Retries {
		h.violated("job %d was %s, wanted to %s, when it was retried by itself for the %d. time of %d", j.ID, was.Phase,
			was.Desired, j.Retried, j.Retries)
	}
	if !slices.Contains(j.Past, was.Ref) || j.Ref != (dispatch.Ref{}) {
		h.violated("job %d lost its ref %s when it was retried by itself", j.ID, was.Ref)
	}
	h.ownRetries++
	h.lives[j.ID] = append(h.lives[j.ID], j.Attempt)
}

// life returns how often a job had been retried at the given attempt.
func (h *history) life(id dispatch.JobID, attempt int) int {
	n := 0
	for _, first := range h.lives[id] {
		if attempt >= first {
			n++
		}
	}
	return n
}

// saw records the committed state of a job, and checks the promises about single changes.
func (h *history) saw(what string, j dispatch.Job, err error) {
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.jobs[j.ID]
	h.jobs[j.ID] = j
	if was.Version == j.Version { // the job may have been hidden
		return
	}
	if was.Account != j.Account {
		h.movedAt[j.ID] = time.Now()
		if costs := was.AllCosts(); costs != nil {
			h.leftCosts[j.Owner] += *costs
		}
	}
	h.trace("%s job %d v%d: %s/%d %s %s ref %q orphans %v %s due +%v", what, j.ID, j.Version, j.Phase, j.Attempt,
		j.Desired, j.Status, j.Ref.ID, j.Orphans, j.Attention, j.Due.Sub(h.clock.Now()))
	if what == "intend" {
		h.intended[j.ID] = time.Now()
		if was.Phase == dispatch.Waiting && was.Paused {
			h.violated("job %d is submitted although its task is paused", j.ID)
		}
		if was.Phase == dispatch.Waiting {
			h.turns = append(h.turns, turn{j.Account, j.Owner})
		}
	}
	if what == "retry" {
		h.retried(was, j)
		return
	}
	if j.Retried > was.Retried {
		h.retriedByItself(was, j)
		return
	}
	// A move that is seen together with the end of a pause says nothing: the job was paused when it was seen last, not
	// when it was moved.
	if j.Account != was.Account && was.Version > 0 && j.Version == was.Version+1 && (was.Phase != dispatch.Waiting ||
		was.Desired != dispatch.WantRun || was.Paused || len(was.Orphans) > 0) {
		h.violated("job %d moved to %s when it was %s %s, orphans %v", j.ID, j.Account, was.Phase, was.Desired,
			was.Orphans)
	}
	// After a restore, a job adopts a later attempt that the broker made by itself since the backup.
	adopted := h.restored && j.Attempt > was.Attempt && slices.Contains(j.Past, was.Ref)
	if was.Phase == dispatch.Ended && (j.Phase != dispatch.Ended || j.Status != was.Status) &&
		!(adopted && was.Status == dispatch.Failed) {
		h.violated("job %d had ended as %s and became %s %s", j.ID, was.Status, j.Phase, j.Status)
	}
	if was.Ref != (dispatch.Ref{}) && j.Ref != was.Ref && !adopted {
		h.violated("job %d lost its ref %s", j.ID, was.Ref)
	}
	if j.Attention == dispatch.Overdue && (j.MaxDuration == 0 || j.Checked.Before(j.Deadline) ||
		j.Desired != dispatch.WantRun) {
		h.violated("job %d is canceled as overdue with maximum duration %v, deadline %v, last check %v", j.ID,
			j.MaxDuration, j.Deadline, j.Checked)
	}
	if j.Phase == dispatch.Ended && j.Status == dispatch.Canceled && was.Phase != dispatch.Ended {
		h.settled[j.ID] = time.Now()
	}
}

// intending checks that slots go to the owner who holds the fewest and, among several, to the one who was served
// longest ago.
func (h *history) intending(jobs []dispatch.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, served, last := map[dispatch.UserID]int{}, map[dispatch.UserID]int{}, 0
	for _, j := range h.jobs {
		if j.Account == jobs[0].Account && j.Phase.HoldsSlot() {
			held[j.Owner]++
		}
	}
	for i, of := range h.turns {
		if last = i + 1; of.account == jobs[0].Account {
			served[of.owner] = last
		}
	}
	first := func(a, b dispatch.UserID) bool {
		return held[a] < held[b] || held[a] == held[b] && served[a] < served[b]
	}
	for _, j := range jobs {
		if j.Phase != dispatch.Waiting || h.jobs[j.ID].Version != j.Version {
			continue
		}
		for _, other := range h.jobs {
			ready := other.Phase == dispatch.Waiting && !other.Paused && other.Account == j.Account &&
				other.Due.Before(h.clock.Now().Add(-5*time.Second)) &&
				time.Since(h.movedAt[other.ID]) > time.Second // a visit may use an agenda of the last 20 ms
			if ready && !slices.ContainsFunc(jobs, func(k dispatch.Job) bool { return k.ID == other.ID }) &&
				first(other.Owner, j.Owner) {
				h.violated("job %d of %s gets a slot before job %d of %s", j.ID, j.Owner, other.ID, other.Owner)
			}
		}
		last++
		held[j.Owner]++
		served[j.Owner] = last
	}
}

// atRest reports whether all jobs are at rest. If not, it returns one that is not.
func (h *history) atRest() (dispatch.Job, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, j := range h.jobs {
		unsure := j.Status == dispatch.Unknown && j.Attention == dispatch.SubmissionUnknown
		stays := j.Attention == dispatch.CancelUnsupported && j.Phase == dispatch.Started
		if j.Phase != dispatch.Ended && !unsure && !stays || len(j.Orphans) > 0 && h.cancels() || len(j.Unmetered) > 0 {
			return j, false
		}
	}
	return dispatch.Job{}, true
}

func (h *history) cancels() bool {
	_, can := h.platform(conformance.Link{}).(dispatch.Canceler)
	return can
}

// check checks the promises that hold at the end of every history.
func (h *history) check() {
	if j, rests := h.atRest(); !rests {
		h.violated("job %d does not come to rest: %s %s %q, orphans %v", j.ID, j.Phase, j.Status, j.Attention,
			j.Orphans)
	}
	h.mu.Lock()
	jobs := maps.Clone(h.jobs)
	h.mu.Unlock()
	for id, is := range jobs {
		stored, err := h.store.Load(h.t.Context(), id)
		if err != nil {
			h.violated("job %d is lost", id)
		}
		if err == nil && stored.Version != is.Version {
			h.violated("job %d: stored version %d, want %d", id, stored.Version, is.Version)
		}
	}
	h.checkRuns(jobs)
	h.checkLedger()
	time.Sleep(time.Until(h.world.Calm))
	h.outage.plan(0, 0, false) // one that has not begun would begin at a call of the checks
	time.Sleep(time.Until(h.outage.end()))
	for _, j := range jobs {
		h.checkOwner(j)
	}
}

// checkOwner checks that the owner of a job, and no other user, sees the job and its results.
func (h *history) checkOwner(j dispatch.Job) {
	p := h.procs[len(h.procs)-1]
	if _, err := p.Read(h.t.Context(), "dee", j.ID, time.Second); !dispatch.Is(err, dispatch.NotFound) {
		h.violated("job %d is shown to another user: %v", j.ID, err)
	}
	r, err := p.Read(h.t.Context(), j.Owner, j.ID, time.Minute)
	switch {
	case j.Hidden && !dispatch.Is(err, dispatch.NotFound):
		h.violated("job %d was deleted but is shown: %v", j.ID, err)
	case !j.Hidden && (err != nil || r.Request.Title == "" || r.Status != j.Status && j.Phase == dispatch.Ended):
		h.violated("job %d is shown as %s %q, want %s: %v", j.ID, r.Status, r.Request.Title, j.Status, err)
	}
	if j.Hidden || j.Phase != dispatch.Ended {
		return
	}
	c, err := p.Results(h.t.Context(), j.Owner, j.ID)
	if finished := j.Status == dispatch.Finished; finished && (err != nil || c == nil) || !finished &&
		!dispatch.Is(err, dispatch.Conflict) {
		h.violated("job %d is %s, but its results are %s, %v", j.ID, j.Status, c, err)
	}
}

// keeps reports whether the process that received the platform id of a run has lived long enough to save it, also after
// an outage of the database.
func (h *history) keeps(r conformance.Run) bool {
	for _, p := range h.procs {
		if p.name == r.KnownTo {
			until := time.Now()
			if p.dead {
				until = p.died
			}
			return until.Sub(r.Known) > 10*time.Minute+h.outage.longest
		}
	}
	return false
}

// checkVisible checks that jobs in doubt for more than four minutes are shown as such.
func (h *history) checkVisible() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, j := range h.jobs {
		at := h.intended[id]
		if end := h.outage.end(); end.After(at) { // nothing could be saved before the outage ended
			at = end
		}
		if j.Phase.InDoubt() && j.Attention == dispatch.None && time.Since(at) > 4*time.Minute && !h.jumps {
			h.violated("job %d is in doubt since %v, but has no attention", id, h.intended[id].Sub(h.began))
		}
	}
}

func (h *history) checkRuns(jobs map[dispatch.JobID]dispatch.Job) {
	type life struct {
		job dispatch.JobID
		n   int
	}
	runs := map[life]int{}
	for _, r := range h.world.Runs() {
		j, attempt := h.jobOf(jobs, r)
		runs[life{j.ID, h.life(j.ID, attempt)}] += len(r.Starts)
		if len(r.Starts) > 1 {
			h.violated("run %s of job %d was started %d times", r.Ref, j.ID, len(r.Starts))
		}
		for _, s := range r.Starts {
			if at, ok := h.settled[j.ID]; ok && s.After(at) {
				h.violated("run %s of job %d started %v after its cancel was settled", r.Ref, j.ID, s.Sub(at))
			}
		}
		known := r.Ref == j.Ref || slices.Contains(j.Orphans, r.Ref) || slices.Contains(j.Past, r.Ref) ||
			h.left[r.Ref] || r.Dropped || r.Sync && (j.Status == dispatch.Finished || j.Status == dispatch.Canceled)
		unsure := j.Attention == dispatch.SubmissionUnknown || h.unsure[j.ID] || h.atLeastOnce
		if len(r.Starts) > 0 && !known && !unsure {
			h.violated("run %s of job %d (attempt %d) is neither known nor shown as unknown", r.Ref, j.ID, attempt)
		}
		if !r.Known.IsZero() && !known && h.keeps(r) {
			h.violated("the response about run %s of job %d reached %s, but the run is not known", r.Ref, j.ID,
				r.KnownTo)
		}
		latest := h.life(j.ID, attempt) == h.life(j.ID, j.Attempt) // an earlier run, which failed, says nothing of it
		if !r.Known.IsZero() && h.keeps(r) && latest && j.Status == dispatch.Unknown && !h.unsure[j.ID] {
			h.violated("the response about run %s of job %d reached %s, but the job is unknown", r.Ref, j.ID, r.KnownTo)
		}
		if j.Status == dispatch.Canceled && r.Active(time.Now()) && !unsure {
			h.violated("run %s of canceled job %d continues", r.Ref, j.ID)
		}
		if known && r.Ref == j.Ref && j.Phase == dispatch.Ended && r.Active(time.Now()) {
			h.violated("run %s continues, but job %d has ended as %s", r.Ref, j.ID, j.Status)
		}
	}
	for of, n := range runs {
		if n > 1 && !h.atLeastOnce {
			h.violated("job %d ran %d times after %d retries", of.job, n, of.n)
		}
	}
}

func (h *history) jobOf(jobs map[dispatch.JobID]dispatch.Job, r conformance.Run) (dispatch.Job, int) {
	for _, j := range jobs {
		for attempt := range j.Attempt + 1 {
			j.Attempt = attempt
			if j.Tag(installation) == r.Tag {
				return jobs[j.ID], attempt
			}
		}
	}
	h.violated("run %s belongs to no job: %s", r.Ref, r.Tag)
	return dispatch.Job{}, 0
}
