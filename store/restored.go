package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// MarkRestored marks the database as restored from a backup. It ends all sessions of browsers, because users may have signed out since the
// backup.
func (s *Store) MarkRestored(ctx context.Context, r dispatch.Restored) (accounts int, err error) {
	var paused []dispatch.TaskID
	err = s.in(ctx, s.write, "MarkRestored", func(q tx, now int64) error {
		if err := q.SkipIDs(ctx, dispatch.SkippedIDs); err != nil {
			return err
		}
		if err := q.EndAllSessions(ctx); err != nil {
			return err
		}
		if err := q.EndRetries(ctx); err != nil {
			return err
		}
		if paused, err = pauseSpread(ctx, q, now); err != nil {
			return err
		}
		n, err := q.MarkRestored(ctx, int64(r), now)
		accounts = int(n)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.finishAll(ctx, paused)
	for _, b := range s.ids { // previously reserved ids are not used any more
		b.forget()
	}
	return accounts, nil
}

// forget drops the remaining reserved ids.
func (b *block) forget() {
	b.Lock()
	defer b.Unlock()
	b.next, b.last = 0, 0
}

// ClearRestored removes the mark of an account whose jobs were compared with the platform's list.
func (s *Store) ClearRestored(ctx context.Context, a dispatch.Account, found []dispatch.Unrecognized) error {
	return s.in(ctx, s.visit, "ClearRestored", func(q tx, now int64) error {
		for _, u := range found {
			if err := q.KeepUnrecognized(ctx, query.KeepUnrecognizedParams{Account: a, RefBase: storableText(u.Ref.Base), RefID: storableText(u.Ref.ID), Tag: storableText(u.Tag),
				Status: u.Status, Found: now}); err != nil {
				return err
			}
		}
		if err := q.DoubtCreated(ctx, now, a); err != nil {
			return err
		}
		return q.EndRestored(ctx, now, a)
	})
}

// Unrecognized returns all platform jobs that the comparisons did not recognize.
func (s *Store) Unrecognized(ctx context.Context) ([]dispatch.Unrecognized, error) {
	rows, err := s.queries(s.read).ListUnrecognized(ctx)
	if err != nil {
		return nil, fail("Unrecognized", err)
	}
	all := make([]dispatch.Unrecognized, len(rows))
	for i, r := range rows {
		all[i] = dispatch.Unrecognized{Account: r.Account, Ref: dispatch.Ref{Base: r.RefBase, ID: r.RefID}, Tag: r.Tag, Status: r.Status, Found: at(r.Found)}
	}
	slices.SortFunc(all, func(a, b dispatch.Unrecognized) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Ref.Base, b.Ref.Base), cmp.Compare(a.Ref.ID, b.Ref.ID))
	})
	return all, nil
}
