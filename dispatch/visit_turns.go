package dispatch

// class is how urgent a step is: the lower, the more.
type class int

const (
	cancel  class = iota // a job its owner no longer wants
	settle               // a submission in doubt
	awaited              // whatever a client is waiting for
	submit               // a waiting job while a slot is free
	learn                // a status that is due
	classes
)

// purpose is what a step of the class wants a slot for.
func (c class) purpose() Purpose {
	if c == awaited || c == learn {
		return Reading
	}
	return Acting
}

const patience = 4 // turns a class is passed over before it is owed one

// turns says whose turn it is. A class that was passed over four times goes first, the most urgent such class before the
// others; so none waits longer than patience + classes - 2 turns.
type turns struct {
	due    [classes][]Job
	passed [classes]int
}

// take removes and returns the job whose turn it is, of the classes that are open.
func (t *turns) take(open func(class) bool) (Job, class, bool) {
	c := t.owed(open)
	if c == classes {
		return Job{}, c, false
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

func (t *turns) empty(open func(class) bool) bool { return t.owed(open) == classes }

func (t *turns) owed(open func(class) bool) class {
	first := classes
	for c := classes - 1; c >= 0; c-- {
		if len(t.due[c]) > 0 && open(c) {
			first = c
		}
	}
	for c := range classes {
		if len(t.due[c]) > 0 && t.passed[c] >= patience && open(c) {
			return c
		}
	}
	return first
}
