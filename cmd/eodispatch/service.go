package main

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/observe/telemetry"
	"github.com/eodispatch/eodispatch/observe/tracing"
	"github.com/eodispatch/eodispatch/store"
)

// service is what one process serves. The database, the ports, the metrics and the traces stay; new settings replace
// the broker between them.
type service struct {
	store  *store.Store
	seen   *telemetry.Telemetry
	traces *tracing.Tracing
	level  *slog.LevelVar // of log
	log    *slog.Logger

	present  atomic.Pointer[front]
	settings *config.Config
	broker   *assembly
	stop     context.CancelFunc // ends the work of the broker
	done     <-chan struct{}    // closed when it has ended, and those before it
	// former settings, when the last of the requests has ended that may have submitted jobs under them
	drained chan *config.Config
}

// front is the interface of one broker.
type front struct {
	api.API
	changing sync.RWMutex // held for reading by each request that may change something
}

// ServeHTTP implements [http.Handler] with the interface of the present broker.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		s.present.Load().ServeHTTP(w, r)
		return
	}
	by := s.present.Load()
	// a reload between the two does not know of this request
	for by.changing.RLock(); by != s.present.Load(); by.changing.RLock() {
		by.changing.RUnlock()
		by = s.present.Load()
	}
	defer by.changing.RUnlock()
	by.ServeHTTP(w, r)
}

// drain waits for the end of the requests that may change something, when the interface is no longer the present one.
func (f *front) drain() {
	f.changing.Lock()
	defer f.changing.Unlock()
}

// build assembles a broker. From then on it answers requests.
func (s *service) build(ctx context.Context, settings *config.Config) error {
	b, err := build(ctx, settings, s.store, s.seen, s.traces, s.log)
	if err != nil {
		return err
	}
	s.broker, s.settings = b, settings
	s.present.Store(&front{API: b.handler})
	return nil
}

// run begins the work of the present broker.
func (s *service) run(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.done = stop, s.broker.runEngine(working)
}

// reload replaces the broker by one with other settings, as a restart would, without closing the port. Requests under
// way end with the former broker, and its requests to platforms, too, before the new one begins to work. What cannot
// change stays, and if a platform with jobs would be lost all stays.
func (s *service) reload(ctx context.Context, settings *config.Config) {
	fixed := settings.KeepFixed(s.settings)
	changed := changedKeys(*s.settings, *settings)
	lost, err := s.lostPlatforms(ctx, s.settings, settings)
	if len(lost) > 0 {
		s.log.ErrorContext(ctx, "the settings were not reloaded: platforms with unfinished jobs are missing or changed",
			"platforms", lost)
		return
	}
	if err == nil && len(changed) > 0 {
		err = s.replace(ctx, settings)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "the settings were not reloaded; the old ones stay in use", "error", err)
		return
	}
	s.level.Set(settings.Log.Level)
	for _, note := range settings.Notes {
		s.log.WarnContext(ctx, note)
	}
	s.log.InfoContext(ctx, "settings reloaded", "log.level", settings.Log.Level, "changed", changed, "need a restart",
		fixed)
}

// replace hands over from the present broker to one with other settings.
func (s *service) replace(ctx context.Context, settings *config.Config) error {
	former, running, stop, done := s.present.Load(), s.settings, s.stop, s.done
	if err := s.build(ctx, settings); err != nil {
		return err
	}
	stop()
	s.done = all(done, former.Close)
	if len(missingPlatforms(running, settings)) > 0 {
		go s.tellDrained(ctx, former, running) // it may still accept jobs for them
	}
	grace := time.NewTimer(settings.ShutdownGrace)
	defer grace.Stop()
	select {
	case <-s.done:
	case <-ctx.Done(): // the process stops, and waits for the former broker
		return nil
	case <-grace.C: // leases keep the two from doing the same
		s.log.WarnContext(ctx, "requests from before the reload are still running", "grace", settings.ShutdownGrace)
	}
	left := s.done
	s.run(ctx)
	s.done = all(s.done, func() { <-left })
	return nil
}

// tellDrained waits for the requests of a former interface, and has the platforms of its settings looked at once more.
func (s *service) tellDrained(ctx context.Context, former *front, was *config.Config) {
	former.drain()
	select {
	case s.drained <- was:
	case <-ctx.Done():
	}
}

// takeBack takes platforms of former settings back for which jobs were accepted after the present settings had been
// checked.
func (s *service) takeBack(ctx context.Context, was *config.Config) {
	settings, lost, err := s.withLost(ctx, was)
	if err == nil && len(lost) > 0 {
		err = s.replace(ctx, settings)
	}
	switch {
	case err != nil:
		s.log.ErrorContext(ctx, "platforms with jobs accepted during the reload may be missing: reload the previous "+
			"settings", "error", err)
	case len(lost) > 0:
		s.log.ErrorContext(ctx, "these platforms are unchanged, because jobs were accepted for them during the "+
			"reload. Reload again when these jobs have ended", "platforms", lost)
	}
}

// withLost returns the present settings with the platforms of former ones that have jobs, and the names of these
// platforms.
func (s *service) withLost(ctx context.Context, was *config.Config) (*config.Config, []string, error) {
	lost, err := s.lostPlatforms(ctx, was, s.settings)
	if err != nil || len(lost) == 0 {
		return nil, nil, err
	}
	settings := *s.settings
	settings.Platforms = slices.DeleteFunc(slices.Clone(settings.Platforms),
		func(p config.Platform) bool { return slices.Contains(lost, p.Name) })
	for _, p := range was.Platforms {
		if slices.Contains(lost, p.Name) {
			settings.Platforms = append(settings.Platforms, p)
		}
	}
	return &settings, lost, nil
}

// lostPlatforms returns the platforms with jobs that have not ended among the missing ones.
func (s *service) lostPlatforms(ctx context.Context, was, is *config.Config) ([]string, error) {
	missing := missingPlatforms(was, is)
	if len(missing) == 0 {
		return nil, nil
	}
	live, err := s.store.AccountsWithJobs(ctx)
	return slices.DeleteFunc(missing, func(name string) bool {
		return !slices.ContainsFunc(live, func(a dispatch.Account) bool { return a.Platform() == name })
	}), err
}

// missingPlatforms returns the platforms which other settings do not have, or have under another protocol, access or
// address.
func missingPlatforms(was, is *config.Config) (missing []string) {
	for _, p := range was.Platforms {
		kept := func(other config.Platform) bool {
			return other.Name == p.Name && other.Protocol == p.Protocol && other.Access == p.Access &&
				(other.Endpoint == p.Endpoint || slices.Contains(other.Aliases, p.Endpoint))
		}
		if !slices.ContainsFunc(is.Platforms, kept) {
			missing = append(missing, p.Name)
		}
	}
	return missing
}
