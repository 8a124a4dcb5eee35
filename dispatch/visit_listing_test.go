package dispatch

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

// listedJobs is a platform that lists what is in it, and perhaps breaks off.
type listedJobs struct {
	Platform
	listed []Listed
	err    error
}

func (listedJobs) TwoStep() bool { return true }

func (s listedJobs) List(context.Context, Token, string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for _, l := range s.listed {
			if !yield(l, nil) {
				return
			}
		}
		if s.err != nil {
			yield(Listed{}, s.err)
		}
	}
}

func TestListing_MeaningForEachJob(t *testing.T) {
	one := Job{ID: 1, Attempt: 2, Epoch: 3, Phase: Creating, Nonces: Nonces("").with(1, "aa").with(2, "bb")}
	two := Job{ID: 2, Attempt: 1, Epoch: 3, Phase: Creating}
	six := Job{ID: 6, Attempt: 1, Epoch: 5, Phase: Started, Ref: Ref{ID: "f"}, Nonces: Nonces("").with(1, "ff")}
	half := 50.0
	listed := []Listed{
		{Ref: Ref{ID: "x"}, Tag: "not ours", Report: Report{Status: Running}},
		{Ref: Ref{ID: "y"}, Tag: "other.1.2.bb", Report: Report{Status: Running}},
		{Ref: Ref{ID: "a"}, Tag: "me.1.1.aa", Report: Report{Status: Accepted}},
		{Ref: Ref{ID: "b"}, Tag: "me.1.2.bb", Report: Report{Status: Accepted}},
		{Ref: Ref{ID: "f"}, Tag: "me.6.1.ff", Report: Report{Status: Running, Progress: &half}},
	}

	whole := list(listedJobs{listed: listed}, one, two, six)
	broken := list(listedJobs{listed: listed[:3], err: &Error{Kind: Unavailable}}, one, two, six)
	for _, c := range []struct {
		name string
		got  []Outcome
		want Outcome
	}{
		{"an earlier attempt is an orphan", whole[1], Outcome{Asked: AskSearch, Attempt: 1, Epoch: -1, Ref: Ref{ID: "a"}}},
		{"found", whole[1][1:], Outcome{Asked: AskSearch, Attempt: 2, Epoch: 3, Ref: Ref{ID: "b"},
			Report: Report{Status: Accepted}}},
		{"not there", whole[2], Outcome{Asked: AskSearch, Attempt: 1, Epoch: 3, Repeat: true}},
		{"a status", whole[6], Outcome{Asked: AskStatus, Attempt: 1, Epoch: 5, Ref: Ref{ID: "f"},
			Report: Report{Status: Running, Progress: &half}}},
		{"broke off: nobody knows", broken[2], Outcome{Asked: AskSearch, Attempt: 1, Epoch: 3, Repeat: true,
			Err: broken[2][0].Err}},
	} {
		if len(c.got) == 0 || !reflect.DeepEqual(c.got[0], c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
	if broken[2][0].Err == nil || broken[6][0].Err == nil {
		t.Errorf("a listing that broke off says something of what was not seen")
	}
}

// What cannot be listed, which may show only when it is tried, is asked singly from then on. Bases are listed apart.
func TestListing_SomeBasesCannotBeListed(t *testing.T) {
	learn := make([]Job, 5)
	for i := range learn {
		learn[i] = Job{ID: JobID(i), Phase: Started, Base: []string{"n", "n", "n", "n", "s"}[i]}
	}
	v := visitOf(listedJobs{err: &Error{Kind: Unsupported}})
	v.agenda.Poll = learn
	if v.listingPays("s") || !v.listingPays("n") || v.listingPays("") {
		t.Errorf("a listing pays for n alone, and is said to for s: %v, n: %v", v.listingPays("s"), v.listingPays("n"))
	}
	if answers := v.list(t.Context(), Token{}, "n", learn[:4]); len(answers) != 0 {
		t.Errorf("no listing says %+v", answers)
	}
	if v.listable("n") || !v.listable("s") {
		t.Errorf("listable: n %v, s %v", v.listable("n"), v.listable("s"))
	}
	if s, err := v.stepFor(t.Context(), classSettle, Job{Phase: Creating, Base: "n", Attempt: 1}); err != nil ||
		v.perform(t.Context(), Token{}, s)[0].Asked != AskSearch {
		t.Errorf("what is in doubt is not searched for")
	}
}

// A client that asks for one job after the other gets a listing from the fifth on, so that it does not cost a request
// for each of its jobs.
func TestListing_PaysForJobsThatAreReadOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitOf(listedJobs{})
		v.account = "p"
		pays := func(id JobID) bool {
			v.agenda.Poll = []Job{{ID: id, Phase: Started}}
			return v.listingPays("")
		}
		read := func(id JobID) { v.visits.singles.note(v.singlesOf(""), id, time.Now()) }
		for range 10 {
			if read(1); pays(1) {
				t.Fatal("a listing pays for one job that is read again and again")
			}
		}
		for id := JobID(1); id < listingPays; id++ {
			if pays(id) {
				t.Fatalf("a listing pays for %d jobs", id)
			}
			read(id)
		}
		if !pays(listingPays) {
			t.Error("a listing does not pay")
		}
		if v.agenda.Active = 10_000; pays(listingPays) {
			t.Error("a listing of 10,000 jobs pays for four")
		}
		v.agenda.Active = 0
		if v.account = "other"; pays(listingPays) {
			t.Error("reads of another account count")
		}
		v.account = "p"
		if time.Sleep(singlesCount + 1); pays(listingPays) {
			t.Error("old reads count")
		}
		if len(v.visits.singles.at) > 0 {
			t.Error("old reads are kept")
		}
	})
}

func visitOf(p Platform) *visit {
	return &visit{visits: &Visits{Setup: &Setup{Installation: "me"}}, backend: &Backend{Platform: p},
		unlisted: map[JobID]bool{}}
}

func list(p Platform, jobs ...Job) map[JobID][]Outcome {
	v := visitOf(p)
	outcomes := map[JobID][]Outcome{}
	for _, a := range v.list(context.Background(), Token{}, "", jobs) {
		outcomes[a.job.ID] = append(outcomes[a.job.ID], a.Outcome)
	}
	return outcomes
}

// TestListing_OrphansOfOneJobAreBounded: a hostile platform lists a job again and again, and names thousands of others
// by its tag. What is kept of it is bounded: each would be a row to write, and those with a tag a request to cancel
// them.
func TestListing_OrphansOfOneJobAreBounded(t *testing.T) {
	one := Job{ID: 1, Attempt: 2, Epoch: 3, Phase: Creating, Nonces: Nonces("").with(1, "aa").with(2, "bb")}
	six := Job{ID: 6, Attempt: 1, Epoch: 5, Phase: Started, Ref: Ref{ID: "f"}, Nonces: Nonces("").with(1, "ff")}
	var listed []Listed
	for i := range 20_000 {
		listed = append(listed,
			Listed{Ref: Ref{ID: "f"}, Report: Report{Status: Running}},
			Listed{Ref: Ref{ID: fmt.Sprint("s", i)}, Tag: "me.1.1.aa", Report: Report{Status: Running}},
			Listed{Ref: Ref{ID: fmt.Sprint("c", i)}, Tag: "me.1.2.bb", Report: Report{Status: Running}},
			Listed{Ref: Ref{ID: "b"}, Tag: "me.1.2.bb", Report: Report{Status: Running}})
	}
	got := list(listedJobs{listed: listed}, one, six)
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
