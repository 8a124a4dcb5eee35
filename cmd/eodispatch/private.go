package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/observe/telemetry"
	"github.com/eodispatch/eodispatch/store"
)

// privateListener serves metrics, readiness and profiles.
type privateListener struct{ server *http.Server } // nil: it is off

// listenPrivately opens the private listener before anything else, so that /ready answers while the broker starts. If
// the default address is taken, as by another replica on the machine, the broker serves without it.
func listenPrivately(settings config.Telemetry, seen *telemetry.Telemetry, log *slog.Logger) (privateListener, error) {
	if settings.Listen == config.TelemetryOff {
		return privateListener{}, nil
	}
	listener, err := net.Listen("tcp", settings.Listen)
	switch {
	case err != nil && settings.Listen == config.TelemetryDefault:
		log.Warn("metrics and readiness are not served: the default address is in use; set telemetry.listen",
			"error", err)
		return privateListener{}, nil
	case err != nil:
		return privateListener{}, fmt.Errorf("cannot listen on telemetry.listen %s: %w", settings.Listen, err)
	}
	p := privateListener{seen.Server()}
	go func() {
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the private listener has failed; metrics and readiness are not served", "error", err)
		}
	}()
	log.Info("serving metrics and readiness", "private", listener.Addr().String())
	return p, nil
}

// close closes the listener and its connections.
func (p privateListener) close() {
	if p.server != nil {
		_ = p.server.Close() // the process ends
	}
}

// longestStart is the longest pause between two attempts to open the database.
const longestStart = 15 * time.Second

// openStore opens and migrates the database. It waits for a PostgreSQL server that does not answer; a file that cannot
// be opened is a mistake that waiting does not mend.
func openStore(ctx context.Context, settings *config.Config, seen *telemetry.Telemetry, log *slog.Logger) (*store.Store,
	error) {
	begun := time.Now()
	for pause := time.Second; ; pause = min(2*pause, longestStart) {
		seen.NotReady("the database is being opened and migrated")
		db, err := openDatabase(ctx, settings)
		if err == nil || !dispatch.Is(err, dispatch.Unavailable) || !allowsSeveral(settings.Database.Reveal()) {
			return db, err
		}
		seen.NotReady("the database does not respond")
		log.Warn("the database does not respond; waiting for it", "error", err, "waited",
			time.Since(begun).Round(time.Second), "again", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// openDatabase opens the configured database, which also migrates it.
func openDatabase(ctx context.Context, settings *config.Config) (*store.Store, error) {
	return store.OpenBehindPooler(ctx, settings.Database.Reveal(), settings.Direct.Reveal(), wallClock{}, ownVersion())
}

// openExisting is openDatabase for commands that change what a database holds, and must not make a new one.
func openExisting(ctx context.Context, settings *config.Config) (*store.Store, error) {
	if err := store.CheckExists(settings.Database.Reveal()); err != nil {
		return nil, err
	}
	return openDatabase(ctx, settings)
}

// openToRead opens the configured database without changing it. Brokers may be using it.
func openToRead(ctx context.Context, settings *config.Config) (*store.Store, error) {
	return store.OpenToRead(ctx, settings.Database.Reveal(), wallClock{})
}

// withDatabase calls work with the configured database and a context that a signal cancels, as commands do that end
// when their work has.
func withDatabase(c console, settings *config.Config, open func(context.Context, *config.Config) (*store.Store, error),
	work func(context.Context, *store.Store) error) error {
	ctx, stop := c.signals(context.Background())
	defer stop()
	db, err := open(ctx, settings)
	if err != nil {
		return err
	}
	defer db.Close()
	return work(ctx, db)
}
