package conformance

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// refHolder checks that the job or run that has an identifier at its platform is found, by account and base, also after
// its end, and that no run gets the identifier of another.
func (t storeTest) refHolder() {
	started := t.accept()
	t.accept() // without an identifier
	started.Phase, started.Ref = dispatch.Started, dispatch.Ref{Base: "b", ID: "r"}
	started = t.save(started)
	other := t.acceptFor(ann, "q/shared")
	other.Phase, other.Ref = dispatch.Started, dispatch.Ref{ID: "r"}
	t.save(other)
	check := func(a dispatch.Account, r dispatch.Ref, want dispatch.JobID) {
		t.Helper()
		got, err := t.s.RefHolder(t.Context(), a, r)
		t.must(err)
		t.equal(got, want)
	}
	check(shared, dispatch.Ref{Base: "b", ID: "r"}, started.ID)
	check(shared, dispatch.Ref{ID: "r"}, 0)
	check("q/shared", dispatch.Ref{ID: "r"}, other.ID)
	check(shared, dispatch.Ref{}, 0)
	started.Phase, started.Status = dispatch.Ended, dispatch.Finished
	t.save(started)
	check(shared, started.Ref, started.ID)

	begin := func(a dispatch.Account) dispatch.JobID {
		t.Helper()
		r := dispatch.SyncRun{Owner: ann, Account: a, Status: dispatch.Running}
		t.must(t.s.BeginSyncRun(t.Context(), &r, time.Minute))
		return r.ID
	}
	claim := func(id dispatch.JobID, r dispatch.Ref) error { return t.s.ClaimRef(t.Context(), id, r) }
	run, second, elsewhere := begin(shared), begin(shared), begin("q/shared")
	t.kind(claim(run, started.Ref), dispatch.Conflict)
	check(shared, started.Ref, started.ID)
	mine := dispatch.Ref{Base: "b", ID: "run"}
	t.must(claim(run, mine))
	t.must(claim(run, mine))
	check(shared, mine, run)
	t.kind(claim(second, mine), dispatch.Conflict)
	t.must(claim(second, dispatch.Ref{Base: "c", ID: "run"}))
	t.must(claim(elsewhere, mine))
	t.must(t.s.EndSyncRun(t.Context(), dispatch.SyncRun{ID: run, Status: dispatch.Finished}))
	check(shared, mine, run)
	t.kind(claim(second, mine), dispatch.Conflict)
	t.kind(claim(run, dispatch.Ref{ID: "other"}), dispatch.Conflict) // it has ended
}
