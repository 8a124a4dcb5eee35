package main

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

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

	broker   atomic.Pointer[assembly]
	settings *config.Config
	stop     context.CancelFunc // ends the work of the broker
	done     <-chan struct{}    // closed when it has ended, and those before it
}

// ServeHTTP implements [http.Handler] with the interface of the present broker.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.broker.Load().handler.ServeHTTP(w, r)
}

// build assembles a broker. From then on it answers requests.
func (s *service) build(ctx context.Context, settings *config.Config) error {
	b, err := build(ctx, settings, s.store, s.seen, s.traces, s.log)
	if err != nil {
		return err
	}
	s.settings = settings
	s.broker.Store(b)
	return nil
}

// run begins the work of the present broker.
func (s *service) run(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.done = stop, s.broker.Load().runEngine(working)
}

// reload replaces the broker by one with other settings, as a restart would, without closing the port. Requests under
// way end with the former broker, and its requests to platforms, too, before the new one begins to work. What cannot
// change stays, and if a platform with jobs would be lost all stays. A job that a request under way still submits for a
// lost platform waits until this is configured again, as after a restart.
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
	former, stop, done := s.broker.Load(), s.stop, s.done
	if err := s.build(ctx, settings); err != nil {
		return err
	}
	stop()
	s.done = all(done, former.handler.Close)
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

// lostPlatforms returns the platforms with jobs that have not ended among the missing ones.
func (s *service) lostPlatforms(ctx context.Context, before, after *config.Config) ([]string, error) {
	missing := missingPlatforms(before, after)
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
func missingPlatforms(before, after *config.Config) (missing []string) {
	for _, p := range before.Platforms {
		kept := func(other config.Platform) bool {
			return other.Name == p.Name && other.Protocol == p.Protocol && other.Access == p.Access &&
				(other.Endpoint == p.Endpoint || slices.Contains(other.Aliases, p.Endpoint))
		}
		if !slices.ContainsFunc(after.Platforms, kept) {
			missing = append(missing, p.Name)
		}
	}
	return missing
}
