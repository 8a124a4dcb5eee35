package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/observe/telemetry"
)

type serveCommand struct{ configFlags }

func serveCommandLine(c console) *cobra.Command {
	s := &serveCommand{}
	command := &cobra.Command{Use: "serve", Short: "Run the broker", Args: cobra.NoArgs,
		Long:    "Run the broker. `eodispatch reference settings` describes the keys of its configuration.",
		Example: "  eodispatch serve --config broker.yaml",
		RunE:    func(*cobra.Command, []string) error { return s.Run(c) }}
	s.flags(command)
	return command
}

// Run serves until a signal stops the process.
func (s *serveCommand) Run(c console) error {
	settings, err := s.load(c)
	if err != nil {
		return err
	}
	ctx, stop := c.signals(context.Background())
	defer stop()
	level := &slog.LevelVar{}
	level.Set(settings.Log.Level)
	log := newLog(level, settings.Log.Format, c.err)
	again := s.readOnHangup(ctx, c, log)
	for _, note := range settings.Notes {
		log.Warn(note)
	}
	for _, p := range verifiersOf(settings) {
		log.Info("accepting tokens", "issuer", p.Issuer, "audience", p.Audience, "clients", p.Clients)
	}
	err = serveOn(ctx, net.Listen, settings, again, level, log, func(address string) {
		log.Info("serving", "address", address, "version", ownVersion(), "commit", ownCommit(),
			"submitted_as_created", settings.Compat.SubmittedAsCreated, "object_as_string",
			settings.Compat.ObjectAsString)
	})
	if exitCode(err, io.Discard) == exitFailed { // in the format of the log, which programs may read
		log.Error("stopped by an error", "error", explained(err))
		return errSaid
	}
	return err
}

// serveOn runs the broker until ctx is done, then shuts it down within the settings' shutdown_grace. It calls ready
// with the address once it accepts requests. Settings from again replace the present ones when they come, also the
// level of the log.
func serveOn(ctx context.Context, open opener, settings *config.Config, again <-chan *config.Config,
	level *slog.LevelVar, log *slog.Logger, ready func(address string)) (err error) {
	seen := telemetry.New(ownVersion(), ownCommit())
	private, err := listenPrivately(settings.Telemetry, seen, log)
	if err != nil {
		return err
	}
	defer private.close()
	traces, err := startTraces(ctx, settings, log)
	if err != nil {
		return err
	}
	defer traces.Stop()
	log = slog.New(traces.LogHandler(log.Handler()))
	db, err := openStore(ctx, settings, seen, log)
	if err != nil && ctx.Err() != nil {
		log.Info("stopped before the start was complete", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.KeepKeys(settings.Retention.Keys)
	db.OnRemoved(seen.Removed)
	db.Trace(traces.Statements(databaseSystem(settings)))
	s := &service{store: db, seen: seen, traces: traces, level: level, log: log}
	if err := s.build(ctx, settings); err != nil {
		return err
	}
	listener, err := listen(open, settings, log)
	if err != nil {
		return err
	}
	server := api.Server(s, log)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.run(ctx)
	defer func() { s.stop() }()
	seen.Ready(db.Ping)
	ready(listener.Addr().String())
	err, ended := s.serving(ctx, failed, again, settings.ShutdownDelay)
	if ended {
		s.stop()
		<-s.done
		return err
	}
	log.Info("stopping", "grace", settings.ShutdownGrace)
	return shutDown(server, s.stop, all(s.done, s.broker.Load().handler.Close), settings.ShutdownGrace)
}

// serving waits until the server has failed, and then returns true, or until ctx is done. Until then it takes new
// settings. From then on the process is not ready, and serves for the delay, in which load balancers take notice.
func (s *service) serving(ctx context.Context, failed <-chan error, again <-chan *config.Config,
	delay time.Duration) (err error, ended bool) {
	for ctx.Err() == nil {
		select {
		case err := <-failed:
			return err, true
		case settings := <-again:
			s.reload(ctx, settings)
		case <-ctx.Done():
		}
	}
	s.seen.NotReady("stopping")
	if delay == 0 {
		return nil, false
	}
	s.log.Info("not ready; the port closes soon", "delay", delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case err := <-failed:
		return err, true
	case <-timer.C:
	}
	return nil, false
}

// opener opens a port, as [net.Listen] does.
type opener func(network, address string) (net.Listener, error)

// listen opens the configured port, with the configured limit of connections, and with TLS if a certificate is
// configured.
func listen(open opener, settings *config.Config, log *slog.Logger) (net.Listener, error) {
	var own *certificate
	if settings.TLS.CertFile != "" {
		var err error
		if own, err = newCertificate(settings.TLS, log); err != nil {
			return nil, err
		}
	}
	warnOfOpenFiles(openFiles(), settings.Limits.Connections, log)
	listener, err := open("tcp", settings.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", settings.Listen, err)
	}
	listener = netutil.LimitListener(listener, settings.Limits.Connections)
	if own != nil {
		listener = tls.NewListener(listener, own.config())
	}
	return listener, nil
}

// otherFiles is the number of files that the process needs besides its clients' connections: databases, platforms,
// identity providers.
const otherFiles = 1000

// warnOfOpenFiles logs that the system lets the process have fewer open files (0: unknown) than its clients'
// connections may need. Connections to platforms fail, too, when none is left.
func warnOfOpenFiles(limit, connections int, log *slog.Logger) {
	if needed := connections + otherFiles; 0 < limit && limit < needed {
		log.Warn("the limit of open files is below what client connections may need; raise it (ulimit -Hn, "+
			"LimitNOFILE of systemd) or lower limits.connections", "limit", limit, "needed", needed)
	}
}

// all returns a channel that is closed when work has ended and end has returned.
func all(work <-chan struct{}, end func()) <-chan struct{} {
	both := make(chan struct{})
	go func() {
		defer close(both)
		end()
		<-work
	}()
	return both
}

// lastAnswers is how long clients may take to read their responses after all work has ended. A POST waits up to 10 s
// for the platform.
const lastAnswers = 12 * time.Second

// shutDown lets running requests and visits finish. Clients that do not read their responses in time are disconnected,
// which is not an error.
func shutDown(server *http.Server, stopWork func(), done <-chan struct{}, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	stopWork()
	answered := make(chan error, 1)
	go func() { answered <- server.Shutdown(ctx) }()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("some requests to platforms were still running after %v; the next start will find out "+
			"their outcome", grace)
	}
	late := time.NewTimer(lastAnswers)
	defer late.Stop()
	select {
	case err := <-answered:
		if errors.Is(err, context.DeadlineExceeded) {
			return server.Close()
		}
		return err
	case <-late.C:
		return server.Close()
	}
}

// onSignal returns a context that is canceled by the first SIGINT or SIGTERM. After that, a second signal ends the
// process.
func onSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	first := make(chan os.Signal, 1)
	signal.Notify(first, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-first:
		case <-ctx.Done():
		}
		signal.Stop(first) // before stop: a second signal right after the first must end the process
		stop()
	}()
	return ctx, stop
}
