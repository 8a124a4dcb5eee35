package dispatch

import (
	"fmt"
	"testing"
)

// TestAListingTellsOfAJobSoOften: a hostile platform lists a job again and again, and names thousands of others by its tag. What
// is kept of it is bounded: each would be a row to write, and those with a tag a request to cancel them.
func TestAListingTellsOfAJobSoOften(t *testing.T) {
	one := Job{ID: 1, Attempt: 2, Turn: 3, Phase: Creating}
	six := Job{ID: 6, Attempt: 1, Turn: 5, Phase: Started, Ref: Ref{ID: "f"}}
	var listed []Listed
	for i := range 20_000 {
		listed = append(listed,
			Listed{Ref: Ref{ID: "f"}, Report: Report{Status: Running}},
			Listed{Ref: Ref{ID: fmt.Sprint("s", i)}, Tag: "me.1.1", Report: Report{Status: Running}},
			Listed{Ref: Ref{ID: fmt.Sprint("c", i)}, Tag: "me.1.2", Report: Report{Status: Running}},
			Listed{Ref: Ref{ID: "b"}, Tag: "me.1.2", Report: Report{Status: Running}})
	}
	got := list(shelf{listed: listed}, one, six)
	if len(got[6]) != 1 || len(got[1]) != listedOfJob {
		t.Errorf("%d and %d answers, want 1 and %d", len(got[6]), len(got[1]), listedOfJob)
	}
	refs := map[Ref]bool{}
	for _, o := range got[1] {
		refs[o.Ref] = true
	}
	if len(refs) != listedOfJob {
		t.Errorf("%d refs", len(refs))
	}
}
