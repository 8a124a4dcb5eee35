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

// reloadOnHangup reads the settings again whenever the process gets SIGHUP, until ctx is done. Those that can change while requests are served take
// effect; of the others the log names the keys that differ from the running ones.
func (s *serveCommand) reloadOnHangup(ctx context.Context, c console, running *config.Config, level *slog.LevelVar, log *slog.Logger) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-hangups:
				s.reload(ctx, c, running, level, log)
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (s *serveCommand) reload(ctx context.Context, c console, running *config.Config, level *slog.LevelVar, log *slog.Logger) {
	again, err := s.load(c)
	if err != nil {
		log.ErrorContext(ctx, "the settings were not reloaded: the running ones stay", "error", err)
		return
	}
	level.Set(again.Log.Level)
	log.InfoContext(ctx, "settings reloaded", "log.level", again.Log.Level, "need a restart", changedKeys(*running, *again))
}

// changedKeys lists the keys of the first level whose settings differ, without those that were reloaded.
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
