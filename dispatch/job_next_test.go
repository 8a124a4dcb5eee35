package dispatch

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// usual is the timing of a broker of which nothing is set.
var usual = Timing{}.Complete()

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func kind(k Kind) error                   { return &Error{Kind: k, Text: "why"} }
func after(k Kind, d time.Duration) error { return &Error{Kind: k, RetryAfter: d} }
func with(j Job, change func(*Job)) Job   { change(&j); return j }
func ask(q Question, change func(*Outcome)) Outcome {
	o := Outcome{Asked: q, Attempt: 1, Epoch: 1}
	change(&o)
	return o
}

var p = Ref{ID: "p"}

func submit1(change func(*Outcome)) Outcome { return ask(AskSubmit, change) }
func status1(s Status) Outcome {
	return ask(AskStatus, func(o *Outcome) { o.Ref, o.Report.Status = p, s })
}

// transition is a job, an outcome, and the job that they give.
type transition struct {
	name      string
	j         Job
	o         Outcome
	phase     Phase
	status    Status
	attention Attention
	due       time.Duration // from now; not looked at when ended
}

// transitions returns the cases of TestNext.
func transitions() []transition {
	creating := Job{Identity: Identity{Created: t0}, Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Creating,
		Attempt: 1, Epoch: 1, SendBy: t0.Add(30 * time.Second)}, Condition: Condition{Status: Accepted, Moved: t0}}
	created := with(creating, func(j *Job) { j.Phase, j.Status, j.Ref = Created, Submitted, p })
	starting := with(created, func(j *Job) { j.Phase = Starting })
	started := with(starting, func(j *Job) { j.Phase, j.Status = Started, Running })
	ended := with(started, func(j *Job) { j.Phase, j.Status = Ended, Canceled })
	unwanted := func(j Job) Job { j.Desired = WantCancel; return j }
	timed := func(j Job, left time.Duration) Job { j.MaxDuration, j.Deadline = time.Hour, t0.Add(left); return j }
	polled := func(j Job, n int) Job { j.Polls = n; return j }
	sawCreated := func(n int) Job {
		return with(starting, func(j *Job) { j.Seen, j.Polls, j.Unmoved = Accepted, n, time.Duration(n)*usual.Check })
	}
	tried := func(j Job, n int) Job { j.Tries = n; return j }
	late := func(o Outcome) Outcome { o.Epoch = 0; return o }
	failing := func(err error) Outcome { return submit1(func(o *Outcome) { o.Err = err }) }
	absent := func(repeat bool) Outcome { return ask(AskSearch, func(o *Outcome) { o.Repeat = repeat }) }
	listed := func(err error) Outcome { return ask(AskSearch, func(o *Outcome) { o.Err = err }) }
	unread := func(err error) Outcome { return ask(AskStatus, func(o *Outcome) { o.Ref, o.Err = p, err }) }
	result := submit1(func(o *Outcome) { o.Result = []byte("{}") })
	attending := func(j Job, a Attention) Job { j.Attention = a; return j }
	found := func(ref Ref, attempt int) Outcome {
		return ask(AskSearch, func(o *Outcome) { o.Ref, o.Attempt = ref, attempt })
	}
	named := submit1(func(o *Outcome) { o.Ref = p })
	taken := submit1(func(o *Outcome) { o.Ref, o.Started = p, true })

	return []transition{
		{"created", creating, named, Created, Submitted, None, 0},
		{"one step: taken and started", creating, taken, Started, Submitted, None, FirstPoll},
		{"started", starting, taken, Started, Submitted, None, FirstPoll},
		{"refused for good", creating, failing(kind(Invalid)), Ended, Failed, None, 0},
		{"create: busy", creating, failing(after(Busy, time.Minute)), Waiting, Accepted, NotTaken, time.Minute},
		{"create: no connection", creating, failing(kind(Unavailable)), Waiting, Accepted, Unreachable, FirstPoll},
		{"pauses grow", tried(creating, 3), failing(kind(Unavailable)), Waiting, Accepted, Unreachable,
			40 * time.Second},
		{"start: concurrent job limit keeps the ref", starting, failing(kind(Busy)), Created, Submitted, NotTaken,
			FirstPoll},
		{"start: not visible yet", starting, failing(kind(NotFound)), Created, Submitted, NotTaken, FirstPoll},
		{"start: gone", tried(starting, lostPolls), failing(kind(NotFound)), Ended, Failed, None, 0},
		{"refused: cannot", creating, failing(kind(Unsupported)), Ended, Failed, RefusedUnsupported, 0},
		{"refused: may not", creating, failing(kind(Forbidden)), Ended, Failed, RefusedForbidden, 0},
		{"create: no token is taken", creating, failing(kind(SignInRequired)), Waiting, Accepted, None, 0},
		{"create: ours is not taken", creating, failing(kind(Misconfigured)), Waiting, Accepted, None, 0},
		{"start: no token is taken", starting, failing(kind(SignInRequired)), Created, Submitted, NeedsSignIn, 0},
		{"no token is taken, and wanted no more", unwanted(creating), failing(kind(SignInRequired)), Ended, Canceled,
			None, 0},
		{"taken after it was not", attending(creating, NeedsSignIn), named, Created, Submitted, None, 0},
		{"answered with the result", creating, result, Ended, Finished, None, 0},
		{"the result in doubt after all", attending(creating, SubmissionUnknown), result, Ended, Finished, None, 0},
		{"late: a result", with(creating, func(j *Job) { j.Phase, j.Epoch = Waiting, 2 }), result, Ended, Finished,
			None, 0},
		{"a result of another attempt", with(creating, func(j *Job) { j.Attempt, j.Epoch = 2, 3 }), result, Creating,
			Accepted, None, 0},
		{"cut off: in doubt until the deadline is over", creating, failing(kind(Uncertain)), Creating, Accepted,
			InDoubt, 35 * time.Second},
		{"start cut off", starting, failing(kind(Uncertain)), Starting, Submitted, InDoubt, 35 * time.Second},
		{"an answer out of protocol is in doubt", creating, failing(kind(BadUpstream)), Creating, Accepted, InDoubt,
			35 * time.Second},
		{"not our error is in doubt", creating, failing(errors.New("?")), Creating, Accepted, InDoubt,
			35 * time.Second},
		{"start: conflict is in doubt", starting, failing(kind(Conflict)), Starting, Submitted, InDoubt,
			35 * time.Second},
		{"turned away and wanted no more", unwanted(creating), failing(kind(Busy)), Ended, Canceled, None, 0},
		{"a late refusal means nothing", started, late(failing(kind(Invalid))), Started, Running, None, 0},

		{"search: found", creating, found(p, 1), Created, Submitted, None, 0},
		{"search: not there, inert", creating, absent(true), Waiting, Accepted, None, 0},
		{"search: not there, inert, unwanted", unwanted(creating), absent(true), Ended, Canceled, None, 0},
		{"search: not there, may run", creating, absent(false), Creating, Accepted, InDoubt, usual.Check},
		{"search: still not there", polled(creating, searchPolls-1), absent(false), Creating, Unknown,
			SubmissionUnknown, usual.UnknownCheck},
		{"search: unknown and given up by the owner", unwanted(polled(creating, searchPolls-1)), absent(false), Ended,
			Canceled, SubmissionUnknown, 0},
		{"search: broke off", creating, ask(AskSearch, func(o *Outcome) { o.Err = kind(Unavailable) }), Creating,
			Accepted, InDoubt, FirstPoll},
		{"search: no token", creating, listed(kind(SignInRequired)), Creating, Accepted, InDoubt, 0},
		{"search: no token while unknown", attending(creating, SubmissionUnknown), listed(kind(SignInRequired)),
			Creating, Accepted, SubmissionUnknown, 0},
		{"search: late", started, late(absent(true)), Started, Running, None, 0},

		{"start in doubt: queued", starting, status1(Queued), Started, Queued, None, FirstPoll},
		{"start in doubt: ended already", starting, status1(Finished), Ended, Finished, None, 0},
		{"start in doubt: no effect yet", starting, status1(Accepted), Starting, Submitted, InDoubt, usual.Check},
		{"start in doubt: no effect for almost long enough", sawCreated(startPolls - 1), status1(Accepted), Starting,
			Submitted, InDoubt, usual.Check},
		{"start in doubt: no effect after all", sawCreated(startPolls), status1(Accepted), Created, Submitted, NotTaken,
			FirstPoll},
		{"start in doubt: a word that nobody knows", sawCreated(startPolls), status1(Unknown), Starting, Submitted,
			InDoubt, usual.Check},
		{"start in doubt: created after such a word", with(sawCreated(startPolls), func(j *Job) { j.Seen = Unknown }),
			status1(Accepted), Starting, Submitted, InDoubt, usual.Check},
		{"start in doubt: not found after it was created", attending(sawCreated(startPolls), InDoubt),
			unread(kind(NotFound)), Starting, Submitted, InDoubt, usual.Check},
		{"start in doubt: no effect for too long", with(sawCreated(startPolls),
			func(j *Job) { j.Refused = t0.Add(-usual.GiveUpAfter) }), status1(Accepted), Ended, Failed, GivenUp, 0},
		{"started is not started again", started, status1(Accepted), Started, Submitted, None, FirstPoll},
		{"an unknown word changes nothing", started, status1(Unknown), Started, Running, None, FirstPoll},
		{"a job that has not moved for long is asked each minute",
			with(started, func(j *Job) { j.Moved = t0.Add(-time.Hour) }), status1(Running), Started, Running, None,
			usual.Poll},
		{"a job that moved is asked soon", with(started,
			func(j *Job) { j.Moved, j.Status = t0.Add(-time.Hour), Queued }),
			status1(Running), Started, Running, None, FirstPoll},
		{"a job that waited here is asked soon", with(started, func(j *Job) { j.Created = t0.Add(-time.Hour) }),
			status1(Running), Started, Running, None, FirstPoll},
		{"the first failure is not believed", started, status1(Failed), Started, Running, None, confirm},
		{"not moved for long", with(started, func(j *Job) {
			j.Status, j.Updated = Running, t0.Add(-usual.StalledAfter)
		}), status1(Running), Started, Running, Stalled, FirstPoll},
		{"it stays so", with(started, func(j *Job) { j.Status, j.Updated, j.Attention = Running, t0, Stalled }),
			status1(Running), Started, Running, Stalled, FirstPoll},
		{"until it moves", with(started, func(j *Job) { j.Status, j.Updated, j.Attention = Queued, t0, Stalled }),
			status1(Running), Started, Running, None, FirstPoll},
		{"the second is", with(started, func(j *Job) { j.Seen = Failed }), status1(Failed), Ended, Failed, None, 0},
		{"alive when its time is over", timed(started, 0), status1(Running), Started, Running, None, 0},
		{"it stays so: the cancel was just tried", with(timed(started, 0), func(j *Job) { j.Checked = t0 }),
			status1(Running), Started, Running, None, FirstPoll},
		{"finished when its time is over", timed(started, 0), status1(Finished), Ended, Finished, None, 0},
		{"its time is soon over", timed(started, time.Second), status1(Running), Started, Running, None, time.Second},
		{"no answer, and its time is soon over", timed(started, time.Second), unread(kind(Unavailable)), Started,
			Running, None, time.Second},
		{"failed, to be read again, when its time is over", timed(started, 0), status1(Failed), Started, Running, None,
			confirm},
		{"started with a time", with(starting, func(j *Job) { j.MaxDuration = 2 * time.Second }), taken, Started,
			Submitted, None, 2 * time.Second},
		{"canceled in the end", with(timed(started, 0), func(j *Job) { j.Checked = t0 }),
			ask(AskCancel, func(*Outcome) {}), Ended, Canceled, Overdue, 0},
		{"canceled by the owner first", unwanted(timed(started, 0)), ask(AskCancel, func(*Outcome) {}), Ended, Canceled,
			None, 0},
		{"a late report means nothing", started, late(status1(Finished)), Started, Running, None, 0},
		{"no answer", started, unread(kind(Unavailable)), Started, Running, None, FirstPoll},
		{"no answer again", tried(started, 1), unread(after(Busy, time.Hour)), Started, Running, Unreachable,
			time.Hour},
		{"an answer again", attending(tried(started, 2), Unreachable), status1(Running), Started, Running, None,
			FirstPoll},
		{"start in doubt: no answer", starting, unread(kind(Unavailable)), Starting, Submitted, InDoubt, FirstPoll},
		{"no token for a status", started, unread(kind(SignInRequired)), Started, Running, NeedsSignIn, 0},
		{"ours is not taken for a status", started, unread(kind(Misconfigured)), Started, Running, NeedsOperator, 0},
		{"no token while a cancel is not possible", attending(started, CancelUnsupported), unread(kind(SignInRequired)),
			Started, Running, CancelUnsupported, 0},
		{"a report without a status", started, status1(""), Started, Running, None, FirstPoll},
		{"one 404", started, ask(AskStatus, func(o *Outcome) { o.Ref, o.Err = p, kind(NotFound) }), Started, Running,
			None, usual.Check},
		{"another 404", polled(started, 1), unread(kind(NotFound)), Started, Running, Missing, usual.Check},
		{"the last 404", polled(started, lostPolls-1),
			ask(AskStatus, func(o *Outcome) { o.Ref, o.Err = p, kind(NotFound) }), Ended, Failed, Lost, 0},

		{"canceled", unwanted(started), ask(AskCancel, func(*Outcome) {}), Ended, Canceled, None, 0},
		{"cancel: gone", unwanted(started), ask(AskCancel, func(o *Outcome) { o.Err = kind(NotFound) }), Ended,
			Canceled, None, 0},
		{"cancel: unsupported", unwanted(started), ask(AskCancel, func(o *Outcome) { o.Err = kind(Unsupported) }),
			Started, Running, CancelUnsupported, FirstPoll},
		{"cancel: no answer", unwanted(started), ask(AskCancel, func(o *Outcome) { o.Err = kind(Uncertain) }), Started,
			Running, None, FirstPoll},

		{"cancel: no token", unwanted(started), ask(AskCancel, func(o *Outcome) { o.Err = kind(SignInRequired) }),
			Started, Running, NeedsSignIn, 0},
		{"late: a name", with(creating, func(j *Job) { j.Phase, j.Epoch = Waiting, 2 }), named, Created, Submitted,
			None, 0},
		{"late: it has started", with(created, func(j *Job) { j.Epoch = 3 }), taken, Started, Submitted, None, 0},
		{"ended stays ended", ended, status1(Running), Ended, Canceled, None, 0},
		{"ended is not started", ended, taken, Ended, Canceled, None, 0},
	}
}

func TestNext(t *testing.T) {
	for _, c := range transitions() {
		t.Run(c.name, func(t *testing.T) {
			c.j.Due = t0
			got := Next(c.j, c.o, t0)
			if got.Phase != c.phase || got.Status != c.status || got.Attention != c.attention {
				t.Errorf("%s %s %q, want %s %s %q", got.Phase, got.Status, got.Attention, c.phase, c.status,
					c.attention)
			}
			if due := got.Due.Sub(t0); got.Phase != Ended && due != c.due {
				t.Errorf("due in %v, want %v", due, c.due)
			}
			if (got.Epoch != c.j.Epoch) != (got.Phase != c.j.Phase) {
				t.Errorf("turn %d after %d", got.Epoch, c.j.Epoch)
			}
			if c.j.Ref != (Ref{}) && got.Ref != c.j.Ref {
				t.Errorf("the ref became %v", got.Ref)
			}
		})
	}
}

// What a platform tells besides the status is kept, and what its owner sees change is dated.
func TestNext_KeepsFacts(t *testing.T) {
	half, whole, cost := 50.0, 100.0, 1.5
	j := Job{Handover: Handover{Phase: Started, Attempt: 1, Epoch: 1, Ref: p}, Condition: Condition{Status: Running,
		Seen: Failed}, Plan: Plan{Awaited: true}}
	report := func(r Report) Outcome { return ask(AskStatus, func(o *Outcome) { o.Ref, o.Report = p, r }) }

	j = Next(j, report(Report{Status: Running, Progress: &half, Costs: &cost}), t0)
	if *j.Progress != half || *j.Costs != cost || !j.Updated.Equal(t0) || !j.Checked.Equal(t0) || !j.Moved.IsZero() ||
		j.Awaited {
		t.Errorf("after a report: %+v", j)
	}
	t1 := t0.Add(time.Minute)
	j = Next(j, report(Report{Status: Running}), t1)
	if j.Progress == nil || !j.Updated.Equal(t0) || !j.Checked.Equal(t1) {
		t.Errorf("after one that tells nothing new: %+v", j)
	}
	j = Next(j, ask(AskStatus, func(o *Outcome) { o.Ref, o.Err = p, kind(Unavailable) }), t1.Add(time.Minute))
	if !j.Checked.Equal(t1) || !j.Updated.Equal(t0) {
		t.Errorf("after none: %+v", j)
	}
	for _, last := range []*float64{nil, &half, &whole} { // platforms leave the progress out at the end, or as it was
		if done := Next(j, report(Report{Status: Finished, Progress: last}), t1); done.Phase != Ended ||
			*done.Progress != 100 {
			t.Errorf("after the end: %+v", done)
		}
	}
	failed := report(Report{Status: Failed, Message: "no data", Progress: &whole})
	for _, d := range []time.Duration{0, 0, confirm - 1} { // a client that asks in between does not make it true sooner
		if j = Next(j, failed, t1.Add(d)); j.Phase != Started || !j.Due.Equal(t1.Add(confirm)) {
			t.Errorf("believed after %v: %+v", d, j)
		}
	}
	if back := Next(j, failed, t1.Add(-time.Hour)); back.Phase != Ended {
		t.Errorf("the clock went back, and it is %s, due %v", back.Phase, back.Due)
	}
	t1 = t1.Add(confirm)
	j = Next(j, failed, t1)
	if j.Failure != "no data" || *j.Progress != whole || !j.Updated.Equal(t1) || !j.Moved.Equal(t1) {
		t.Errorf("after it failed: %+v", j)
	}
}

// The software that is noted is that of the present attempt, and nothing where a search found the job.
// TestNext_NotesTimes: when a job began and ended is what its platform reports if its clock can be right, and otherwise
// when the broker saw it.
func TestNext_NotesTimes(t *testing.T) {
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	queued := Job{Identity: Identity{Created: t0}, Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Started,
		Attempt: 1, Epoch: 1, Ref: p}, Condition: Condition{Status: Queued, Moved: t0}}
	type read struct {
		at             int // seconds after t0
		status         Status
		started, ended time.Time
	}
	never := time.Time{}
	for name, c := range map[string]struct {
		reads          []read
		started, ended time.Time
	}{
		"it waits": {[]read{{5, Queued, never, never}}, never, never},
		"nothing reported": {[]read{{5, Running, never, never}, {9, Running, never, never},
			{20, Finished, never, never}}, at(5), at(20)},
		"never seen to run": {[]read{{20, Finished, never, never}}, never, at(20)},
		"reported":          {[]read{{5, Running, at(3), never}, {20, Finished, at(3), at(18)}}, at(3), at(18)},
		"reported later":    {[]read{{5, Running, never, never}, {20, Finished, at(3), at(18)}}, at(3), at(18)},
		"a clock that is slow": {[]read{{5, Running, at(-3600), never}, {20, Finished, at(-3600), at(-3580)}}, at(5),
			at(20)},
		"a clock that is fast": {[]read{{5, Running, at(3600), never}, {20, Finished, at(3600), at(3620)}}, at(5),
			at(20)},
		"an end before its start":   {[]read{{5, Running, never, never}, {20, Canceled, never, at(2)}}, at(5), at(20)},
		"a last change is no end":   {[]read{{5, Running, never, at(4)}}, at(5), never},
		"a failure that is revised": {[]read{{5, Failed, at(2), at(4)}, {11, Running, at(2), at(4)}}, at(2), never},
		"a failure read twice":      {[]read{{5, Failed, at(2), at(4)}, {11, Failed, at(2), at(4)}}, at(2), at(4)},
	} {
		j := queued
		for _, r := range c.reads {
			o := status1(r.status)
			o.Report.Started, o.Report.Ended = r.started, r.ended
			j = Next(j, o, at(r.at))
		}
		if !j.Started.Equal(c.started) || !j.EndTime().Equal(c.ended) {
			t.Errorf("%s: started %v, ended %v", name, j.Started, j.EndTime())
		}
	}
}

func TestNext_NotesTheVersions(t *testing.T) {
	versions := Versions{Software: "pygeoapi", Version: "0.20.0"}
	waits := Job{Handover: Handover{Phase: Creating, Attempt: 1, Epoch: 1}}
	j := Next(waits, ask(AskSubmit, func(o *Outcome) { o.Ref, o.Started, o.Versions = p, true, versions }), t0)
	if j.Ref != p || j.Versions != versions {
		t.Errorf("%+v", j)
	}
	if is := Next(j, ask(AskStatus, func(o *Outcome) { o.Ref, o.Report = p, Report{Status: Running} }),
		t0); is.Versions != versions {
		t.Errorf("after a report: %+v", is.Versions)
	}
	waits.Versions = Versions{Version: "of the attempt before"}
	if found := Next(waits, ask(AskSearch, func(o *Outcome) { o.Ref = p }), t0); found.Ref != p ||
		found.Versions != (Versions{}) {
		t.Errorf("%+v", found)
	}
	if at := Next(waits, ask(AskSubmit, func(o *Outcome) {
		o.Result, o.Started, o.Versions = []byte("{}"), true, versions
	}), t0); at.Versions != versions || at.Phase != Ended {
		t.Errorf("%+v", at)
	}
}

func TestNext_RefusalSaysWhy(t *testing.T) {
	j := Next(Job{Handover: Handover{Phase: Creating, Epoch: 1,
		Attempt: 1}}, submit1(func(o *Outcome) { o.Err = kind(Busy) }), t0)
	if j.Notice != "why" || j.Tries != 1 || !j.Updated.Equal(t0) {
		t.Errorf("turned away: %q, %d tries", j.Notice, j.Tries)
	}
	j = Next(Job{Handover: Handover{Phase: Starting, Epoch: 1,
		Attempt: 1}}, submit1(func(o *Outcome) { o.Err = kind(SignInRequired) }), t0)
	if j.Notice != "why" || j.Tries != 0 {
		t.Errorf("without a token: %q, %d tries", j.Notice, j.Tries)
	}
	j = Next(Job{Handover: Handover{Phase: Creating, Epoch: 1,
		Attempt: 1}}, submit1(func(o *Outcome) { o.Err = kind(Invalid) }), t0)
	if j.Failure != "why" || j.Notice != "" {
		t.Errorf("refused: %q, %q", j.Failure, j.Notice)
	}
	j = Next(Job{Handover: Handover{Phase: Creating, Epoch: 1,
		Attempt: 1}}, submit1(func(o *Outcome) { o.Result = []byte("{}") }), t0)
	if string(j.Result) != "{}" || !j.Checked.Equal(t0) {
		t.Errorf("answered with the result: %q, %v", j.Result, j.Checked)
	}
}

// A job that is turned away for a day fails, and says why; not while its account's other jobs take the slots.
func TestNext_TurnedAwayForTooLong(t *testing.T) {
	starting := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Starting, Attempt: 1, Epoch: 1, Ref: p},
		Condition: Condition{Status: Submitted}}
	busy := submit1(func(o *Outcome) { o.Err = after(Busy, time.Minute) })
	full := with2(busy, func(o *Outcome) { o.Others = 3 })
	again := func(j Job) Job { j.Phase, j.Epoch = Starting, 1; return j }

	j := Next(starting, busy, t0)
	if !j.Refused.Equal(t0) || j.Phase != Created || j.Attention != NotTaken {
		t.Fatalf("turned away: %+v", j)
	}
	if j = Next(again(j), busy, t0.Add(usual.GiveUpAfter-1)); j.Phase != Created || !j.Refused.Equal(t0) {
		t.Fatalf("just before it is given up: %+v", j)
	}
	last := Next(again(j), busy, t0.Add(usual.GiveUpAfter))
	if last.Phase != Ended || last.Status != Failed || last.Attention != GivenUp ||
		!strings.Contains(last.Failure, "24h0m0s") || last.Ref != p {
		t.Errorf("given up: %+v", last)
	}
	sooner := with2(busy, func(o *Outcome) { o.Timing.GiveUpAfter = time.Hour })
	if j := Next(again(j), sooner, t0.Add(time.Hour)); j.Status != Failed || !strings.Contains(j.Failure, "1h0m0s") {
		t.Errorf("when the operator says so: %s %q", j.Status, j.Failure)
	}
	j = Next(again(j), full, t0.Add(usual.GiveUpAfter))
	if j.Phase != Created || !j.Refused.IsZero() || j.Attention != Full || !j.Due.Equal(t0.Add(usual.GiveUpAfter)) {
		t.Errorf("full: %+v", j)
	}
	if j := Next(again(last), busy, t0); j.Phase == Ended {
		t.Errorf("turned away: %+v", j)
	}
	if j := Next(again(Next(starting, busy, t0)), submit1(func(o *Outcome) { o.Ref, o.Started = p, true }),
		t0); !j.Refused.IsZero() {
		t.Errorf("taken, and turned away since %v", j.Refused)
	}
	doubt := Job{Handover: Handover{Phase: Creating, Attempt: 1, Epoch: 1}, Condition: Condition{Status: Unknown,
		Moved: t0}, Plan: Plan{Polls: searchPolls}}
	absent := ask(AskSearch, func(o *Outcome) { o.Timing.GiveUpAfter = time.Hour })
	if j := Next(doubt, absent, t0.Add(time.Hour)); j.Status != Failed || j.Attention != SubmissionUnknown {
		t.Errorf("unknown for an hour: %s %s", j.Status, j.Attention)
	}
	if j := Next(doubt, absent, t0.Add(time.Hour-1)); j.Status != Unknown {
		t.Errorf("unknown for less: %s", j.Status)
	}
}

func with2(o Outcome, change func(*Outcome)) Outcome { change(&o); return o }

func TestRetry(t *testing.T) {
	cost := 3.0
	j := Job{Identity: Identity{ID: 7, Task: 2, Number: 3, Owner: "u", Created: t0.Add(-time.Hour)},
		Target: Target{Account: "p/u", Base: "b"}, Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Ended,
			Epoch: 4, Attempt: 2, SendBy: t0, Ref: p, Orphans: []Ref{{ID: "s"}}, Past: []Ref{{ID: "first"}}},
		Condition: Condition{Status: Failed, Seen: Failed, Costs: &cost, Failure: "no data", Checked: t0},
		Plan:      Plan{Tries: 2, Refused: t0}, Metering: Metering{Spent: 2, Unit: "credits",
			Unmetered: []Unmetered{{Ref: p}, {Ref: Ref{ID: "first"}}}}, Version: 9}
	got := j.Retry(t0)
	want := Job{Identity: Identity{ID: 7, Task: 2, Number: 3, Owner: "u", Created: t0.Add(-time.Hour)},
		Target: Target{Account: "p/u", Base: "b"}, Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Waiting,
			Epoch: 5, Attempt: 3, Orphans: []Ref{{ID: "s"}}, Past: []Ref{{ID: "first"}, p}},
		Condition: Condition{Status: Accepted, Updated: t0, Moved: t0}, Plan: Plan{Due: t0},
		Metering: Metering{Spent: 5, Unit: "credits", Unmetered: []Unmetered{{Ref: Ref{ID: "first"}}}}, Version: 9}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(j.Past) != 1 {
		t.Error("the job before was changed")
	}
	// What comes late for an earlier attempt is not taken for the new one's.
	for attempt := range 3 {
		late := Outcome{Asked: AskSubmit, Attempt: attempt, Epoch: 4, Ref: p, Started: true}
		if after := Next(got, late, t0); after.Phase != Waiting || after.Ref != (Ref{}) || len(after.Orphans) != 1 {
			t.Errorf("the old ref comes late: %+v", after)
		}
		late.Ref = Ref{ID: "twin"}
		if after := Next(got, late, t0); after.Phase != Waiting || after.Ref != (Ref{}) ||
			!slices.Contains(after.Orphans, late.Ref) {
			t.Errorf("another ref comes late: %+v", after)
		}
		read := Outcome{Asked: AskStatus, Attempt: attempt, Epoch: 4, Ref: p, Report: Report{Status: Finished}}
		if after := Next(got, read, t0); after.Phase != Waiting || after.Status != Accepted {
			t.Errorf("an old status comes late: %+v", after)
		}
	}
	for name, no := range map[string]Job{"runs": with(j, func(j *Job) { j.Phase = Started }),
		"finished": with(j, func(j *Job) { j.Status = Finished }),
		"canceled": with(j, func(j *Job) { j.Desired = WantCancel }),
		"deleted":  with(j, func(j *Job) { j.Hidden = true })} {
		if no.Retryable() {
			t.Errorf("%s, and may be retried", name)
		}
	}
	if !j.Retryable() {
		t.Error("failed, and may not be retried")
	}
}

func TestStranded_JobWithoutItsPlatform(t *testing.T) {
	j := MarkNoPlatform(Job{Handover: Handover{Phase: Started}, Condition: Condition{Status: Running},
		Plan: Plan{Awaited: true}}, usual, t0)
	if j.Attention != NoPlatform || j.Notice == "" || j.Status != Running || j.Awaited || !j.Due.After(t0) ||
		!j.Updated.Equal(t0) {
		t.Errorf("%+v", j)
	}
	if again := MarkNoPlatform(j, usual, t0.Add(time.Hour)); !again.Updated.Equal(t0) || !again.Due.After(j.Due) {
		t.Errorf("again: %+v", again)
	}
	if j := MarkNoPlatform(Job{Handover: Handover{Phase: Ended,
		Orphans: []Ref{p}}}, usual, t0); j.Attention != None || !j.Due.After(t0) {
		t.Errorf("ended, with an orphan: %+v", j)
	}
}

// Whatever else has happened to a job, a name that the platform gave for it is kept until it is canceled.
func TestNext_NoRefIsForgotten(t *testing.T) {
	own, other, tardy := Ref{ID: "own"}, Ref{ID: "other"}, Ref{Base: "b", ID: "late"}
	for _, phase := range []Phase{Waiting, Creating, Created, Starting, Started, Ended} {
		for _, q := range []Question{AskSubmit, AskSearch} {
			j := Job{Handover: Handover{Phase: phase, Attempt: 2, Epoch: 5, Ref: own, Orphans: []Ref{other}}}
			o := Outcome{Asked: q, Attempt: 1, Epoch: 1, Ref: tardy, Started: true}
			got := Next(Next(j, o, t0), o, t0)
			if got.Phase != phase || got.Ref != own || !slices.Equal(got.Orphans, []Ref{other, tardy}) {
				t.Errorf("%s %s: %s %v %v", phase, q, got.Phase, got.Ref, got.Orphans)
			}
			if got := Next(got, Outcome{Asked: AskOrphan, Ref: tardy, Err: kind(Unsupported)},
				t0); !slices.Equal(got.Past, []Ref{tardy}) {
				t.Errorf("an orphan that cannot be canceled: %v, past %v", got.Orphans, got.Past)
			} else if again := Next(got, o, t0); !slices.Equal(again.Orphans, []Ref{other}) {
				t.Errorf("what is past comes back: %v", again.Orphans)
			}
			for _, err := range []error{kind(Busy), kind(Uncertain)} {
				if got := Next(got, Outcome{Asked: AskOrphan, Ref: tardy, Err: err}, t0); len(got.Orphans) != 2 ||
					!got.Due.After(t0) {
					t.Errorf("an orphan that was not canceled: %v, due %v", got.Orphans, got.Due)
				}
			}
			if got := Next(got, Outcome{Asked: AskOrphan, Ref: tardy}, t0); !slices.Equal(got.Orphans, []Ref{other}) {
				t.Errorf("after its cancel: %v", got.Orphans)
			}
		}
	}
}

// A job that is paused has no due time. One that has an orphan is due nevertheless, or no visit would cancel it.
func TestNext_OrphansOfPausedJobsAreDue(t *testing.T) {
	late := Outcome{Asked: AskSubmit, Attempt: 1, Epoch: 1, Ref: Ref{ID: "late"}, Started: true}
	waiting := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Waiting, Attempt: 2, Epoch: 5}}
	paused, _ := waiting.Pause(t0)
	if !paused.Due.IsZero() {
		t.Fatalf("paused: due %v", paused.Due)
	}
	if j := Next(paused, late, t0); len(j.Orphans) != 1 || !j.Due.Equal(t0) {
		t.Errorf("after a late response: orphans %v, due %v", j.Orphans, j.Due)
	}
	again, _ := Next(waiting, late, t0).Pause(t0)
	if !again.Paused || again.Attention != Paused || !again.Due.Equal(t0) {
		t.Errorf("paused with an orphan: %q, due %v", again.Attention, again.Due)
	}
	failed := Next(again, Outcome{Asked: AskOrphan, Ref: late.Ref, Err: kind(Busy)}, t0)
	if failed.Tries != 1 || !failed.Due.After(t0) {
		t.Errorf("after a cancel that failed: %d tries, due %v", failed.Tries, failed.Due)
	}
	if rests := Next(failed, Outcome{Asked: AskOrphan, Ref: late.Ref}, t0); !rests.Due.IsZero() || rests.Tries != 0 {
		t.Errorf("after the cancel: %d tries, due %v", rests.Tries, rests.Due)
	}
}

func TestIntend(t *testing.T) {
	sendBy := t0.Add(30 * time.Second)
	creating := Job{Handover: Handover{Phase: Waiting}, Plan: Plan{Polls: 2}}.Intend(sendBy)
	if creating.Phase != Creating || creating.Attempt != 1 || creating.Epoch != 1 || creating.Polls != 0 {
		t.Errorf("%+v", creating)
	}
	starting := Job{Handover: Handover{Phase: Created, Attempt: 1, Epoch: 2}}.Intend(sendBy)
	if starting.Phase != Starting || starting.Attempt != 1 || starting.Epoch != 3 {
		t.Errorf("%+v", starting)
	}
	for _, j := range []Job{creating, starting} {
		if !j.SendBy.Equal(sendBy) || j.Due.Before(sendBy.Add(SettleMargin)) {
			t.Errorf("sent by %v, settled from %v", j.SendBy, j.Due)
		}
	}
}

func TestShare(t *testing.T) {
	ann1, ann2 := Queue{Owner: "ann", Task: 1, Held: 1, OwnerHeld: 1}, Queue{Owner: "ann", Task: 2, OwnerHeld: 1}
	bob := Queue{Owner: "bob", Task: 3}
	got := Share([]Queue{ann1, ann2, bob}, 5)
	if want := []Queue{bob, ann2, bob, ann1, bob}; !slices.Equal(got, want) &&
		!slices.Equal(got, []Queue{bob, ann2, bob, ann1, ann2}) {
		t.Errorf("got %v", got)
	}
	if got[0] != bob || got[1] != ann2 {
		t.Errorf("first %v, then %v", got[0], got[1])
	}
}

// What comes late for an earlier attempt says nothing about the present one: neither how many of its submissions
// brought no response, nor when the job is next looked at, nor whether a client waits for its status.
func TestNext_LateResponseLeavesThePresentAttempt(t *testing.T) {
	present := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Creating, Attempt: 3, Epoch: 7, Begun: 2,
		SendBy: t0.Add(30 * time.Second)}, Plan: Plan{Due: t0.Add(time.Minute)}}
	responses := map[string]Outcome{
		"created": {Ref: Ref{ID: "first"}}, "refused": {Err: kind(Invalid)}, "busy": {Err: kind(Busy)},
		"cut off": {Err: kind(Uncertain)},
	}
	for name, o := range responses {
		o.Asked, o.Attempt, o.Epoch = AskSubmit, 1, 2
		for _, phase := range []Phase{Waiting, Creating, Created, Starting} {
			j := with(present, func(j *Job) { j.Phase = phase })
			if got := Next(j, o, t0); got.Begun != j.Begun || !got.Due.Equal(j.Due) || got.Phase != j.Phase {
				t.Errorf("%s, %s: %s, begun %d, due %v", phase, name, got.Phase, got.Begun, got.Due)
			}
		}
		awaited := with(present, func(j *Job) {
			j.Phase, j.Status, j.Ref, j.Awaited = Started, Running, Ref{ID: "third"}, true
		})
		if got := Next(awaited, o, t0); !got.Awaited {
			t.Errorf("%s: nobody waits for the status any more", name)
		}
	}
	starting := with(present, func(j *Job) { j.Phase, j.Ref = Starting, Ref{ID: "third"} })
	created := Outcome{Asked: AskSubmit, Attempt: 3, Epoch: 6, Ref: Ref{ID: "third"}}
	if got := Next(starting, created, t0); got.Begun != 1 {
		t.Errorf("the response to the create comes after the start was begun: begun %d, want 1", got.Begun)
	}
	if got := Next(present, Outcome{Asked: AskSubmit, Attempt: 3, Epoch: 7, Err: kind(Busy)}, t0); got.Begun != 0 {
		t.Errorf("the present attempt is answered: begun %d", got.Begun)
	}
}

// Cancels of an orphan that fail say nothing about the job's own submission.
func TestNext_OrphanLeavesTheJobsTriesAlone(t *testing.T) {
	j := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Created, Attempt: 2, Epoch: 4, Ref: p,
		Orphans: []Ref{{ID: "s"}}}, Condition: Condition{Status: Submitted}, Plan: Plan{Due: t0}}
	o := Outcome{Asked: AskOrphan, Attempt: 2, Epoch: 4, Ref: Ref{ID: "s"}}
	failed := with2(o, func(o *Outcome) { o.Err = kind(Unavailable) })
	for range 2 * lostPolls {
		j = Next(j, failed, t0)
	}
	if j.Tries == 0 || !j.Due.After(t0) {
		t.Fatalf("the cancel is not repeated after pauses: %d tries, due %v", j.Tries, j.Due)
	}
	j = Next(j, o, t0)
	j.Phase, j.Epoch = Starting, 5
	if j = Next(j, Outcome{Asked: AskSubmit, Attempt: 2, Epoch: 5, Err: kind(NotFound)}, t0); j.Phase != Created {
		t.Errorf("the platform does not show the job yet, and the job is %s %q", j.Phase, j.Failure)
	}
}

// TestNext_LostCreatesAreGivenUp: where no response to a create ever arrives, and none has an effect that shows, the
// first is repeated at once, the others after growing pauses, and for a day.
func TestNext_LostCreatesAreGivenUp(t *testing.T) {
	j := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Waiting}, Condition: Condition{Status: Accepted}}
	now, begun, creates := t0, t0, 0
	for ; j.Phase == Waiting; creates++ {
		j = j.Intend(now.Add(30 * time.Second))
		lost := Outcome{Asked: AskSubmit, Attempt: j.Attempt, Epoch: j.Epoch, Err: &Error{Kind: Uncertain}}
		j = Next(j, lost, now.Add(30*time.Second))
		now = j.Due
		j = Next(j, Outcome{Asked: AskSearch, Attempt: j.Attempt, Epoch: j.Epoch, Repeat: true}, now)
		if creates == 0 && !j.Due.Equal(now) {
			t.Errorf("the first create is repeated after %v", j.Due.Sub(now))
		}
		if now.Sub(begun) > 48*time.Hour {
			t.Fatalf("after %d creates the job is %s", creates, j.Phase)
		}
		now = Later(now, j.Due)
	}
	if took := now.Sub(begun); j.Attention != GivenUp || j.Failure == "" || creates > 200 || took < 24*time.Hour ||
		took > 25*time.Hour {
		t.Errorf("after %v and %d creates the job is %s %q: %s", took, creates, j.Phase, j.Attention, j.Failure)
	}
}
