package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/observe/operator"
)

// operations is [operator.Operations] with what [history.Store] and upkeep need.
type operations interface {
	operator.Operations
	AddEvents(context.Context, []dispatch.JobEvent) error
	PurgeEvents(ctx context.Context, keep time.Duration) error
}

// TestOperations runs the cases that every [operator.Operations] must pass. The stores of the databases must implement
// it.
func TestOperations(t *testing.T, open func(*testing.T) Database) {
	for name, test := range map[string]func(operationsTest){
		"holds":               operationsTest.holds,
		"jobs in need":        operationsTest.troubled,
		"the history of jobs": operationsTest.events,
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			s := db.Open()
			test(operationsTest{storeTest{t, db, s}, s.(operations)})
		})
	}
}

type operationsTest struct {
	storeTest
	o operations
}

func (t operationsTest) holds() {
	j := t.acceptFor(ann, shared)
	before := t.readAgenda()
	t.equal(before.Operator, "")
	for account, want := range map[dispatch.Account]bool{j.Account: true, j.Account + "d": false, "": false} {
		known, err := t.o.HasAccount(t.Context(), account)
		t.must(err)
		t.equal(known, want)
	}
	h := dispatch.OperatorHold{Scope: j.Account.Platform(), Notice: "updates", By: "root"}
	t.must(t.o.HoldScope(t.Context(), h))
	t.must(t.o.HoldScope(t.Context(), h))
	held := t.readAgenda()
	t.equal(held.Operator, "updates")
	run := dispatch.SyncRun{Owner: ann, Account: j.Account, Status: dispatch.Running}
	t.kind(t.s.BeginSyncRun(t.Context(), &run, time.Minute), dispatch.Unavailable)
	if held.Wakes <= before.Wakes {
		t.Error("a held account with jobs was not woken")
	}
	t.must(t.o.HoldScope(t.Context(), dispatch.OperatorHold{Scope: "elsewhere", Notice: "another", By: "root"}))
	all, err := t.o.OperatorHolds(t.Context())
	t.must(err)
	if len(all) != 2 || all[0].Scope != "elsewhere" && all[1].Scope != "elsewhere" || all[0].Since.IsZero() ||
		all[0].By != "root" {
		t.Errorf("holds %+v", all)
	}
	t.must(t.o.ReleaseScope(t.Context(), h.Scope))
	t.kind(t.o.ReleaseScope(t.Context(), h.Scope), dispatch.NotFound)
	t.must(t.o.HoldScope(t.Context(), dispatch.OperatorHold{Scope: string(j.Account), Notice: "this account",
		By: "root"}))
	t.equal(t.readAgenda().Operator, "this account")
	t.kind(t.s.BeginSyncRun(t.Context(), &run, time.Minute), dispatch.Unavailable)
	t.must(t.o.ReleaseScope(t.Context(), string(j.Account)))
	t.must(t.s.BeginSyncRun(t.Context(), &run, time.Minute))
	t.equal(t.readAgenda().Operator, "")
}

func (t operationsTest) troubled() {
	well, doubtful, aside := t.accept(), t.accept(), t.accept()
	well.Phase, well.Status = dispatch.Started, dispatch.Running
	t.save(well)
	doubtful.Phase, doubtful.Attention = dispatch.Creating, dispatch.InDoubt
	t.save(doubtful)
	aside.Phase, aside.Status, aside.Attention = dispatch.Ended, dispatch.Failed, dispatch.SetAside
	t.save(aside)
	for setAside, want := range map[bool]dispatch.JobID{false: doubtful.ID, true: aside.ID} {
		got, err := t.o.Troubled(t.Context(), setAside, 10)
		t.must(err)
		if len(got) != 1 || got[0].ID != want {
			t.Errorf("set aside: %v, got %+v", setAside, got)
		}
	}
}

func (t operationsTest) events() {
	j, now := t.accept(), t.readAgenda().Now
	var given []dispatch.JobEvent
	for i := range 45 { // more than one statement inserts
		given = append(given, dispatch.JobEvent{Job: j.ID, At: now.Add(time.Duration(i) * time.Minute), What: "create",
			Phase: dispatch.Creating, Status: dispatch.Accepted,
			Attention: dispatch.InDoubt, Attempt: i, Outcome: "uncertain", Took: time.Second, Detail: "no answer\x00"})
	}
	t.must(t.o.AddEvents(t.Context(), given))
	late := j.ID + 1 // a job that is not there any more
	t.must(t.o.AddEvents(t.Context(), []dispatch.JobEvent{{Job: late, At: now, What: "submit"}}))
	left, err := t.o.Events(t.Context(), late, 100)
	t.must(err)
	t.equal(len(left), 0)
	got, err := t.o.Events(t.Context(), j.ID, 100)
	t.must(err)
	if len(got) != len(given) {
		t.Fatalf("%d events", len(got))
	}
	for i := range got {
		got[i].Detail, given[i].Detail = "", ""
	}
	t.equal(got, given)
	t.must(t.o.PurgeEvents(t.Context(), -10*time.Minute)) // those of up to ten minutes from now
	got, err = t.o.Events(t.Context(), j.ID, 100)
	t.must(err)
	if len(got) == 0 || len(got) >= 45 || got[0].At.Before(now.Add(9*time.Minute)) {
		t.Errorf("%d events are left, the first of %v", len(got), got[0].At)
	}
	few, err := t.o.Events(t.Context(), j.ID, 3)
	t.must(err)
	t.equal(few, got[:3])
}
