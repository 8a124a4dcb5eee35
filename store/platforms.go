package store

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// NoteResponse stores that a platform just responded, or why it did not, unless it responded lately.
func (s *Store) NoteResponse(ctx context.Context, platform, failure string, unless time.Duration) error {
	return s.inVisit(ctx, "NoteResponse", 1, func(q tx, now int64) error {
		if failure == "" {
			return run(ctx, q, `
				INSERT INTO platforms (name, answered, failed, failure)
				VALUES ($1, $2, 0, '')
				ON CONFLICT (name) DO UPDATE SET answered = excluded.answered`, platform, now)
		}
		return run(ctx, q, `
			INSERT INTO platforms (name, answered, failed, failure)
			VALUES ($1, 0, $2, $3)
			ON CONFLICT (name) DO UPDATE SET failed = excluded.failed, failure = excluded.failure
			WHERE platforms.answered <= $4`,
			platform, now, storableText(failure), now-unless.Microseconds())
	})
}

// NoteStarts stores what statuses have shown about starts at a platform. A lagging start restarts the row of prompt
// starts; the worst lag is kept.
func (s *Store) NoteStarts(ctx context.Context, platform string, seen dispatch.StartsSeen) error {
	return s.inVisit(ctx, "NoteStarts", 1, func(q tx, _ int64) error {
		return run(ctx, q, `
			INSERT INTO platforms (name, answered, failed, failure, prompt_starts, start_lag)
			VALUES ($1, 0, 0, '', $2, $3)
			ON CONFLICT (name) DO UPDATE SET
				prompt_starts = CASE WHEN $4 THEN 0 ELSE platforms.prompt_starts END + excluded.prompt_starts,
				start_lag = CASE WHEN excluded.start_lag > platforms.start_lag THEN excluded.start_lag
					ELSE platforms.start_lag END`, platform, seen.Prompt, seen.Lag.Microseconds(), seen.Lagged)
	})
}

// AccountInfo returns the state of accounts as the given user sees it.
func (s *Store) AccountInfo(
	ctx context.Context, u dispatch.UserID, accounts []dispatch.Account, stalled map[dispatch.Account]time.Duration,
) ([]dispatch.AccountInfo, error) {
	return result(ctx, s.in, s.read, "AccountInfo", func(q tx, now int64) ([]dispatch.AccountInfo, error) {
		platforms, err := platformInfo(ctx, q)
		if err != nil {
			return nil, err
		}
		all := make([]dispatch.AccountInfo, len(accounts))
		for i, a := range accounts {
			all[i] = platforms[a.Platform()]
			all[i].Account = a
			l := accountReader{q: q, account: a, now: now, stalled: before(now, stalled[a])}
			if err := l.accountInfo(ctx, u, &all[i]); err != nil {
				return nil, err
			}
		}
		return all, nil
	})
}

// platformInfo returns what the info of accounts has of their platforms.
func platformInfo(ctx context.Context, q tx) (map[string]dispatch.AccountInfo, error) {
	type platform struct {
		name string
		info dispatch.AccountInfo
	}
	all, err := list(ctx, q, func(p *platform) []any {
		return []any{&p.name, instant(&p.info.Answered), instant(&p.info.Failed), &p.info.Failure,
			number(&p.info.Starts.Starts), duration(&p.info.Starts.Lag), number(&p.info.Queue)}
	}, `
		SELECT COALESCE(p.name, w.platform), COALESCE(p.answered, 0), COALESCE(p.failed, 0), COALESCE(p.failure, ''),
			COALESCE(p.prompt_starts, 0), COALESCE(p.start_lag, 0), COALESCE(w.waiting, 0)
		FROM platforms p
			FULL JOIN (
				SELECT accounts.platform, CAST(SUM(c.waiting) AS BIGINT) AS waiting
				FROM account_counts c
					JOIN accounts ON accounts.id = c.account
				GROUP BY accounts.platform
			) AS w ON w.platform = p.name`)
	platforms := map[string]dispatch.AccountInfo{}
	for _, p := range all {
		platforms[p.name] = p.info
	}
	return platforms, err
}

// accountInfo sets the state of an account, without what concerns its whole platform.
func (l accountReader) accountInfo(ctx context.Context, u dispatch.UserID, s *dispatch.AccountInfo) error {
	var err error
	s.Live, s.Lately, err = countOwned(ctx, l.q, u, l.account, l.now, l.now-dispatch.Day.Microseconds())
	if err != nil {
		return err
	}
	if l.account == "" {
		s.Bytes, err = countBytes(ctx, l.q, u, l.now)
		return err
	}
	var held int64
	err = l.q.QueryRowContext(ctx, `
		SELECT hold, hold_attention, hold_notice,
			COALESCE((SELECT c.held FROM account_counts c WHERE c.account = accounts.id), 0),
			CAST(COALESCE((SELECT SUM(l.waiting) FROM queue_counts l WHERE l.account = $1 AND l.owner = $2), 0) AS BIGINT),
			CAST(COALESCE((SELECT SUM(l.held) FROM queue_counts l WHERE l.account = $1 AND l.owner = $2), 0) AS BIGINT)
		FROM accounts
		WHERE id = $1`, l.account, u).
		Scan(instant(&s.Hold), text(&s.Why), &s.Notice, &held, number(&s.Waiting), number(&s.Active))
	if err != nil {
		return missing(err)
	}
	if micros(s.Hold) <= l.now {
		s.Hold, s.Why, s.Notice = time.Time{}, dispatch.None, ""
	}
	s.Held, err = l.withoutFreed(ctx, held)
	return err
}
