package conformance

import (
	"fmt"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// slots checks that a job holds a slot from the intent to create until it has ended, however long ago it moved, and
// that slots of stalled jobs can be freed.
func (t storeTest) slots() {
	jobs := make([]dispatch.Job, 7)
	for i := range jobs {
		jobs[i] = t.accept()
	}
	l := t.lease()
	t.db.Pass(2 * stalledAfter)
	t.must(t.s.Renew(t.Context(), l, time.Minute))
	creating, err := t.s.Intend(t.Context(), l, limits, jobs[:1]) // it has waited this long
	t.must(err)
	t.equal(len(creating), 1)
	for i, is := range []struct {
		phase  dispatch.Phase
		status dispatch.Status
	}{
		{dispatch.Created, dispatch.Submitted}, {dispatch.Starting, dispatch.Submitted},
		{dispatch.Started, dispatch.Submitted},
		{dispatch.Started, dispatch.Queued}, {dispatch.Started, dispatch.Running}, {dispatch.Ended, dispatch.Finished},
	} {
		j := jobs[i+1]
		j.Phase, j.Status = is.phase, is.status
		t.save(j)
	}
	held := func(stalled time.Duration) string {
		g, err := t.s.Agenda(t.Context(), shared, 1, stalled)
		t.must(err)
		s, err := t.s.AccountInfo(t.Context(), ann, []dispatch.Account{shared},
			map[dispatch.Account]time.Duration{shared: stalled})
		t.must(err)
		return fmt.Sprint(g.Held, s[0].Held, s[0].Active)
	}
	t.equal(held(0), "6 6 6")
	t.equal(held(stalledAfter), "4 4 6") // a started job of unknown status holds its slot
	t.equal(held(3*stalledAfter), "6 6 6")
}

// slotsForDays fills two slots for two days as visits do, by Agenda, and counts the jobs at the platform including
// creates under way: first with jobs that wait for longer than stalledAfter, then with jobs that run for longer.
func (t storeTest) slotsForDays() {
	const answersAfter, short, long = 3 * time.Second, 40 * time.Minute, 9 * time.Hour
	t.acceptTask(ann, 32)
	l := t.lease()
	atPlatform := map[dispatch.JobID]dispatch.Job{}
	began := t.readAgenda().Now
	for n := 0; ; {
		g := t.readAgenda()
		if g.Now.Sub(began) > 48*time.Hour {
			break
		}
		if free := limits.Jobs - g.Held; free > 0 && len(g.Queues) > 0 {
			ready, err := t.s.Ready(t.Context(), shared, g.Queues[0], free)
			t.must(err)
			t.must(t.s.Renew(t.Context(), l, time.Minute))
			begun, err := t.s.Intend(t.Context(), l, limits, ready)
			t.must(err)
			for _, j := range begun {
				atPlatform[j.ID] = j
				n++
			}
		}
		if len(atPlatform) != limits.Jobs && len(g.Queues) > 0 {
			t.Fatalf("after %v there are %d jobs at the platform, want %d", g.Now.Sub(began), len(atPlatform),
				limits.Jobs)
		}
		runs := short
		if n > 24 {
			runs = long
		}
		t.advance(atPlatform, g.Now, answersAfter, runs)
	}
}

// advance passes time until a create is answered or a job ends, and saves the outcome; creates are answered first.
func (t storeTest) advance(atPlatform map[dispatch.JobID]dispatch.Job, now time.Time, answersAfter,
	runs time.Duration) {
	t.Helper()
	wait := runs
	for _, j := range atPlatform {
		if j.Phase == dispatch.Creating {
			wait = answersAfter
		}
	}
	t.db.Pass(wait / 2)
	if g := t.readAgenda(); g.Held != len(atPlatform) {
		t.Fatalf("%d slots are held, %d jobs are at the platform", g.Held, len(atPlatform))
	}
	t.db.Pass(wait - wait/2)
	for id, j := range atPlatform {
		switch {
		case j.Phase == dispatch.Creating:
			j.Phase, j.Status, j.Moved = dispatch.Started, dispatch.Running, now.Add(wait)
			atPlatform[id] = t.save(j)
		case wait == runs:
			j.Phase, j.Status, j.Moved = dispatch.Ended, dispatch.Finished, now.Add(wait)
			t.save(j)
			delete(atPlatform, id)
		}
	}
}
