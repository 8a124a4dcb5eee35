package events

import (
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// settle decides what the tries of a round, which ended now, mean for them and their hook. A receiver that accepts none
// is left alone for a growing time, so that the deliveries that wait for it cost nothing; 410 ends the hook.
func settle(h dispatch.Hook, tries []try, now time.Time) dispatch.Hook {
	arrived, failed, wait := false, false, time.Duration(0)
	for i := range tries {
		t := &tries[i]
		t.Delivery = t.settled(now)
		arrived, failed = arrived || t.State == dispatch.DeliveryDone, failed || t.err != nil && !t.unwritten
		wait = max(wait, t.wait)
		h.Gone = h.Gone || t.status == http.StatusGone
	}
	switch {
	case arrived:
		h.Failures, h.Hold = 0, time.Time{}
	case failed:
		h.Failures++
		h.Hold = now.Add(max(pause(h.Failures, longHold), wait))
	}
	return h
}

// settled returns the delivery after the try.
func (t *try) settled(now time.Time) dispatch.Delivery {
	d := t.Delivery
	d.Answer, d.Notice = t.status, ""
	switch {
	case t.unsent:
		d.Due = now
		return d
	case t.err == nil:
		d.State, d.Due = dispatch.DeliveryDone, time.Time{}
		return d
	}
	end := d.Queued.Add(giveUp)
	d.Notice, d.Due = dispatch.TextFor(t.err), dispatch.Earlier(now.Add(max(pause(d.Tries, longest), t.wait)), end)
	if !now.Before(end) {
		d.State, d.Due = dispatch.DeliveryFailed, time.Time{}
	}
	return d
}

// pause returns how long to wait after so many failures in a row.
func pause(failures int, most time.Duration) time.Duration {
	p := first
	for range failures - 1 {
		if p *= 2; p >= most {
			return most
		}
	}
	return p
}
