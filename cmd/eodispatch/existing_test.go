package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/identity"
)

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
