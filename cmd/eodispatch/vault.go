package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
)

func vaultCommandLine(c console) *cobra.Command {
	command := &cobra.Command{Use: "vault", Short: "Create and rotate the keys that encrypt users' tokens",
		Args: cobra.ArbitraryArgs, RunE: missingCommand,
		Example: "  eodispatch vault key\n  eodispatch vault rotate --config broker.yaml"}
	rotation := configured(c, &cobra.Command{Use: "rotate", Short: "Re-encrypt the vault with the first of vault.keys",
		Args:    cobra.NoArgs,
		Long:    "Re-encrypt the vault with the first of vault.keys. After that you can remove the other keys.",
		Example: "  eodispatch vault rotate --config broker.yaml",
	}, func(settings *config.Config, _ []string) error { return rotate(c, settings) })
	command.AddCommand(rotation, &cobra.Command{Use: "key", Short: "Print a new key for vault.keys, where it goes " +
		"first", Args: cobra.NoArgs, Example: "  eodispatch vault key", RunE: func(*cobra.Command, []string) error {
		_, err := fmt.Fprintln(c.out, identity.NewKey(time.Now()).Reveal())
		return err
	}})
	return command
}

// rotate rotates the keys. On PostgreSQL brokers may keep running if they have all of the keys; on SQLite none may run.
func rotate(c console, settings *config.Config) error {
	ring, err := keyring(settings)
	if err != nil {
		return err
	}
	if ring == nil {
		return config.Faults{{Where: "configuration", Key: "vault.keys",
			Text: "is missing: there is nothing to rotate"}}
	}
	return withDatabase(c, settings, openExisting, func(ctx context.Context, db *store.Store) error {
		rotated, err := identity.Rotate(ctx, db, ring)
		counts := make([]string, len(rotated))
		for i, r := range rotated {
			counts[i] = fmt.Sprintf("%d %s", r.Rows, r.What)
		}
		fmt.Fprintf(c.out, "encrypted with the first key: %s\n", strings.Join(counts, ", "))
		return err
	})
}

// keyring returns the keys of the settings; nil if there are none.
func keyring(settings *config.Config) (*identity.Keyring, error) {
	if settings.Vault.Keys == "" {
		return nil, nil
	}
	ring, err := identity.ParseKeyring(settings.Vault.Keys)
	if err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "keyring",
			Text: "The keys of the vault cannot be read.", Err: err}
	}
	return ring, nil
}
