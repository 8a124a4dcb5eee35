package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// SourceStates returns the states of all sources by name.
func (s *Store) SourceStates(ctx context.Context) (map[string]dispatch.SourceState, error) {
	now, err := s.now(ctx, s.read)
	if err != nil {
		return nil, fail("SourceStates", err)
	}
	states := map[string]dispatch.SourceState{}
	err = each(ctx, s.on(s.read), func(r row) error {
		var name string
		var state dispatch.SourceState
		var due int64
		err := r.Scan(&name, &state.Revision, &due)
		state.Due = due <= now
		states[name] = state
		return err
	}, "SELECT name, revision, due FROM sources")
	return states, fail("SourceStates", err)
}

const sourceColumns = "name, documents, read, failure, revision"

// scanSource also scans the columns that follow those of the source.
func scanSource(r row, more ...any) (s dispatch.Source, err error) {
	var documents string
	columns := []any{&s.Name, &documents, instant(&s.Read), &s.Failure, &s.Revision}
	if err := r.Scan(append(columns, more...)...); err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(documents), &s.Documents)
}

// ClaimSource claims a source for the given time; nil if it is not due.
func (s *Store) ClaimSource(
	ctx context.Context, name string, within time.Duration,
) (claim *dispatch.SourceClaim, err error) {
	err = s.in(ctx, s.write, "ClaimSource", func(q tx, now int64) error {
		claim = nil
		err := run(ctx, q, `
			INSERT INTO sources (name)
			VALUES ($1)
			ON CONFLICT (name) DO NOTHING`, name)
		if err != nil {
			return err
		}
		claimed := dispatch.SourceClaim{Now: at(now)}
		claimed.Source, err = scanSource(q.QueryRowContext(ctx, `
			UPDATE sources
			SET claim = claim + 1, due = $1
			WHERE name = $2 AND due <= $3
			RETURNING `+sourceColumns+`, claim`, now+within.Microseconds(), name, now), &claimed.Number)
		if err == nil {
			claim = &claimed
		}
		return missing(err)
	})
	if err != nil {
		return nil, err
	}
	return claim, nil
}

// SaveSource stores what was read under a claim; Conflict if another process has claimed the source since.
func (s *Store) SaveSource(ctx context.Context, c dispatch.SourceClaim, again time.Duration) error {
	documents, err := encode(c.Documents)
	if err != nil {
		return fail("SaveSource", err)
	}
	return s.in(ctx, s.write, "SaveSource", func(q tx, now int64) error {
		rows, err := exec(ctx, q, `
			UPDATE sources
			SET documents = $1, read = $2, failure = $3, revision = $4, due = $5
			WHERE name = $6 AND claim = $7`, documents, micros(c.Read), storableText(c.Failure), c.Revision,
			now+again.Microseconds(), c.Name, c.Number)
		return changed("SaveSource", rows, err)
	})
}

// Source returns a source; the zero Source if it was never claimed.
func (s *Store) Source(ctx context.Context, name string) (dispatch.Source, error) {
	source, err := scanSource(s.on(s.read).QueryRowContext(ctx, `
		SELECT `+sourceColumns+`
		FROM sources
		WHERE name = $1`, name))
	return source, fail("Source", missing(err))
}

// PurgeSources deletes sources that have been due for longer than keep.
func (s *Store) PurgeSources(ctx context.Context, keep time.Duration) error {
	return s.in(ctx, s.write, "PurgeSources", func(q tx, now int64) error {
		return run(ctx, q, "DELETE FROM sources WHERE due < $1", now-keep.Microseconds())
	})
}
