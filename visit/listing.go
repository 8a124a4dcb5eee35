package visit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listingPays is the number of due statuses from which on one listing is cheaper than a read of each.
const listingPays = 4

// readLately is how long ago jobs were read that count for listingPays.
const readLately = 10 * time.Second

// noListing is how long a platform that has no listing is not asked for it again.
const noListing = time.Hour

// listings records the state of the listing of each base, for platforms that can list.
type listings struct {
	mu sync.Mutex
	at map[baseOf]listed
}

type baseOf struct{ platform, base string }

// listed is the state of the listing of a base.
type listed struct {
	none     time.Time // when the platform said that it has no listing for the base
	failed   bool      // the last listing failed; the next single read shows whether the platform fails as well
	singleBy time.Time // statuses are read one by one until then

	took time.Duration // the duration of the last listing that did not fail
}

func (l *listings) get(b baseOf) listed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[b]
}

func (l *listings) set(b baseOf, state listed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dispatch.SetInMap(&l.at, b, state)
}

// mustReadSingly reports whether statuses must be read one by one at a given time because the listing failed.
func (l listed) mustReadSingly(now time.Time) bool { return l.failed || now.Before(l.singleBy) }

// ended records the outcome of a listing, and how long it took.
func (l *listings) ended(b baseOf, err error, took time.Duration) {
	switch {
	case dispatch.Is(err, dispatch.Unsupported):
		l.set(b, listed{none: time.Now()})
	case err == nil:
		l.set(b, listed{took: took})
	case dispatch.Is(err, dispatch.Unavailable) || dispatch.Is(err, dispatch.BadUpstream) ||
		dispatch.Is(err, dispatch.Internal):
		l.set(b, listed{failed: true})
	}
}

// read records the outcome of a single status read. If the last listing failed and this read does not, statuses are
// read one by one for the given time.
func (l *listings) read(b baseOf, err error, now time.Time, single time.Duration) {
	if !l.get(b).failed {
		return
	}
	state := listed{}
	if err == nil || dispatch.Is(err, dispatch.NotFound) {
		state.singleBy = now.Add(single)
	}
	l.set(b, state)
}

func (v *visit) listable(base string) bool {
	_, can := v.backend.Platform.(dispatch.Lister)
	return can && time.Since(v.visits.listings.get(baseOf{v.backend.Name, base}).none) > noListing
}

// lists reports whether statuses of a base may be read by a listing at present.
func (v *visit) lists(base string) bool {
	return !v.careful && !v.visits.listings.get(baseOf{v.backend.Name, base}).mustReadSingly(time.Now()) &&
		v.listable(base)
}

// listingPays reports whether a base has a usable listing, and so many due jobs that one listing is cheaper than single
// reads. Jobs that were read since the due ones were, in the last readLately, count as well: a client that asks for one
// job after the other never makes many of them due at once, and a listing makes the statuses of all of them fresh.
func (v *visit) listingPays(ctx context.Context, base string) (bool, error) {
	due, since := 0, v.now().Add(-readLately)
	for _, j := range v.agenda.Poll {
		if j.Base == base && !v.mustReadSingly(j) && !v.busy[j.ID] {
			due, since = due+1, dispatch.Later(since, v.lastRead(j))
		}
	}
	switch active := v.agenda.Active; {
	case due == 0 || !v.lists(base):
		return false, nil
	case due >= listingPays, active < listingPays, active > mostPolled:
		return due >= listingPays, nil
	}
	running, err := v.visits.Store.Running(ctx, v.account, mostPolled)
	for _, j := range running {
		if j.Base == base && j.Seen != "" && v.lastRead(j).After(since) {
			due++
		}
	}
	return due >= listingPays, err
}

// mustReadSingly reports whether the status of j must be read by itself: a listing did not show j, or reported it as
// failed, so that only its own status gives the reason, or j is overdue and is to be canceled.
func (v *visit) mustReadSingly(j dispatch.Job) bool {
	return v.unlisted[j.ID] || j.Seen == dispatch.Failed || j.Overdue()
}

// listing returns one step that reads a listing for first and for all other jobs below its base that a list can show,
// due or not: creates in doubt, and statuses. While listings fail, the other jobs are creates in doubt only, because
// only they need a listing.
func (v *visit) listing(ctx context.Context, first dispatch.Job) (step, error) {
	live, err := v.visits.Store.Listable(ctx, v.account, first.Base)
	jobs := append(make([]dispatch.Job, 0, len(live)+1), first)
	doubts := v.careful || v.visits.listings.get(baseOf{v.backend.Name, first.Base}).mustReadSingly(time.Now())
	for _, j := range live {
		if j.ID != first.ID && !v.busy[j.ID] && (j.Phase == dispatch.Creating || !doubts) &&
			!(j.Phase == dispatch.Started && v.mustReadSingly(j)) {
			jobs = append(jobs, j)
		}
	}
	return step{kind: stepList, jobs: jobs}, err
}

// noteUnlisted records the jobs of a request that got no outcome, such as those that a listing did not show. Until the
// end of the visit their statuses are read one by one.
func (v *visit) noteUnlisted(f platformResponse) {
	answered := map[dispatch.JobID]bool{}
	for _, a := range f.outcomes {
		answered[a.job.ID] = true
	}
	for _, j := range f.jobs {
		if !answered[j.ID] {
			v.unlisted[j.ID] = true
		}
	}
}

// list reads a listing and returns the outcome for each job. It stops before the end of the listing if every job was
// seen and no orphan can follow. If a listing breaks off, the jobs that were not seen get its error. If the platform
// has no listing, statuses are read one by one for a while.
func (v *visit) list(ctx context.Context, t dispatch.Token, base string, jobs []dispatch.Job) []jobOutcome {
	m := newMatch(jobs, v.visits.Installation, !v.backend.Platform.TwoStep())
	begun := time.Now()
	err := v.matchAll(ctx, t, base, m)
	v.visits.listings.ended(baseOf{v.backend.Name, base}, err, time.Since(begun))
	if dispatch.Is(err, dispatch.Unsupported) {
		return m.outcomes
	}
	return append(m.outcomes, v.unseen(jobs, m.seen, err)...)
}

func (v *visit) matchAll(ctx context.Context, t dispatch.Token, base string, m *match) (err error) {
	defer dispatch.RecoverAsError(ctx, v.visits.Log, "dispatch.visit: list "+v.backend.Name, &err)
	for l, err := range v.backend.Platform.(dispatch.Lister).List(ctx, t, base) {
		if err == nil && l.Report.Status == "" {
			err = &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.list",
				Text: "The platform's listing has no statuses."}
		}
		if err != nil {
			return err
		}
		if m.add(l); m.complete() {
			break
		}
	}
	return nil
}

// listedOfJob is how many platform jobs one listing may report for one job of ours: its own, and orphans. Later
// listings report the others, once these are settled.
const listedOfJob = 100

// match collects the outcomes of listed platform jobs for our jobs, one for each platform job.
type match struct {
	outcomes     []jobOutcome
	kept         map[dispatch.JobID][]dispatch.Ref // platform jobs in outcomes
	seen         map[dispatch.JobID]bool
	byRef        map[dispatch.Ref]*dispatch.Job
	byID         map[dispatch.JobID]*dispatch.Job
	early        bool // only statuses are wanted, so the rest of the listing is not needed once all jobs were seen
	started      bool // a listed job has started, even if its status lags
	installation string
}

func newMatch(jobs []dispatch.Job, installation string, started bool) *match {
	m := &match{kept: map[dispatch.JobID][]dispatch.Ref{}, seen: map[dispatch.JobID]bool{},
		byRef: map[dispatch.Ref]*dispatch.Job{}, byID: map[dispatch.JobID]*dispatch.Job{},
		outcomes: make([]jobOutcome, 0, len(jobs)), early: true, started: started, installation: installation}
	for i := range jobs {
		j := &jobs[i]
		m.byID[j.ID] = j
		if j.Ref != (dispatch.Ref{}) {
			m.byRef[j.Ref] = j
		}
		m.early = m.early && j.Phase == dispatch.Started && j.Attempt < 2 // no earlier attempt may have left an orphan
	}
	return m
}

func (m *match) complete() bool { return m.early && len(m.seen) == len(m.byID) }

func (m *match) add(l dispatch.Listed) {
	if j, ours := m.byRef[l.Ref]; ours {
		m.put(j, dispatch.Outcome{Asked: dispatch.AskStatus, Attempt: j.Attempt, Epoch: j.Epoch, Ref: l.Ref,
			Report: l.Report})
		return
	}
	t, tagged := dispatch.ParseTag(m.installation, l.Tag)
	j, ours := m.byID[t.Job]
	switch {
	case !tagged || !ours || !t.Marks(*j):
	case t.Attempt == j.Attempt && j.Phase == dispatch.Creating:
		m.put(j, dispatch.Outcome{Asked: dispatch.AskSearch, Attempt: t.Attempt, Epoch: j.Epoch, Ref: l.Ref,
			Started: m.started,
			Report:  l.Report})
	case !l.Report.Status.Final(): // of an earlier attempt: an orphan
		m.keep(j, dispatch.Outcome{Asked: dispatch.AskSearch, Attempt: t.Attempt, Epoch: -1, Ref: l.Ref})
	}
}

// keep adds an outcome, unless the listing reported the same platform job before, or listedOfJob of them for that job.
func (m *match) keep(j *dispatch.Job, o dispatch.Outcome) {
	if kept := m.kept[j.ID]; !slices.Contains(kept, o.Ref) && len(kept) < listedOfJob {
		m.kept[j.ID] = append(kept, o.Ref)
		m.outcomes = append(m.outcomes, jobOutcome{*j, o})
	}
}

func (m *match) put(j *dispatch.Job, o dispatch.Outcome) {
	m.keep(j, o)
	m.seen[j.ID] = true
}

// unseen returns the outcomes of the jobs that a listing did not show.
func (v *visit) unseen(jobs []dispatch.Job, seen map[dispatch.JobID]bool, err error) []jobOutcome {
	var outcomes []jobOutcome
	for _, j := range jobs {
		created := j.Phase != dispatch.Creating
		if seen[j.ID] || err == nil && created {
			continue
		}
		o := stepList.outcome(j)
		o.Err, o.Repeat = err, !created && v.mayRepeat()
		o.Panicked = !created && err != nil && dispatch.Is(err, dispatch.Internal)
		outcomes = append(outcomes, jobOutcome{j, o})
	}
	return outcomes
}
