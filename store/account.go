package store

import (
	"context"
	"fmt"

	"github.com/eodispatch/eodispatch/dispatch"
)

// wake stores that there is something new for an account's visit. An account that is already due keeps its place in the
// queue.
func wake(ctx context.Context, q querier, a dispatch.Account, now int64) error {
	return run(ctx, q, wakeAccount, a, a.Platform(), now)
}

const wakeAccount = `
		INSERT INTO accounts (id, platform, wakes, due)
		VALUES ($1, $2, 1, $3)
		ON CONFLICT (id) DO UPDATE SET wakes = accounts.wakes + 1,
			due = CASE WHEN accounts.due BETWEEN 1 AND excluded.due THEN accounts.due ELSE excluded.due END`

// endHold lets an account submit again, and wakes it.
func endHold(ctx context.Context, q querier, a dispatch.Account, now int64) error {
	_, err := q.ExecContext(ctx, `
		UPDATE accounts
		SET hold = 0, hold_attention = '', hold_notice = '', sign_in_since = 0
		WHERE id = $1`, a)
	if err != nil {
		return err
	}
	return wake(ctx, q, a, now)
}

// hold says until when an account submits nothing, in microseconds, and why.
type hold struct {
	until  int64
	why    dispatch.Attention
	notice string
}

// accountState is what jobs show of their account besides their own state.
type accountState struct {
	hold
	silent bool // its platform does not respond
}

// accountStateColumns are the columns of an accountState. Platforms are joined to accounts.
var accountStateColumns = fmt.Sprintf(`accounts.hold, accounts.hold_attention, accounts.hold_notice,
			COALESCE(platforms.failed - platforms.answered > %d, FALSE)`, dispatch.SilentAfter.Microseconds())

// columns returns where accountStateColumns are scanned to.
func (s *accountState) columns() []any {
	return []any{number(&s.until), text(&s.why), &s.notice, &s.silent}
}

// shownOn returns a job with what it shows of the account.
func (s accountState) shownOn(j dispatch.Job, now int64) dispatch.Job {
	if s.silent {
		j = j.Unanswered()
	}
	return showHold(j, s.hold, now)
}

// getAccountState returns what jobs show of their account.
func getAccountState(ctx context.Context, q querier, a dispatch.Account) (s accountState, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT `+accountStateColumns+`
		FROM accounts
			LEFT JOIN platforms ON platforms.name = accounts.platform
		WHERE accounts.id = $1`, a).
		Scan(s.columns()...)
	return s, err
}

// wakeToAccept is wake, and returns the hold of the account.
func wakeToAccept(ctx context.Context, q querier, a dispatch.Account, now int64) (h hold, err error) {
	err = q.QueryRowContext(ctx, wakeAccount+" RETURNING hold, hold_attention, hold_notice", a, a.Platform(), now).
		Scan(&h.until, &h.why, &h.notice)
	return h, err
}

// beginHold keeps an account from submitting. An account waits for its user since the first of consecutive holds with
// that reason, less than a day apart.
func beginHold(ctx context.Context, q tx, a dispatch.Account, h hold, now int64) error {
	since := int64(0)
	if h.why == dispatch.NeedsSignIn {
		since = now
	}
	waits, err := value[int64](ctx, q, `
		INSERT INTO accounts (id, platform, hold, hold_attention, hold_notice, sign_in_since)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO UPDATE SET hold = excluded.hold, hold_attention = excluded.hold_attention,
			hold_notice = excluded.hold_notice,
			sign_in_since = CASE WHEN excluded.sign_in_since > 0 AND accounts.sign_in_since > 0
				AND accounts.hold > CAST($7 AS BIGINT) - 86400000000 THEN accounts.sign_in_since ELSE excluded.sign_in_since END
		RETURNING sign_in_since`,
		a, a.Platform(), h.until, string(h.why), h.notice, since, now)
	if err != nil || since == 0 || waits != since {
		return err
	}
	return notifySignIn(ctx, q, a, now)
}
