package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// Record returns a job of its owner.
func (s *Store) Record(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	r, err := s.RecordIncludingHidden(ctx, u, id)
	if err == nil && r.Hidden {
		return dispatch.Record{}, fail("Record", sql.ErrNoRows)
	}
	return r, err
}

// RecordIncludingHidden returns a job of its owner even if the job is hidden.
func (s *Store) RecordIncludingHidden(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
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

func recordOf(row query.GetRecordRow, now int64) (dispatch.Record, error) {
	j, err := jobOf(row.Job)
	if err != nil {
		return dispatch.Record{}, err
	}
	request, err := requestOf(j, row.Body, row.Shared, row.Dimension)
	j = redefined(showHold(j, row.Hold, row.HoldAttention, row.HoldNotice, now), row.Changed)
	return dispatch.Record{Job: j, Request: request, Pruned: row.Job.Pruned, Read: at(now)}, err
}

// showHold sets the attention of the account on a job that was not started and is not paused, if the account currently submits nothing.
func showHold(j dispatch.Job, hold int64, why dispatch.Attention, notice string, now int64) dispatch.Job {
	if j.Phase.Inert() && hold > now && j.Attention != dispatch.Paused {
		j.Attention, j.Notice = why, notice
	}
	return j
}

// Records returns the owner's jobs that belong to no task, by creation.
func (s *Store) Records(ctx context.Context, u dispatch.UserID, p dispatch.Page) (records []dispatch.Record, err error) {
	read := s.readOnly
	if len(p.Statuses)+len(p.Accounts) > 0 { // several statements, between which a job must not leave one part of the list for another
		read = s.inSnapshot
	}
	err = read(allow(ctx, listWithin), s.read, "Records", func(q tx, now int64) error {
		records, err = listRecords(ctx, q, u, p, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// listedOf returns a job of a page. most is the number of bytes of a request that the page reads.
func listedOf(row *query.ListRecordsRow, most int, now int64) (dispatch.Record, error) {
	if most == 0 || row.Size <= int64(most) {
		r, err := recordOf(query.GetRecordRow{Job: row.Job, Body: row.Body, Hold: row.Hold,
			HoldAttention: row.HoldAttention, HoldNotice: row.HoldNotice, Changed: row.Changed}, now)
		if most != 0 {
			r.Size = int(row.Size)
		}
		return r, err
	}
	j, err := jobOf(row.Job)
	j = redefined(showHold(j, row.Hold, row.HoldAttention, row.HoldNotice, now), row.Changed)
	return dispatch.Record{Job: j, Request: dispatch.ParseRequestHead(row.Body), Read: at(now), Size: int(row.Size), Cut: true}, err
}

// from returns where a list ordered newest first continues after a place.
func from(p dispatch.Place) (created, before int64) {
	if p == (dispatch.Place{}) {
		return math.MaxInt64, math.MaxInt64
	}
	return micros(p.Created), p.ID
}

// beginOf returns where a page begins of a list that is ordered by creation.
func beginOf(p dispatch.Page) (created, id int64) {
	if p.Oldest && p.After == (dispatch.Place{}) {
		return math.MinInt64, math.MinInt64
	}
	return from(p.After)
}

// most returns the LIMIT of a query.
func most(limit int) int64 {
	if limit == 0 {
		return math.MaxInt64
	}
	return int64(limit)
}

// joinList joins texts in the form in which queries take a list.
func joinList[T ~string](texts []T) string {
	var b strings.Builder
	for _, t := range texts {
		b.WriteString("|" + string(t) + "|")
	}
	return b.String()
}

// Result returns the STAC Collection stored with a job; nil if there is none.
func (s *Store) Result(ctx context.Context, u dispatch.UserID, id dispatch.JobID) ([]byte, error) {
	body, err := s.queries(s.read).GetResult(ctx, id, u)
	if err != nil || body == "" {
		return nil, fail("Result", err)
	}
	return []byte(body), nil
}

// Cancel stores that the owner no longer wants the job, and wakes its account.
func (s *Store) Cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID, hide bool) (j dispatch.Job, err error) {
	err = s.in(ctx, s.write, "Cancel", func(q tx, now int64) error {
		row, err := cancelJob(ctx, q, u, id, now)
		canceled := err == nil
		if errors.Is(err, sql.ErrNoRows) { // canceled already, ended, or not found
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

// cancelJob cancels a job of its owner; sql.ErrNoRows if there is nothing to cancel.
func cancelJob(ctx context.Context, q tx, u dispatch.UserID, id dispatch.JobID, now int64) (query.Job, error) {
	return q.CancelJob(ctx, query.CancelJobParams{Margin: dispatch.SettleMargin.Microseconds(), Now: now, ID: id, Owner: u})
}

// MarkAwaited makes the owner's statuses that are older than fresh due now, and plans the others for when they will be. Repeated
// reads are at least gap apart.
func (s *Store) MarkAwaited(ctx context.Context, u dispatch.UserID, scope dispatch.Scope, fresh, gap time.Duration) (woken []dispatch.Account, err error) {
	if live, err := s.anyLive(ctx, u); err != nil || !live {
		return nil, err
	}
	err = s.in(ctx, s.write, "MarkAwaited", func(q tx, now int64) error {
		p := query.AwaitAllParams{Now: now, Gap: gap.Microseconds(), Owner: u, Stale: now - fresh.Microseconds(), Fresh: max(fresh, gap).Microseconds(),
			Alone: scope.Alone, Tasks: scope.Tasks, Task: int64(scope.Task)}
		rows, err := awaited(ctx, q, scope.Job, p)
		if err != nil {
			return err
		}
		woken, err = wakeToRead(ctx, q, rows, now)
		return err
	})
	return woken, err
}

// anyLive reports whether a job of the owner has not ended. It spares readers of ended jobs the wait for a writer.
func (s *Store) anyLive(ctx context.Context, u dispatch.UserID) (bool, error) {
	rows, err := s.queries(s.read).ListUsage(ctx, u)
	return slices.ContainsFunc(rows, func(r query.ListUsageRow) bool { return r.Live > 0 }), fail("MarkAwaited", err)
}

func awaited(ctx context.Context, q tx, id dispatch.JobID, p query.AwaitAllParams) (rows []query.AwaitAllRow, err error) {
	if id == 0 {
		return q.AwaitAll(ctx, p)
	}
	one, err := q.AwaitJob(ctx, query.AwaitJobParams{Now: p.Now, Gap: p.Gap, ID: id, Owner: p.Owner, Stale: p.Stale, Fresh: p.Fresh})
	for _, r := range one {
		rows = append(rows, query.AwaitAllRow(r))
	}
	return rows, err
}

// turnSoon: an account whose booked send time comes within this time is not woken.
const turnSoon = time.Minute

// wakeToRead wakes the accounts of awaited jobs, plans visits for those that become due later, and returns the accounts that it
// woke.
func wakeToRead(ctx context.Context, q tx, rows []query.AwaitAllRow, now int64) (woken []dispatch.Account, err error) {
	due := map[dispatch.Account]int64{} // 0: due now
	for _, r := range rows {
		if r.Awaited {
			r.Due = 0
		}
		if first, known := due[r.Account]; !known || r.Due < first {
			due[r.Account] = r.Due
		}
	}
	for _, a := range slices.Sorted(maps.Keys(due)) {
		if due[a] > 0 {
			err = errors.Join(err, q.PlanVisit(ctx, due[a], a, now))
			continue
		}
		n, failed := q.WakeToRead(ctx, now, a, now+turnSoon.Microseconds())
		if err = errors.Join(err, failed); n > 0 {
			woken = append(woken, a)
		}
	}
	return woken, err
}

// AnyAwaited reports whether a newer status is being read for any started job.
func (s *Store) AnyAwaited(ctx context.Context, u dispatch.UserID, scope dispatch.Scope) (bool, error) {
	n, err := s.queries(s.read).CountAwaited(ctx, query.CountAwaitedParams{Owner: u, ID: scope.Job, Alone: scope.Alone, Tasks: scope.Tasks, Task: int64(scope.Task)})
	return n > 0, fail("AnyAwaited", err)
}

// FinishedRuns returns the owner's latest finished jobs of a service at an account.
func (s *Store) FinishedRuns(ctx context.Context, u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash, n int) ([]dispatch.FinishedRun, error) {
	runs, err := finishedRuns(ctx, s.queries(s.read), u, a, service, n)
	return runs, fail("FinishedRuns", err)
}

func finishedRuns(ctx context.Context, q *query.Queries, u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash, n int) ([]dispatch.FinishedRun, error) {
	rows, err := q.ListFinishedRuns(ctx, query.ListFinishedRunsParams{Owner: u, Account: a, Service: service, N: int64(n)})
	var runs []dispatch.FinishedRun
	for _, r := range rows {
		runs = append(runs, dispatch.FinishedRun{Costs: r.Costs, Unit: r.Unit, Duration: span(r.Duration), Task: r.Task, SendBy: at(r.SendBy), Ended: at(r.Moved)})
	}
	return runs, err
}

// FinishedRunsOfTask returns the latest finished jobs of a task.
func (s *Store) FinishedRunsOfTask(ctx context.Context, id dispatch.TaskID, n int) ([]dispatch.FinishedRun, error) {
	rows, err := s.queries(s.read).ListRunsOfTask(ctx, int64(id), int64(n))
	var runs []dispatch.FinishedRun
	for _, r := range rows {
		runs = append(runs, dispatch.FinishedRun{Costs: r.Costs, Unit: r.Unit, Duration: span(r.Duration), Task: r.Task, SendBy: at(r.SendBy), Ended: at(r.Moved)})
	}
	return runs, fail("FinishedRunsOfTask", err)
}

// FinishedRequests returns the owner's latest finished jobs of a service at an account, with their requests.
func (s *Store) FinishedRequests(ctx context.Context, u dispatch.UserID, a dispatch.Account, service dispatch.ServiceHash, n int) (runs []dispatch.FinishedRun, err error) {
	rows, err := s.queries(s.read).ListFinishedRequests(ctx, query.ListFinishedRequestsParams{Owner: u, Account: a, Service: service, Most: dispatch.PartMost, N: int64(n)})
	for _, r := range rows {
		runs = append(runs, dispatch.FinishedRun{Costs: r.Costs, Unit: r.Unit, Duration: span(r.Duration), Task: r.Task, SendBy: at(r.SendBy), Ended: at(r.Moved),
			Body: json.RawMessage(r.Body)})
	}
	return runs, fail("FinishedRequests", err)
}

// Underway returns when the jobs of a task that are at their platform were submitted.
func (s *Store) Underway(ctx context.Context, id dispatch.TaskID) ([]time.Time, error) {
	rows, err := s.queries(s.read).ListUnderway(ctx, int64(id))
	var all []time.Time
	for _, sendBy := range rows {
		all = append(all, at(sendBy))
	}
	return all, fail("Underway", err)
}

// Usage counts the owner's jobs at each account.
func (s *Store) Usage(ctx context.Context, u dispatch.UserID, d time.Duration) ([]dispatch.Usage, error) {
	now, err := s.now(ctx, s.read)
	if err != nil {
		return nil, fail("Usage", err)
	}
	q := s.queries(s.read)
	rows, err := q.ListUsage(ctx, u)
	usage := make([]dispatch.Usage, len(rows))
	for i, r := range rows {
		usage[i] = dispatch.Usage{Account: r.Account, Live: int(r.Live), Jobs: int(r.Jobs)}
		if r.Priced > 0 {
			costs := rounded(r.Costs)
			usage[i].Costs = &costs
		}
		if err == nil {
			var has query.CountOwnedRow
			has, err = q.CountOwned(ctx, owned(u, r.Account, now-d.Microseconds()))
			usage[i].Lately = int(has.Lately)
		}
	}
	if err == nil {
		usage, err = withLedger(ctx, q, usage, u)
	}
	if err == nil {
		usage, err = s.withSyncRuns(ctx, usage, u, now, now-d.Microseconds())
	}
	return usage, fail("Usage", err)
}
