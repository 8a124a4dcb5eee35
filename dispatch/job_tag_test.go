package dispatch

import (
	"fmt"
	"testing"
)

func TestTag_MarksOneAttempt(t *testing.T) {
	j := Job{ID: 7, Attempt: 4, Nonces: Nonces("").with(1, "aa").with(3, "cc").with(4, "dd")} // that of the second is lost
	if got := j.Tag("me"); got != "me.7.4.dd" {
		t.Errorf("Tag = %s", got)
	}
	for tag, want := range map[string]bool{
		"me.7.4.dd": true, "me.7.3.cc": true, "me.7.1.aa": true,
		"me.7.2": false, "me.7.2.": false, "me.7.4": false, "me.7.4.cc": false, "me.7.2.aa": false, "me.7.5": false,
		"me.7.5.ee": false, "me.8.4.dd": false,
		"you.7.4.dd": false, "me.7": false, "me.7.4.dd.x": false, "me.x.4.dd": false, "me.7.x.dd": false, "": false,
	} {
		parsed, ours := parseTag("me", tag)
		if got := ours && parsed.marks(j); got != want {
			t.Errorf("%s: %v, want %v", tag, got, want)
		}
	}
}

func TestNonces_LastAreKept(t *testing.T) {
	var n Nonces
	for attempt := 1; attempt <= 2*maxNonces; attempt++ {
		n = n.with(attempt, fmt.Sprint("n", attempt))
	}
	if n.of(2*maxNonces) != fmt.Sprint("n", 2*maxNonces) || n.of(maxNonces+1) == "" || n.of(maxNonces) != "" {
		t.Errorf("kept: %s", n)
	}
}

func TestListing_AnothersAttemptMeansNothing(t *testing.T) {
	doubtful := Job{ID: 1, Attempt: 2, Phase: Creating, Nonces: Nonces("").with(1, "aa").with(2, "bb")}
	m := newMatch([]Job{doubtful}, "me", false)
	for i, tag := range []string{"me.1.2", "me.1.2.zz", "me.1.1", "me.1.1.zz", "me.1.3.cc"} {
		m.add(Listed{Ref: Ref{ID: fmt.Sprint(i)}, Tag: tag, Report: Report{Status: Running}})
	}
	if len(m.outcomes) > 0 {
		t.Fatalf("attempts that are not this job's: %+v", m.outcomes)
	}
	m.add(Listed{Ref: Ref{ID: "orphan"}, Tag: "me.1.1.aa", Report: Report{Status: Running}})
	m.add(Listed{Ref: Ref{ID: "own"}, Tag: "me.1.2.bb", Report: Report{Status: Running}})
	if len(m.outcomes) != 2 || m.outcomes[0].Epoch != -1 || m.outcomes[1].Ref.ID != "own" || !m.seen[1] {
		t.Errorf("its own attempts: %+v", m.outcomes)
	}
}

func TestNonces_OneForEachAttempt(t *testing.T) {
	v := &visit{visits: &Visits{Setup: &Setup{}}}
	one := v.tagged(Job{ID: 1, Phase: Waiting})
	two := v.tagged(Job{ID: 1, Phase: Waiting, Attempt: 1, Nonces: one.Nonces})
	first, second := two.Nonces.of(1), two.Nonces.of(2)
	if len(first) != 8 || len(second) != 8 || first == second || first != one.Nonces.of(1) {
		t.Errorf("nonces %q", two.Nonces)
	}
	if started := v.tagged(Job{ID: 1, Phase: Created, Attempt: 1, Nonces: one.Nonces}); started.Nonces != one.Nonces {
		t.Errorf("a start makes a nonce: %q", started.Nonces)
	}
}
