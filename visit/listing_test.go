package visit

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listedJobs is a platform that lists what is in it, and perhaps breaks off.
type listedJobs struct {
	dispatch.Platform
	listed []dispatch.Listed
	err    error
}

func (listedJobs) TwoStep() bool { return true }

func (s listedJobs) List(context.Context, dispatch.Token, string) iter.Seq2[dispatch.Listed, error] {
	return func(yield func(dispatch.Listed, error) bool) {
		for _, l := range s.listed {
			if !yield(l, nil) {
				return
			}
		}
		if s.err != nil {
			yield(dispatch.Listed{}, s.err)
		}
	}
}

func TestListing_MeaningForEachJob(t *testing.T) {
	one := dispatch.Job{Identity: dispatch.Identity{ID: 1}, Handover: dispatch.Handover{Attempt: 2, Epoch: 3,
		Phase: dispatch.Creating, Nonces: dispatch.Nonces("").With(1, "aa").With(2, "bb")}}
	two := dispatch.Job{Identity: dispatch.Identity{ID: 2}, Handover: dispatch.Handover{Attempt: 1, Epoch: 3,
		Phase: dispatch.Creating}}
	six := dispatch.Job{Identity: dispatch.Identity{ID: 6}, Handover: dispatch.Handover{Attempt: 1, Epoch: 5,
		Phase: dispatch.Started, Ref: dispatch.Ref{ID: "f"}, Nonces: dispatch.Nonces("").With(1, "ff")}}
	half := 50.0
	listed := []dispatch.Listed{
		{Ref: dispatch.Ref{ID: "x"}, Tag: "not ours", Report: dispatch.Report{Status: dispatch.Running}},
		{Ref: dispatch.Ref{ID: "y"}, Tag: "other.1.2.bb", Report: dispatch.Report{Status: dispatch.Running}},
		{Ref: dispatch.Ref{ID: "a"}, Tag: "me.1.1.aa", Report: dispatch.Report{Status: dispatch.Accepted}},
		{Ref: dispatch.Ref{ID: "b"}, Tag: "me.1.2.bb", Report: dispatch.Report{Status: dispatch.Accepted}},
		{Ref: dispatch.Ref{ID: "f"}, Tag: "me.6.1.ff",
			Report: dispatch.Report{Status: dispatch.Running, Progress: &half}},
	}

	whole := list(listedJobs{listed: listed}, one, two, six)
	broken := list(listedJobs{listed: listed[:3], err: &dispatch.Error{Kind: dispatch.Unavailable}}, one, two, six)
	for _, c := range []struct {
		name string
		got  []dispatch.Outcome
		want dispatch.Outcome
	}{
		{"an earlier attempt is an orphan", whole[1],
			dispatch.Outcome{Asked: dispatch.AskSearch, Attempt: 1, Epoch: -1, Ref: dispatch.Ref{ID: "a"}}},
		{"found", whole[1][1:], dispatch.Outcome{Asked: dispatch.AskSearch, Attempt: 2, Epoch: 3,
			Ref: dispatch.Ref{ID: "b"}, Report: dispatch.Report{Status: dispatch.Accepted}}},
		{"not there", whole[2], dispatch.Outcome{Asked: dispatch.AskSearch, Attempt: 1, Epoch: 3, Repeat: true}},
		{"a status", whole[6], dispatch.Outcome{Asked: dispatch.AskStatus, Attempt: 1, Epoch: 5,
			Ref: dispatch.Ref{ID: "f"}, Report: dispatch.Report{Status: dispatch.Running, Progress: &half}}},
		{"broke off: nobody knows", broken[2], dispatch.Outcome{Asked: dispatch.AskSearch, Attempt: 1, Epoch: 3,
			Repeat: true, Err: broken[2][0].Err}},
	} {
		if len(c.got) == 0 || !reflect.DeepEqual(c.got[0], c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
	if broken[2][0].Err == nil || broken[6][0].Err == nil {
		t.Errorf("a listing that broke off says something of what was not seen")
	}
}

// TestListing_WithoutStatuses: one that has only identifiers is none. Otherwise it would count as a read of each
// status, and no job would ever end.
func TestListing_WithoutStatuses(t *testing.T) {
	one := dispatch.Job{Identity: dispatch.Identity{ID: 1}, Handover: dispatch.Handover{Attempt: 1, Epoch: 3,
		Phase: dispatch.Started, Ref: dispatch.Ref{ID: "a"}}}
	v := visitOf(listedJobs{listed: []dispatch.Listed{{Ref: one.Ref}}})
	if got := v.list(t.Context(), dispatch.Token{}, "", []dispatch.Job{one}); len(got) != 0 || v.listable("") {
		t.Errorf("identifiers are statuses: %+v, listable: %v", got, v.listable(""))
	}
}

// What cannot be listed, which may show only when it is tried, is asked singly from then on. Bases are listed apart.
func TestListing_SomeBasesCannotBeListed(t *testing.T) {
	learn := make([]dispatch.Job, 5)
	for i := range learn {
		learn[i] = dispatch.Job{Identity: dispatch.Identity{ID: dispatch.JobID(i)},
			Target:   dispatch.Target{Base: []string{"n", "n", "n", "n", "s"}[i]},
			Handover: dispatch.Handover{Phase: dispatch.Started}}
	}
	v := visitOf(listedJobs{err: &dispatch.Error{Kind: dispatch.Unsupported}})
	v.agenda.Poll = learn
	for base, want := range map[string]bool{"s": false, "n": true, "": false} {
		if pays, err := v.listingPays(t.Context(), base); err != nil || pays != want {
			t.Errorf("base %q: a listing pays: %v, %v", base, pays, err)
		}
	}
	if answers := v.list(t.Context(), dispatch.Token{}, "n", learn[:4]); len(answers) != 0 {
		t.Errorf("no listing says %+v", answers)
	}
	if v.listable("n") || !v.listable("s") {
		t.Errorf("listable: n %v, s %v", v.listable("n"), v.listable("s"))
	}
	if s, err := v.stepFor(t.Context(), classSettle, dispatch.Job{Target: dispatch.Target{Base: "n"},
		Handover: dispatch.Handover{Phase: dispatch.Creating, Attempt: 1}}); err != nil ||
		v.perform(t.Context(), dispatch.Token{}, s)[0].Asked != dispatch.AskSearch {
		t.Errorf("what is in doubt is not searched for")
	}
}

// TestListing_IsTriedAgain: the 404 of a proxy looks like that of a platform without a listing.
func TestListing_IsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitOf(listedJobs{err: &dispatch.Error{Kind: dispatch.Unsupported}})
		v.list(t.Context(), dispatch.Token{}, "n", []dispatch.Job{{}})
		if time.Sleep(noListing - time.Second); v.listable("n") {
			t.Error("listed at once")
		}
		if time.Sleep(2 * time.Second); !v.listable("n") {
			t.Error("not listed again")
		}
	})
}

// runningJobs is a store with jobs that run.
type runningJobs struct {
	Store
	jobs []dispatch.Job
}

func (s *runningJobs) Running(context.Context, dispatch.Account, int) ([]dispatch.Job, error) {
	return s.jobs, nil
}

// TestListing_PaysForJobsThatAreReadOneAfterTheOther: a client that asks for one job after the other gets a listing
// from the fourth on, so that it does not cost a request for each of its jobs.
func TestListing_PaysForJobsThatAreReadOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s := visitOf(listedJobs{}), &runningJobs{}
		v.visits.Store, v.agenda.Active = s, 50
		s.jobs = make([]dispatch.Job, 50)
		listed := time.Now()
		read := func(i int) {
			s.jobs[i].ID, s.jobs[i].Seen, s.jobs[i].Checked = dispatch.JobID(i+1), dispatch.Running, time.Now()
			s.jobs[i].Phase = dispatch.Started
		}
		pays := func(i int) bool {
			v.agenda.Poll, v.agenda.Now, v.read = s.jobs[i:i+1], time.Now(), time.Now()
			pays, err := v.listingPays(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			return pays
		}
		for i := range s.jobs {
			read(i)
		}
		for range 20 {
			time.Sleep(2 * time.Second)
			if pays(0) {
				t.Fatalf("after %v a listing pays for one job that is read again and again", time.Since(listed))
			}
			read(0)
		}
		time.Sleep(readLately)
		for i := range listingPays - 1 {
			if pays(i + 1) {
				t.Fatalf("a listing pays for the read of job %d", i+1)
			}
			read(i + 1)
		}
		if !pays(listingPays) {
			t.Error("a listing does not pay")
		}
		if v.agenda.Active = 10_000; pays(listingPays) {
			t.Error("all of 10,000 jobs are looked through")
		}
		v.agenda.Active = 50
		if time.Sleep(readLately); pays(listingPays) {
			t.Error("old reads count")
		}
	})
}

func visitOf(p dispatch.Platform) *visit {
	return &visit{visits: &Visits{Setup: &dispatch.Setup{Installation: "me"}}, backend: &dispatch.Backend{Platform: p},
		unlisted: map[dispatch.JobID]bool{}}
}

func list(p dispatch.Platform, jobs ...dispatch.Job) map[dispatch.JobID][]dispatch.Outcome {
	v := visitOf(p)
	outcomes := map[dispatch.JobID][]dispatch.Outcome{}
	for _, a := range v.list(context.Background(), dispatch.Token{}, "", jobs) {
		outcomes[a.job.ID] = append(outcomes[a.job.ID], a.Outcome)
	}
	return outcomes
}

// TestListing_OrphansOfOneJobAreBounded: a hostile platform lists a job again and again, and names thousands of others
// by its tag. What is kept of it is bounded: each would be a row to write, and those with a tag a request to cancel
// them.
func TestListing_OrphansOfOneJobAreBounded(t *testing.T) {
	one := dispatch.Job{Identity: dispatch.Identity{ID: 1}, Handover: dispatch.Handover{Attempt: 2, Epoch: 3,
		Phase: dispatch.Creating, Nonces: dispatch.Nonces("").With(1, "aa").With(2, "bb")}}
	six := dispatch.Job{Identity: dispatch.Identity{ID: 6}, Handover: dispatch.Handover{Attempt: 1, Epoch: 5,
		Phase: dispatch.Started, Ref: dispatch.Ref{ID: "f"}, Nonces: dispatch.Nonces("").With(1, "ff")}}
	var listed []dispatch.Listed
	for i := range 20_000 {
		listed = append(listed,
			dispatch.Listed{Ref: dispatch.Ref{ID: "f"}, Report: dispatch.Report{Status: dispatch.Running}},
			dispatch.Listed{Ref: dispatch.Ref{ID: fmt.Sprint("s", i)}, Tag: "me.1.1.aa",
				Report: dispatch.Report{Status: dispatch.Running}},
			dispatch.Listed{Ref: dispatch.Ref{ID: fmt.Sprint("c", i)}, Tag: "me.1.2.bb",
				Report: dispatch.Report{Status: dispatch.Running}},
			dispatch.Listed{Ref: dispatch.Ref{ID: "b"}, Tag: "me.1.2.bb",
				Report: dispatch.Report{Status: dispatch.Running}})
	}
	got := list(listedJobs{listed: listed}, one, six)
	if len(got[6]) != 1 || len(got[1]) != listedOfJob {
		t.Errorf("%d and %d answers, want 1 and %d", len(got[6]), len(got[1]), listedOfJob)
	}
	refs := map[dispatch.Ref]bool{}
	for _, o := range got[1] {
		refs[o.Ref] = true
	}
	if len(refs) != listedOfJob {
		t.Errorf("%d refs", len(refs))
	}
}

func TestListing_AnothersAttemptMeansNothing(t *testing.T) {
	doubtful := dispatch.Job{Identity: dispatch.Identity{ID: 1}, Handover: dispatch.Handover{Attempt: 2,
		Phase: dispatch.Creating, Nonces: dispatch.Nonces("").With(1, "aa").With(2, "bb")}}
	m := newMatch([]dispatch.Job{doubtful}, "me", false)
	for i, tag := range []string{"me.1.2", "me.1.2.zz", "me.1.1", "me.1.1.zz", "me.1.3.cc"} {
		m.add(dispatch.Listed{Ref: dispatch.Ref{ID: fmt.Sprint(i)}, Tag: tag,
			Report: dispatch.Report{Status: dispatch.Running}})
	}
	if len(m.outcomes) > 0 {
		t.Fatalf("attempts that are not this job's: %+v", m.outcomes)
	}
	m.add(dispatch.Listed{Ref: dispatch.Ref{ID: "orphan"}, Tag: "me.1.1.aa",
		Report: dispatch.Report{Status: dispatch.Running}})
	m.add(dispatch.Listed{Ref: dispatch.Ref{ID: "own"}, Tag: "me.1.2.bb",
		Report: dispatch.Report{Status: dispatch.Running}})
	if len(m.outcomes) != 2 || m.outcomes[0].Epoch != -1 || m.outcomes[1].Ref.ID != "own" || !m.seen[1] {
		t.Errorf("its own attempts: %+v", m.outcomes)
	}
}
