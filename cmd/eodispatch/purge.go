package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

func purgeCommandLine(c console) *cobra.Command {
	counts := false
	command := configured(c, &cobra.Command{Use: "purge", Short: "Delete what is older than the retention settings",
		Args: cobra.NoArgs,
		Long: `Delete what is older than the retention settings, as a running broker does every hour. Jobs that have not ended, or are
in doubt, are never deleted. On SQLite no broker may use the file, except with --dry-run.`,
		Example: "  eodispatch purge --dry-run --config broker.yaml",
	}, func(settings *config.Config, _ []string) error {
		if counts {
			return withDatabase(c, settings, openToRead, func(ctx context.Context, db *store.Store) error {
				return countAged(ctx, db, retentionOf(settings), c.out)
			})
		}
		return withDatabase(c, settings, openExisting, func(ctx context.Context, db *store.Store) error {
			return deleteAged(ctx, db, settings, c.out)
		})
	})
	command.Flags().BoolVar(&counts, "dry-run", false, "only count what would be deleted")
	return command
}

func deleteAged(ctx context.Context, db *store.Store, settings *config.Config, out io.Writer) error {
	deleted := map[string]int64{}
	db.KeepKeys(settings.Retention.Keys)
	db.OnRemoved(func(kind string, n int64) { deleted[kind] += n })
	if err := db.Retain(ctx, retentionOf(settings)); err != nil {
		return err
	}
	if err := db.Purge(ctx, keepHidden); err != nil {
		return err
	}
	for _, kind := range []string{"results", "requests", "jobs", "tasks", "keys"} {
		fmt.Fprintf(out, "%-8s %d deleted\n", kind, deleted[kind])
	}
	return nil
}

func countAged(ctx context.Context, db *store.Store, r dispatch.Retention, out io.Writer) error {
	a, err := db.Aged(ctx, r)
	if err != nil {
		return err
	}
	for _, row := range []struct {
		kind string
		n    int64
		keep time.Duration
	}{{"results", a.Results, r.Results}, {"requests", a.Requests, r.Requests}, {"jobs", a.Jobs, r.Jobs},
		{"tasks", a.Tasks, r.Jobs}} {
		if row.keep == 0 {
			fmt.Fprintf(out, "%-8s are kept for ever\n", row.kind)
			continue
		}
		fmt.Fprintf(out, "%-8s %d would be deleted: they ended more than %v ago\n", row.kind, row.n, row.keep)
	}
	return nil
}

func retentionOf(settings *config.Config) dispatch.Retention {
	r := settings.Retention
	return dispatch.Retention{Results: r.Results, Requests: r.Requests, Jobs: r.Jobs, Platform: r.Platform}
}
