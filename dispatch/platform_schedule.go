package dispatch

import "time"

// Schedule records which request slots of a platform are taken. Slots are one pace apart. A visit that finds no slot nearby books the first
// free slot, however far away, so that requests are served in the order in which they were made. Every tenth slot is kept for requests that
// users wait for, however many status reads are queued.
type Schedule struct {
	Next time.Time // the first free slot; zero: none was assigned yet
	Kept time.Time // the first free slot of those that are kept
	Seen time.Time // when the last slot was assigned
}

// Purpose is what a request slot is used for.
type Purpose int

const (
	Reading Purpose = iota // status reads of a visit
	Acting                 // all other requests of a visit
	Calling                // requests outside visits, for which a client waits
)

// SlotRequest is a request for the next request slot of an account's platform.
type SlotRequest struct {
	Account Account
	Pace    time.Duration
	Purpose Purpose
	Ahead   time.Duration // how far in the future an assigned slot may be
	Due     time.Time     // the slot is not needed earlier, and a later one is booked ahead; zero: now
}

// Slot is the response to a [SlotRequest].
type Slot struct {
	Given bool          // a slot was assigned; use it after Wait
	Wait  time.Duration // if no slot was assigned: the time until the next SlotRequest
}

const (
	keptEvery = 10               // one of this many slots is kept
	keptAhead = 5 * time.Second  // a visit books no kept slot further in the future, so that calls find some
	setBack   = 10 * time.Second // a clock earlier by more than this was set back; by less, processes arrived in another order
)

// Reserve responds to a slot request at the time now. booked is the slot that the visit has booked for this purpose (zero: none). Reserve
// replaces it with the slot that the visit has booked afterwards; a visit has at most one for each purpose. A visit that gets no slot
// nearby has booked one. If it misses that slot, the slot is lost, and the visit may get a kept slot instead. anew reports that the clock
// was set back, and that all earlier bookings are void.
func (t *Schedule) Reserve(a SlotRequest, booked *time.Time, now time.Time) (s Slot, anew bool) {
	pace := max((a.Pace + time.Microsecond - 1).Truncate(time.Microsecond), time.Microsecond)
	if anew = t.Seen.After(now.Add(setBack)); anew {
		*t, *booked = Schedule{}, time.Time{}
	}
	if booked.Before(now.Add(-pace)) { // or there is none
		next := t.withoutPast(pace, now)
		slot := next.firstFree(a.Purpose == Calling, a.Purpose == Acting || !booked.IsZero(), now)
		*booked = time.Time{}
		switch {
		case a.Due.After(now) && slot.Before(a.Due):
			return Slot{Wait: a.Due.Sub(now)}, anew
		case a.Purpose == Calling && slot.After(now.Add(a.Ahead)):
			return Slot{Wait: slot.Sub(now) - a.Ahead}, anew
		}
		*t, *booked = next.without(slot, pace), slot
		t.Seen = now
	}
	wait := max(0, booked.Sub(now))
	if wait > a.Ahead || a.Due.After(now) {
		return Slot{Wait: max(0, wait-a.Ahead)}, anew
	}
	*booked = time.Time{}
	return Slot{Given: true, Wait: wait}, anew
}

// withoutPast removes the slots that have passed. If all assigned slots have passed, the schedule begins anew.
func (t Schedule) withoutPast(pace time.Duration, now time.Time) Schedule {
	if !t.Next.After(now) {
		return Schedule{Next: now, Kept: now.Add((keptEvery - 1) * pace)}
	}
	if passed := now.Sub(t.Kept); passed > 0 {
		round := keptEvery * pace
		t.Kept = t.Kept.Add((passed + round - 1) / round * round)
	}
	t.Next = t.afterKept(t.Next, pace)
	return t
}

// afterKept returns the first time from slot on that is at least a pace away from the kept slots.
func (t Schedule) afterKept(slot time.Time, pace time.Duration) time.Time {
	round := keptEvery * pace
	after := slot.Sub(t.Kept) % round // time since the kept slot before
	if after < 0 {
		after += round
	}
	switch {
	case after < pace:
		return slot.Add(pace - after)
	case after > round-pace:
		return slot.Add(round + pace - after)
	}
	return slot
}

// firstFree returns the first free slot. A kept slot counts if all is set, or if near is set and the slot is at most keptAhead away.
func (t Schedule) firstFree(all, near bool, now time.Time) time.Time {
	if t.Kept.Before(t.Next) && (all || near && !t.Kept.After(now.Add(keptAhead))) {
		return t.Kept
	}
	return t.Next
}

// without returns the schedule after slot was assigned, which is the first kept slot or the first of the others.
func (t Schedule) without(slot time.Time, pace time.Duration) Schedule {
	if slot.Equal(t.Kept) {
		t.Kept = slot.Add(keptEvery * pace)
	} else {
		t.Next = t.afterKept(slot.Add(pace), pace)
	}
	return t
}
