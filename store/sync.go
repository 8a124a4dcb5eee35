package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// BeginSyncRun stores a synchronous run if its owner may have one more.
func (s *Store) BeginSyncRun(ctx context.Context, r *dispatch.SyncRun, lapse time.Duration, within ...dispatch.Quota) error {
	request, err := encode(r.Request)
	if err != nil || !storable(request) || !storable(string(r.Owner)) || !storable(string(r.Account)) {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "store.BeginSyncRun", Text: "A text is not valid UTF-8, or holds a NUL character.", Err: err}
	}
	return s.withNewIDs(ctx, func() error { return s.beginSyncRun(ctx, r, request, lapse, within) })
}

func (s *Store) beginSyncRun(ctx context.Context, r *dispatch.SyncRun, request string, lapse time.Duration, within []dispatch.Quota) error {
	id, err := s.take(ctx, "job", 1)
	if err != nil {
		return fail("BeginSyncRun", err)
	}
	return s.in(ctx, s.write, "BeginSyncRun", func(q tx, now int64) error {
		notice, err := q.GetOperatorNotice(ctx, string(r.Account), r.Account.Platform())
		if err == nil {
			err = dispatch.RefuseHeld(notice)
		}
		if err != nil {
			return err
		}
		if err := s.admit(ctx, q, r.Owner, 1, int64(len(request)), within, now); err != nil {
			return err
		}
		r.ID, r.Created = dispatch.JobID(id), at(now)
		return q.BeginSyncRun(ctx, query.BeginSyncRunParams{ID: r.ID, Owner: r.Owner, Account: r.Account, Request: request, Status: r.Status,
			Lapses: now + lapse.Microseconds(), Created: now})
	})
}

// RenewSyncRun extends the time until a run counts as abandoned.
func (s *Store) RenewSyncRun(ctx context.Context, id dispatch.JobID, lapse time.Duration) error {
	return s.in(ctx, s.write, "RenewSyncRun", func(q tx, now int64) error {
		rows, err := q.RenewSyncRun(ctx, now+lapse.Microseconds(), id)
		return changed("RenewSyncRun", rows, err)
	})
}

// EndSyncRun stores how a run ended.
func (s *Store) EndSyncRun(ctx context.Context, r dispatch.SyncRun) error {
	return s.in(ctx, s.write, "EndSyncRun", func(q tx, now int64) error {
		return q.EndSyncRun(ctx, query.EndSyncRunParams{ID: r.ID, Status: r.Status, RefBase: storableText(r.Ref.Base), RefID: storableText(r.Ref.ID),
			Failure: storableText(r.Failure), Now: now})
	})
}

// SyncRuns returns the owner's synchronous runs, newest first.
func (s *Store) SyncRuns(ctx context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.SyncRun, error) {
	now, err := s.now(ctx, s.read)
	if err != nil {
		return nil, fail("SyncRuns", err)
	}
	created, before := from(p.After)
	rows, err := s.queries(s.read).ListSyncRuns(ctx, query.ListSyncRunsParams{Now: now, Owner: u, Created: created, Before: before,
		Since: micros(p.Since), Statuses: joinList(p.Statuses), OfAccounts: joinList(p.Accounts), N: most(p.Limit)})
	runs := make([]dispatch.SyncRun, len(rows))
	for i, row := range rows {
		runs[i] = dispatch.SyncRun{ID: row.ID, Owner: row.Owner, Account: row.Account, Status: dispatch.Status(row.Status),
			Ref: dispatch.Ref{Base: row.RefBase, ID: row.RefID}, Failure: row.Failure, Created: at(row.Created), Ended: at(row.Ended)}
		if err == nil {
			err = json.Unmarshal([]byte(row.Request), &runs[i].Request)
		}
	}
	return runs, fail("SyncRuns", err)
}

// withSyncRuns adds an owner's synchronous runs to the usage of each account.
func (s *Store) withSyncRuns(ctx context.Context, usage []dispatch.Usage, u dispatch.UserID, now, since int64) ([]dispatch.Usage, error) {
	rows, err := s.queries(s.read).ListSyncUsage(ctx, now, since, u)
	for _, r := range rows {
		i := slices.IndexFunc(usage, func(use dispatch.Usage) bool { return use.Account == r.Account })
		if i < 0 {
			i, usage = len(usage), append(usage, dispatch.Usage{Account: r.Account})
		}
		usage[i].Live += int(r.Live)
		usage[i].Lately += int(r.Lately)
		usage[i].Jobs += int(r.Runs)
	}
	slices.SortFunc(usage, func(a, b dispatch.Usage) int { return cmp.Compare(a.Account, b.Account) }) // databases differ in their collation
	return usage, err
}
