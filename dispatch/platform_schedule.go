package dispatch

import "time"

// Schedule is which request slots of a platform are taken. Slots are a pace apart. A visit that finds none nearby books the first free
// slot, however far, so that the order of requests is the order of service. Every tenth slot is kept for requests that people wait for,
// however many status reads are queued.
type Schedule struct {
	Next time.Time // the first free slot; zero: none was given yet
	Kept time.Time // the first free slot of those that are kept
	Seen time.Time // when the last was given
}

// Purpose is what a request slot is used for.
type Purpose int

const (
	Reading Purpose = iota // a visit's question for statuses
	Acting                 // whatever else a visit asks
	Calling                // someone waits, outside visits
)

// SlotRequest is a request for the next request slot of an account's platform.
type SlotRequest struct {
	Account Account
	Pace    time.Duration
	Purpose Purpose
	Ahead   time.Duration // how far away a slot may be that is given
	Due     time.Time     // the slot is not wanted sooner, and one that is later is booked ahead; zero: now
}

// Slot is the response to a [SlotRequest].
type Slot struct {
	Given bool          // a slot, to be used after Wait
	Wait  time.Duration // otherwise: until asking again makes sense
}

const (
	keptEvery = 10               // of so many slots one is kept
	keptAhead = 5 * time.Second  // how far away a kept slot may be that a visit books, so that calls find some
	setBack   = 10 * time.Second // a clock that is earlier by so much was set back; by less, processes came in another order
)

// Reserve answers a slot request at a time. A visit that finds no slot nearby has booked one; it has one for each purpose at most,
// and what it has is replaced by what it has then (zero: none). A slot that was missed is lost, and made good with the
// kept ones. Anew means that the clock was set back, and that nothing which was booked before counts any more.
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

// withoutPast leaves out the slots that have passed. When all that were given have, they begin anew.
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

// afterKept is the first time from slot on that is a pace away from the kept slots.
func (t Schedule) afterKept(slot time.Time, pace time.Duration) time.Time {
	round := keptEvery * pace
	after := slot.Sub(t.Kept) % round // the kept slot before
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

// firstFree is the first slot: of all; or of the kept ones only what is near; or of none of them.
func (t Schedule) firstFree(all, near bool, now time.Time) time.Time {
	if t.Kept.Before(t.Next) && (all || near && !t.Kept.After(now.Add(keptAhead))) {
		return t.Kept
	}
	return t.Next
}

// without is the schedule when one of its first slots is given away.
func (t Schedule) without(slot time.Time, pace time.Duration) Schedule {
	if slot.Equal(t.Kept) {
		t.Kept = slot.Add(keptEvery * pace)
	} else {
		t.Next = t.afterKept(slot.Add(pace), pace)
	}
	return t
}
