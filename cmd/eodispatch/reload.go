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

// changedKeys lists the keys of the first level whose settings differ, without the level of the log.
func changedKeys(running, again config.Config) []string {
	running.Log.Level, again.Log.Level = 0, 0
	keys := []string{}
	before, after := reflect.ValueOf(running), reflect.ValueOf(again)
	for i := range before.NumField() {
		key := before.Type().Field(i).Tag.Get("yaml")
		if key != "-" && !reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			keys = append(keys, key)
		}
	}
	return keys
}
