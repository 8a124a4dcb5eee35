package dispatch

import "time"

// Schedule records which send times of a platform are taken. Send times are one pace apart. A visit that finds no send
// time nearby books the first free one, however far away, so that requests are served in the order in which they were
// made. Every tenth send time is kept for requests that users wait for, however many status reads are queued.
type Schedule struct {
	Next time.Time // the first free send time; zero: none was assigned yet
	Kept time.Time // the first free send time of those that are kept
	Seen time.Time // when the last send time was assigned
}

// Purpose is what a send time is used for.
type Purpose int

const (
	Reading Purpose = iota // status reads of a visit
	Acting                 // all other requests of a visit
	Calling                // requests outside visits, for which a client waits
)

// SendTimeRequest asks for the next send time of an account's platform.
type SendTimeRequest struct {
	Account Account
	Pace    time.Duration
	Purpose Purpose
	Ahead   time.Duration // how far in the future an assigned send time may be
	Due     time.Time     // the send time is not needed earlier, and a later one is booked ahead; zero: now
}

// SendTime is the response to a [SendTimeRequest].
type SendTime struct {
	Given bool          // a send time was assigned: send the request after Wait
	Wait  time.Duration // if no send time was assigned: the time until the next SendTimeRequest
}

const (
	keptEvery = 10              // one of this many send times is kept
	keptAhead = 5 * time.Second // a visit books no kept send time further in the future, so that calls find some
	// a clock earlier by more than this was set back; by less, processes arrived in another order
	setBack = 10 * time.Second
)

// Reserve responds to a SendTimeRequest at the time now. booked is the send time that the visit has booked for this
// purpose (zero: none). Reserve replaces it with the one that the visit has booked afterwards; a visit has at most one
// for each purpose. A visit that gets no send time nearby has booked one. If it misses that, the send time is lost, and
// the visit may get a kept one instead. anew reports that the clock was set back, and that all earlier bookings are
// void.
func (t *Schedule) Reserve(a SendTimeRequest, booked *time.Time, now time.Time) (s SendTime, anew bool) {
	pace := max((a.Pace + time.Microsecond - 1).Truncate(time.Microsecond), time.Microsecond)
	if anew = t.Seen.After(now.Add(setBack)); anew {
		*t, *booked = Schedule{}, time.Time{}
	}
	if booked.Before(now.Add(-pace)) { // or there is none
		next := t.withoutPast(pace, now)
		sendAt := next.firstFree(a.Purpose == Calling, a.Purpose == Acting || !booked.IsZero(), now)
		*booked = time.Time{}
		switch {
		case a.Due.After(now) && sendAt.Before(a.Due):
			return SendTime{Wait: a.Due.Sub(now)}, anew
		case a.Purpose == Calling && sendAt.After(now.Add(a.Ahead)):
			return SendTime{Wait: sendAt.Sub(now) - a.Ahead}, anew
		}
		*t, *booked = next.without(sendAt, pace), sendAt
		t.Seen = now
	}
	wait := max(0, booked.Sub(now))
	if wait > a.Ahead || a.Due.After(now) {
		return SendTime{Wait: max(0, wait-a.Ahead)}, anew
	}
	*booked = time.Time{}
	return SendTime{Given: true, Wait: wait}, anew
}

// withoutPast removes the send times that have passed. If all assigned ones have passed, the schedule begins anew.
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

// afterKept returns the first time from sendAt on that is at least a pace away from the kept send times.
func (t Schedule) afterKept(sendAt time.Time, pace time.Duration) time.Time {
	round := keptEvery * pace
	after := sendAt.Sub(t.Kept) % round // time since the kept send time before
	if after < 0 {
		after += round
	}
	switch {
	case after < pace:
		return sendAt.Add(pace - after)
	case after > round-pace:
		return sendAt.Add(round + pace - after)
	}
	return sendAt
}

// firstFree returns the first free send time. A kept one counts if all is set, or if near is set and it is at most
// keptAhead away.
func (t Schedule) firstFree(all, near bool, now time.Time) time.Time {
	if t.Kept.Before(t.Next) && (all || near && !t.Kept.After(now.Add(keptAhead))) {
		return t.Kept
	}
	return t.Next
}

// without returns the schedule after sendAt was assigned, which is the first kept send time or the first of the others.
func (t Schedule) without(sendAt time.Time, pace time.Duration) Schedule {
	if sendAt.Equal(t.Kept) {
		t.Kept = sendAt.Add(keptEvery * pace)
	} else {
		t.Next = t.afterKept(sendAt.Add(pace), pace)
	}
	return t
}

// SendTimeAhead is how far in the future a send time that a visit gets may lie. A visit for a booked one has this long
// to prepare.
const SendTimeAhead = 2 * time.Second
