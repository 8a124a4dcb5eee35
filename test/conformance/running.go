package conformance

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

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

func (t storeTest) running() {
	var want []dispatch.Job
	for _, c := range []struct {
		phase   dispatch.Phase
		account dispatch.Account
		due     time.Duration
	}{
		{dispatch.Started, shared, time.Hour}, {dispatch.Waiting, shared, 0}, {dispatch.Created, shared, 0},
		{dispatch.Starting, shared, 0}, {dispatch.Ended, shared, 0},
		{dispatch.Started, "p/other", 0}, {dispatch.Started, shared, time.Minute},
		{dispatch.Started, shared, 2 * time.Hour},
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
