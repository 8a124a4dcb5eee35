package histories

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// restoring is a history whose store is restored once.
type restoring struct {
	*history
	backup    *conformance.MemStore
	jobs      map[dispatch.JobID]dispatch.Job // state of the jobs in the backup
	turns     int
	restored  time.Time
	untouched []conformance.Run // platform jobs at the time of the restore
	adopted   int               // jobs that waited in the backup and have a platform job from before the restore
}

// act performs random user actions, crashes and outages.
func (r *restoring) act(events int) {
	for range events {
		time.Sleep(time.Duration(r.rand.Int64N(int64(2 * time.Minute))))
		switch n := r.rand.IntN(10); {
		case n < 4:
			r.accept(dispatch.Key{})
		case n < 6:
			r.acceptTask()
		case n < 7:
			r.cancel()
		case n < 9:
			r.crash()
		default:
			r.away()
		}
	}
}

func (r *restoring) take() {
	r.locked(func() {
		r.backup = r.store.(*conformance.MemStore).Clone()
		r.jobs, r.turns = maps.Clone(r.history.jobs), len(r.history.turns)
	})
}

// putBack kills all processes, replaces the store with the backup ten minutes later, and marks it as restored.
func (r *restoring) putBack() {
	for _, p := range r.procs {
		p.kill()
	}
	time.Sleep(10 * time.Minute)
	r.procs, r.store, r.untouched, r.restored, r.history.restored = nil, r.backup, r.world.Runs(), time.Now(), true
	r.world.Limit = 0 // of what runs there, the restored database does not know all
	r.locked(func() {
		r.history.jobs, r.history.turns = maps.Clone(r.jobs), r.history.turns[:r.turns]
		r.seed += 1 << 32 // new random events
	})
	if _, err := r.store.MarkRestored(r.t.Context(), dispatch.CompareFirst); err != nil {
		r.t.Fatal(err)
	}
}

// checkRestored checks that no job ran twice, including jobs that the restore lost, that jobs of the backup adopted
// what they ran since, and that platform jobs of other jobs were neither canceled nor started.
func (r *restoring) checkRestored() {
	known, starts := map[string]bool{}, map[string]int{}
	refs := map[dispatch.Ref]dispatch.JobID{}
	for id, j := range r.history.jobs {
		refs[j.Ref] = id
		for attempt := range j.Attempt + 1 {
			j.Attempt = attempt
			known[j.Tag(installation)] = true
		}
	}
	for id, was := range r.jobs {
		if now := r.history.jobs[id]; was.Phase != dispatch.Ended && now.Retried > was.Retried {
			r.violated("job %d, of which a later attempt may have run, was retried by itself after the restore", id)
		}
	}
	before := map[dispatch.Ref]conformance.Run{}
	for _, run := range r.untouched {
		before[run.Ref] = run
	}
	for _, run := range r.world.Runs() {
		id := strings.Split(run.Tag, ".")[1]
		number, _ := strconv.ParseInt(id, 10, 64)
		if starts[id] += len(run.Starts); starts[id] > 1+len(r.lives[dispatch.JobID(number)]) {
			r.violated("job %s ran %d times, with %s", id, starts[id], run.Ref)
		}
		was := before[run.Ref]
		switch {
		case known[run.Tag]:
		case refs[run.Ref] != 0:
			r.violated("job %d has run %s and not its tag", refs[run.Ref], run.Ref)
		case run.Dropped && !was.Dropped || len(run.Starts) > len(was.Starts):
			r.violated("run %s, which the restore lost, was canceled or started", run.Ref)
		}
	}
	r.checkShown(known)
	for id, j := range r.history.jobs {
		if r.jobs[id].Phase == dispatch.Waiting && j.Attempt > 0 && before[j.Ref].Tag == j.Tag(installation) {
			r.adopted++
		}
		if j.Attention == dispatch.SubmissionUnknown {
			r.violated("job %d was not settled: %s %s, %s", id, j.Phase, j.Status, j.Failure)
		}
	}
}

// checkShown checks that all active platform jobs that are unknown since the restore are reported.
func (r *restoring) checkShown(known map[string]bool) {
	found, err := r.store.Unrecognized(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, run := range r.untouched {
		id, _ := strconv.ParseInt(strings.Split(run.Tag, ".")[1], 10, 64)
		compared := slices.ContainsFunc(slices.Collect(maps.Values(r.jobs)), func(j dispatch.Job) bool {
			return j.Account == run.Account && (j.Base == run.Ref.Base || run.Ref.Base == "")
		})
		shown := slices.ContainsFunc(found, func(u dispatch.Unrecognized) bool { return u.Ref == run.Ref })
		if live := run.Active(r.restored) && run.Active(r.restored.Add(30*time.Minute)); live && !known[run.Tag] &&
			compared && !shown {
			r.violated("run %s of job %d is active and unknown since the restore, but not reported", run.Ref, id)
		}
	}
}

// TestRestored_RandomHistories takes a backup at a random time and restores it later. It checks that no job runs twice,
// that jobs adopt what they ran since the backup, that platform jobs of jobs lost by the restore are neither canceled
// nor started, and that the active ones are reported.
func TestRestored_RandomHistories(t *testing.T) {
	lost, adopted := 0, 0
	for s := range share(60) {
		synctest.Test(t, func(t *testing.T) {
			r := &restoring{history: newHistory(t, s+1)}
			r.choose(3)
			r.platform = func(l conformance.Link) dispatch.Platform { return conformance.TwoStep{Link: l} }
			r.world.NoList, r.jumps, r.atLeastOnce = false, false, false
			r.store = conformance.NewMemStore(r.clock)
			r.launch()
			r.act(2 + r.rand.IntN(5))
			r.take()
			r.act(1 + r.rand.IntN(5))
			r.putBack()
			r.launch()
			r.act(1 + r.rand.IntN(3))
			r.rest()
			if j, rests := r.atRest(); !rests {
				r.violated("job %d does not come to rest: %s %s %q", j.ID, j.Phase, j.Status, j.Attention)
			}
			r.checkRestored()
			lost, adopted = lost+len(r.untouched), adopted+r.adopted
			r.end()
		})
		if t.Failed() {
			return
		}
	}
	if *n >= 50 && (lost == 0 || adopted == 0) {
		t.Errorf("%d jobs ran before a restore, %d of which jobs of the backup adopted", lost, adopted)
	}
}
