package store

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// ReserveSendTime books the next send time of a platform. It locks the schedule first and the account's row last.
func (s *Store) ReserveSendTime(ctx context.Context, a dispatch.SendTimeRequest) (served dispatch.SendTime, err error) {
	platform := a.Account.Platform()
	err = s.inVisit(ctx, "ReserveSendTime", 1, func(q tx, now int64) error {
		t, err := lockTimetable(ctx, q, platform)
		if err != nil {
			return err
		}
		booked := map[dispatch.Purpose]time.Time{}
		var reading, acting time.Time
		err = q.QueryRowContext(ctx, "SELECT reading_send_time, acting_send_time FROM accounts WHERE id = $1",
			a.Account).Scan(instant(&reading), instant(&acting))
		if err = missing(err); err != nil {
			return err
		}
		booked[dispatch.Reading], booked[dispatch.Acting] = reading, acting
		sendAt, anew := booked[a.Purpose], false
		before, had := t, sendAt
		if served, anew = t.Reserve(a, &sendAt, at(now)); anew {
			booked = map[dispatch.Purpose]time.Time{}
			_, err = q.ExecContext(ctx, `
				UPDATE accounts SET reading_send_time = 0, acting_send_time = 0
				WHERE platform = $1 AND reading_send_time + acting_send_time > 0`, platform)
		}
		if err == nil && t != before {
			_, err = q.ExecContext(ctx, "UPDATE schedules SET next = $1, kept = $2, seen = $3 WHERE platform = $4",
				micros(t.Next), micros(t.Kept), micros(t.Seen), platform)
		}
		if booked[a.Purpose] = sendAt; err == nil && !sendAt.Equal(had) {
			_, err = q.ExecContext(ctx, "UPDATE accounts SET reading_send_time = $1, acting_send_time = $2 WHERE id "+
				"= $3", micros(booked[dispatch.Reading]), micros(booked[dispatch.Acting]), a.Account)
		}
		return err
	})
	return served, err
}

// lockTimetable locks the schedule of a platform: other requests for a send time come before or after.
func lockTimetable(ctx context.Context, q querier, platform string) (t dispatch.Schedule, err error) {
	err = q.QueryRowContext(ctx, `
		INSERT INTO schedules (platform) VALUES ($1) ON CONFLICT (platform) DO UPDATE SET platform = excluded.platform
		RETURNING next, kept, seen`, platform).Scan(instant(&t.Next), instant(&t.Kept), instant(&t.Seen))
	return t, err
}
