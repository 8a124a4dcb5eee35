package dispatch

import (
	"fmt"
	"testing"
)

func TestTag_MarksOneAttempt(t *testing.T) {
	j := Job{Identity: Identity{ID: 7}, Handover: Handover{Attempt: 4,
		Nonces: Nonces("").With(1, "aa").With(3, "cc").With(4, "dd")}} // that of the second is lost
	if got := j.Tag("me"); got != "me.7.4.dd" {
		t.Errorf("Tag = %s", got)
	}
	for tag, want := range map[string]bool{
		"me.7.4.dd": true, "me.7.3.cc": true, "me.7.1.aa": true,
		"me.7.2": false, "me.7.2.": false, "me.7.4": false, "me.7.4.cc": false, "me.7.2.aa": false, "me.7.5": false,
		"me.7.5.ee": false, "me.8.4.dd": false,
		"you.7.4.dd": false, "me.7": false, "me.7.4.dd.x": false, "me.x.4.dd": false, "me.7.x.dd": false, "": false,
	} {
		parsed, ours := ParseTag("me", tag)
		if got := ours && parsed.Marks(j); got != want {
			t.Errorf("%s: %v, want %v", tag, got, want)
		}
	}
}

func TestNonces_LastAreKept(t *testing.T) {
	var n Nonces
	for attempt := 1; attempt <= 2*maxNonces; attempt++ {
		n = n.With(attempt, fmt.Sprint("n", attempt))
	}
	if n.Of(2*maxNonces) != fmt.Sprint("n", 2*maxNonces) || n.Of(maxNonces+1) == "" || n.Of(maxNonces) != "" {
		t.Errorf("kept: %s", n)
	}
}
