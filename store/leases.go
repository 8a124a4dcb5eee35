package store

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Dequeue leases accounts that are due and that no process holds.
func (s *Store) Dequeue(ctx context.Context, room dispatch.Room, ttl time.Duration) (leases []dispatch.Lease,
	wait time.Duration, err error) {
	err = s.inVisit(ctx, "Dequeue", 1, func(q tx, now int64) error {
		d := dequeue{q: q, room: room, now: now, until: now + ttl.Microseconds()}
		lapse, err := nextLapse(ctx, q, now) // read before the new leases exist
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
		free, err := nextFree(ctx, q, now)
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
	due        []string // platforms that have due accounts, and room
	served     []string // platforms that processes serve; nil: none, or not read yet
	leases     []dispatch.Lease
}

// nextLapse returns the earliest end of a lease, in case its holder died; 0 for none.
func nextLapse(ctx context.Context, q querier, now int64) (int64, error) {
	return value[int64](ctx, q, `
		SELECT CAST(COALESCE((
			SELECT min(lease_until) FROM accounts WHERE lease_until > 0 AND due > 0 AND lease_until > $1), 0) AS BIGINT)`, now)
}

// nextFree returns the earliest future due time of accounts without a holder; 0 for none. The second condition permits
// the index accounts_due; SQLite begins at the first one.
func nextFree(ctx context.Context, q querier, now int64) (int64, error) {
	return value[int64](ctx, q, `
		SELECT CAST(COALESCE((
			SELECT due FROM accounts WHERE due > CAST($1 AS BIGINT) AND due > 0 AND lease_until <= CAST($1 AS BIGINT)
			ORDER BY due, id LIMIT 1), 0) AS BIGINT)`, now)
}

// roomAt returns for how many accounts of a platform there is room. Room for others is for those of platforms that no
// process serves.
func (d *dequeue) roomAt(ctx context.Context, platform string) (n int, err error) {
	n, known := d.room.Platforms[platform]
	if known || d.room.Others <= 0 {
		return n, nil
	}
	if d.served == nil {
		d.served, err = list(ctx, d.q, single[string],
			"SELECT platform FROM served WHERE seen > CAST($1 AS BIGINT) ORDER BY platform",
			d.now-d.room.Unserved.Microseconds())
	}
	if err != nil || slices.Contains(d.served, platform) {
		return 0, err
	}
	return d.room.Others, nil
}

// duePlatforms returns the platforms of due accounts without a holder, beginning with the longest due; without those
// for which there is no room. It hops from platform to platform in the index accounts_of_platform: the cost depends on
// the number of platforms, not on that of accounts. Of a platform, only accounts with a holder are passed over.
func (d *dequeue) duePlatforms(ctx context.Context) (open []string, err error) {
	platforms, err := list(ctx, d.q, single[string], `
		WITH RECURSIVE hop (platform) AS (
			SELECT CAST('' AS TEXT)
			UNION ALL
			SELECT (SELECT b.platform FROM accounts b WHERE b.due > 0 AND b.platform > hop.platform
				ORDER BY b.platform LIMIT 1)
			FROM hop WHERE hop.platform IS NOT NULL
		)
		SELECT p.platform FROM (
			SELECT hop.platform, (SELECT c.due FROM accounts c WHERE c.due > 0 AND c.platform = hop.platform
				AND c.due <= $1 AND c.lease_until <= $1 ORDER BY c.due, c.id LIMIT 1) AS due
			FROM hop WHERE hop.platform <> ''
		) AS p WHERE p.due IS NOT NULL ORDER BY p.due, p.platform`, d.now)
	for _, platform := range platforms {
		n, failed := d.roomAt(ctx, platform)
		if failed != nil {
			return nil, failed
		}
		if n > 0 {
			open = append(open, platform)
		}
	}
	return open, err
}

// take leases due accounts, as many of each platform as there is room for.
func (d *dequeue) take(ctx context.Context) (err error) {
	if d.due, err = d.duePlatforms(ctx); err != nil {
		return err
	}
	others := d.room.Others
	for _, platform := range d.due {
		n, known := d.room.Platforms[platform]
		if !known {
			n = others
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

// lease leases n due accounts of a platform. A lease that was not released has expired.
func (d *dequeue) lease(ctx context.Context, platform string, n int) (int, error) {
	leases, err := list(ctx, d.q, func(l *dispatch.Lease) []any {
		return []any{&l.Account, &l.Generation, &l.Lapses}
	}, `
		WITH free AS (
			SELECT a.id FROM accounts a
			WHERE a.due > 0 AND a.due <= $1 AND a.lease_until <= $1 AND a.platform = $2
			ORDER BY a.due, a.id LIMIT CAST($3 AS BIGINT)`+d.q.skipLocked()+`
		)
		UPDATE accounts SET generation = generation + 1, lease_until = $4,
			lapses = CASE WHEN lapsed > CAST($5 AS BIGINT) THEN lapses ELSE 0 END + CASE WHEN lease_until > 0 THEN 1 ELSE 0 END,
			lapsed = CASE WHEN lease_until > 0 THEN CAST($1 AS BIGINT) ELSE lapsed END
		WHERE id IN (SELECT free.id FROM free) RETURNING id, generation, lapses`,
		d.now, platform, int64(n), d.until, d.now-dispatch.LapsesCount.Microseconds())
	d.leases = append(d.leases, leases...)
	return len(leases), err
}

// more reports whether due accounts remain: because there was no room for them, or because another process was leasing
// them.
func (d *dequeue) more(ctx context.Context) (bool, error) {
	if len(d.due) == 0 {
		return false, nil
	}
	left, err := d.duePlatforms(ctx)
	return len(left) > 0, err
}

// LastServed returns when a process last stored that it serves a platform, and how long ago that is. Zero: none ever
// did.
func (s *Store) LastServed(ctx context.Context) (last time.Time, ago time.Duration, err error) {
	err = s.in(ctx, s.visit, "LastServed", func(q tx, now int64) error {
		seen, err := value[int64](ctx, q, "SELECT CAST(COALESCE(max(seen), 0) AS BIGINT) FROM served")
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
		// in one order, so that two processes do not deadlock
		for _, platform := range slices.Sorted(slices.Values(platforms)) {
			_, err := q.ExecContext(ctx, `
				INSERT INTO served (platform, seen) VALUES ($1, $2)
				ON CONFLICT (platform) DO UPDATE SET seen = excluded.seen`, platform, now)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const longestWait = time.Hour

// until returns the time from now until then, both in microseconds, and the longest wait if then is 0. It compares
// before it converts, because no [time.Duration] holds the distance to the last time of all.
func until(now, then int64) time.Duration {
	if then == 0 || then-now >= longestWait.Microseconds() {
		return longestWait
	}
	return max(0, time.Duration(then-now)*time.Microsecond)
}

// Renew extends a lease to ttl from now.
func (s *Store) Renew(ctx context.Context, l dispatch.Lease, ttl time.Duration) error {
	return s.inVisit(ctx, "Renew", 1, func(q tx, now int64) error { return renew(ctx, q, l, now, ttl, 0) })
}

// renew renews a lease, and records that so many slots were given away, see write. It also renews an expired lease if
// no other process took the account: then nothing happened in between.
func renew(ctx context.Context, q querier, l dispatch.Lease, now int64, ttl time.Duration, slots int64) error {
	return changed("Renew", runFound(ctx, q, `
		UPDATE accounts
		SET lease_until = $1, served = served + $2
		WHERE id = $3 AND generation = $4`, now+ttl.Microseconds(), slots, l.Account, l.Generation))
}

// Release ends the lease and plans the next visit.
func (s *Store) Release(ctx context.Context, l dispatch.Lease, wakes int64, due time.Time) error {
	return s.inVisit(ctx, "Release", 1, func(q tx, now int64) error {
		return changed("Release", runFound(ctx, q, `
			UPDATE accounts SET generation = generation + 1, lease_until = 0,
				due = CASE WHEN wakes <> $1 THEN CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) END
			WHERE id = $4 AND generation = $5`, wakes, now, micros(due), l.Account, l.Generation))
	})
}

// Wake stores that there is something new for an account's visit.
func (s *Store) Wake(ctx context.Context, a dispatch.Account) error {
	return s.inVisit(ctx, "Wake", 1, func(q tx, now int64) error { return wake(ctx, q, a, now) })
}
