package dispatch

import (
	"testing"
	"time"
)

func TestSettlesAfter_ByWhatThePlatformHasShown(t *testing.T) {
	byHand := &Backend{StartSettlesAfter: 30 * time.Second}
	for _, c := range []struct {
		starts    int
		lag, want time.Duration
	}{
		{0, 0, 20 * time.Minute},
		{PromptStarts - 1, 0, 20 * time.Minute},
		{PromptStarts, 0, 2 * time.Minute},
		{PromptStarts, 20 * time.Second, max(2*time.Minute, 80*time.Second)},
		{PromptStarts + 100, 3 * time.Minute, 12 * time.Minute},
		{3, 3 * time.Minute, 20 * time.Minute},
		{3, 10 * time.Minute, 40 * time.Minute},
		{PromptStarts, 100 * time.Minute, 60 * time.Minute},
	} {
		p := Promptness{c.starts, c.lag}
		if got := new(Backend).SettlesAfter(usual, p); got != c.want {
			t.Errorf("%+v: %v, want %v", p, got, c.want)
		}
		if got := byHand.SettlesAfter(usual, p); got != 30*time.Second {
			t.Errorf("%+v, set by hand: %v", p, got)
		}
	}
}

// Polls of a start in doubt are between ten seconds and a minute apart, twelve or more until it settles.
func TestStartCheck_PausesUntilAStartSettles(t *testing.T) {
	t0 := time.Unix(1e9, 0)
	for settles, want := range map[time.Duration]int{2 * time.Minute: 13, 6 * time.Minute: 13, 20 * time.Minute: 21,
		40 * time.Minute: 41} {
		j := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Starting, Ref: Ref{ID: "p"}}}
		now, polls := t0, 0
		for ; j.Phase == Starting && polls < 100; polls++ {
			if polls > 0 {
				if pause := j.Due.Sub(now); pause < time.Minute/6 || pause > time.Minute {
					t.Fatalf("%v: polls are %v apart", settles, pause)
				}
				now = j.Due
			}
			j = Next(j, Outcome{Asked: AskStatus, Epoch: j.Epoch, Ref: j.Ref, Report: Report{Status: Accepted},
				Settles: settles}, now)
		}
		if polls != want || now.Sub(t0) < settles || j.Phase != Created {
			t.Errorf("%v: %s after %d polls in %v, want %d", settles, j.Phase, polls, now.Sub(t0), want)
		}
	}
}

// A bound that grows while a start is in doubt counts the time that has passed, not the polls.
func TestNext_BoundGrowsWhileAStartIsInDoubt(t *testing.T) {
	t0 := time.Unix(1e9, 0)
	j := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Starting, Ref: Ref{ID: "p"}}}
	now := t0
	for polls := 0; j.Phase == Starting && polls < 100; polls++ {
		settles := 2 * time.Minute
		if polls >= 10 {
			settles = 20 * time.Minute
		}
		j = Next(j, Outcome{Asked: AskStatus, Epoch: j.Epoch, Ref: j.Ref, Report: Report{Status: Accepted},
			Settles: settles}, now)
		if j.Phase == Starting {
			now = j.Due
		}
	}
	if now.Sub(t0) < 20*time.Minute {
		t.Errorf("settled after %v", now.Sub(t0))
	}
}

func TestIntend_SecondStartIgnoresChecksOfTheFirst(t *testing.T) {
	j := Job{Handover: Handover{Phase: Created}, Condition: Condition{Seen: Accepted}, Plan: Plan{Unmoved: time.Hour,
		Polls: 50}}.Intend(time.Unix(1e9, 0))
	if j.Seen != "" || j.Unmoved != 0 || j.Polls != 0 {
		t.Errorf("after the intent: seen %q, unmoved %v, polls %d", j.Seen, j.Unmoved, j.Polls)
	}
}

// What the server itself answered is over: polls begin at once. What broke off on its way, or came from a proxy, may
// still be taken until its deadline.
func TestNext_AnsweredRequestIsOver(t *testing.T) {
	now := time.Unix(1e9, 0)
	j := Job{Handover: Handover{Phase: Starting, Ref: Ref{ID: "p"}, SendBy: now.Add(30 * time.Second)}}
	for answered, want := range map[bool]time.Duration{true: SettleMargin, false: 30*time.Second + SettleMargin} {
		err := &Error{Kind: Uncertain, Answered: answered}
		if got := Next(j, Outcome{Asked: AskSubmit, Ref: j.Ref, Err: err}, now); got.Due.Sub(now) != want ||
			got.Attention != InDoubt {
			t.Errorf("answered %v: due in %v with %q, want %v", answered, got.Due.Sub(now), got.Attention, want)
		}
	}
	creating := Job{Handover: Handover{Phase: Creating, SendBy: j.SendBy}}
	if got := Next(creating, Outcome{Asked: AskSubmit, Err: &Error{Kind: Uncertain, Answered: true}},
		now); got.Due.Sub(now) != 30*time.Second+SettleMargin {
		t.Errorf("a create is searched for in %v", got.Due.Sub(now))
	}
}

func TestStartsSeen_FromStatuses(t *testing.T) {
	const send = 30 * time.Second
	began := time.Unix(1e9, 0)
	at := func(p Phase, seen Status, after time.Duration) Job {
		return Job{Handover: Handover{Phase: p, SendBy: began.Add(send)}, Condition: Condition{Seen: seen,
			Checked: began.Add(after)}}
	}
	for _, c := range []struct {
		name    string
		was, is Job
		want    StartsSeen
	}{
		{"shown at once", at(Started, "", 0), at(Started, Queued, 5*time.Second), StartsSeen{Prompt: 1}},
		{"ended at once", at(Started, "", 0), at(Ended, Finished, 5*time.Second), StartsSeen{Prompt: 1}},
		{"first looked at late", at(Started, "", 0), at(Started, Running, 2*time.Minute), StartsSeen{Prompt: 1,
			Lag: 2 * time.Minute}},
		{"first looked at too late", at(Started, "", 0), at(Started, Running, 6*time.Minute), StartsSeen{}},
		{"not shown", at(Started, "", 0), at(Started, Accepted, 5*time.Second), StartsSeen{Lagged: true,
			Lag: 5 * time.Second}},
		{"still not shown", at(Started, Accepted, 5*time.Second), at(Started, Accepted, 3*time.Minute),
			StartsSeen{Lagged: true, Lag: 3 * time.Minute}},
		{"shown late", at(Started, Accepted, 5*time.Second), at(Started, Running, 4*time.Minute),
			StartsSeen{Lagged: true,
				Lag: 4 * time.Minute}},
		{"shown, and then not", at(Started, Running, time.Minute), at(Started, Accepted, 5*time.Minute),
			StartsSeen{Lagged: true, Lag: 5 * time.Minute}},
		{"not shown for hours", at(Started, Accepted, time.Minute), at(Started, Running, 300*time.Minute),
			StartsSeen{Lagged: true, Lag: usual.LongestLag}},
		{"a second look", at(Started, Queued, time.Minute), at(Started, Running, 2*time.Minute), StartsSeen{}},
		{"a word that nobody knows", at(Started, "", 0), at(Started, Unknown, 5*time.Second), StartsSeen{}},
		{"no status", at(Started, "", 0), at(Started, "", 0), StartsSeen{}},
		{"in doubt, and not shown", at(Starting, "", 0), at(Starting, Accepted, time.Minute), StartsSeen{}},
		{"in doubt, and shown at first", at(Starting, "", 0), at(Started, Running, time.Minute), StartsSeen{}},
		{"in doubt, and shown late", at(Starting, Accepted, 40*time.Second), at(Started, Running, time.Minute),
			StartsSeen{Lagged: true, Lag: time.Minute}},
	} {
		var got StartsSeen
		if got.Add(c.was, c.is, send, usual); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
