package dispatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Dimension is the parameter that a task gives each of its jobs another value of.
type Dimension struct {
	Name   string            `json:"name"`
	Values []json.RawMessage `json:"values,omitempty"`
}

// Task is one request over many values; its jobs carry the values.
type Task struct {
	ID        TaskID
	Owner     UserID
	Account   Account
	Request   Request // what its jobs share
	Dimension string
	Created   time.Time
	Updated   time.Time // when one of its jobs last changed
	Hidden    bool

	// Document defines its service, nil: none. It is kept with the task; Store never fills it in, see Store.Document.
	Document *Document
}

// TaskRecord is a task as its owner sees it. Its status is derived, never kept: see [Counts.Status].
type TaskRecord struct {
	Task
	Counts    Counts
	Progress  float64   // percent, the mean of its jobs; what has ended is done, however it ended
	Attention Attention // the foremost that its jobs have, see Foremost; ServiceChanged: its document did, while some of them waited
}

// foremost are attentions in the order in which a task shows them: first what its user can mend, then what its user decides, then
// what the operator must mend, then what passes by itself.
var foremost = []Attention{NeedsSignIn, SubmissionUnknown, RefusedForbidden, RefusedUnsupported, GivenUp, Overdue, Lost, NeedsOperator, NoPlatform,
	Stalled, Unreachable, Full, NotTaken, InDoubt, Missing, CancelUnsupported}

// Foremost is the attention that a task shows whose jobs have these. Those that have no place in the order come after it, by
// their names, and ServiceChanged comes last.
func Foremost(all ...Attention) Attention {
	rank := func(a Attention) int {
		switch i := slices.Index(foremost, a); {
		case a == None:
			return len(foremost) + 2
		case a == ServiceChanged:
			return len(foremost) + 1
		case i < 0:
			return len(foremost)
		default:
			return i
		}
	}
	if len(all) == 0 {
		return None
	}
	return slices.MinFunc(all, func(a, b Attention) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
}

// Counts is how many of a task's jobs, which their owner did not delete, have each status. What none has is left out.
type Counts map[Status]int

// Jobs is the sum of all counts.
func (c Counts) Jobs() int {
	n := 0
	for _, k := range c {
		n += k
	}
	return n
}

func (c Counts) ended() int { return c[Finished] + c[Canceled] + c[Failed] }

// Status is how a task stands, by the first rule that holds. A task that has no job left is canceled.
func (c Counts) Status() Status {
	if ended := c.ended(); ended > 0 && ended < c.Jobs() {
		return Running
	}
	for _, s := range []Status{Running, Queued, Submitted, Accepted, Unknown, Finished, Failed} {
		if c[s] > 0 {
			return s
		}
	}
	return Canceled
}

// Progress is that of a task whose live jobs have so many percent together.
func (c Counts) Progress(live float64) float64 {
	if c.Jobs() == 0 {
		return 100
	}
	return min(100, (100*float64(c.ended())+live)/float64(c.Jobs()))
}

// Tally counts the jobs of a task while they are read, so that the task is shown consistently with its jobs.
type Tally struct {
	counts  Counts
	live    float64
	updated time.Time
}

// Add counts a job.
func (y *Tally) Add(j Job) {
	if y.counts == nil {
		y.counts = Counts{}
	}
	y.counts[j.Status]++
	y.updated = later(y.updated, j.Updated)
	if !j.Status.Final() && j.Progress != nil {
		y.live += *j.Progress
	}
}

// Of returns the task with the counts.
func (y *Tally) Of(t TaskRecord) TaskRecord {
	t.Counts = y.counts
	if t.Counts == nil {
		t.Counts = Counts{}
	}
	t.Updated = later(t.Created, y.updated)
	t.Progress = t.Counts.Progress(y.live)
	return t
}

// For gives the request of the task's job number n, from 1, whose value is v. The dimension is none of the task's own
// parameters, so that value and parameters stay as they are, to the byte.
func (t Task) For(n int, v json.RawMessage) (Request, error) {
	r := t.Request
	r.Title = t.titleOf(n)
	shared := bytes.TrimSpace(t.Request.Parameters)
	name, err := json.Marshal(t.Dimension)
	if err != nil || len(shared) < 2 || shared[len(shared)-1] != '}' {
		return r, &Error{Kind: Internal, Op: "dispatch.Task.For", Err: fmt.Errorf("task %d has no parameters: %w", t.ID, err)}
	}
	shared = bytes.TrimSpace(shared[:len(shared)-1])
	comma := ","
	if len(shared) == 1 { // the brace
		comma = ""
	}
	r.Parameters = slices.Concat(shared, []byte(comma), name, []byte(":"), v, []byte("}"))
	return r, nil
}

// HeadFor gives the request of the task's job number n without its parameters and options.
func (t Task) HeadFor(n int) Request {
	r := t.Request
	r.Title, r.Parameters, r.Options = t.titleOf(n), nil, nil
	return r
}

// ValueOf is the value that one of the task's jobs has, of its request; nil if it has none.
func (t Task) ValueOf(r Request) json.RawMessage {
	var parameters map[string]json.RawMessage
	_ = json.Unmarshal(r.Parameters, &parameters)
	return parameters[t.Dimension]
}

func (t Task) titleOf(n int) string {
	return fmt.Sprintf("%s - Processing Job %d", t.Request.Title, n)
}

// maxRendered is how many bytes the requests of a task's jobs may have together: they are given to the task's owner at
// once.
const maxRendered = 64 << 20

// rendered is the size of the requests of so many jobs with these values.
func (t Task) rendered(values []json.RawMessage) int {
	shared := len(t.titleOf(len(values))) + len(t.Request.Parameters) + len(t.Request.Options) + len(t.Dimension)
	total := shared * len(values)
	for _, v := range values {
		total += len(v)
	}
	return total
}

// checkTask finds what is wrong with a task before anybody is asked. What its service says of it is [Checker]'s.
func checkTask(t Task, values []json.RawMessage) error {
	var shared map[string]json.RawMessage
	if err := json.Unmarshal(t.Request.Parameters, &shared); err != nil {
		return InvalidBody("dispatch.AcceptTask", "The parameters are no JSON object.", "parameters")
	}
	_, twice := shared[t.Dimension]
	switch {
	case len(values) == 0:
		return InvalidBody("dispatch.AcceptTask", "There are no values.", "dimension", "values")
	case twice:
		return InvalidBody("dispatch.AcceptTask", fmt.Sprintf("%q is also among the parameters. Give it in one place.", short(t.Dimension)), "dimension", "name")
	case t.rendered(values) > maxRendered:
		return InvalidBody("dispatch.AcceptTask", fmt.Sprintf("Parameters and values have more than %d MiB, when the parameters are counted once for each value. Split the task.", maxRendered>>20), "dimension", "values")
	}
	for i, v := range values {
		if !json.Valid(v) {
			return InvalidBody("dispatch.AcceptTask", "The value is no JSON.", "dimension", "values", i)
		}
	}
	return nil
}

// short bounds a text that is repeated to who sent it.
func short(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
