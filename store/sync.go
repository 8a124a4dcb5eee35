package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// BeginSyncRun stores a synchronous run if its owner may have one more.
func (s *Store) BeginSyncRun(
	ctx context.Context, r *dispatch.SyncRun, lapse time.Duration, within ...dispatch.Quota,
) error {
	request, err := encode(r.Request)
	if err == nil {
		err = allStorable("BeginSyncRun", request, string(r.Owner), string(r.Account))
	}
	if err != nil {
		return fail("BeginSyncRun", err)
	}
	return s.withNewIDs(ctx, func() error { return s.beginSyncRun(ctx, r, request, lapse, within) })
}

func (s *Store) beginSyncRun(
	ctx context.Context, r *dispatch.SyncRun, request string, lapse time.Duration, within []dispatch.Quota,
) error {
	id, err := s.take(ctx, "job", 1)
	if err != nil {
		return fail("BeginSyncRun", err)
	}
	return s.in(ctx, s.write, "BeginSyncRun", func(q tx, now int64) error {
		notice, err := value[string](ctx, q, `
			SELECT COALESCE(max(notice), '')
			FROM operator_holds
			WHERE scope = $1 OR scope = $2`,
			r.Account, r.Account.Platform())
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
		_, err = q.ExecContext(ctx, `
			INSERT INTO sync_runs (id, owner, account, request, status, lapses, created)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			r.ID, r.Owner, r.Account, request, r.Status, now+lapse.Microseconds(), now)
		q.numbers.owner(r.Owner)
		return err
	})
}

// RenewSyncRun extends the time until a run counts as abandoned.
func (s *Store) RenewSyncRun(ctx context.Context, id dispatch.JobID, lapse time.Duration) error {
	return s.in(ctx, s.write, "RenewSyncRun", func(q tx, now int64) error {
		return changed("RenewSyncRun", runFound(ctx, q, `
			UPDATE sync_runs
			SET lapses = $2
			WHERE id = $1 AND ended = 0`,
			id, now+lapse.Microseconds()))
	})
}

// ClaimRef stores the job that a platform created for a run, if no other has it.
func (s *Store) ClaimRef(ctx context.Context, id dispatch.JobID, r dispatch.Ref) error {
	base, ref := storableText(r.Base), storableText(r.ID)
	return s.in(ctx, s.write, "ClaimRef", func(q tx, _ int64) error {
		owner, err := value[dispatch.UserID](ctx, q, `
			UPDATE sync_runs
			SET ref_base = $2, ref_id = $3
			WHERE id = $1 AND ended = 0 AND NOT EXISTS (
				SELECT 1
				FROM jobs j
				WHERE j.account = sync_runs.account AND j.ref_id = $3 AND j.ref_id <> '' AND j.ref_base = $2)
			RETURNING owner`,
			id, base, ref)
		if isHeldRef(err) || errors.Is(err, sql.ErrNoRows) {
			return conflict("ClaimRef")
		}
		q.numbers.owner(owner)
		return err
	})
}

// EndSyncRun stores how a run ended.
func (s *Store) EndSyncRun(ctx context.Context, r dispatch.SyncRun) error {
	return s.in(ctx, s.write, "EndSyncRun", func(q tx, now int64) error {
		owner, err := value[dispatch.UserID](ctx, q, `
			UPDATE sync_runs
			SET status = $2, failure = $3, ended = $4
			WHERE id = $1 AND ended = 0
			RETURNING owner`,
			r.ID, r.Status, storableText(r.Failure), now)
		if err == nil {
			q.numbers.owner(owner)
		}
		return missing(err)
	})
}

// SyncRuns returns the owner's synchronous runs, newest first. A run whose process was lost counts as ended when it
// lapsed.
func (s *Store) SyncRuns(ctx context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.SyncRun, error) {
	now, err := s.now(ctx, s.read)
	if err != nil {
		return nil, fail("SyncRuns", err)
	}
	w := where{args: []any{u, now}}
	descending.follows(&w, p.After, "created", "id")
	mine := w.String()
	w.conditions = nil
	w.and("CASE WHEN ended = 0 THEN created ELSE ended END > " + w.arg(micros(p.Since)))
	anyOf(s.on(s.read), &w, "status", p.Statuses)
	anyOf(s.on(s.read), &w, "account", p.Accounts)
	runs, err := list(ctx, s.on(s.read), syncRunPlaces, `
		SELECT id, owner, account, status, ref_base, ref_id, failure, created, ended, request
		FROM (
			SELECT id, owner, account, request, ref_base, ref_id, failure, created,
				CASE WHEN ended = 0 AND lapses <= $2 THEN 'unknown' ELSE status END AS status,
				CASE WHEN ended = 0 AND lapses <= $2 THEN lapses ELSE ended END AS ended
			FROM sync_runs
			WHERE owner = $1 AND `+mine+`) AS runs
		WHERE `+w.String()+`
		ORDER BY `+descending.by("created", "id")+`
		LIMIT CAST(`+w.arg(most(p.Limit))+` AS BIGINT)`,
		w.args...)
	return runs, fail("SyncRuns", err)
}

// syncRunPlaces returns where the columns of a synchronous run are scanned to.
func syncRunPlaces(r *dispatch.SyncRun) []any {
	return []any{number(&r.ID), text(&r.Owner), text(&r.Account), text(&r.Status), &r.Ref.Base, &r.Ref.ID,
		&r.Failure, instant(&r.Created), instant(&r.Ended), encodedIn[dispatch.Request]{&r.Request}}
}
