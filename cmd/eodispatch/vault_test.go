package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatchtest/postgres"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
)

func TestKeysArePrintedForTheVault(t *testing.T) {
	code, printed := try(t, nil, "vault", "key")
	if _, err := identity.ParseKeyring(dispatch.Secret(printed)); code != exitDone || err != nil {
		t.Errorf("exit %d: %v", code, err)
	}
	if _, again := try(t, nil, "vault", "key"); again[strings.Index(again, ":"):] == printed[strings.Index(printed, ":"):] {
		t.Error("two keys are the same")
	}
}

// TestVaultRotation meets a grant that no key opens: it must say so, and leave it as it is.
func TestVaultRotation(t *testing.T) {
	w := startWorld(t)
	database := "sqlite:" + filepath.Join(t.TempDir(), "d.db")
	environ := append(deployed(w, asUser, asUser), "EODISPATCH_DATABASE="+database)
	if code, printed := try(t, environ, "vault", "rotate"); code != exitUsage || !strings.Contains(printed, "vault.keys: is missing") {
		t.Errorf("without keys: exit %d:\n%s", code, printed)
	}
	environ = append(environ, "EODISPATCH_VAULT_KEYS="+identity.NewKey(wallClock{}.Now()).Reveal())
	if code, printed := try(t, environ, "vault", "rotate"); code != exitDone || printed != "sealed 0 grants with the first key\n" {
		t.Errorf("an empty vault: exit %d:\n%s", code, printed)
	}
	kept, err := store.Open(t.Context(), database, wallClock{})
	if err != nil {
		t.Fatal(err)
	}
	g := dispatch.Grant{ID: "g", Owner: "u", Issuer: "i", Kind: dispatch.OfflineGrant, Sealed: dispatch.Sealed{Key: "lost", Text: "x"}}
	if err := errors.Join(kept.KeepGrant(t.Context(), g), kept.Close()); err != nil {
		t.Fatal(err)
	}
	if code, printed := try(t, environ, "vault", "rotate"); code != exitFailed || !strings.Contains(printed, `the vault's key "lost" is missing`) {
		t.Errorf("a lost key: exit %d:\n%s", code, printed)
	}
}

func TestPostgreSQLNeedsKeysToActAsUsers(t *testing.T) {
	w := startWorld(t)
	environ := append(deployed(w, asUser, asUser), "EODISPATCH_DATABASE="+postgres.Database(t))
	code, printed := try(t, environ, "serve")
	if code != exitUsage || !strings.Contains(printed, "vault.keys: is missing: access: user on PostgreSQL needs it") {
		t.Errorf("exit %d:\n%s", code, printed)
	}
}
