package dispatch

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What platforms really log, and who is to blame.
func TestFailureRules_OfAllPlatforms(t *testing.T) {
	for text, want := range map[string]Cause{
		"Stage error: Job aborted due to stage failure: ExecutorLostFailure (executor 12 exited)": CausedByPlatform,
		"requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed " +
			"connection'))": CausedByPlatform,
		"HTTP status code 503 while reading s3://bucket/key":                                       CausedByPlatform,
		"Server error: Internal Server Error":                                                      CausedByPlatform,
		"node ip-10-0-0-7 was preempted":                                                           CausedByPlatform,
		"OSError: [Errno 28] No space left on device":                                              CausedByPlatform,
		"NoDataAvailable: There is no data available for the given extents.":                       CausedByRequest,
		"ExecutorLostFailure: Container killed by YARN for exceeding memory limits: out of memory": CausedByRequest,
		"ProcessParameterInvalid: The value of spatial_extent is no bounding box":                  CausedByRequest,
		"ValueError: operands could not be broadcast together with shapes (500,2) (503,2)":         CausedByRequest,
		"HTTP 403 Forbidden": CausedByRequest,
		"":                   CausedByRequest,
		"The platform reports that the job failed, without a reason.": CausedByRequest,
	} {
		if got := (FailureRules)(nil).cause(text); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	own := FailureRules{{regexp.MustCompile("spot"), CausedByPlatform},
		{regexp.MustCompile("Internal"), CausedByRequest}}
	if own.cause("out of memory on a spot node") != CausedByPlatform ||
		own.cause("Internal Server Error") != CausedByRequest || own.cause("no such host") != CausedByPlatform {
		t.Error("the platform's own rules do not come first")
	}
}

// failing returns a job of a platform that reported once that it failed, and the outcome that confirms it.
func failing(message string) (Job, Outcome) {
	j := Job{Identity: Identity{ID: 7, Retries: 2, Created: t0}, Wish: Wish{Desired: WantRun},
		Handover: Handover{Phase: Started, Attempt: 3, Epoch: 4, Ref: p}, Condition: Condition{Status: Running,
			Seen: Failed, Checked: t0.Add(-time.Minute), Moved: t0}}
	costs := 2.5
	o := Outcome{Asked: AskStatus, Attempt: 3, Epoch: 4, Ref: p, Report: Report{Status: Failed, Message: message,
		Costs: &costs}}
	return j, o
}

func TestNext_RetriesWhatThePlatformCaused(t *testing.T) {
	const lost = "Connection reset by peer"
	j, o := failing(lost)
	again := Next(j, o, t0)
	if again.Phase != Waiting || again.Status != Accepted || again.Retried != 1 || again.Retries != 2 ||
		again.Attempt != 4 || again.Ref != (Ref{}) || len(again.Past) != 1 || again.Past[0] != p {
		t.Fatalf("%+v", again)
	}
	if again.Attention != Retrying || again.Notice != lost || !again.Due.Equal(t0.Add(time.Minute)) ||
		again.Spent != 2.5 || again.Costs != nil || again.Seen != "" || again.Epoch <= j.Epoch {
		t.Errorf("%s %q, due %v, spent %v", again.Attention, again.Notice, again.Due.Sub(t0), again.Spent)
	}
	if late := Next(again, o, t0); late.Phase != Waiting || late.Retried != 1 || len(late.Orphans) > 0 {
		t.Errorf("the same report again: %+v", late)
	}
	second := with(j, func(j *Job) { j.Retried = 1 })
	if again := Next(second, o, t0); again.Retried != 2 || !again.Due.Equal(t0.Add(2*time.Minute)) {
		t.Errorf("the second time: %d, due %v", again.Retried, again.Due.Sub(t0))
	}
	paused := Next(with(j, func(j *Job) { j.Paused = true }), o, t0)
	if paused.Phase != Waiting || paused.Attention != Paused || !paused.Due.IsZero() || paused.Retried != 1 {
		t.Errorf("of a paused task: %+v", paused)
	}
	if owner := with(again, func(j *Job) { j.Phase, j.Status = Ended, Failed }).Retry(t0); owner.Retried != 0 ||
		owner.Retries != 2 {
		t.Errorf("retried by its owner: %d of %d", owner.Retried, owner.Retries)
	}
}

func TestNext_DoesNotRetryTheRest(t *testing.T) {
	for name, change := range map[string]func(*Job, *Outcome){
		"not asked for":    func(j *Job, _ *Outcome) { j.Retries = 0 },
		"the last time":    func(j *Job, _ *Outcome) { j.Retried = 2 },
		"the input":        func(_ *Job, o *Outcome) { o.Report.Message = "NoDataAvailable" },
		"not known":        func(_ *Job, o *Outcome) { o.Report.Message = "" },
		"no longer wanted": func(j *Job, _ *Outcome) { j.Desired = WantCancel },
		"deleted":          func(j *Job, _ *Outcome) { j.Hidden = true },
		"canceled there":   func(_ *Job, o *Outcome) { o.Report.Status = Canceled },
		"lost": func(j *Job, o *Outcome) {
			j.Polls, o.Err, o.Report = lostPolls, kind(NotFound), Report{}
		},
		"the first report":   func(j *Job, _ *Outcome) { j.Seen = Running },
		"of another attempt": func(_ *Job, o *Outcome) { o.Attempt, o.Epoch = 2, 2 },
		"refused": func(j *Job, o *Outcome) {
			j.Phase, j.Ref, o.Asked, o.Ref, o.Err = Creating, Ref{}, AskSubmit, Ref{}, kind(Invalid)
		},
	} {
		j, o := failing("Connection reset by peer")
		if change(&j, &o); Next(j, o, t0).Retried != j.Retried || Next(j, o, t0).Phase == Waiting {
			t.Errorf("%s: %+v", name, Next(j, o, t0))
		}
	}
}

// Whatever a platform reports, a job is retried by itself at most as often as its owner allowed, after pauses that
// never become shorter.
func TestNext_RetriesAreBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		j, o := failing("Service Unavailable")
		j.Retries = rapid.IntRange(0, MostRetries).Draw(r, "retries")
		now, last, retried := t0, time.Duration(0), 0
		for j.Phase != Ended {
			o.Attempt, o.Epoch = j.Attempt, j.Epoch
			if j = Next(j, o, now); j.Phase == Ended {
				break
			}
			retried++
			if pause := j.Due.Sub(now); pause < last || pause > time.Hour {
				r.Fatalf("a pause of %v after one of %v", pause, last)
			}
			last, now = j.Due.Sub(now), j.Due
			j.Phase, j.Status, j.Seen, j.Ref, j.Checked = Started, Running, Failed, p, now.Add(-time.Minute)
			j.Past = nil
		}
		if retried != j.Retries || j.Retried != j.Retries || j.Status != Failed {
			r.Fatalf("%d retries of %d: %s", retried, j.Retries, j.Status)
		}
	})
}

// A retry keeps what belongs to the job, and resets what belongs to the attempt. A new field has to be of one kind.
func TestJob_RetryResetsTheAttempt(t *testing.T) {
	stays := strings.Fields(`ID Task Number Owner Account Base Service Names Desired Hidden Paused Annotations Budgeted
		MaxDuration Retries Nonces Orphans Created Version Loaded Unit Traceparent`)
	changes := strings.Fields(`Phase Epoch Attempt Past Status Spent Unmetered Due Updated Moved Attention`)
	number, t1 := 2., t0.Add(time.Hour)
	before := Job{Identity: Identity{ID: 1, Task: 2, Number: 3, Owner: "o", Names: []string{"n"}, Budgeted: true,
		MaxDuration: 1, Retries: 2, Created: t0, Traceparent: "t"}, Target: Target{Account: "p/o", Base: "b",
		Service: 4}, Wish: Wish{Desired: WantRun, Hidden: true, Paused: true, Annotations: Annotations{Note: "x"}},
		Handover: Handover{Retried: 1, Phase: Ended, Epoch: 5, Attempt: 2, Nonces: "n", SendBy: t1, Begun: 1,
			IntentLease: 7, Ref: Ref{ID: "own"}, Orphans: []Ref{{ID: "late"}}}, Condition: Condition{Status: Failed,
			Seen: Failed, Progress: &number, Costs: &number, Duration: 1, Notice: "n", Failure: "f", Updated: t0,
			Checked: t0, Moved: t0, Started: t0, Ended: t0, Versions: Versions{Definition: "d"}},
		Plan: Plan{Due: t1, Polls: 1, Tries: 1,
			Deadline: t1, Refused: t1, Awaited: true, Unmoved: 1}, Metering: Metering{Unit: "u", Spent: 1,
			Removal: Removal{Due: t1}}, Version: 9, Loaded: &Job{}, Result: []byte("r")}
	after := before.Retry(t1)
	was, is := reflect.ValueOf(before), reflect.ValueOf(after)
	for _, field := range reflect.VisibleFields(was.Type()) {
		old, retried := was.FieldByIndex(field.Index), is.FieldByIndex(field.Index)
		switch {
		case field.Anonymous:
		case slices.Contains(stays, field.Name):
			if old.IsZero() || !reflect.DeepEqual(old.Interface(), retried.Interface()) {
				t.Errorf("%s: %v, was %v", field.Name, retried, old)
			}
		case !slices.Contains(changes, field.Name) && !retried.IsZero():
			t.Errorf("%s of the attempt before stays: %v", field.Name, retried)
		}
	}
}
