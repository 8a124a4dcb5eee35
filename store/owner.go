package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// Record gives a job to its owner.
func (s *Store) Record(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	r, err := s.Refused(ctx, u, id)
	if err == nil && r.Hidden {
		return dispatch.Record{}, fail("Record", sql.ErrNoRows)
	}
	return r, err
}

// Refused gives a job of the owner even if it is hidden.
func (s *Store) Refused(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	row, err := s.queries(s.read).GetRecord(ctx, id, u)
	if err != nil {
		return dispatch.Record{}, fail("Record", err)
	}
	now, err := s.now(ctx, s.read)
	if err != nil {
		return dispatch.Record{}, fail("Record", err)
	}
	r, err := recordOf(row, now)
	return r, fail("Record", err)
}

// recordOf shows on a waiting job why its account submits nothing.
func recordOf(row query.GetRecordRow, now int64) (dispatch.Record, error) {
	j, err := jobOf(row.Job)
	if err != nil {
		return dispatch.Record{}, err
	}
	if j.Phase == dispatch.Waiting && row.Hold > now {
		j.Attention, j.Notice = row.HoldAttention, row.HoldNotice
	}
	request, err := requestOf(j, row.Body, row.Shared, row.Dimension)
	return dispatch.Record{Job: j, Request: request}, err
}

// Records gives the owner's jobs that belong to no task, newest first.
func (s *Store) Records(ctx context.Context, u dispatch.UserID) ([]dispatch.Record, error) {
	rows, err := s.queries(s.read).ListRecords(ctx, u)
	if err != nil {
		return nil, fail("Records", err)
	}
	now, err := s.now(ctx, s.read)
	if err != nil {
		return nil, fail("Records", err)
	}
	records := make([]dispatch.Record, len(rows))
	for i, row := range rows {
		records[i], err = recordOf(query.GetRecordRow{Job: row.Job, Body: row.Body, Hold: row.Hold,
			HoldAttention: row.HoldAttention, HoldNotice: row.HoldNotice}, now)
		if err != nil {
			return nil, fail("Records", err)
		}
	}
	return records, nil
}

// Result gives the STAC Collection that was kept with a job; nil if there is none.
func (s *Store) Result(ctx context.Context, u dispatch.UserID, id dispatch.JobID) ([]byte, error) {
	body, err := s.queries(s.read).GetResult(ctx, id, u)
	if err != nil || body == "" {
		return nil, fail("Result", err)
	}
	return []byte(body), nil
}

// Cancel notes that the owner wants the job no more, and wakes.
func (s *Store) Cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID, hide bool) (j dispatch.Job, err error) {
	err = s.in(ctx, s.write, "Cancel", func(q tx, now int64) error {
		row, err := q.CancelJob(ctx, now, id, u)
		canceled := err == nil
		if errors.Is(err, sql.ErrNoRows) { // canceled already, ended, or not there
			row, err = q.GetOwned(ctx, id, u)
		}
		if err == nil && hide {
			row, err = q.HideJob(ctx, id, u)
		}
		if err != nil {
			return err
		}
		if j, err = jobOf(row); err != nil || !canceled {
			return err
		}
		return q.Wake(ctx, j.Account, now)
	})
	return j, err
}

// Await makes those statuses due that were told longer ago than fresh, and wakes their accounts.
func (s *Store) Await(ctx context.Context, u dispatch.UserID, id dispatch.JobID, fresh, gap time.Duration) (accounts []dispatch.Account, err error) {
	err = s.in(ctx, s.write, "Await", func(q tx, now int64) error {
		p := query.AwaitJobParams{Now: now, Gap: gap.Microseconds(), ID: id, Owner: u, Stale: now - fresh.Microseconds()}
		if id == 0 {
			accounts, err = q.AwaitAll(ctx, query.AwaitAllParams{Now: p.Now, Gap: p.Gap, Owner: p.Owner, Stale: p.Stale})
		} else {
			accounts, err = q.AwaitJob(ctx, p)
		}
		slices.Sort(accounts)
		accounts = slices.Compact(accounts)
		for _, a := range accounts {
			err = errors.Join(err, q.Wake(ctx, a, now))
		}
		return err
	})
	return accounts, err
}
