package conformance

import (
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

// restored checks that MarkRestored reaches every account with jobs, skips ids and deletes unstarted jobs, and what
// removes the mark.
func (t storeTest) restored() {
	ctx := t.Context()
	waits := t.accept()
	created := t.accept()
	created.Phase, created.Ref, created.Polls, created.Seen = dispatch.Created, dispatch.Ref{ID: "r"}, 3,
		dispatch.Accepted
	created = t.save(created)
	other := t.acceptFor(ann, "q/shared")
	other.Phase = dispatch.Created
	other = t.save(other)
	t.must(t.s.Hold(ctx, shared, time.Hour, dispatch.NotTaken, ""))
	unstarted := t.createUnstarted(ann, shared, false)
	n, err := t.s.MarkRestored(ctx, dispatch.CompareIfLists)
	t.must(err)
	t.equal(n, 2)
	_, err = t.s.Unstarted(ctx, ann, unstarted.ID)
	t.kind(err, dispatch.NotFound)
	if now := t.load(waits.ID); now.Retries != 0 || waits.Retries == 0 {
		t.Errorf("a job that may have run since the backup is retried by itself %d times", now.Retries)
	}
	waits.Retries, created.Retries, other.Retries = 0, 0, 0
	g := t.readAgenda()
	if g.Restored != dispatch.CompareIfLists || g.Hold.After(g.Now) {
		t.Errorf("marked: %+v", g)
	}
	t.lease()
	if next := t.accept(); next.ID < waits.ID+dispatch.SkippedIDs {
		t.Errorf("the next id is %d", next.ID)
	}

	found := []dispatch.Unrecognized{{Ref: dispatch.Ref{ID: "x"}, Tag: "i.9.1.aa", Status: dispatch.Running},
		{Ref: dispatch.Ref{ID: "a"}, Tag: "i.8.1", Status: dispatch.Queued}}
	t.must(t.s.ClearRestored(ctx, shared, found))
	if g = t.readAgenda(); g.Restored != dispatch.NotRestored || len(g.Settle) != 1 {
		t.Fatalf("compared: %+v", g)
	}
	is := g.Settle[0]
	if is.ID != created.ID || is.Phase != dispatch.Starting || is.Epoch != created.Epoch+1 ||
		is.Version != created.Version+1 || is.Polls != 0 || is.Seen != "" ||
		is.Attention != dispatch.InDoubt || is.Ref != created.Ref {
		t.Errorf("what was created: %+v", is)
	}
	t.equal(t.load(other.ID), other)
	t.equal(t.load(waits.ID), waits)
	all, err := t.db.Open().Unrecognized(ctx)
	t.must(err)
	if len(all) != 2 || all[0].Ref.ID != "a" || all[1].Tag != "i.9.1.aa" || all[1].Account != shared ||
		all[1].Found.IsZero() {
		t.Errorf("found: %+v", all)
	}
}

func (p *pair) compared(r *rapid.T) {
	a := accounts.Draw(r, "account")
	both(p, r, func(s Store) (any, error) { return nil, s.ClearRestored(p.Context(), a, nil) })
}
