package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// MarkRestored marks the database as restored from a backup. It ends all sessions of browsers, because users may have
// signed out since the backup, and deletes unstarted jobs, because users may have started them.
func (s *Store) MarkRestored(ctx context.Context, r dispatch.Restored) (accounts int, err error) {
	n, err := result(ctx, s.in, s.write, "MarkRestored", func(q tx, now int64) (int64, error) {
		err := runEach(ctx, q, []command{
			{"UPDATE ids SET last = last + $1", []any{dispatch.SkippedIDs}},
			{"DELETE FROM sessions", nil},
			{"DELETE FROM unstarted", nil},
			// A later attempt of these jobs may have been submitted since the state that was restored.
			{"UPDATE jobs SET retries = retried WHERE phase <> 'ended' AND retries > retried", nil},
		})
		if err != nil {
			return 0, err
		}
		if err := pauseSpread(ctx, q, now); err != nil {
			return 0, err
		}
		if err := renewNumbers(ctx, q); err != nil {
			return 0, err
		}
		return exec(ctx, q, `
			UPDATE accounts
			SET restored = $1, wakes = wakes + 1, due = $2, hold = 0
			WHERE EXISTS (SELECT 1 FROM owner_counts c WHERE c.account = accounts.id AND c.jobs > 0)`, r, now)
	})
	if err != nil {
		return 0, err
	}
	for _, b := range s.ids { // previously reserved ids are not used any more
		b.forget()
	}
	return int(n), nil
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
			err := run(ctx, q, `
				INSERT INTO unrecognized (account, ref_base, ref_id, tag, status, found)
				VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (account, ref_base, ref_id) DO UPDATE
				SET tag = excluded.tag, status = excluded.status, found = excluded.found`,
				a, storableText(u.Ref.Base), storableText(u.Ref.ID), storableText(u.Tag), u.Status, now)
			if err != nil {
				return err
			}
		}
		var w where
		w.and("jobs.account = " + w.arg(string(a)) + " AND jobs.step IN ('start', 'cancel') AND jobs.phase = 'created'")
		_, err := changeJobs(ctx, q, w, func(j stored) (dispatch.Job, bool) { return j.DoubtStart(at(now)) })
		if err != nil {
			return err
		}
		return run(ctx, q, `
			UPDATE accounts
			SET restored = 0, hold = 0, hold_attention = '', hold_notice = '', wakes = wakes + 1, due = $1
			WHERE id = $2`, now, a)
	})
}

// Unrecognized returns all platform jobs that the comparisons did not recognize.
func (s *Store) Unrecognized(ctx context.Context) ([]dispatch.Unrecognized, error) {
	all, err := list(ctx, s.on(s.read), func(u *dispatch.Unrecognized) []any {
		return []any{text(&u.Account), &u.Ref.Base, &u.Ref.ID, &u.Tag, text(&u.Status), instant(&u.Found)}
	}, "SELECT account, ref_base, ref_id, tag, status, found FROM unrecognized ORDER BY account, ref_base, ref_id")
	return all, fail("Unrecognized", err)
}
