package conformance

import (
	"cmp"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// syncRuns checks that runs are recorded, counted, listed newest first, and count as lost when their process is.
func (t storeTest) syncRuns() {
	ctx := t.Context()
	begin := func(u dispatch.UserID, a dispatch.Account, within ...dispatch.Quota) (dispatch.SyncRun, error) {
		r := dispatch.SyncRun{Owner: u, Account: a, Status: dispatch.Running, Request: dispatch.Request{Title: "now",
			Parameters: []byte(`{"x":1.50}`)}}
		err := t.s.BeginSyncRun(ctx, &r, time.Minute, within...)
		t.db.Pass(time.Second)
		return r, err
	}
	first, err := begin(ann, shared)
	t.must(err)
	job := t.accept()
	second, err := begin(ann, "q/shared", dispatch.Quota{Account: shared, Live: 3}, dispatch.Quota{Live: 3, Daily: 3})
	t.must(err)
	if job.ID == first.ID || second.ID == job.ID || first.Created.IsZero() {
		t.Errorf("ids %d %d %d", first.ID, job.ID, second.ID)
	}
	for _, full := range []dispatch.Quota{{Live: 3}, {Daily: 3}, {Account: shared, Live: 2}, {Account: "q/shared",
		Daily: 1}} {
		_, err := begin(ann, cmp.Or(full.Account, shared), full)
		t.kind(err, dispatch.LimitReached)
	}
	_, err = begin("bob", shared, dispatch.Quota{Live: 1})
	t.must(err)
	_, err = t.s.Accept(ctx, dispatch.Key{}, nil, []dispatch.Draft{draft(ann, shared)}, dispatch.Quota{Live: 3})
	t.kind(err, dispatch.LimitReached) // runs count as jobs, too

	t.db.Pass(30 * time.Second)
	t.must(t.s.RenewSyncRun(ctx, second.ID, time.Minute))
	second.Status, second.Failure = dispatch.Failed, "no \x00 text"
	t.must(t.s.ClaimRef(ctx, second.ID, dispatch.Ref{ID: "r"}))
	t.db.Pass(40 * time.Second)
	t.must(t.s.EndSyncRun(ctx, second))
	t.kind(t.s.RenewSyncRun(ctx, second.ID, time.Minute), dispatch.Conflict)
	again := second
	again.Status = dispatch.Finished
	t.must(t.s.EndSyncRun(ctx, again)) // it has ended already, so it stays as it was
	runs, err := t.s.SyncRuns(ctx, ann, dispatch.Page{})
	t.must(err)
	if len(runs) != 2 || runs[0].ID != second.ID || runs[0].Status != dispatch.Failed || runs[0].Ref.ID != "r" ||
		runs[0].Failure == "" || runs[0].Ended.IsZero() ||
		runs[1].ID != first.ID || runs[1].Status != dispatch.Unknown ||
		!runs[1].Ended.Equal(first.Created.Add(time.Minute)) || string(runs[1].Request.Parameters) != `{"x":1.50}` {
		t.Errorf("runs %+v", runs)
	}
	for name, p := range map[string]dispatch.Page{"second": {Limit: 1},
		"first":  {After: dispatch.Place{Created: second.Created, ID: int64(second.ID)}},
		"failed": {Statuses: []dispatch.Status{dispatch.Failed}}, "shared": {Accounts: []dispatch.Account{shared}},
		"since": {Since: runs[1].Ended}} {
		some, err := t.s.SyncRuns(ctx, ann, p)
		t.must(err)
		want := map[string]dispatch.JobID{"second": second.ID, "first": first.ID, "failed": second.ID,
			"shared": first.ID, "since": second.ID}[name]
		if len(some) != 1 || some[0].ID != want {
			t.Errorf("%s: %+v", name, some)
		}
	}
	infos, err := t.s.AccountInfo(ctx, "bob", []dispatch.Account{"", shared}, nil)
	t.must(err)
	for _, is := range infos { // the run lapsed, but began today
		if is.Live != 0 || is.Lately != 1 || is.Waiting != 0 {
			t.Errorf("state of %q: %+v", is.Account, is)
		}
	}
	usage, err := t.s.Usage(ctx, ann, dispatch.Day)
	t.must(err)
	if len(usage) != 2 || usage[0].Account != shared || usage[0].Live != 1 || usage[0].Jobs != 2 ||
		usage[0].Lately != 2 || usage[1].Live != 0 || usage[1].Jobs != 1 {
		t.Errorf("usage %+v", usage)
	}
	t.db.Pass(dispatch.SyncRunLife + time.Minute)
	t.must(t.s.Purge(ctx, time.Hour))
	if runs, err := t.s.SyncRuns(ctx, ann, dispatch.Page{}); err != nil || len(runs) != 0 {
		t.Errorf("after the purge: %+v %v", runs, err)
	}
}
