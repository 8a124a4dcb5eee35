package telemetry

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eodispatch/eodispatch/dispatch"
)

// The database is counted every statsEvery, and so seldom that it takes a hundredth of the time.
const (
	statsEvery  = 15 * time.Second
	statsShare  = 100
	statsRarely = 5 * time.Minute
	statsWithin = 2 * time.Minute
)

// stats holds the last counts, while this process is the one that counts: other processes have no such metrics.
type stats struct {
	mu       sync.Mutex
	found    dispatch.Stats
	taken    time.Time
	until    time.Time // when another process may take over
	backends []*dispatch.Backend

	durability atomic.Pointer[func() *Durability]
}

// Durability is what a commit of the database outlives.
type Durability struct {
	Crash, Failover bool
	Standbys        int
}

// CollectStats counts the database regularly until ctx is done, whenever no other process does.
func (t *Telemetry) CollectStats(ctx context.Context, from StatsSource, backends []*dispatch.Backend,
	log *slog.Logger) {
	self, pause := rand.Text(), statsEvery
	for ctx.Err() == nil {
		pause = t.stats.take(ctx, from, backends, self, pause, log)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	t.stats.drop()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := from.EndStats(ending, self); err != nil {
		log.DebugContext(ctx, "another process counts the database only after a while", "error", err)
	}
}

// take counts once and returns how long to wait before the next time. The lease outlasts the pause by enough to begin
// again, so that other processes leave it to this one, and take over soon after it was killed.
func (s *stats) take(ctx context.Context, from StatsSource, backends []*dispatch.Backend, self string,
	pause time.Duration, log *slog.Logger) time.Duration {
	within, cancel := context.WithTimeout(ctx, statsWithin)
	defer cancel()
	begun, lease := time.Now(), pause+2*statsEvery
	found, ours, err := from.Stats(within, self, lease)
	took := time.Since(begun)
	switch {
	case err != nil && ctx.Err() == nil:
		log.Log(ctx, dispatch.LogLevel(err), "counting the jobs for the metrics failed", "error", err)
	case err == nil && ours:
		s.keep(found, backends, begun, begun.Add(lease))
	case err == nil:
		s.drop()
	}
	return min(max(statsEvery, statsShare*took), statsRarely)
}

func (s *stats) keep(found dispatch.Stats, backends []*dispatch.Backend, begun, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.backends, s.taken, s.until = found, backends, begun, until
}

func (s *stats) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
}

var (
	jobsDesc = description("jobs",
		"Jobs in the database, by status; waiting: for a slot, ended: in any final status.", "platform", "status")
	attentionDesc = description("jobs_attention", "Jobs at a platform that need attention, by reason.", "platform",
		"attention")
	oldestDesc = description("job_waiting_oldest_seconds", "Age of the job that waits longest for a slot.", "platform")
	slotsDesc  = description("platform_slots",
		"Slots in use, and their limit: limits.jobs of all accounts with unfinished jobs.", "platform", "kind")
	upDesc    = description("platform_up", "1 if the platform responded to the last request.", "platform")
	holdsDesc = description("platform_holds", "Accounts that submit nothing for a while, by reason.", "platform",
		"reason")
	rateDesc    = description("platform_rate_limit", "limits.rate, in requests per second.", "platform")
	lagDesc     = description("visit_lag_seconds", "How long the longest-waiting account has been due.", "platform")
	waitingDesc = description("hook_deliveries_waiting", "Messages to hooks that are neither delivered nor given up.")
	ageDesc     = description("hook_delivery_oldest_seconds", "Age of the oldest undelivered message.")
	hookLagDesc = description("hook_lag_seconds",
		"How long the longest-waiting message has been due, without those to paused receivers.")
	pausedDesc  = description("hooks_paused", "Hooks that are paused because their receiver accepts nothing.")
	limitedDesc = description("tasks_limited",
		"Unfinished tasks that start no job for now, by reason; paused: by their owner.", "reason")
	atRiskDesc = description("db_commits_at_risk",
		"1 if commits may be lost by a crash of the database server (crash), or when a standby takes over (failover).",
		"event")
	standbysDesc  = description("db_standbys", "Standbys that receive the changes of the database.")
	statsTimeDesc = description("census_timestamp_seconds", "When the database was last counted.")
)

// Describe implements prometheus.Collector.
func (s *stats) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsDesc, attentionDesc, oldestDesc, slotsDesc, upDesc, holdsDesc, rateDesc,
		lagDesc, waitingDesc, ageDesc, hookLagDesc, pausedDesc, limitedDesc, atRiskDesc, standbysDesc, statsTimeDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *stats) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.until) {
		return
	}
	to <- gauge(statsTimeDesc, float64(s.taken.UnixMilli())/1000)
	if read := s.durability.Load(); read != nil && *read != nil {
		(*read)().collect(to)
	}
	collectHooks(s.found.Hooks, to)
	for reason, n := range orZero(s.found.Limited, limitedReasons) {
		to <- gauge(limitedDesc, float64(n), string(reason))
	}
	for _, p := range withAll(s.found.Platforms, s.backends) {
		collectPlatform(p, to)
	}
	for _, b := range s.backends {
		if b.Limits.Pace > 0 {
			to <- gauge(rateDesc, 1/b.Limits.Pace.Seconds(), b.Name)
		}
		if b.Limits.Jobs > 0 {
			to <- gauge(slotsDesc, float64(b.Limits.Jobs*max(1, accountsOf(s.found.Platforms, b.Name))), b.Name,
				"limit")
		}
	}
}

// withAll adds the configured platforms that the database does not know yet.
func withAll(found []dispatch.PlatformStats, backends []*dispatch.Backend) []dispatch.PlatformStats {
	known := map[string]bool{}
	for _, p := range found {
		known[p.Platform] = true
	}
	all := found[:len(found):len(found)]
	for _, b := range backends {
		if !known[b.Name] {
			all = append(all, dispatch.PlatformStats{Platform: b.Name})
		}
	}
	return all
}

func accountsOf(found []dispatch.PlatformStats, platform string) int {
	for _, p := range found {
		if p.Platform == platform {
			return p.Accounts
		}
	}
	return 0
}

// Labels that are present with 0 while nothing was counted, so that an alert and a panel see the first change.
var (
	heldStatuses   = []dispatch.Status{dispatch.Submitted, dispatch.Queued, dispatch.Running}
	attentions     = []dispatch.Attention{dispatch.InDoubt, dispatch.SubmissionUnknown, dispatch.Stalled}
	limitedReasons = []dispatch.Attention{dispatch.Paused, dispatch.BudgetReached, dispatch.BudgetUnusable,
		dispatch.CostsAwaited, dispatch.Trial, dispatch.TrialEnded}
	holdReasons = []dispatch.Attention{dispatch.NeedsSignIn, dispatch.NeedsOperator, dispatch.Unreachable,
		dispatch.NotTaken, dispatch.Full, dispatch.HeldByOperator}
)

// orZero returns what was counted, and 0 of what was not.
func orZero[K comparable](counted map[K]int, known []K) map[K]int {
	all := map[K]int{}
	for _, k := range known {
		all[k] = 0
	}
	maps.Copy(all, counted)
	return all
}

func collectPlatform(p dispatch.PlatformStats, to chan<- prometheus.Metric) {
	held := 0
	for status, n := range orZero(p.Held, heldStatuses) {
		to <- gauge(jobsDesc, float64(n), p.Platform, string(status))
		held += n
	}
	to <- gauge(jobsDesc, float64(p.Waiting), p.Platform, "waiting")
	to <- gauge(jobsDesc, float64(p.Ended), p.Platform, "ended")
	to <- gauge(slotsDesc, float64(held), p.Platform, "used")
	to <- gauge(oldestDesc, p.Oldest.Seconds(), p.Platform)
	to <- gauge(lagDesc, p.Lag.Seconds(), p.Platform)
	for attention, n := range orZero(p.Attention, attentions) {
		to <- gauge(attentionDesc, float64(n), p.Platform, string(attention))
	}
	for reason, n := range orZero(p.Holds, holdReasons) {
		to <- gauge(holdsDesc, float64(n), p.Platform, orNone(string(reason)))
	}
	if !p.Answered.IsZero() || !p.Failed.IsZero() {
		to <- gauge(upDesc, one(!p.Failed.After(p.Answered)), p.Platform)
	}
}

func collectHooks(h dispatch.HookStats, to chan<- prometheus.Metric) {
	to <- gauge(waitingDesc, float64(h.Waiting))
	to <- gauge(ageDesc, h.Oldest.Seconds())
	to <- gauge(hookLagDesc, h.Lag.Seconds())
	to <- gauge(pausedDesc, float64(h.Paused))
}

func (d *Durability) collect(to chan<- prometheus.Metric) {
	if d == nil {
		return
	}
	to <- gauge(atRiskDesc, one(!d.Crash), "crash")
	to <- gauge(atRiskDesc, one(!d.Failover), "failover")
	to <- gauge(standbysDesc, float64(d.Standbys))
}

// StatsSource counts for the metrics of all processes that share a database. One of them counts at a time.
type StatsSource interface {
	// Stats counts if no other process does, which it keeps from it until the lease has ended. It returns false if
	// another process counts.
	Stats(ctx context.Context, process string, lease time.Duration) (found dispatch.Stats, ours bool, err error)
	// EndStats ends the lease of a process, if it has it.
	EndStats(ctx context.Context, process string) error
}
