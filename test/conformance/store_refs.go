package conformance

import "github.com/eodispatch/eodispatch/dispatch"

// refHolder checks that the job that has an identifier at its platform is found, by account and base, also after its end.
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
}
