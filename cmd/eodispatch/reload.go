package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/eodispatch/eodispatch/config"
)

// readOnHangup reads the settings again whenever the process gets SIGHUP, until ctx is done, and sends them to the
// returned channel.
func (s *serveCommand) readOnHangup(ctx context.Context, c console, log *slog.Logger) <-chan *config.Config {
	hangups, read := make(chan os.Signal, 1), make(chan *config.Config)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-hangups:
			case <-ctx.Done():
				return
			}
			again, err := s.load(c)
			if err != nil {
				log.ErrorContext(ctx, "the settings were not reloaded; the old ones stay in use", "error", err)
				continue
			}
			select {
			case read <- again:
			case <-ctx.Done():
			}
		}
	}()
	return read
}

// fixedSettings returns new settings in which those that need a restart are the running ones, and the keys of those
// that differ.
func fixedSettings(running, again config.Config) (settings config.Config, fixed []string) {
	fixed = []string{}
	for _, one := range []struct {
		key     string
		was, is any // pointers to the same type
	}{
		{"listen", &running.Listen, &again.Listen},
		{"tls", &running.TLS, &again.TLS},
		{"database", &running.Database, &again.Database},
		{"database_direct", &running.Direct, &again.Direct},
		{"telemetry", &running.Telemetry, &again.Telemetry},
		{"traces", &running.Traces, &again.Traces},
		{"log.format", &running.Log.Format, &again.Log.Format},
		{"limits.connections", &running.Limits.Connections, &again.Limits.Connections},
		{"limits.memory", &running.Limits.Memory, &again.Limits.Memory},
		{"retention.keys", &running.Retention.Keys, &again.Retention.Keys},
		{"shutdown_delay", &running.ShutdownDelay, &again.ShutdownDelay},
		{"shutdown_grace", &running.ShutdownGrace, &again.ShutdownGrace},
	} {
		was, is := reflect.ValueOf(one.was).Elem(), reflect.ValueOf(one.is).Elem()
		if !reflect.DeepEqual(was.Interface(), is.Interface()) {
			fixed = append(fixed, one.key)
			is.Set(was)
		}
	}
	return again, fixed
}

// changedKeys lists the keys of the first level whose settings differ, without the level of the log.
func changedKeys(running, again config.Config) []string {
	running.Log.Level, again.Log.Level = 0, 0
	keys := []string{}
	was, is := reflect.ValueOf(running), reflect.ValueOf(again)
	for i := range was.NumField() {
		key := was.Type().Field(i).Tag.Get("yaml")
		if key != "-" && !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			keys = append(keys, key)
		}
	}
	return keys
}
