package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/store"
)

type backupCommand struct{ configFlags }

func backupCommandLine(c console) *cobra.Command {
	b := &backupCommand{}
	command := &cobra.Command{Use: "backup FILE", Short: "Back up the SQLite database while brokers use it",
		Args: cobra.ExactArgs(1),
		Long: `Copy the SQLite database to a new file while a broker uses it: the state of one moment, verified. If the copy fails,
there is no file. docs/operations.md says how to restore it, and how to back up PostgreSQL.`,
		Example: "  eodispatch backup --config broker.yaml /backup/eodispatch-$(date +%F).db",
		RunE: func(_ *cobra.Command, args []string) error {
			return b.Run(c, args[0])
		}}
	b.flags(command)
	return command
}

// Run writes the copy.
func (b *backupCommand) Run(c console, file string) error {
	settings, err := b.load(c)
	if err != nil {
		return err
	}
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
