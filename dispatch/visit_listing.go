package dispatch

import (
	"context"
	"sync"
	"time"
)

// listingPays is how many due statuses make one listing cheaper than reading each.
const listingPays = 4

// listings is what is known of the listings of bases whose platform is able to list.
type listings struct {
	mu sync.Mutex
	at map[baseOf]listed
}

type baseOf struct{ platform, base string }

// listed is how it went with the listing of a base.
type listed struct {
	none     bool      // there is none
	failed   bool      // the last time; whether it or the platform is to blame, the next single read tells
	singleBy time.Time // until when statuses are read singly
}

func (l *listings) of(b baseOf) listed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[b]
}

func (l *listings) set(b baseOf, is listed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set(&l.at, b, is)
}

// fails reports whether statuses are not read from the listing at a time, because it failed.
func (l listed) fails(now time.Time) bool { return l.failed || now.Before(l.singleBy) }

// ended notes how a listing ended.
func (l *listings) ended(b baseOf, err error) {
	switch {
	case Is(err, Unsupported):
		l.set(b, listed{none: true})
	case err == nil || Is(err, Unavailable) || Is(err, BadUpstream) || Is(err, Internal):
		l.set(b, listed{failed: err != nil})
	}
}

// read notes how a single read went. If a listing failed and a single read does not, statuses are read singly for the given time.
func (l *listings) read(b baseOf, err error, now time.Time, single time.Duration) {
	if !l.of(b).failed {
		return
	}
	is := listed{}
	if err == nil || Is(err, NotFound) {
		is.singleBy = now.Add(single)
	}
	l.set(b, is)
}

func (v *visit) listable(base string) bool {
	_, can := v.backend.Platform.(Lister)
	return can && !v.broker.listings.of(baseOf{v.backend.Name, base}).none
}

// listingPays reports whether there is a listing of use, and as many jobs below its base are due that it is cheaper.
func (v *visit) listingPays(base string) bool {
	if v.careful || v.broker.listings.of(baseOf{v.backend.Name, base}).fails(time.Now()) {
		return false
	}
	n := 0
	for _, j := range v.agenda.Poll {
		if j.Base == base && !v.single(j) && !v.busy[j.ID] {
			n++
		}
	}
	return n >= listingPays && v.listable(base)
}

// single reports whether a listing is not what j needs: it did not show j, or j is said to have failed, and only a look at
// j itself says why, or j is to be canceled.
func (v *visit) single(j Job) bool { return v.unlisted[j.ID] || j.Seen == Failed || j.overdue() }

// listing is one request that was wanted for first, and for all else below its base that can be read from a list, due or
// not: creates in doubt, and statuses. Where listings fail, it is for creates in doubt alone: only they need one.
func (v *visit) listing(ctx context.Context, first Job) (step, error) {
	live, err := v.broker.Store.Listable(ctx, v.account, first.Base)
	jobs := []Job{first}
	doubts := v.careful || v.broker.listings.of(baseOf{v.backend.Name, first.Base}).fails(time.Now())
	for _, j := range live {
		if j.ID != first.ID && !v.busy[j.ID] && (j.Phase == Creating || !doubts) && !(j.Phase == Started && v.single(j)) {
			jobs = append(jobs, j)
		}
	}
	return step{kind: stepList, jobs: jobs}, err
}

// noteUnlisted notes what a request, if it was a listing, did not show: until the end of the visit it is asked singly.
func (v *visit) noteUnlisted(f platformResponse) {
	answered := map[JobID]bool{}
	for _, a := range f.outcomes {
		answered[a.job.ID] = true
	}
	for _, j := range f.jobs {
		if !answered[j.ID] {
			v.unlisted[j.ID] = true
		}
	}
}

// list reads a listing, to its end unless all was seen before, and says what it means for each job. One that breaks off
// says nothing about what was not seen; where there is none, all is asked singly from now on.
func (v *visit) list(ctx context.Context, t Token, base string, jobs []Job) []jobOutcome {
	m := newMatch(jobs, v.broker.Installation, !v.backend.Platform.TwoStep())
	err := v.matchAll(ctx, t, base, m)
	v.broker.listings.ended(baseOf{v.backend.Name, base}, err)
	if Is(err, Unsupported) {
		return m.outcomes
	}
	return append(m.outcomes, v.unseen(jobs, m.seen, err)...)
}

func (v *visit) matchAll(ctx context.Context, t Token, base string, m *match) (err error) {
	defer Caught(ctx, v.broker.Log, "dispatch.visit: list "+v.backend.Name, &err)
	for l, err := range v.backend.Platform.(Lister).List(ctx, t, base) {
		if err != nil {
			return err
		}
		if m.add(l); m.complete() {
			break
		}
	}
	return nil
}

// listedOfJob is how many jobs of a platform one listing may name for one job of ours: its own, and orphans. Those beyond are
// found by the next listings, when these are settled.
const listedOfJob = 100

// match collects what listed jobs mean for ours, once for each job of the platform.
type match struct {
	outcomes     []jobOutcome
	told         map[JobID]map[Ref]bool // what the answers name
	seen         map[JobID]bool
	byRef        map[Ref]Job
	byID         map[JobID]Job
	early        bool // all that is wanted is statuses: what was seen need not be looked for further
	started      bool // what is there has started, whatever a lagging status says
	installation string
}

func newMatch(jobs []Job, installation string, started bool) *match {
	m := &match{told: map[JobID]map[Ref]bool{}, seen: map[JobID]bool{}, byRef: map[Ref]Job{}, byID: map[JobID]Job{}, early: true, started: started, installation: installation}
	for _, j := range jobs {
		m.byID[j.ID] = j
		if j.Ref != (Ref{}) {
			m.byRef[j.Ref] = j
		}
		m.early = m.early && j.Phase == Started && j.Attempt < 2 // no orphan of an earlier attempt either
	}
	return m
}

// complete reports whether the rest of the listing is of no use.
func (m *match) complete() bool { return m.early && len(m.seen) == len(m.byID) }

func (m *match) add(l Listed) {
	if j, ours := m.byRef[l.Ref]; ours {
		m.put(j, Outcome{Asked: AskStatus, Attempt: j.Attempt, Turn: j.Turn, Ref: l.Ref, Report: l.Report})
		return
	}
	t, tagged := parseTag(m.installation, l.Tag)
	j, ours := m.byID[t.job]
	switch {
	case !tagged || !ours || !t.marks(j):
	case t.attempt == j.Attempt && j.Phase == Creating:
		m.put(j, Outcome{Asked: AskSearch, Attempt: t.attempt, Turn: j.Turn, Ref: l.Ref, Started: m.started, Report: l.Report})
	case !l.Report.Status.Final(): // of an earlier attempt: an orphan
		m.keep(jobOutcome{j, Outcome{Asked: AskSearch, Attempt: t.attempt, Turn: -1, Ref: l.Ref}})
	}
}

// keep adds an answer, unless the listing named the same before, or too many for that job.
func (m *match) keep(a jobOutcome) {
	told := m.told[a.job.ID]
	if told == nil {
		told = map[Ref]bool{}
		m.told[a.job.ID] = told
	}
	if !told[a.Ref] && len(told) < listedOfJob {
		told[a.Ref] = true
		m.outcomes = append(m.outcomes, a)
	}
}

func (m *match) put(j Job, o Outcome) {
	m.keep(jobOutcome{j, o})
	m.seen[j.ID] = true
}

// unseen is what it means for the jobs that a listing did not show.
func (v *visit) unseen(jobs []Job, seen map[JobID]bool, err error) []jobOutcome {
	var outcomes []jobOutcome
	for _, j := range jobs {
		o := Outcome{Asked: AskStatus, Ref: j.Ref}
		if j.Phase == Creating {
			o = v.notThere(j)
		}
		o.Attempt, o.Turn, o.Err = j.Attempt, j.Turn, err
		o.Panicked = j.Phase == Creating && err != nil && Is(err, Internal)
		if !seen[j.ID] && (err != nil || j.Phase == Creating) {
			outcomes = append(outcomes, jobOutcome{j, o})
		}
	}
	return outcomes
}
