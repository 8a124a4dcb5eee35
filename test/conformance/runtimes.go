package conformance

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

// runService is a service of a platform.
type runService struct {
	platform string
	service  dispatch.ServiceHash
}

// runTimes are stored run times of a service, and when the last one was added.
type runTimes struct {
	all   dispatch.RunTimes
	added time.Time
}

func (s *MemStore) AddRunTimes(_ context.Context, platform string, of dispatch.ServiceHash,
	seen ...dispatch.RunTime) (dispatch.RunTimes, error) {
	now, unlock := s.lock()
	defer unlock()
	at := runService{platform, of}
	if len(seen) > 0 {
		s.ran[at] = runTimes{s.ran[at].all.Add(seen...), now}
	}
	return s.ran[at].all, nil
}

func (s *MemStore) Running(_ context.Context, a dispatch.Account, n int) (jobs []dispatch.Job, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, j := range s.byDue(a) {
		if j.Phase == dispatch.Started && j.Desired == dispatch.WantRun && len(j.Orphans) == 0 && len(jobs) < n {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// runTimes checks that run times are stored for each service of each platform, are the same for all processes, survive
// a restart, and are deleted when they are old.
func (t storeTest) runTimes() {
	ctx := t.Context()
	span := func(after, by int) dispatch.RunTime {
		return dispatch.RunTime{After: time.Duration(after) * time.Millisecond, By: time.Duration(by) * time.Millisecond}
	}
	is := func(s Store, platform string, of dispatch.ServiceHash, want ...dispatch.RunTime) {
		t.Helper()
		got, err := s.AddRunTimes(ctx, platform, of)
		t.must(err)
		t.equal([]dispatch.RunTime(got), want)
	}
	add := func(s Store, platform string, of dispatch.ServiceHash, seen ...dispatch.RunTime) dispatch.RunTimes {
		t.Helper()
		all, err := s.AddRunTimes(ctx, platform, of, seen...)
		t.must(err)
		return all
	}
	is(t.s, "p", 1)
	other := t.db.Open()
	add(t.s, "p", 1, span(10, 20))
	t.equal(add(other, "p", 1, dispatch.RunTime{After: 30*time.Millisecond + 1, By: 40*time.Millisecond + 1}),
		dispatch.RunTimes{span(10, 20), span(30, 41)})
	add(other, "p", -1<<63, span(1, 2))
	add(other, "q", 1, span(3, 4))
	is(t.s, "p", 1, span(10, 20), span(30, 41))
	t.db.Pass(dispatch.RunTimesLife - time.Hour)
	add(t.s, "q", 1, span(5, 6))
	t.db.Pass(2 * time.Hour)
	t.s = t.db.Restart()
	is(t.s, "p", -1<<63, span(1, 2))
	t.must(t.s.Purge(ctx, time.Hour))
	is(t.s, "p", 1)
	is(t.s, "p", -1<<63)
	is(t.s, "q", 1, span(3, 4), span(5, 6))
	for i := range dispatch.MostRunTimes {
		add(t.s, "q", 1, span(i, 1000))
	}
	all := add(t.s, "q", 1, span(7, 8))
	t.equal(len(all), dispatch.MostRunTimes)
	t.equal([]dispatch.RunTime{all[0], all[len(all)-1]}, []dispatch.RunTime{span(1, 1000), span(7, 8)})
}

func (t storeTest) running() {
	var want []dispatch.Job
	for _, c := range []struct {
		phase   dispatch.Phase
		account dispatch.Account
		due     time.Duration
	}{
		{dispatch.Started, shared, time.Hour}, {dispatch.Waiting, shared, 0}, {dispatch.Created, shared, 0},
		{dispatch.Starting, shared, 0}, {dispatch.Ended, shared, 0},
		{dispatch.Started, "p/other", 0}, {dispatch.Started, shared, time.Minute}, {dispatch.Started, shared, 2 * time.Hour},
	} {
		d := draft(ann, c.account)
		d.Service = 7
		drafts := []dispatch.Draft{d}
		_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, drafts)
		t.must(err)
		j := drafts[0].Job
		j.Phase, j.Due = c.phase, j.Due.Add(c.due)
		if j = t.save(j); c.phase == dispatch.Started && c.account == shared {
			want = append(want, j)
		}
	}
	canceled := t.accept()
	canceled.Phase = dispatch.Started
	t.save(canceled)
	_, err := t.s.Cancel(t.Context(), ann, canceled.ID, false)
	t.must(err)
	jobs, err := t.s.Running(t.Context(), shared, 9)
	t.must(err)
	t.equal(jobs, []dispatch.Job{want[1], want[0], want[2]})
	jobs, err = t.s.Running(t.Context(), shared, 1)
	t.must(err)
	t.equal(jobs, []dispatch.Job{want[1]})
}

func (p *pair) addRunTimes(r *rapid.T) {
	platform, of := rapid.SampledFrom([]string{"p", "q"}).Draw(r, "platform"), dispatch.ServiceHash(rapid.Int64Range(-1,
		1).Draw(r, "service"))
	var seen []dispatch.RunTime
	for range rapid.IntRange(0, 40).Draw(r, "runs") {
		seen = append(seen, dispatch.RunTime{After: spans.Draw(r, "after"), By: spans.Draw(r, "by")})
	}
	both(p, r, func(s Store) (dispatch.RunTimes, error) {
		return s.AddRunTimes(p.Context(), platform, of, seen...)
	})
}
