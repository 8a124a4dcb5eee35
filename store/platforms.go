package store

import (
	"context"
	"math"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// NoteResponse stores that a platform just responded, or why it did not.
func (s *Store) NoteResponse(ctx context.Context, platform, failure string) error {
	return s.inVisit(ctx, "NoteResponse", 1, func(q tx, now int64) error {
		if failure == "" {
			return q.NoteAnswer(ctx, platform, now)
		}
		return q.NoteSilence(ctx, platform, now, storableText(failure))
	})
}

// NoteStarts stores what statuses have shown about starts at a platform.
func (s *Store) NoteStarts(ctx context.Context, platform string, seen dispatch.StartsSeen) error {
	return s.inVisit(ctx, "NoteStarts", 1, func(q tx, _ int64) error {
		return q.NoteStarts(ctx, query.NoteStartsParams{Name: platform, Prompt: int64(seen.Prompt), Lag: seen.Lag.Microseconds(), Lagged: seen.Lagged})
	})
}

func promptness(starts, lag int64) dispatch.Promptness {
	return dispatch.Promptness{Starts: int(starts), Lag: span(lag)}
}

// AccountInfo returns the state of accounts as the given user sees it.
func (s *Store) AccountInfo(ctx context.Context, u dispatch.UserID, accounts []dispatch.Account, stalled map[dispatch.Account]time.Duration) (all []dispatch.AccountInfo, err error) {
	err = s.in(ctx, s.read, "AccountInfo", func(q tx, now int64) error {
		queues, err := q.CountQueues(ctx)
		if err != nil {
			return err
		}
		heard, err := q.ListPlatforms(ctx)
		if err != nil {
			return err
		}
		all = make([]dispatch.AccountInfo, len(accounts))
		for i, a := range accounts {
			l := accountReader{q: q, account: a, now: now, stalled: before(now, stalled[a])}
			if all[i], err = l.accountInfo(ctx, u); err != nil {
				return err
			}
			for _, w := range queues {
				if w.Account.Platform() == a.Platform() {
					all[i].Queue += int(w.N)
				}
			}
			for _, p := range heard {
				if p.Name == a.Platform() {
					all[i].Answered, all[i].Failed, all[i].Failure = at(p.Answered), at(p.Failed), p.Failure
					all[i].Starts = promptness(p.PromptStarts, p.StartLag)
				}
			}
		}
		return nil
	})
	return all, err
}

// accountInfo returns the state of an account, without what concerns its whole platform.
func (l accountReader) accountInfo(ctx context.Context, u dispatch.UserID) (dispatch.AccountInfo, error) {
	s := dispatch.AccountInfo{Account: l.account}
	has, err := l.q.CountOwned(ctx, owned(u, l.account, l.now-dispatch.Day.Microseconds()))
	if err != nil {
		return s, err
	}
	runs, err := l.q.CountSyncRuns(ctx, query.CountSyncRunsParams{Owner: u, Now: l.now, Account: string(l.account), Live: math.MaxInt64,
		Since: l.now - dispatch.Day.Microseconds(), Daily: math.MaxInt64})
	if err != nil {
		return s, err
	}
	unstarted, err := l.q.CountUnstarted(ctx, u, l.now, string(l.account))
	s.Live, s.Lately = int(has.Live+runs.Live+unstarted.Live), int(has.Lately+runs.Lately)
	if err != nil {
		return s, err
	}
	if l.account == "" {
		s.Bytes, err = l.q.CountBytes(ctx, u, l.now)
		s.Bytes += unstarted.Bytes
		return s, err
	}
	row, err := l.q.GetHold(ctx, l.account)
	if err := missing(err); err != nil {
		return s, err
	}
	if row.Hold > l.now {
		s.Hold, s.Why, s.Notice = at(row.Hold), row.HoldAttention, row.HoldNotice
	}
	held, err := l.q.CountHeld(ctx, l.account)
	if err != nil {
		return s, err
	}
	if s.Held, err = l.withoutFreed(ctx, held); err != nil {
		return s, err
	}
	own, err := l.q.CountOwner(ctx, l.account, u)
	s.Waiting, s.Active = int(own.Waiting), int(own.Held)
	return s, err
}

// LivePlatforms returns the names of the platforms with jobs that have not ended.
func (s *Store) LivePlatforms(ctx context.Context) ([]string, error) {
	names, err := s.queries(s.read).ListLivePlatforms(ctx)
	return names, fail("LivePlatforms", err)
}
