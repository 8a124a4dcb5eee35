package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// Dequeue gives out accounts that are due and that nobody holds.
func (s *Store) Dequeue(ctx context.Context, room dispatch.Room, ttl time.Duration) (leases []dispatch.Lease, wait time.Duration, err error) {
	err = s.in(ctx, s.visit, "Dequeue", func(q tx, now int64) error {
		d := dequeue{q: q, room: room, now: now, until: now + ttl.Microseconds()}
		lapse, err := q.NextLapse(ctx, now) // before there are the new leases
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
	due        []string        // platforms with accounts that are due
	served     map[string]bool // platforms that another process serves; nil: not read yet
	leases     []dispatch.Lease
}

// take leases the accounts that are due, as many of each platform as there is room for.
func (d *dequeue) take(ctx context.Context) (err error) {
	if d.due, err = d.q.DuePlatforms(ctx, d.now); err != nil {
		return err
	}
	others := d.room.Others
	for _, platform := range d.due {
		n, known := d.room.Platforms[platform]
		if !known {
			if n, err = d.orphans(ctx, platform, others); err != nil {
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
	rows, err := d.q.Dequeue(ctx, query.DequeueParams{Until: d.until, Now: d.now, Prefix: platform + "/", N: int64(n), Counts: d.now - dispatch.LapsesCount.Microseconds()})
	for _, r := range rows {
		d.leases = append(d.leases, dispatch.Lease{Account: r.ID, Generation: r.Generation, Lapses: int(r.Lapses)})
	}
	return len(rows), err
}

// orphans gives n for a platform that no process serves, and 0 for any other.
func (d *dequeue) orphans(ctx context.Context, platform string, n int) (int, error) {
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

// more reports whether accounts were left that are due: because there was no more room, or because another process was just
// taking them.
func (d *dequeue) more(ctx context.Context) (bool, error) {
	if len(d.due) == 0 {
		return false, nil
	}
	left, err := d.q.DuePlatforms(ctx, d.now)
	for _, platform := range left {
		if n, known := d.room.Platforms[platform]; n > 0 || !known && d.room.Others > 0 && !d.served[platform] {
			return true, err
		}
	}
	return false, err
}

// Serve notes that a process serves platforms.
func (s *Store) Serve(ctx context.Context, platforms []string) error {
	return s.in(ctx, s.visit, "Serve", func(q tx, now int64) error {
		if err := s.follow(ctx, q, now); err != nil {
			return err
		}
		for _, platform := range slices.Sorted(slices.Values(platforms)) { // one order, so that two processes do not deadlock
			if err := q.Serve(ctx, platform, now); err != nil {
				return err
			}
		}
		return nil
	})
}

const longestWait = time.Hour

// until is how long from now until then, the longest wait if then is no time.
func until(now, then int64) time.Duration {
	if then == 0 {
		return longestWait
	}
	return min(longestWait, max(0, time.Duration(then-now)*time.Microsecond))
}

// Renew extends a lease to ttl from now.
func (s *Store) Renew(ctx context.Context, l dispatch.Lease, ttl time.Duration) error {
	return s.in(ctx, s.visit, "Renew", func(q tx, now int64) error { return renew(ctx, q, l, now, ttl) })
}

func renew(ctx context.Context, q tx, l dispatch.Lease, now int64, ttl time.Duration) error {
	rows, err := q.Renew(ctx, now+ttl.Microseconds(), l.Account, l.Generation)
	return changed("Renew", rows, err)
}

// Release ends the lease and plans the next visit.
func (s *Store) Release(ctx context.Context, l dispatch.Lease, wakes int64, due time.Time) error {
	return s.in(ctx, s.visit, "Release", func(q tx, now int64) error {
		rows, err := q.Release(ctx, query.ReleaseParams{Seen: wakes, Now: now, Due: micros(due), ID: l.Account, Generation: l.Generation})
		return changed("Release", rows, err)
	})
}

// Wake notes that there is something new for an account's visit.
func (s *Store) Wake(ctx context.Context, a dispatch.Account) error {
	return s.in(ctx, s.visit, "Wake", func(q tx, now int64) error { return q.Wake(ctx, a, now) })
}

// Load gives a job to a visit, whoever owns it.
func (s *Store) Load(ctx context.Context, id dispatch.JobID) (dispatch.Job, error) {
	row, err := s.queries(s.look).GetJob(ctx, id)
	if err != nil {
		return dispatch.Job{}, fail("Load", err)
	}
	j, err := jobOf(row)
	return j, fail("Load", err)
}

// Request gives a visit what a job's owner asked for.
func (s *Store) Request(ctx context.Context, id dispatch.JobID) (dispatch.Request, error) {
	row, err := s.queries(s.look).GetRequest(ctx, id)
	if err != nil {
		return dispatch.Request{}, fail("Request", err)
	}
	r, err := requestOf(dispatch.Job{Task: row.Task, Number: row.Number}, row.Body, row.Shared, row.Dimension)
	return r, fail("Request", err)
}

// Intend commits the next request of each job and renews the lease with it. The account's row comes last, as for whoever
// wakes, so that the two never wait for each other.
func (s *Store) Intend(ctx context.Context, l dispatch.Lease, limits dispatch.Limits, jobs []dispatch.Job) (kept []dispatch.Job, err error) {
	err = s.in(ctx, s.visit, "Intend", func(q tx, now int64) error {
		intended := make([]dispatch.Job, len(jobs))
		for i, j := range jobs {
			intended[i] = j.Intend(at(now).Add(limits.Send))
		}
		if kept, err = write(ctx, q, intended, true); err != nil {
			return err
		}
		return serve(ctx, q, l, now, limits.Lease(), served(jobs, kept))
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// served are those of the jobs that waited and whose intents were kept, in their order.
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

// Save keeps what answers changed, and wakes. The accounts' rows come last, as for whoever wakes.
func (s *Store) Save(ctx context.Context, jobs []dispatch.Job, wake ...dispatch.Account) (saved []dispatch.Job, err error) {
	err = s.in(ctx, s.visit, "Save", func(q tx, now int64) error {
		if saved, err = write(ctx, q, jobs, false); err != nil || len(saved) == 0 {
			return err
		}
		for _, a := range wake {
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

// Hold lets the account submit nothing for d, and says why. d 0 ends that and wakes.
func (s *Store) Hold(ctx context.Context, a dispatch.Account, d time.Duration, why dispatch.Attention, notice string) error {
	return s.in(ctx, s.visit, "Hold", func(q tx, now int64) error {
		if d <= 0 {
			return errors.Join(q.Hold(ctx, query.HoldParams{ID: a, Now: now}), q.Wake(ctx, a, now))
		}
		return q.Hold(ctx, query.HoldParams{ID: a, Now: now, Hold: now + d.Microseconds(), HoldAttention: why, HoldNotice: clean(notice)})
	})
}

// GiveUp lets the jobs fail that have needed their user for longer than patience.
func (s *Store) GiveUp(ctx context.Context, a dispatch.Account, patience time.Duration, failure string) (jobs []dispatch.Job, err error) {
	err = s.in(ctx, s.visit, "GiveUp", func(q tx, now int64) error {
		jobs, err = jobsOf(q.GiveUp(ctx, query.GiveUpParams{Account: a, Before: now - patience.Microseconds(), Now: now, Failure: failure}))
		return err
	})
	return jobs, err
}

// Take gives or books the next request slot of a platform. The timetable is locked first and the account's row last.
func (s *Store) Take(ctx context.Context, a dispatch.Ask) (served dispatch.Served, err error) {
	platform := a.Account.Platform()
	err = s.in(ctx, s.visit, "Take", func(q tx, now int64) error {
		row, err := q.LockTimetable(ctx, platform)
		if err != nil {
			return err
		}
		slots, err := q.GetSlots(ctx, a.Account)
		if err = missing(err); err != nil {
			return err
		}
		t := dispatch.Timetable{Next: at(row.Free), Kept: at(row.Kept), Seen: at(row.Seen)}
		booked := map[dispatch.Purpose]time.Time{dispatch.Reading: at(slots.ReadingSlot), dispatch.Acting: at(slots.ActingSlot)}
		slot, anew := booked[a.Purpose], false
		was, had := t, slot
		if served, anew = t.Serve(a, &slot, at(now)); anew {
			booked = map[dispatch.Purpose]time.Time{}
			err = q.VoidSlots(ctx, platform+"/")
		}
		if err == nil && t != was {
			err = q.WriteTimetable(ctx, query.WriteTimetableParams{Free: micros(t.Next), Kept: micros(t.Kept), Seen: micros(t.Seen), Platform: platform})
		}
		if booked[a.Purpose] = slot; err == nil && !slot.Equal(had) {
			err = q.WriteSlots(ctx, micros(booked[dispatch.Reading]), micros(booked[dispatch.Acting]), a.Account)
		}
		return err
	})
	return served, err
}

// Purge forgets hidden jobs that ended longer than keep ago, documents that none uses, and keys, tokens and turns that are too
// old to count.
func (s *Store) Purge(ctx context.Context, keep time.Duration) error {
	return s.in(allow(ctx, upkeepWithin), s.write, "Purge", func(q tx, now int64) error {
		return errors.Join(q.PurgeJobs(ctx, now-keep.Microseconds()), q.PurgeTasks(ctx), q.PurgeDefinitions(ctx), q.PurgeDocuments(ctx), q.PurgeKeys(ctx, now-dispatch.KeyLife.Microseconds()),
			q.PurgeTokens(ctx, now), forgetTurns(ctx, q), q.PurgeSyncRuns(ctx, now-dispatch.SyncRunLife.Microseconds()))
	})
}
