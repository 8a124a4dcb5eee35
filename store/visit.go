package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// Dequeue leases accounts that are due and that no process holds.
func (s *Store) Dequeue(ctx context.Context, room dispatch.Room, ttl time.Duration) (leases []dispatch.Lease, wait time.Duration, err error) {
	err = s.inVisit(ctx, "Dequeue", 1, func(q tx, now int64) error {
		d := dequeue{q: q, room: room, now: now, until: now + ttl.Microseconds()}
		lapse, err := q.NextLapse(ctx, now) // read before the new leases exist
		if err != nil {
			return err
		}
		if err := d.take(ctx); err != nil {
			return err
		}
		more, err := d.more(ctx)
		if err != nil {
			return err
		}
		free, err := q.NextFree(ctx, now)
		if leases, wait = d.leases, min(until(now, lapse), until(now, free)); more {
			wait = 0
		}
		return err
	})
	return leases, wait, err
}

// dequeue is one call of Dequeue.
type dequeue struct {
	q          tx
	room       dispatch.Room
	now, until int64
	due        []string        // platforms that have due accounts, and room
	served     map[string]bool // platforms served by another process; nil: not read yet
	leases     []dispatch.Lease
}

// full lists the platforms for which there is no room, so that the accounts that wait for them cost nothing.
func (d *dequeue) full() string {
	var full []string
	for platform, n := range d.room.Platforms {
		if n <= 0 {
			full = append(full, platform)
		}
	}
	return joinList(full)
}

// take leases due accounts, as many of each platform as there is room for.
func (d *dequeue) take(ctx context.Context) (err error) {
	if d.due, err = d.q.DuePlatforms(ctx, d.full(), d.now); err != nil {
		return err
	}
	others := d.room.Others
	for _, platform := range d.due {
		n, known := d.room.Platforms[platform]
		if !known {
			if n, err = d.unserved(ctx, platform, others); err != nil {
				return err
			}
		}
		if n <= 0 {
			continue
		}
		taken, err := d.lease(ctx, platform, n)
		if err != nil {
			return err
		}
		if !known {
			others -= taken
		}
	}
	return nil
}

func (d *dequeue) lease(ctx context.Context, platform string, n int) (int, error) {
	rows, err := d.q.Dequeue(ctx, query.DequeueParams{Until: d.until, Now: d.now, Platform: platform, N: int64(n), Counts: d.now - dispatch.LapsesCount.Microseconds()})
	for _, r := range rows {
		d.leases = append(d.leases, dispatch.Lease{Account: r.ID, Generation: r.Generation, Lapses: int(r.Lapses)})
	}
	return len(rows), err
}

// unserved returns n for a platform that no process serves, and 0 for any other.
func (d *dequeue) unserved(ctx context.Context, platform string, n int) (int, error) {
	if d.served == nil {
		names, err := d.q.ListServed(ctx, d.now-d.room.Unserved.Microseconds())
		if err != nil {
			return 0, err
		}
		d.served = map[string]bool{}
		for _, name := range names {
			d.served[name] = true
		}
	}
	if d.served[platform] {
		return 0, nil
	}
	return n, nil
}

// more reports whether due accounts remain: because there was no room for them, or because another process was leasing them.
func (d *dequeue) more(ctx context.Context) (bool, error) {
	if len(d.due) == 0 {
		return false, nil
	}
	left, err := d.q.DuePlatforms(ctx, d.full(), d.now)
	for _, platform := range left {
		if n, known := d.room.Platforms[platform]; n > 0 || !known && d.room.Others > 0 && !d.served[platform] {
			return true, err
		}
	}
	return false, err
}

// LastServed returns when a process last stored that it serves a platform, and how long ago that is. Zero: none ever did.
func (s *Store) LastServed(ctx context.Context) (last time.Time, ago time.Duration, err error) {
	err = s.in(ctx, s.visit, "LastServed", func(q tx, now int64) error {
		seen, err := q.LastServed(ctx)
		last, ago = at(seen), time.Duration(now-seen)*time.Microsecond
		return err
	})
	return last, ago, err
}

// NoteServed stores that a process serves the platforms.
func (s *Store) NoteServed(ctx context.Context, platforms []string) error {
	return s.in(ctx, s.visit, "NoteServed", func(q tx, now int64) error {
		if err := s.followClock(ctx, q, now); err != nil {
			return err
		}
		for _, platform := range slices.Sorted(slices.Values(platforms)) { // in one order, so that two processes do not deadlock
			if err := q.NoteServed(ctx, platform, now); err != nil {
				return err
			}
		}
		return nil
	})
}

const longestWait = time.Hour

// until returns the time from now until then, both in microseconds, and the longest wait if then is 0. It compares before it converts,
// because no [time.Duration] holds the distance to the last time of all.
func until(now, then int64) time.Duration {
	if then == 0 || then-now >= longestWait.Microseconds() {
		return longestWait
	}
	return max(0, time.Duration(then-now)*time.Microsecond)
}

// Renew extends a lease to ttl from now.
func (s *Store) Renew(ctx context.Context, l dispatch.Lease, ttl time.Duration) error {
	return s.inVisit(ctx, "Renew", 1, func(q tx, now int64) error { return renew(ctx, q, l, now, ttl) })
}

func renew(ctx context.Context, q tx, l dispatch.Lease, now int64, ttl time.Duration) error {
	rows, err := q.Renew(ctx, now+ttl.Microseconds(), l.Account, l.Generation)
	return changed("Renew", rows, err)
}

// Release ends the lease and plans the next visit.
func (s *Store) Release(ctx context.Context, l dispatch.Lease, wakes int64, due time.Time) error {
	return s.inVisit(ctx, "Release", 1, func(q tx, now int64) error {
		rows, err := q.Release(ctx, query.ReleaseParams{Seen: wakes, Now: now, Due: micros(due), ID: l.Account, Generation: l.Generation})
		return changed("Release", rows, err)
	})
}

// Wake stores that there is something new for an account's visit.
func (s *Store) Wake(ctx context.Context, a dispatch.Account) error {
	return s.inVisit(ctx, "Wake", 1, func(q tx, now int64) error { return q.Wake(ctx, a, now) })
}

// Load returns a job to a visit, regardless of its owner.
func (s *Store) Load(ctx context.Context, id dispatch.JobID) (dispatch.Job, error) {
	row, err := s.queries(s.look).GetJob(ctx, id)
	if err != nil {
		return dispatch.Job{}, fail("Load", err)
	}
	j, err := jobOf(row)
	return j, fail("Load", err)
}

// RefHolder returns the job of an account that has an identifier at its platform.
func (s *Store) RefHolder(ctx context.Context, a dispatch.Account, r dispatch.Ref) (dispatch.JobID, error) {
	id, err := s.queries(s.look).RefHolder(ctx, a, storableText(r.ID), storableText(r.Base))
	return dispatch.JobID(id), fail("RefHolder", err)
}

// Request returns a job's request to a visit.
func (s *Store) Request(ctx context.Context, id dispatch.JobID) (dispatch.Request, error) {
	row, err := s.queries(s.look).GetRequest(ctx, id)
	if err != nil {
		return dispatch.Request{}, fail("Request", err)
	}
	j := dispatch.Job{Task: row.Task, Number: row.Number, Account: row.Account}
	if j.Names, err = decoded[[]string](row.Names); err != nil {
		return dispatch.Request{}, fail("Request", err)
	}
	r, err := requestOf(j, row.Body, row.Shared, row.Dimension)
	if err == nil && r.Service.Inline() {
		var process string
		process, err = s.queries(s.look).GetSentProcess(ctx, id)
		r.Process = json.RawMessage(process)
	}
	return r, fail("Request", err)
}

// Intend commits the next request of each job and renews the lease. The account's row is written last, as in Wake, so that the
// two cannot deadlock. The rows of tasks with a budget are locked first. If a budget is reached, FinishChanges pauses the jobs of the task that are
// left, so that the visit goes on with those of others.
func (s *Store) Intend(ctx context.Context, l dispatch.Lease, limits dispatch.Limits, jobs []dispatch.Job) (kept []dispatch.Job, err error) {
	if slices.ContainsFunc(jobs, func(j dispatch.Job) bool { return j.Budgeted }) {
		ctx = allow(ctx, listWithin)
	}
	err = s.inVisit(ctx, "Intend", len(jobs), func(q tx, now int64) error {
		within, err := lockBudgets(ctx, q, jobs, now, isWaiting)
		if err != nil {
			return err
		}
		admitted, err := within.admit(ctx, jobs)
		if err != nil {
			return err
		}
		intended := make([]dispatch.Job, len(admitted))
		for i, j := range admitted {
			intended[i] = j.Intend(at(now).Add(limits.Send))
		}
		if kept, err = write(ctx, q, intended, true); err != nil {
			return err
		}
		if kept, err = within.pause(ctx, kept); err != nil {
			return err
		}
		return renewAndCount(ctx, q, l, now, limits.Lease(), served(jobs, kept))
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// served returns the jobs that were waiting and whose intents were stored, in their order.
func served(jobs, kept []dispatch.Job) (served []dispatch.Job) {
	begun := map[dispatch.JobID]bool{}
	for _, j := range kept {
		begun[j.ID] = true
	}
	for _, j := range jobs {
		if j.Phase == dispatch.Waiting && begun[j.ID] {
			served = append(served, j)
		}
	}
	return served
}

// Save stores the outcomes of responses and wakes accounts. The accounts' rows are written last, as in Wake.
func (s *Store) Save(ctx context.Context, jobs []dispatch.Job, wake ...dispatch.Account) (saved []dispatch.Job, err error) {
	err = s.inVisit(ctx, "Save", len(jobs), func(q tx, now int64) error {
		within, err := lockBudgets(ctx, q, jobs, now, runsNoMore)
		if err != nil {
			return err
		}
		if saved, err = write(ctx, q, jobs, false); err != nil || len(saved) == 0 {
			return err
		}
		resumed, err := within.resume(ctx)
		if err != nil {
			return err
		}
		for _, a := range append(resumed, wake...) {
			if err := q.Wake(ctx, a, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return saved, nil
}

// Hold keeps the account from submitting for d, and stores why. d 0 ends that and wakes the account.
func (s *Store) Hold(ctx context.Context, a dispatch.Account, d time.Duration, why dispatch.Attention, notice string) error {
	return s.inVisit(ctx, "Hold", 1, func(q tx, now int64) error {
		if d <= 0 {
			return errors.Join(q.Hold(ctx, query.HoldParams{ID: a, Now: now}), q.Wake(ctx, a, now))
		}
		return q.Hold(ctx, query.HoldParams{ID: a, Now: now, Hold: now + d.Microseconds(), HoldAttention: why, HoldNotice: storableText(notice)})
	})
}

// FailWithoutSignIn fails the jobs that have needed their user for longer than patience.
func (s *Store) FailWithoutSignIn(ctx context.Context, a dispatch.Account, patience time.Duration, failure string) (jobs []dispatch.Job, err error) {
	err = s.in(ctx, s.visit, "FailWithoutSignIn", func(q tx, now int64) error {
		jobs, err = jobsOf(q.FailWithoutSignIn(ctx, query.FailWithoutSignInParams{Account: a, Before: now - patience.Microseconds(), Now: now, Failure: failure}))
		return err
	})
	return jobs, err
}

// ReserveSendTime books the next send time of a platform. It locks the schedule first and the account's row last.
func (s *Store) ReserveSendTime(ctx context.Context, a dispatch.SendTimeRequest) (served dispatch.SendTime, err error) {
	platform := a.Account.Platform()
	err = s.inVisit(ctx, "ReserveSendTime", 1, func(q tx, now int64) error {
		row, err := q.LockTimetable(ctx, platform)
		if err != nil {
			return err
		}
		bookings, err := q.GetBookings(ctx, a.Account)
		if err = missing(err); err != nil {
			return err
		}
		t := dispatch.Schedule{Next: at(row.Free), Kept: at(row.Kept), Seen: at(row.Seen)}
		booked := map[dispatch.Purpose]time.Time{dispatch.Reading: at(bookings.ReadingSlot), dispatch.Acting: at(bookings.ActingSlot)}
		sendAt, anew := booked[a.Purpose], false
		was, had := t, sendAt
		if served, anew = t.Reserve(a, &sendAt, at(now)); anew {
			booked = map[dispatch.Purpose]time.Time{}
			err = q.VoidBookings(ctx, platform+"/")
		}
		if err == nil && t != was {
			err = q.WriteTimetable(ctx, query.WriteTimetableParams{Free: micros(t.Next), Kept: micros(t.Kept), Seen: micros(t.Seen), Platform: platform})
		}
		if booked[a.Purpose] = sendAt; err == nil && !sendAt.Equal(had) {
			err = q.WriteBookings(ctx, micros(booked[dispatch.Reading]), micros(booked[dispatch.Acting]), a.Account)
		}
		return err
	})
	return served, err
}
