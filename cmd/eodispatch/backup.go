package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/store"
)

func backupCommandLine(c console) *cobra.Command {
	return configured(c, &cobra.Command{Use: "backup FILE", Short: "Back up the SQLite database while brokers use it",
		Args: cobra.ExactArgs(1),
		Long: `Copy the SQLite database to a new file while a broker uses it: the state of one moment, verified. If the copy fails,
there is no file. docs/operations.md says how to restore it, and how to back up PostgreSQL.`,
		Example: "  eodispatch backup --config broker.yaml /backup/eodispatch-$(date +%F).db",
	}, func(settings *config.Config, args []string) error { return backUp(c, settings, args[0]) })
}

// backUp writes the copy.
func backUp(c console, settings *config.Config, file string) error {
	ctx, stop := c.signals(context.Background())
	defer stop()
	size, err := store.Backup(ctx, settings.Database.Reveal(), file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out,
		"%s: %d bytes, verified. After a restore, run eodispatch restored before the broker starts\n", file, size)
	return err
}
