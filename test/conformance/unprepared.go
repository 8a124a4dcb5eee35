package conformance

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// unprepared is about waiting jobs whose document could not be fetched.
func (t storeTest) unprepared() {
	now := t.accept().Created
	t.db.Pass(time.Hour)
	now = now.Add(time.Hour)
	job := func(due time.Duration, change func(*dispatch.Job)) dispatch.Job {
		j := t.accept()
		j.Due, j.Attention = now.Add(due), dispatch.ApplicationUnreachable
		if change != nil {
			change(&j)
		}
		return t.save(j)
	}
	future := job(time.Minute, nil)
	if g := t.readAgenda(); !g.NextUnprepared.Equal(future.Due) {
		t.Errorf("next %v, want %v", g.NextUnprepared, future.Due)
	}
	second, first := job(-time.Second, nil), job(-time.Minute, nil)
	job(-time.Hour, func(j *dispatch.Job) { j.Attention = dispatch.NotTaken })
	job(-time.Hour, func(j *dispatch.Job) { j.Orphans = []dispatch.Ref{{ID: "x"}} })
	job(-time.Hour, func(j *dispatch.Job) { j.Phase, j.Status = dispatch.Ended, dispatch.Failed })
	if g := t.readAgenda(); !g.NextUnprepared.Equal(first.Due) {
		t.Errorf("next %v, want %v", g.NextUnprepared, first.Due)
	}
	for n, want := range map[int][]dispatch.Job{9: {first, second}, 1: {first}} {
		jobs, err := t.s.Unprepared(t.Context(), shared, n)
		t.must(err)
		t.equal(jobs, want)
	}
	jobs, err := t.s.Unprepared(t.Context(), "p/other", 9)
	t.must(err)
	t.equal(len(jobs), 0)
}
