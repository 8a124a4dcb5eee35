package store

import (
	"context"
	"fmt"
	"regexp"

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

// release matches the versions of releases, of which the first is 0.2.0.
var release = regexp.MustCompile(`^v?(0\.([2-9]|[1-9]\d+)|[1-9]\d*\.\d+)\.\d+`)

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
	by, _ := setting(ctx, s.on(s.write), migratedBy) // the first builds had no such setting
	advice := "Start eodispatch " + by + ", or a newer one."
	if !release.MatchString(by) {
		advice = "It was made by a build that is no release. Databases of builds before 0.2.0 cannot be opened. " +
			"Give this program a new, empty database, see docs/upgrade.md."
	}
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.Open", Text: fmt.Sprintf(
		"The database has schema %d, and this program knows schemas up to %d. %s", current, known, advice)}
}
