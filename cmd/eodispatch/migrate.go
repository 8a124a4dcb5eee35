package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/store"
)

func migrateCommandLine(c console) *cobra.Command {
	return configured(c, &cobra.Command{Use: "migrate", Short: "Migrate the database to this version",
		Args: cobra.NoArgs,
		Long: `Migrate the database to this version, as the start of a broker does. On PostgreSQL brokers of the previous version may
run, and several processes may migrate at once: one does it, and the others wait. On SQLite no broker may use the file.
docs/upgrade.md says what a migration may do.`,
		Example: "  eodispatch migrate --config broker.yaml",
	}, func(settings *config.Config, _ []string) error { return migrate(c, settings) })
}

// migrate opens the database of the settings, which brings it up to date.
func migrate(c console, settings *config.Config) error {
	return withDatabase(c, settings, openDatabase, func(_ context.Context, db *store.Store) error {
		before, after := db.Schema()
		if before == after {
			_, err := fmt.Fprintf(c.out, "The database is up to date: it has schema %d.\n", after)
			return err
		}
		_, err := fmt.Fprintf(c.out, "The database was migrated from schema %d to schema %d.\n", before, after)
		return err
	})
}
