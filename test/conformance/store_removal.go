package conformance

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// removals checks that what its owner discards is hidden at once, is on the agenda when it has ended and its costs are
// known, and is kept until it is removed from its platform.
func (t storeTest) removals() {
	ctx := t.Context()
	whole := t.ended(t.accept(), func(*dispatch.Job) {})
	imported := t.ended(t.accept(), func(j *dispatch.Job) { j.Attempt = 0 })
	running := t.accept()
	running.Phase, running.Status, running.Attempt, running.Ref = dispatch.Started, dispatch.Running, 1,
		dispatch.Ref{ID: "y"}
	running = t.save(running)
	owed := t.ended(t.accept(), func(j *dispatch.Job) {
		j.Unmetered = []dispatch.Unmetered{{Ref: j.Ref, Ended: j.Moved, Due: j.Moved.Add(time.Hour)}}
	})
	task, members := t.acceptTask(ann, 2)
	member := t.ended(members[0].Job, func(*dispatch.Job) {})
	kept := t.ended(t.accept(), func(*dispatch.Job) {})

	_, err := t.s.Discard(ctx, bob, whole.ID)
	t.kind(err, dispatch.NotFound)
	for _, j := range []dispatch.Job{whole, imported, running, owed} {
		is, err := t.s.Discard(ctx, ann, j.ID)
		t.must(err)
		if !is.Hidden || is.ID != j.ID {
			t.Errorf("discarded %+v", is)
		}
		_, err = t.s.Discard(ctx, ann, j.ID)
		t.kind(err, dispatch.NotFound)
	}
	if j := t.load(running.ID); j.Desired != dispatch.WantCancel || !j.RemovalDue().IsZero() {
		t.Errorf("a job that runs is %s, removed at %v", j.Desired, j.RemovalDue())
	}
	_, err = t.s.DiscardTask(ctx, bob, task.ID)
	t.kind(err, dispatch.NotFound)
	a, err := t.s.DiscardTask(ctx, ann, task.ID)
	t.must(err)
	t.equal(a, shared)
	_, err = t.s.Task(ctx, ann, task.ID)
	t.kind(err, dispatch.NotFound)

	g := t.readAgenda()
	if g.NextRemove.IsZero() || g.NextRemove.After(g.Now) {
		t.Errorf("the next job is removed at %v, now it is %v", g.NextRemove, g.Now)
	}
	var found []dispatch.JobID
	for _, j := range g.Remove {
		found = append(found, j.ID)
	}
	t.equal(found, []dispatch.JobID{whole.ID, member.ID})

	owed = t.load(owed.ID)
	owed.Unmetered = nil
	t.save(owed)
	running = t.ended(t.load(running.ID), func(*dispatch.Job) {})
	if g := t.readAgenda(); len(g.Remove) != 4 {
		t.Errorf("%d jobs are to be removed, want 4", len(g.Remove))
	}
	t.removedAtAge(imported, whole, member, kept)
}

// removedAtAge checks which discarded jobs a purge deletes: those of which nothing is at the platform, and others when
// they have been removed there.
func (t storeTest) removedAtAge(imported, whole, member, kept dispatch.Job) {
	ctx := t.Context()
	t.db.Pass(30 * 24 * time.Hour)
	t.must(t.s.Purge(ctx, time.Hour))
	_, err := t.s.Load(ctx, imported.ID)
	t.kind(err, dispatch.NotFound)
	whole = t.load(whole.ID)
	whole.Removal = dispatch.Removal{Since: whole.Moved, Removed: t.readAgenda().Now}
	t.equal(t.save(whole).Removal, t.load(whole.ID).Removal)
	t.must(t.s.Purge(ctx, time.Hour))
	_, err = t.s.Load(ctx, whole.ID)
	t.kind(err, dispatch.NotFound)
	t.load(member.ID)
	if j := t.load(kept.ID); j.Removal != (dispatch.Removal{}) {
		t.Errorf("a job that was not discarded: %+v", j.Removal)
	}
}

// ended saves a job as finished at the platform, with a change.
func (t storeTest) ended(j dispatch.Job, change func(*dispatch.Job)) dispatch.Job {
	t.Helper()
	j.Phase, j.Status, j.Attempt, j.Ref, j.Moved = dispatch.Ended, dispatch.Finished, 1, dispatch.Ref{ID: "x"},
		t.readAgenda().Now
	change(&j)
	return t.save(j)
}
