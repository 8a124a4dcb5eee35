package dispatch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// HookKind is how an address is notified.
type HookKind string

const (
	Webhook       HookKind = "webhook" // a CloudEvent, signed if the hook has a secret
	Mail          HookKind = "mail"    // a mail about several events; the URL is mailto: and the address
	OGCSubscriber HookKind = "ogc"     // what OGC API - Processes has sent to a subscriber
)

// Hook is an address that is notified of events of its owner's jobs: of all, of one, or of those of one task.
type Hook struct {
	ID       string // random letters and digits
	Owner    UserID
	Kind     HookKind
	Job      JobID  // 0: not of one
	Task     TaskID // 0: not of one
	URL      string
	Statuses []Status  // of which it is notified: Running and the ends
	Gone     bool      // the receiver answered that it wants nothing more
	Failures int       // rounds of deliveries in a row in which none arrived
	Hold     time.Time // nothing is sent before
	Created  time.Time
	Sealed   // the secret that signs deliveries; zero: they are not signed
}

// DeliveryState is whether a delivery is over.
type DeliveryState string

const (
	DeliveryWaiting DeliveryState = "waiting"
	DeliveryDone    DeliveryState = "delivered"
	DeliveryFailed  DeliveryState = "failed"
)

// TestEvent is the status in a delivery that its owner requested as a test. It has no job.
const TestEvent Status = "test"

// Events of hooks besides statuses of jobs.
const (
	// a job or a task waits for its owner; in an event its reason follows, see Needs
	NeedsOwner  Status = "attention"
	SignInEvent Status = "sign_in_required" // all jobs of an account wait for their owner; sent to hooks of NeedsOwner
	TaskEnded   Status = "task_ended"       // all jobs of a task have ended
	// begins the event that a share of a task's jobs has ended; its percentage follows
	SharePrefix = "task_share_"
)

// Events of a task, for receivers to which it is one job, see Counts.AsOneJob.
const (
	TaskRunning  Status = "task_running"  // some of its jobs have ended, and others have not
	TaskFinished Status = "task_finished" // it has ended as Finished
	TaskFailed   Status = "task_failed"   // it has ended otherwise
)

// reasonPrefix begins the status of an event that a job or a task waits for its owner. Its attention follows.
const reasonPrefix = string(NeedsOwner) + "_"

// Needs returns the status of the event that a job or a task waits for its owner for a reason.
func Needs(why Attention) Status { return Status(reasonPrefix + string(why)) }

// Needed reports whether s is the status of such an event, and returns the reason: None if the event was stored by a
// version that did not keep it.
func (s Status) Needed() (why Attention, ok bool) {
	if reason, ok := strings.CutPrefix(string(s), reasonPrefix); ok {
		return Attention(reason), true
	}
	return None, s == NeedsOwner
}

// Event is what happened to a job or a task. All of it together identifies it.
type Event struct {
	Job    JobID  // 0: of a task, an account, or a test
	Of     TaskID // the task that it happened to; 0: to none
	Epoch  int    // grows from one event to the next
	Status Status
}

// String returns the identifier of an event, by which receivers recognise one that they have had already.
func (e Event) String() string {
	if e.Of != 0 {
		return fmt.Sprintf("task-%d-%d-%s", e.Of, e.Epoch, e.Status)
	}
	return fmt.Sprintf("job-%d-%d-%s", e.Job, e.Epoch, e.Status)
}

// ParseEvent is the inverse of Event.String.
func ParseEvent(id string) (e Event, err error) {
	parts := strings.Split(id, "-")
	if len(parts) != 4 {
		return e, errors.New("it does not have four parts")
	}
	subject, err := strconv.ParseInt(parts[1], 10, 64)
	epoch, failed := strconv.Atoi(parts[2])
	e = Event{Job: JobID(subject), Epoch: epoch, Status: Status(parts[3])}
	if parts[0] == "task" {
		e.Job, e.Of = 0, TaskID(subject)
	}
	if err = errors.Join(err, failed); err == nil && e.String() != id {
		err = errors.New("it is not written as Event.String writes it")
	}
	return e, err
}

// Delivery is an event that is sent to a hook, and how far that has come.
type Delivery struct {
	Hook string
	Event
	Task     TaskID // 0: the job belongs to none
	Number   int    // in its task
	Happened time.Time
	Queued   time.Time // since when it is to be sent
	Due      time.Time // when the next try is due; zero: there is none
	State    DeliveryState
	Tries    int
	Tried    time.Time // when the last try began; zero: there was none
	Answer   int       // HTTP status of the last try; 0: none arrived
	Notice   string    // why the last try failed; safe to show
}

// A hook is sent MostTests tests in TestsWithin at most.
const (
	MostTests   = 10
	TestsWithin = 10 * time.Minute
)

// ReleasesEvery is how long ago the last round of a hook must have ended for its owner to end its pause: a receiver
// that fails, or asks for a pause, is not tried as often as somebody asks for it.
const ReleasesEvery = time.Minute

// DeliveryLife is how long a delivery is kept from when it was to be sent.
const DeliveryLife = 7 * 24 * time.Hour

// Notify is an address that a request asks to notify of its own job, or its task.
type Notify struct {
	Kind     HookKind
	URL      string
	Statuses []Status // nil: the ends of the job, or that of the task, and what waits for its owner
	Verified bool     // of Mail: the identity provider says that the address is the user's
	Secret   Secret   // signs messages; "": they are not signed
}

// Targets makes hooks of what requests ask for. Hooks are stored with the job or the task.
type Targets interface {
	// Target returns a hook without a job. Invalid if nothing is sent to the address; Unsupported if it has a secret
	// and the service cannot keep one.
	Target(UserID, Notify) (Hook, error)
}
