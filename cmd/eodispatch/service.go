package main

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/telemetry"
	"github.com/eodispatch/eodispatch/tracing"
)

// service is what one process serves. The database, the ports, the metrics and the traces stay; new settings replace the broker between them.
type service struct {
	store  *store.Store
	seen   *telemetry.Telemetry
	traces *tracing.Tracing
	level  *slog.LevelVar // of log
	log    *slog.Logger

	handler  atomic.Pointer[api.API]
	settings *config.Config
	broker   *broker
	stop     context.CancelFunc // ends the work of the broker
	done     <-chan struct{}    // closed when it has ended, and those before it
}

// ServeHTTP implements [http.Handler] with the interface of the present broker.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.handler.Load()).ServeHTTP(w, r)
}

// build assembles a broker. From then on it answers requests.
func (s *service) build(ctx context.Context, settings *config.Config) error {
	b, err := build(ctx, settings, s.store, s.seen, s.traces, s.log)
	if err != nil {
		return err
	}
	s.broker, s.settings = b, settings
	s.handler.Store(&b.handler)
	return nil
}

// run begins the work of the present broker.
func (s *service) run(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.done = stop, s.broker.runEngine(working)
}

// reload replaces the broker by one with other settings, as a restart would, without closing the port. Requests under way end with the former
// broker, and its requests to platforms, too, before the new one begins to work. What cannot change stays, and if a platform with jobs would be lost
// all stays.
func (s *service) reload(ctx context.Context, read *config.Config) {
	settings, fixed := fixedSettings(*s.settings, *read)
	changed := changedKeys(*s.settings, settings)
	lost, err := s.lostPlatforms(ctx, &settings)
	if len(lost) > 0 {
		s.log.ErrorContext(ctx, "the settings were not reloaded: these platforms have jobs that have not ended, and are missing or lead elsewhere", "platforms", lost)
		return
	}
	if err == nil && len(changed) > 0 {
		err = s.replace(ctx, &settings)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "the settings were not reloaded: the running ones stay", "error", err)
		return
	}
	s.level.Set(settings.Log.Level)
	for _, note := range settings.Notes {
		s.log.WarnContext(ctx, note)
	}
	s.log.InfoContext(ctx, "settings reloaded", "log.level", settings.Log.Level, "changed", changed, "need a restart", fixed)
}

// replace hands over from the present broker to one with other settings.
func (s *service) replace(ctx context.Context, settings *config.Config) error {
	former, stop, done := s.broker, s.stop, s.done
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
		s.log.WarnContext(ctx, "requests of before the reload are still running", "grace", settings.ShutdownGrace)
	}
	left := s.done
	s.run(ctx)
	s.done = all(s.done, func() { <-left })
	return nil
}

// lostPlatforms returns the platforms with jobs that have not ended which other settings do not have, or have under another protocol, access or
// address.
func (s *service) lostPlatforms(ctx context.Context, settings *config.Config) (lost []string, err error) {
	live, err := s.store.LivePlatforms(ctx)
	if err != nil {
		return nil, err
	}
	for _, was := range s.settings.Platforms {
		kept := func(is config.Platform) bool {
			return is.Name == was.Name && is.Protocol == was.Protocol && is.Access == was.Access && (is.Endpoint == was.Endpoint || slices.Contains(is.Aliases, was.Endpoint))
		}
		if slices.Contains(live, was.Name) && !slices.ContainsFunc(settings.Platforms, kept) {
			lost = append(lost, was.Name)
		}
	}
	return lost, nil
}
