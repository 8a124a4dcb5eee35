package store

import (
	"context"
	"fmt"

	"github.com/pressly/goose/v3"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Names of settings.
const (
	// the name of this database, which is in the tags of its jobs at platforms
	installation = "installation"
	cursorKey    = "cursor key"
	migratedBy   = "migrated by" // the version of the program that brought the tables up to date last
)

// update migrates the schema. It refuses a schema that is newer than the program, which cannot know what the tables
// mean. A running program continues while a newer one migrates, see docs/upgrade.md.
func (s *Store) update(ctx context.Context, p *goose.Provider) error {
	current, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > known {
		return s.tooNew(ctx, current, known)
	}
	s.schemaWas, s.schema = current, known
	done, err := p.Up(ctx)
	if err != nil || len(done) == 0 || s.program == "" {
		return err
	}
	return run(ctx, s.on(s.write), `
		INSERT INTO settings (name, value)
		VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, migratedBy, s.program)
}

func setting(ctx context.Context, q querier, name string) (string, error) {
	return value[string](ctx, q, "SELECT value FROM settings WHERE name = $1", name)
}

// Schema returns the versions of the schema that Open found, and to which it brought the database.
func (s *Store) Schema() (before, now int64) { return s.schemaWas, s.schema }

func (s *Store) tooNew(ctx context.Context, current, known int64) error {
	start := "a newer eodispatch"
	by, err := setting(ctx, s.on(s.write), migratedBy)
	if err == nil {
		start = "eodispatch " + by + ", or a newer one"
	}
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.Open", Err: missing(err), Text: fmt.Sprintf(
		"The database has schema %d, and this program knows schemas up to %d. Start %s.", current, known, start)}
}
