package dispatch_test

import (
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// A synchronous run at which the adapter panics has failed. It gives its slots back, and counts in no quota any more.
func TestRunSync_PanicsGiveSlotsBack(t *testing.T) {
	panics := true
	p := running()
	answer := p.run
	p.run = func(t dispatch.Token) (*dispatch.SyncResult, error) {
		if panics {
			panic("a bug")
		}
		return answer(t)
	}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *house) {
		run := func() (r *dispatch.SyncResult, err error) {
			defer func() {
				if recover() != nil {
					t.Error("the panic was not caught")
				}
			}()
			return h.RunSync(t.Context(), "ann", request("a"))
		}
		for range 20 {
			if _, err := run(); !dispatch.Is(err, dispatch.Internal) {
				t.Fatal(err)
			}
		}
		panics = false
		r, err := run()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		for _, status := range h.syncRuns(t, "ann") {
			if len(status) >= 7 && status[:7] == "running" {
				t.Errorf("a run is %s", status)
			}
		}
	})
}
