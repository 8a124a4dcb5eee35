package conformance

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// lapses checks that expired leases are counted and released ones are not, until none has expired for a while.
func (t storeTest) lapses() {
	t.accept()
	for n, release := range []bool{false, false, true, true} {
		l := t.lease()
		if want := min(n, 2); l.Lapses != want {
			t.Errorf("lease %d counts %d expired leases, want %d", n, l.Lapses, want)
		}
		if release {
			t.must(t.s.Release(t.Context(), l, 0, t.readAgenda().Now))
		}
		t.db.Pass(2 * time.Minute)
	}
	t.db.Pass(dispatch.LapsesCount)
	if l := t.lease(); l.Lapses != 0 {
		t.Errorf("%d leases count that expired long ago", l.Lapses)
	}
}
