package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

var _ dispatch.Operations = (*Store)(nil)

// HoldScope stores a hold and wakes the accounts that it concerns.
func (s *Store) HoldScope(ctx context.Context, h dispatch.OperatorHold) error {
	return s.in(ctx, s.write, "HoldScope", func(q tx, now int64) error {
		return errors.Join(q.WriteOperatorHold(ctx, query.WriteOperatorHoldParams{Scope: h.Scope, Notice: storableText(h.Notice), HeldBy: storableText(h.By), Now: now}),
			q.WakeHeld(ctx, now, h.Scope))
	})
}

// ReleaseScope ends a hold and wakes the accounts that it concerned.
func (s *Store) ReleaseScope(ctx context.Context, scope string) error {
	return s.in(ctx, s.write, "ReleaseScope", func(q tx, now int64) error {
		n, err := q.DeleteOperatorHold(ctx, scope)
		if err == nil && n == 0 {
			return &dispatch.Error{Kind: dispatch.NotFound, Op: "store.ReleaseScope", Text: "No operator holds " + scope + "."}
		}
		return errors.Join(err, q.WakeHeld(ctx, now, scope))
	})
}

// HasAccount reports whether jobs of an account were ever accepted.
func (s *Store) HasAccount(ctx context.Context, a dispatch.Account) (bool, error) {
	known, err := s.queries(s.read).HasAccount(ctx, a)
	return known, fail("HasAccount", err)
}

// OperatorHolds returns all holds, by scope.
func (s *Store) OperatorHolds(ctx context.Context) (all []dispatch.OperatorHold, err error) {
	rows, err := s.queries(s.read).ListOperatorHolds(ctx)
	for _, r := range rows {
		all = append(all, dispatch.OperatorHold{Scope: r.Scope, Notice: r.Notice, By: r.HeldBy, Since: at(r.Since)})
	}
	return all, fail("OperatorHolds", err)
}

// Troubled returns jobs that need attention.
func (s *Store) Troubled(ctx context.Context, setAside bool, n int) (jobs []dispatch.Job, err error) {
	err = s.readOnly(allow(ctx, listWithin), s.read, "Troubled", func(q tx, _ int64) error {
		if setAside {
			jobs, err = jobsOf(q.ListSetAside(ctx, int64(n)))
			return err
		}
		jobs, err = jobsOf(q.ListTroubled(ctx, int64(n)))
		return err
	})
	return jobs, err
}

// AddEvents stores what happened to jobs. Those of jobs that were deleted meanwhile, as by Forget, are left out.
func (s *Store) AddEvents(ctx context.Context, events []dispatch.JobEvent) error {
	return s.in(ctx, s.write, "AddEvents", func(q tx, _ int64) error {
		there, err := existing(ctx, q, events)
		if err != nil {
			return err
		}
		rows := newBulk(q, "events", "job", "at", "what", "phase", "status", "attention", "attempt", "outcome", "took", "detail")
		defer rows.close()
		for _, e := range events {
			if !there[e.Job] {
				continue
			}
			if err := rows.add(ctx, int64(e.Job), micros(e.At), e.What, string(e.Phase), string(e.Status), string(e.Attention), int64(e.Attempt), e.Outcome,
				e.Took.Microseconds(), storableText(e.Detail)); err != nil {
				return err
			}
		}
		return rows.flush(ctx)
	})
}

// existing returns which of the jobs of events are stored.
func existing(ctx context.Context, q tx, events []dispatch.JobEvent) (map[dispatch.JobID]bool, error) {
	there := map[dispatch.JobID]bool{}
	var ids []any
	for _, e := range events {
		if _, listed := there[e.Job]; !listed {
			there[e.Job], ids = false, append(ids, int64(e.Job))
		}
	}
	for some := range slices.Chunk(ids, rowsAtOnce) {
		list := strings.TrimPrefix(q.rows(0, 1, len(some)), ", ")
		rows, err := q.QueryContext(ctx, "SELECT id FROM jobs WHERE id IN ("+list+")", some...)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var id dispatch.JobID
			if err := rows.Scan(&id); err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			there[id] = true
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// Events returns what happened to a job.
func (s *Store) Events(ctx context.Context, id dispatch.JobID, n int) (events []dispatch.JobEvent, err error) {
	err = s.readOnly(ctx, s.read, "Events", func(q tx, _ int64) error {
		rows, err := q.ListEvents(ctx, int64(id), int64(n))
		for _, r := range rows {
			events = append(events, dispatch.JobEvent{Job: dispatch.JobID(r.Job), At: at(r.At), What: r.What, Phase: dispatch.Phase(r.Phase), Status: dispatch.Status(r.Status),
				Attention: dispatch.Attention(r.Attention), Attempt: int(r.Attempt), Outcome: r.Outcome, Took: span(r.Took), Detail: r.Detail})
		}
		return err
	})
	return events, err
}

// eventsAtOnce is how many events one transaction deletes.
const eventsAtOnce = 500

// PurgeEvents deletes events that are older than keep, in many small transactions.
func (s *Store) PurgeEvents(ctx context.Context, keep time.Duration) error {
	for ctx.Err() == nil {
		var last int64
		err := s.in(ctx, s.write, "PurgeEvents", func(q tx, now int64) (err error) {
			if last, err = q.EventsBefore(ctx, now-keep.Microseconds(), eventsAtOnce); err == nil && last > 0 {
				_, err = q.PurgeEvents(ctx, last)
			}
			return err
		})
		if err != nil || last == 0 {
			return err
		}
	}
	return ctx.Err()
}
