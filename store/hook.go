package store

import (
	"context"
	"fmt"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const noHook = "You have no such hook."

const hookColumns = `hooks.id, hooks.owner, hooks.kind, hooks.job, hooks.task, hooks.url, hooks.statuses, hooks.gone,
	hooks.failures, hooks.hold, hooks.created, hooks.key, hooks.sealed`

// hookPlaces returns where hookColumns are scanned to.
func hookPlaces(h *dispatch.Hook) []any {
	return []any{&h.ID, text(&h.Owner), text(&h.Kind), number(&h.Job), number(&h.Task), &h.URL,
		encodedIn[[]dispatch.Status]{&h.Statuses}, &h.Gone, number(&h.Failures), instant(&h.Hold), instant(&h.Created),
		&h.Key, &h.Text}
}

// listHooks returns the rows of a query of hookColumns.
func listHooks(ctx context.Context, q querier, text string, args ...any) ([]dispatch.Hook, error) {
	return list(ctx, q, hookPlaces, text, args...)
}

const deliveryColumns = `hook, job, task, epoch, status, number, happened, queued, due, state, tries, tried, answer,
	notice`

func deliveryPlaces(d *dispatch.Delivery) []any {
	return []any{&d.Hook, number(&d.Job), number(&d.Task), number(&d.Epoch), text(&d.Status), number(&d.Number),
		instant(&d.Happened), instant(&d.Queued), instant(&d.Due), text(&d.State), number(&d.Tries), instant(&d.Tried),
		number(&d.Answer), &d.Notice}
}

func delivered(d *dispatch.Delivery) (dispatch.Delivery, error) {
	d.Of = 0
	if d.Job == 0 { // it happened to its task
		d.Of = d.Task
	}
	return *d, nil
}

// AddHook stores a new hook, unless its owner has too many.
func (s *Store) AddHook(ctx context.Context, h dispatch.Hook, most int) error {
	return s.in(ctx, s.write, "AddHook", func(q tx, now int64) error {
		if err := s.lockInTransaction(ctx, q, "hooks of "+string(h.Owner)); err != nil {
			return err
		}
		n, err := exec(ctx, q, `
			INSERT INTO hooks (id, owner, kind, url, statuses, key, sealed, created)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8
			WHERE (SELECT count(*) FROM hooks h WHERE h.owner = $2 AND h.job = 0 AND h.task = 0) < $9`,
			h.ID, h.Owner, h.Kind, h.URL, encoded(h.Statuses, isEmpty), h.Key, h.Text, now, most)
		if err == nil && n == 0 {
			return &dispatch.Error{Kind: dispatch.LimitReached, Op: "store.AddHook", RetryAfter: time.Hour,
				Text: "You have too many hooks. Delete one first."}
		}
		return err
	})
}

// Hook returns a hook of a user.
func (s *Store) Hook(ctx context.Context, u dispatch.UserID, id string) (dispatch.Hook, error) {
	h, err := one(ctx, s.on(s.read), hookPlaces, `
		SELECT `+hookColumns+`
		FROM hooks
		WHERE id = $1 AND owner = $2`, id, u)
	return h, noSuch("Hook", noHook, err)
}

// Hooks returns the hooks of a job, of a task, or of all jobs of a user.
func (s *Store) Hooks(
	ctx context.Context, u dispatch.UserID, job dispatch.JobID, task dispatch.TaskID,
) ([]dispatch.Hook, error) {
	hooks, err := listHooks(ctx, s.on(s.read), `
		SELECT `+hookColumns+`
		FROM hooks
		WHERE owner = $1 AND job = $2 AND task = $3
		ORDER BY created, id`, u, job, task)
	return hooks, fail("Hooks", err)
}

// DeleteHook deletes a hook. Its deliveries that a process has claimed may still be sent.
func (s *Store) DeleteHook(ctx context.Context, u dispatch.UserID, id string) error {
	return s.in(ctx, s.write, "DeleteHook", func(q tx, _ int64) error {
		if err := runFound(ctx, q, "DELETE FROM hooks WHERE id = $1 AND owner = $2", id, u); err != nil {
			return noSuch("DeleteHook", noHook, err)
		}
		return run(ctx, q, "DELETE FROM deliveries WHERE hook = $1", id)
	})
}

// Deliveries returns the last deliveries of a hook.
func (s *Store) Deliveries(ctx context.Context, u dispatch.UserID, id string, n int) ([]dispatch.Delivery, error) {
	if _, err := s.Hook(ctx, u, id); err != nil {
		return nil, err
	}
	deliveries, err := listAs(ctx, s.on(s.read), deliveryPlaces, delivered, `
		SELECT `+deliveryColumns+`
		FROM deliveries
		WHERE hook = $1
		ORDER BY happened DESC, job DESC, task DESC, epoch DESC
		LIMIT CAST($2 AS BIGINT)`, id, n)
	return deliveries, fail("Deliveries", err)
}

// TestHook adds a test delivery to a hook, unless it had many lately. release has locked the hook, so that no other
// process counts meanwhile.
func (s *Store) TestHook(ctx context.Context, u dispatch.UserID, id string) error {
	return s.release(ctx, "TestHook", u, id, func(q tx, now int64) error {
		var tests int
		var last int64
		err := q.QueryRowContext(ctx, `
			SELECT count(*), COALESCE(max(epoch), 0)
			FROM deliveries
			WHERE hook = $1 AND job = 0 AND task = 0 AND status = 'test' AND epoch > $2`,
			id, now-dispatch.TestsWithin.Microseconds()).Scan(number(&tests), &last)
		if err != nil {
			return err
		}
		if tests >= dispatch.MostTests {
			return &dispatch.Error{Kind: dispatch.LimitReached, Op: "store.TestHook",
				RetryAfter: dispatch.TestsWithin / dispatch.MostTests, Text: fmt.Sprintf(
					"This hook was sent %d tests in the last %v. Wait before you send another.", tests,
					dispatch.TestsWithin)}
		}
		test := dispatch.Event{Epoch: int(max(now, last+1)), Status: "test"}
		return q.runAll(ctx, []command{addDelivery(dispatch.Delivery{Hook: id, Event: test}, now, now)})
	})
}

// SendAgain makes a stored delivery due.
func (s *Store) SendAgain(ctx context.Context, u dispatch.UserID, id string, e dispatch.Event) error {
	return s.release(ctx, "SendAgain", u, id, func(q tx, now int64) error {
		n, err := exec(ctx, q, `
			UPDATE deliveries
			SET state = 'waiting', due = $1, queued = $1
			WHERE hook = $2 AND job = $3 AND (job > 0 OR task = $4) AND epoch = $5 AND status = $6`,
			now, id, e.Job, e.Of, e.Epoch, e.Status)
		if err == nil && n == 0 {
			return &dispatch.Error{Kind: dispatch.NotFound, Op: "store.SendAgain",
				Text: "This hook has no such delivery."}
		}
		return err
	})
}

// release tries the receiver of a hook again, unless it was tried a moment ago: then its pause stays. It changes
// deliveries of the hook in the same transaction, for which it locks the hook.
func (s *Store) release(
	ctx context.Context, op string, u dispatch.UserID, id string, change func(q tx, now int64) error,
) error {
	return s.in(ctx, s.write, op, func(q tx, now int64) error {
		err := runFound(ctx, q, `
			UPDATE hooks
			SET gone = FALSE, hold = CASE WHEN ran <= $1 THEN 0 ELSE hold END
			WHERE id = $2 AND owner = $3`, now-dispatch.ReleasesEvery.Microseconds(), id, u)
		if err != nil {
			return noSuch(op, noHook, err)
		}
		return change(q, now)
	})
}

// DueHooks returns hooks with due deliveries: those first that were served longest ago, of each owner no more than
// each. It hops from hook to hook in the index of due deliveries: hooks for which nothing waits cost nothing.
func (s *Store) DueHooks(ctx context.Context, n, each int) ([]dispatch.Hook, error) {
	return result(ctx, s.readOnly, s.read, "DueHooks", func(q tx, now int64) ([]dispatch.Hook, error) {
		return listHooks(ctx, q, waitingHooks+`
			SELECT `+hookColumns+`
			FROM hooks JOIN (
				SELECT h.id, ROW_NUMBER() OVER (PARTITION BY h.owner ORDER BY h.ran, h.id) AS place
				FROM hop JOIN hooks h ON h.id = hop.hook
				WHERE NOT h.gone AND h.hold <= $1
					AND EXISTS (SELECT 1 FROM deliveries d WHERE d.hook = h.id AND d.due > 0 AND d.due <= $1)
			) ready ON ready.id = hooks.id
			WHERE ready.place <= $2
			ORDER BY hooks.ran, hooks.id
			LIMIT CAST($3 AS BIGINT)`, now, each, n)
	})
}

// waitingHooks begins queries of the hooks with deliveries that are not over; the last row is NULL.
const waitingHooks = `
	WITH RECURSIVE hop (hook) AS (
		SELECT (SELECT a.hook FROM deliveries a WHERE a.due > 0 ORDER BY a.hook LIMIT 1)
		UNION ALL
		SELECT (SELECT b.hook FROM deliveries b WHERE b.due > 0 AND b.hook > hop.hook ORDER BY b.hook LIMIT 1)
		FROM hop
		WHERE hop.hook IS NOT NULL
	)`

// ClaimDeliveries takes due deliveries of a hook. An event of a job waits until those before it are settled; due + 0
// has them found by the primary key, not among all that is due to the hook. due is compared again for the second of
// two processes that claim at once. Rows are taken in the order of the index, so that a claim reads no more than it
// takes. The end of a job for a subscriber, which is due a microsecond before it was queued, also waits for the first
// try to tell the job's inProgressUri.
func (s *Store) ClaimDeliveries(
	ctx context.Context, hook string, lease time.Duration, n int,
) ([]dispatch.Delivery, error) {
	return result(ctx, s.in, s.write, "ClaimDeliveries", func(q tx, now int64) ([]dispatch.Delivery, error) {
		return listAs(ctx, q, deliveryPlaces, delivered, `
			UPDATE deliveries
			SET due = $1, tries = tries + 1, tried = $2
			WHERE due + 0 > 0 AND due + 0 <= $2 AND (hook, job, task, epoch, status) IN (
				SELECT d.hook, d.job, d.task, d.epoch, d.status
				FROM deliveries d
				WHERE d.hook = $3 AND d.due > 0 AND d.due <= $2
					AND NOT EXISTS (
						SELECT 1 FROM deliveries e
						WHERE e.hook = d.hook AND e.job = d.job AND e.task = d.task AND e.epoch < d.epoch AND e.due + 0 > 0)
					AND (d.due <> d.queued - 1 OR NOT EXISTS (
						SELECT 1 FROM deliveries p JOIN hooks h ON h.id = p.hook
						WHERE p.job = d.job AND p.task = d.task AND p.status IN ('running', 'task_running') AND p.due + 0 > 0
							AND p.answer = 0 AND p.notice = '' AND h.kind = 'ogc'))
				ORDER BY d.due
				LIMIT CAST($4 AS BIGINT))
			RETURNING `+deliveryColumns, now+lease.Microseconds(), now, hook, n)
	})
}

// SettleDeliveries stores the results of tries that are still the last.
func (s *Store) SettleDeliveries(ctx context.Context, h dispatch.Hook, all []dispatch.Delivery) error {
	return s.in(ctx, s.write, "SettleDeliveries", func(q tx, now int64) error {
		for _, d := range all {
			err := run(ctx, q, `
				UPDATE deliveries
				SET state = $1, due = $2, answer = $3, notice = $4
				WHERE hook = $5 AND job = $6 AND task = $7 AND epoch = $8 AND status = $9 AND tries = $10 AND due + 0 > 0`,
				d.State, micros(d.Due), d.Answer, d.Notice, d.Hook, d.Job, d.Task, d.Epoch, d.Status, d.Tries)
			if err != nil {
				return err
			}
		}
		if h.Gone {
			err := run(ctx, q, `
				UPDATE deliveries
				SET state = 'failed', due = 0, notice = 'The receiver answered that it wants nothing more.'
				WHERE hook = $1 AND due > 0`, h.ID)
			if err != nil {
				return err
			}
		}
		return run(ctx, q, `
			UPDATE hooks
			SET failures = $1, hold = $2, gone = $3, ran = $4
			WHERE id = $5`, h.Failures, micros(h.Hold), h.Gone, now, h.ID)
	})
}
