package broker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// slowPlatform answers a submission after three seconds, runs each job for a fixed time, and counts the jobs that it
// has at once: from the moment a submission arrives.
type slowPlatform struct {
	*script
	runs time.Duration

	mu          sync.Mutex
	ends        map[string]time.Time // by tag; zero while the submission is being answered
	taken, most int
}

func newSlowPlatform(runs time.Duration) *slowPlatform {
	l := &slowPlatform{script: &script{}, runs: runs, ends: map[string]time.Time{}}
	l.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		l.arrived(s.Tag)
		time.Sleep(3 * time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends[s.Tag] = time.Now().Add(l.runs)
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}
	return l
}

func (l *slowPlatform) arrived(tag string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[tag] = time.Time{}
	l.taken++
	n := 0
	for _, end := range l.ends {
		if end.IsZero() || time.Now().Before(end) {
			n++
		}
	}
	l.most = max(l.most, n)
}

func (l *slowPlatform) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.ends[r.ID]) {
		return dispatch.Report{Status: dispatch.Running}, nil
	}
	return dispatch.Report{Status: dispatch.Finished}, nil
}

func (l *slowPlatform) counts() (taken, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken, l.most
}

// inBoth runs a test in its own time on the model and on SQLite.
func inBoth(t *testing.T, test func(*testing.T, conformance.Store)) {
	t.Run("model", func(t *testing.T) { inModel(t, test) })
	t.Run("SQLite", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, err := store.Open(t.Context(), "sqlite::memory:", clock{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			test(t, s)
		})
	})
}

// inModel runs a test in its own time on the model alone: days on SQLite take minutes, and the store's suite has them
// for both.
func inModel(t *testing.T, test func(*testing.T, conformance.Store)) {
	synctest.Test(t, func(t *testing.T) { test(t, conformance.NewMemStore(clock{})) })
}

// The platform never has more jobs of an account than limits.jobs, however long jobs have waited or run, by two
// replicas together; and no slot stays unused.
func TestSlots_LimitHoldsForDays(t *testing.T) {
	detector.Skip(t)
	for _, c := range []struct {
		runs, stalled, watched time.Duration
		jobs, taken            int
		in                     func(*testing.T, func(*testing.T, conformance.Store))
	}{
		{runs: 10 * time.Minute, stalled: 30 * time.Minute, watched: time.Hour, jobs: 14, taken: 9, in: inBoth},
		{runs: 10 * time.Minute, stalled: 6 * time.Hour, watched: 7 * time.Hour, jobs: 86, taken: 72, in: inModel},
		{runs: 24 * time.Hour, stalled: 6 * time.Hour, watched: 25 * time.Hour, jobs: 12, taken: 4, in: inModel},
	} {
		t.Run(fmt.Sprint(c.runs, " ", c.stalled), func(t *testing.T) {
			c.in(t, func(t *testing.T, s conformance.Store) {
				p := newSlowPlatform(c.runs)
				b := backend("a", dispatch.AccessShared, p)
				b.Limits.Jobs, b.Limits.Requests = 2, 8
				one, two := open(s, b), open(s, b)
				defer one.stop()
				defer two.stop()
				one.Timing.StalledAfter, two.Timing.StalledAfter = c.stalled, c.stalled
				one.task(t, c.jobs)
				time.Sleep(c.watched)
				if taken, most := p.counts(); most != 2 || taken < c.taken {
					t.Errorf("the platform took %d jobs, want %d at least, and had %d at once, want 2", taken, c.taken,
						most)
				}
			})
		})
	}
}

// A job that its platform calls queued for ever keeps its slot, and its owner is notified; limits.free_stalled gives
// the slot to the next job. A job that runs keeps its slot even so.
func TestSlots_StalledJobsKeepThemByDefault(t *testing.T) {
	detector.Skip(t)
	for _, c := range []struct {
		name  string
		says  dispatch.Status
		frees bool
		next  dispatch.Phase
		held  int
	}{
		{"queued", dispatch.Queued, false, dispatch.Waiting, 1},
		{"queued, freed", dispatch.Queued, true, dispatch.Started, 1},
		{"running, freed", dispatch.Running, true, dispatch.Waiting, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, s conformance.Store) {
				p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
					return dispatch.Report{Status: c.says}, nil
				}}
				b := backend("a", dispatch.AccessShared, p)
				b.Limits.Jobs, b.Limits.FreeStalled = 1, c.frees
				h := open(s, b)
				defer h.stop()
				h.Timing.StalledAfter = time.Hour
				first, second := h.accept(t), h.accept(t)
				time.Sleep(59 * time.Minute)
				if j := h.stored(t, second.ID); j.Phase != dispatch.Waiting ||
					h.stored(t, first.ID).Attention != dispatch.None {
					t.Errorf("before the first stalls the second is %s", j.Phase)
				}
				time.Sleep(30 * time.Minute)
				if j := h.stored(t, second.ID); j.Phase != c.next ||
					h.stored(t, first.ID).Attention != dispatch.Stalled {
					t.Errorf("the second is %s, want %s; the first says %q", j.Phase, c.next,
						h.stored(t, first.ID).Attention)
				}
				all, _, _, err := h.Platforms(t.Context(), "ann")
				if err != nil || len(all) != 1 || all[0].Held != c.held {
					t.Errorf("%+v %v: want %d slots in use", all, err, c.held)
				}
			})
		})
	}
}

// limits.free_stalled frees each stalled job's slot once, whatever process counts: two replicas, later ones, and after
// the switch was off, when all slots count again.
func TestSlots_FreeStalledAcrossRestarts(t *testing.T) {
	detector.Skip(t)
	inBoth(t, func(t *testing.T, s conformance.Store) {
		p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
			return dispatch.Report{Status: dispatch.Queued}, nil
		}}
		var jobs []dispatch.Record
		run := func(name string, frees bool, d time.Duration, started, held int) {
			t.Helper()
			var replicas []*testBroker
			for range 2 {
				b := backend("a", dispatch.AccessShared, p)
				b.Limits.Jobs, b.Limits.FreeStalled = 2, frees
				h := openTimed(s, dispatch.Timing{StalledAfter: time.Hour}, b)
				defer h.stop()
				replicas = append(replicas, h)
			}
			for len(jobs) < 12 {
				jobs = append(jobs, replicas[0].accept(t))
			}
			time.Sleep(d)
			n := 0
			for _, j := range jobs {
				if replicas[0].stored(t, j.ID).Phase == dispatch.Started {
					n++
				}
			}
			all, _, _, err := replicas[1].Platforms(t.Context(), "ann")
			if err != nil || n != started || all[0].Held != held {
				t.Errorf("%s: %d jobs are started, want %d; %+v %v, want %d slots in use", name, n, started, all, err,
					held)
			}
		}
		run("at first", true, 30*time.Minute, 2, 2)
		run("after a restart, before they stall", true, 25*time.Minute, 2, 2)
		run("the first two stall", true, 30*time.Minute, 4, 2)
		run("after another restart", true, 10*time.Minute, 4, 2)
		run("the next two stall", true, time.Hour, 6, 2)
		run("switched off", false, time.Hour, 6, 6)
		run("switched on again: all six stall", true, 30*time.Minute, 8, 2)
	})
}
