package visit

import "github.com/eodispatch/eodispatch/dispatch"

// class is the urgency of a step. Classes are in order of urgency, most urgent first.
type class int

const (
	classCancel  class = iota // a job its owner no longer wants
	classSettle               // a submission in doubt
	classAwaited              // a status that a client awaits
	classSubmit               // a waiting job while a slot is free
	classPoll                 // a status that is due
	classMeter                // costs of a job that has ended; only while nothing more urgent is due
	classRemove               // a platform job to be removed; only while nothing more urgent is due
	classCount
)

func (c class) purpose() dispatch.Purpose {
	if c == classAwaited || c == classPoll || c == classMeter {
		return dispatch.Reading
	}
	return dispatch.Acting
}

const patience = 4 // how often a class is passed over before it goes first

// stepQueue chooses the next step. A class that was passed over four times goes first, the most urgent such class
// before the others, so that none waits longer than patience + classCount - 4 steps. Only classMeter and classRemove
// wait until no more urgent class has a step.
type stepQueue struct {
	due    [classCount][]dispatch.Job
	passed [classCount]int
}

func (t *stepQueue) take(open func(class) bool) (dispatch.Job, class, bool) {
	c := t.nextClass(open)
	if c == classCount {
		return dispatch.Job{}, c, false
	}
	for other := range t.due {
		if len(t.due[other]) > 0 {
			t.passed[other]++
		}
	}
	j := t.due[c][0]
	t.due[c], t.passed[c] = t.due[c][1:], 0
	return j, c, true
}

func (t *stepQueue) empty(open func(class) bool) bool { return t.nextClass(open) == classCount }

// onlyEnded reports whether nothing is due but requests about jobs that have ended: reads of costs, and removals.
func (t *stepQueue) onlyEnded() bool {
	for c := range classMeter {
		if len(t.due[c]) > 0 {
			return false
		}
	}
	return true
}

func (t *stepQueue) nextClass(open func(class) bool) class {
	first := classCount
	for c := classCount - 1; c >= 0; c-- {
		if len(t.due[c]) > 0 && open(c) {
			first = c
		}
	}
	for c := range classMeter {
		if len(t.due[c]) > 0 && t.passed[c] >= patience && open(c) {
			return c
		}
	}
	return first
}

func byID(jobs []dispatch.Job) map[dispatch.JobID]*dispatch.Job {
	m := make(map[dispatch.JobID]*dispatch.Job, len(jobs))
	for i := range jobs {
		m[jobs[i].ID] = &jobs[i]
	}
	return m
}

func (v *visit) setBusy(jobs []dispatch.Job, busy bool) {
	for _, j := range jobs {
		if busy {
			v.busy[j.ID] = true
		} else {
			delete(v.busy, j.ID)
			v.releaseGate(j.ID)
		}
	}
}
