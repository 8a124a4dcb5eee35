package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
)

type vaultCommand struct {
	Key    vaultKeyCommand    `cmd:"" help:"Print a new key, to be put first in vault.keys."`
	Rotate vaultRotateCommand `cmd:"" help:"Encrypt everything in the vault with the first of vault.keys. After that the other keys can be removed."`
}

type vaultKeyCommand struct{}

func (vaultKeyCommand) Run(c console) error {
	_, err := fmt.Fprintln(c.out, identity.NewKey(time.Now()).Reveal())
	return err
}

type vaultRotateCommand struct{ configFlags }

// Run rotates the keys. On PostgreSQL brokers may keep running if they have all of the keys; on SQLite none may run.
func (v *vaultRotateCommand) Run(c console) (err error) {
	settings, err := v.load(c)
	if err != nil {
		return err
	}
	ring, err := keyring(settings)
	if err != nil {
		return err
	}
	if ring == nil {
		return config.Faults{{Where: "configuration", Key: "vault.keys", Text: "is missing: there is nothing to rotate"}}
	}
	ctx, stop := c.signals(context.Background())
	defer stop()
	kept, err := store.Open(ctx, settings.Database.Reveal(), wallClock{}, ownVersion())
	if err != nil {
		return err
	}
	defer kept.Close()
	n, err := identity.Rotate(ctx, kept, ring)
	fmt.Fprintf(c.out, "encrypted %d grants with the first key\n", n)
	return err
}

// keyring returns the keys of the settings; nil if there are none.
func keyring(settings *config.Config) (*identity.Keyring, error) {
	if settings.Vault.Keys == "" {
		return nil, nil
	}
	ring, err := identity.ParseKeyring(settings.Vault.Keys)
	if err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "keyring", Text: "The keys of the vault cannot be read.", Err: err}
	}
	return ring, nil
}
