package dispatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Task is one request for many values. Each of its jobs has one of the values, or one of each dimension.
type Task struct {
	ID        TaskID
	Owner     UserID
	Account   Account
	Request   Request // the part that its jobs share
	Dimension string  // the name of the first
	Created   time.Time
	Updated   time.Time // when the task or one of its jobs last changed
	Edited    time.Time // when its owner last paused, resumed or annotated it; zero: never
	Paused    bool      // none of its jobs that wait is submitted, except for the first Trial
	// why a task is paused that its owner did not pause: because of its budget, or Trial; None: its owner paused it
	PausedFor Attention
	Budget    Budget // what its jobs may cost
	Trial     int    // how many of its first jobs run although it is paused, until it is resumed; 0: none
	Hidden    bool

	Annotations Annotations

	// Document defines the task's service; nil: none. It is stored with the task. A store never fills in this field;
	// see Store.Document.
	Document *Document

	// Hooks are notified of this task alone. They are stored with it. A store never fills in this field.
	Hooks []Hook
}

// Choice selects jobs of a task. The zero value selects all.
type Choice struct {
	Jobs     []JobID  // nil: any
	Statuses []Status // nil: any
}

// All reports whether the choice selects all jobs.
func (c Choice) All() bool { return c.Jobs == nil && c.Statuses == nil }

// Contains reports whether the choice selects a job of its task.
func (c Choice) Contains(j Job) bool {
	return (c.Jobs == nil || slices.Contains(c.Jobs, j.ID)) &&
		(c.Statuses == nil || slices.Contains(c.Statuses, j.Status))
}

// NoSuchJob is the error for the job at position i of the choice, which is none of the task's.
func (c Choice) NoSuchJob(i int) error {
	return InvalidBody("dispatch.Choice", fmt.Sprintf("The task has no job %d.", c.Jobs[i]), "jobs", i)
}

// TaskRecord is a task as its owner sees it. Its status is derived and never stored: see [Counts.Status].
type TaskRecord struct {
	Task
	Counts    Counts
	Ended     time.Time // when the last of its jobs ended; zero while one has not, and if it has none left
	Progress  float64   // percent, the mean of its jobs; a job that has ended counts as 100, however it ended
	Attention Attention // the TaskAttention of its jobs; ServiceChanged: its document changed while some of them waited
	Spending  *Spending // nil if the task has no budget
	Change    Change    // of its jobs, that is under way

	// Set by [broker.Broker.ForecastTask] alone.
	Forecast *Forecast // nil: not known
	Rest     *Rest     // of a task that waits for its owner; nil otherwise
}

// attentionOrder lists attentions in the order in which a task shows them: first those that its user can resolve, then
// those that its user must decide on, then those that the operator must resolve, then those that pass without action.
var attentionOrder = []Attention{NeedsSignIn, SubmissionUnknown, BudgetReached, BudgetUnusable, TrialEnded,
	RefusedForbidden, RefusedUnsupported, GivenUp, Overdue, Lost, NeedsOperator, HeldByOperator, NoPlatform,
	Stalled, CostsAwaited, Trial, Paused, Retrying, Unreachable, Full, NotTaken, InDoubt, Missing, CancelUnsupported}

// Attend returns the attention that t shows if its jobs have the given ones. While jobs of a task are being resumed,
// some are still paused: that it is paused is shown by the task alone. Why it is paused concerns nobody once all its
// jobs have ended, as when its owner canceled those that waited.
func (t TaskRecord) Attend(all ...Attention) Attention {
	if !t.Paused {
		all = slices.DeleteFunc(slices.Clone(all), func(a Attention) bool { return a == Paused })
	}
	all = append(all, t.Attention)
	if !t.Counts.Status().Final() {
		all = append(all, t.PausedFor)
	}
	return TaskAttention(all...)
}

// TaskAttention returns the attention that a task shows if its jobs have the given ones. Attentions that are not in
// attentionOrder come after it, sorted by name, and ServiceChanged comes last.
func TaskAttention(all ...Attention) Attention {
	rank := func(a Attention) int {
		switch i := slices.Index(attentionOrder, a); {
		case a == None:
			return len(attentionOrder) + 2
		case a == ServiceChanged:
			return len(attentionOrder) + 1
		case i < 0:
			return len(attentionOrder)
		default:
			return i
		}
	}
	if len(all) == 0 {
		return None
	}
	return slices.MinFunc(all, func(a, b Attention) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
}

// Counts is the number of a task's jobs in each status, without the jobs that their owner deleted. A status that no job
// has is left out.
type Counts map[Status]int

// Jobs returns the sum of all counts.
func (c Counts) Jobs() int {
	n := 0
	for _, k := range c {
		n += k
	}
	return n
}

// Ended returns the number of jobs that have ended.
func (c Counts) Ended() int { return c[Finished] + c[Canceled] + c[Failed] }

// Status returns the status of a task, by the first rule that applies. A task without any job left is canceled.
func (c Counts) Status() Status {
	if ended := c.Ended(); ended > 0 && ended < c.Jobs() {
		return Running
	}
	for _, s := range []Status{Running, Queued, Submitted, Accepted, Unknown, Finished, Failed} {
		if c[s] > 0 {
			return s
		}
	}
	return Canceled
}

// Pausable returns nil if a task may be paused, and Conflict if it has ended.
func (c Counts) Pausable(op string) error {
	if status := c.Status(); status.Final() {
		return &Error{Kind: Conflict, Op: op,
			Text: "The task has ended: it is " + string(status) + ". No job of it waits."}
	}
	return nil
}

// AsOneJob returns the status of a task for clients to which it is one job: as Status, but a task with canceled jobs is
// not finished, because its results are not whole.
func (c Counts) AsOneJob() Status {
	if s := c.Status(); s != Finished || c[Canceled] == 0 {
		return s
	}
	return Canceled
}

// Progress returns the progress of a task in percent. live is the sum of the percentages of its jobs that have not
// ended.
func (c Counts) Progress(live float64) float64 {
	if c.Jobs() == 0 {
		return 100
	}
	return min(100, (100*float64(c.Ended())+live)/float64(c.Jobs()))
}

// End returns when a task ended: at the given end of its last job, or zero if some jobs have not ended.
func (c Counts) End(last time.Time) time.Time {
	if !c.Status().Final() {
		return time.Time{}
	}
	return last
}

// Tally counts the jobs of a task while they are read, so that the task is shown consistently with its jobs.
type Tally struct {
	counts  Counts
	live    float64
	updated time.Time
	ended   time.Time
}

// Add counts a job.
func (y *Tally) Add(j Job) {
	if y.counts == nil {
		y.counts = Counts{}
	}
	y.counts[j.Status]++
	y.updated = Later(y.updated, j.Updated)
	if j.Status.Final() {
		y.ended = Later(y.ended, j.Moved)
	}
	if !j.Status.Final() && j.Progress != nil {
		y.live += *j.Progress
	}
}

// CountsFor returns t with the counts of the jobs, and with the progress and the times of the last change and of the
// end that follow from them.
func (y *Tally) CountsFor(t TaskRecord) TaskRecord {
	t.Counts = y.counts
	if t.Counts == nil {
		t.Counts = Counts{}
	}
	t.Updated = Later(Later(t.Created, t.Edited), y.updated)
	t.Progress, t.Ended = t.Counts.Progress(y.live), t.Counts.End(y.ended)
	return t
}

// RequestFor returns the request of a job of the task. v is what is stored of the job, see [Record].Value. A dimension
// is never one of the task's own parameters, so that the value and the parameters are copied byte for byte. If the task
// has no parameters, the error is Internal.
func (t Task) RequestFor(j Job, v json.RawMessage) (Request, error) {
	r := t.RequestHeadFor(j)
	r.Options = t.jobOptions()
	shared := bytes.TrimSpace(t.Request.Parameters)
	name, err := json.Marshal(t.Dimension)
	if err != nil || len(shared) < 2 || shared[len(shared)-1] != '}' {
		return r, &Error{Kind: Internal, Op: "dispatch.Task.RequestFor",
			Err: fmt.Errorf("task %d has no parameters: %w", t.ID, err)}
	}
	shared = bytes.TrimSpace(shared[:len(shared)-1])
	comma := ","
	if len(shared) == 1 { // only the opening brace
		comma = ""
	}
	r.Parameters = slices.Concat(shared, []byte(comma), name, []byte(":"), v, []byte("}"))
	return r, nil
}

// jobOptions returns the options of the jobs of the task.
func (t Task) jobOptions() json.RawMessage {
	if !bytes.Contains(t.Request.Options, []byte(OptionBudget)) &&
		!bytes.Contains(t.Request.Options, []byte(optionTrial)) {
		return t.Request.Options
	}
	return t.Request.OptionsWithout(OptionBudget, optionTrial)
}

// At returns t with the service of its jobs at an account, for a task with several placements.
func (t Task) At(a Account) Task {
	for _, h := range t.Request.Placements {
		if h.Account == a {
			t.Request.Label, t.Request.Service, t.Request.Pin = h.Label, h.Service, h.Pin
		}
	}
	return t
}

// RequestHeadFor returns the request of a job of the task without its parameters and options. If the task has several
// placements, its service is that at the job's account.
func (t Task) RequestHeadFor(j Job) Request {
	r := t.At(j.Account).Request
	r.Title, r.Parameters, r.Options, r.Placements = t.titleOf(j), nil, nil, nil
	return r
}

func (t Task) titleOf(j Job) string {
	title := t.Request.Title + " - Processing Job " + strconv.Itoa(j.Number)
	if name := j.Name(); name != "" {
		title += " (" + name + ")"
	}
	return title
}

// Change is how far a change of the jobs of a task has come, such as a cancellation; zero: none is under way. It holds
// from its beginning on: no job that it stops is submitted.
type Change struct {
	Action string
	Done   int // up to which number it has changed the jobs
	Last   int // the number of the last job that it changes
}

// Draft returns a draft of all jobs, and sets the limits of the task. If only some are to run on trial, the task is
// paused except for these.
func (t *Task) Draft(shared Draft, d *Dimension) Draft {
	asked := t.Request.Asked()
	t.Budget = asked.Budget
	if n := asked.Trial; n > 0 && n < d.Jobs() {
		t.Trial, t.Paused, t.PausedFor = n, true, Trial
	}
	return Draft{Job: shared.Job, Dimension: d, Trial: t.Trial}
}
