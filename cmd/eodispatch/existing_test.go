package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// A database that refuses says itself what to do; that its server may not run is no advice then.
func TestDoctor_AdvisesByTheDatabasesError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "missing", "d.db")
	for database, advised := range map[string]bool{"sqlite:" + file: false, "postgres://u@127.0.0.1:1/d": true} {
		settings := &config.Config{Database: dispatch.Secret(database)}
		found := diagnose(t.Context(), []check{{name: "database", ask: func(ctx context.Context) (string, error) {
			return askDatabase(ctx, settings)
		}}}, time.Minute)
		if row := found[0].row(); row[0] != "FAIL" || strings.Contains(row[2], "may create tables") != advised ||
			strings.HasSuffix(row[2], "; ") {
			t.Errorf("%s: %q", database, row)
		}
	}
}

// A command that changes what a database holds makes no new one where the file's name is wrong, as in another working
// directory: it would report success. The error names the whole path.
func TestCommands_NeedTheDatabaseToExist(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	environ := []string{"EODISPATCH_DATABASE=sqlite:d.db", "EODISPATCH_IDENTITY_ISSUER=https://auth.example.org",
		"EODISPATCH_IDENTITY_AUDIENCE=broker", "EODISPATCH_VAULT_KEYS=" + identity.NewKey(wallClock{}.Now()).Reveal(),
		`EODISPATCH_PLATFORMS=[{"name":"p","protocol":"openeo","endpoint":"https://p.example.org","access":"open"}]`}
	for _, command := range []string{"restored", "purge", "forget --user x", "vault rotate", "export --user x"} {
		var said bytes.Buffer
		code := run(strings.Fields(command), console{&said, &said, environ,
			func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }})
		if code != 1 || !strings.Contains(said.String(), "There is no database file "+filepath.Join(folder, "d.db")) {
			t.Errorf("%s: exit %d: %s", command, code, &said)
		}
		if made, _ := os.ReadDir(folder); len(made) > 0 {
			t.Fatalf("%s makes %v", command, made)
		}
	}
}
