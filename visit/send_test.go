package visit

import (
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestNonces_OneForEachAttempt(t *testing.T) {
	v := &visit{visits: &Visits{Setup: &dispatch.Setup{}}}
	one := v.tagged(dispatch.Job{Identity: dispatch.Identity{ID: 1},
		Handover: dispatch.Handover{Phase: dispatch.Waiting}})
	two := v.tagged(dispatch.Job{Identity: dispatch.Identity{ID: 1},
		Handover: dispatch.Handover{Phase: dispatch.Waiting, Attempt: 1, Nonces: one.Nonces}})
	first, second := two.Nonces.Of(1), two.Nonces.Of(2)
	if len(first) != 8 || len(second) != 8 || first == second || first != one.Nonces.Of(1) {
		t.Errorf("nonces %q", two.Nonces)
	}
	if started := v.tagged(dispatch.Job{Identity: dispatch.Identity{ID: 1},
		Handover: dispatch.Handover{Phase: dispatch.Created, Attempt: 1,
			Nonces: one.Nonces}}); started.Nonces != one.Nonces {
		t.Errorf("a start makes a nonce: %q", started.Nonces)
	}
}
