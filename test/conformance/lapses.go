package conformance

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// lapses checks that leases are counted that ran out, and not those that were released, until none did for a while.
func (t storeTest) lapses() {
	t.accept()
	for n, release := range []bool{false, false, true, true} {
		l := t.lease()
		if want := min(n, 2); l.Lapses != want {
			t.Errorf("lease %d tells of %d that ran out, want %d", n, l.Lapses, want)
		}
		if release {
			t.must(t.s.Release(t.Context(), l, 0, t.look().Now))
		}
		t.db.Pass(2 * time.Minute)
	}
	t.db.Pass(dispatch.LapsesCount)
	if l := t.lease(); l.Lapses != 0 {
		t.Errorf("%d leases count that ran out long ago", l.Lapses)
	}
}
