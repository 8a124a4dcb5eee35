package events

import (
	"errors"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestSettle_TriesForAWholeDay: the last try is at the end of the day, however long the pause before it would be.
func TestSettle_TriesForAWholeDay(t *testing.T) {
	queued := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{time.Hour: 2 * time.Hour,
		giveUp - 30*time.Minute: giveUp, giveUp: 0} {
		one := try{Delivery: dispatch.Delivery{Queued: queued, Tries: 30, State: dispatch.DeliveryWaiting},
			err: errors.New("down")}
		d := one.settled(queued.Add(after))
		if (d.State == dispatch.DeliveryFailed) != (want == 0) || want != 0 && d.Due.Sub(queued) != want {
			t.Errorf("after %v: %s, due after %v", after, d.State, d.Due.Sub(queued))
		}
	}
}
