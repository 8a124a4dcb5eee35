package store

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

var _ dispatch.Censuses = (*Store)(nil)

// Census counts by platform if no other process does. Its reads are not of one moment.
func (s *Store) Census(ctx context.Context, process string, lease time.Duration) (found dispatch.Census, ours bool, err error) {
	err = s.in(ctx, s.write, "Census", func(q tx, now int64) error {
		ends := now + lease.Microseconds()
		rows, err := q.ClaimCensus(ctx, query.ClaimCensusParams{Holder: process, Ends: ends, Now: now, Latest: now + longestCensus.Microseconds()})
		ours = rows > 0
		return err
	})
	if err != nil || !ours {
		return dispatch.Census{}, false, err
	}
	c := census{}
	err = s.readOnly(allow(ctx, upkeepWithin), s.read, "Census", func(q tx, now int64) error {
		found.Hooks, err = countDeliveries(ctx, q, now)
		limited, failed := countLimited(ctx, q)
		found.Limited = limited
		return errors.Join(err, failed, c.count(ctx, q, now))
	})
	if err != nil {
		return dispatch.Census{}, false, err
	}
	found.Platforms = c.list()
	return found, true, nil
}

// longestCensus is longer than any lease of a census.
const longestCensus = time.Hour

// EndCensus lets another process count at once.
func (s *Store) EndCensus(ctx context.Context, process string) error {
	return fail("EndCensus", s.queries(s.write).EndCensus(ctx, process))
}

// census is a census by the name of the platform.
type census map[string]*dispatch.PlatformCensus

func (c census) of(platform string) *dispatch.PlatformCensus {
	if c[platform] == nil {
		c[platform] = &dispatch.PlatformCensus{Platform: platform, Held: map[dispatch.Status]int{}, Attention: map[dispatch.Attention]int{}, Holds: map[dispatch.Attention]int{}}
	}
	return c[platform]
}

func (c census) list() (all []dispatch.PlatformCensus) {
	for _, p := range c {
		all = append(all, *p)
	}
	return all
}

// count counts everything.
func (c census) count(ctx context.Context, q tx, now int64) error {
	return errors.Join(c.countUnfinished(ctx, q), c.countHeld(ctx, q), c.countHolds(ctx, q, now), c.measure(ctx, q, now), c.hear(ctx, q))
}

func (c census) countUnfinished(ctx context.Context, q tx) error {
	unfinished, err := q.CensusUnfinished(ctx)
	for _, r := range unfinished {
		c.of(r.Platform).Waiting, c.of(r.Platform).Accounts = int(r.Waiting), int(r.Accounts)
	}
	if err != nil {
		return err
	}
	ended, err := q.CensusEnded(ctx)
	for _, r := range ended {
		c.of(r.Platform).Ended = int(r.Ended)
	}
	return err
}

func (c census) countHeld(ctx context.Context, q tx) error {
	rows, err := q.CensusHeld(ctx)
	for _, r := range rows {
		p := c.of(r.Platform)
		p.Held[r.Status] += int(r.N)
		if r.Attention != dispatch.None {
			p.Attention[r.Attention] += int(r.N)
		}
	}
	return err
}

func (c census) countHolds(ctx context.Context, q tx, now int64) error {
	rows, err := q.CensusHolds(ctx, now)
	for _, r := range rows {
		c.of(r.Platform).Holds[r.HoldAttention] = int(r.N)
	}
	return err
}

// measure measures how long jobs and accounts wait, and how far ahead send times are booked.
func (c census) measure(ctx context.Context, q tx, now int64) error {
	oldest, err := q.CensusOldest(ctx)
	for _, r := range oldest {
		c.of(r.Platform).Oldest = span(max(0, now-r.Created))
	}
	if err != nil {
		return err
	}
	due, err := q.CensusDue(ctx, now)
	for _, r := range due {
		c.of(r.Platform).Lag = span(max(0, now-r.Due))
	}
	if err != nil {
		return err
	}
	booked, err := q.CensusBooked(ctx)
	for _, r := range booked {
		c.of(r.Platform).Booked = span(max(0, r.Free-now))
	}
	return err
}

func (c census) hear(ctx context.Context, q tx) error {
	rows, err := q.ListPlatforms(ctx)
	for _, r := range rows {
		c.of(r.Name).Answered, c.of(r.Name).Failed = at(r.Answered), at(r.Failed)
	}
	return err
}

// countDeliveries counts what waits to be sent to hooks.
func countDeliveries(ctx context.Context, q tx, now int64) (found dispatch.HookCensus, err error) {
	due, err := q.CensusDeliveries(ctx, now)
	if err != nil {
		return found, err
	}
	oldest, err := q.OldestDelivery(ctx)
	if err != nil {
		return found, err
	}
	paused, err := q.CountPausedHooks(ctx, now)
	return dispatch.HookCensus{Waiting: int(due.Waiting), Oldest: since(oldest, now), Lag: since(due.Due, now), Paused: int(paused)}, err
}

// countLimited counts the tasks that start no job for now.
func countLimited(ctx context.Context, q tx) (map[dispatch.Attention]int, error) {
	rows, err := q.CensusLimited(ctx)
	limited := map[dispatch.Attention]int{}
	for _, r := range rows {
		limited[cmp.Or(r.PausedFor, dispatch.Paused)] = int(r.N)
	}
	return limited, err
}

// HookTroubles is what operators should know of hooks.
type HookTroubles struct {
	dispatch.HookCensus
	Failing int // hooks with messages that have not arrived for long
	Gone    int // hooks whose receiver wants nothing more
}

// HookTroubles counts hooks whose messages do not arrive, since longer than the duration for Failing. It reads all hooks.
func (s *Store) HookTroubles(ctx context.Context, longer time.Duration) (found HookTroubles, err error) {
	err = s.readOnly(ctx, s.read, "HookTroubles", func(q tx, now int64) error {
		counted, err := q.CountFailingHooks(ctx, now-longer.Microseconds())
		found.Failing, found.Gone = int(counted.Failing), int(counted.Gone)
		if err == nil {
			found.HookCensus, err = countDeliveries(ctx, q, now)
		}
		return err
	})
	return found, err
}

// since returns the time from then, which may be 0 for never, to now.
func since(then, now int64) time.Duration {
	if then == 0 {
		return 0
	}
	return span(max(0, now-then))
}
