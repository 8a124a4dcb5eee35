package store

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// SourceStates returns the states of all sources by name.
func (s *Store) SourceStates(ctx context.Context) (map[string]dispatch.SourceState, error) {
	type source struct {
		name string
		dispatch.SourceState
	}
	states := map[string]dispatch.SourceState{}
	return states, s.readOnly(ctx, s.read, "SourceStates", func(q tx, now int64) error {
		return eachRow(ctx, q, func(r *source) []any { return []any{&r.name, &r.Revision, &r.Due} },
			func(r *source) error {
				states[r.name] = r.SourceState
				return nil
			}, "SELECT name, revision, due <= $1 FROM sources", now)
	})
}

const sourceColumns = "name, documents, read, failure, revision, claim"

// readSource returns the source that a query of sourceColumns finds, with the number of the last claim.
func readSource(ctx context.Context, q querier, text string, args ...any) (s dispatch.Source, claim int64, err error) {
	err = q.QueryRowContext(ctx, text, args...).
		Scan(&s.Name, encodedIn[[]dispatch.SourceDocument]{&s.Documents}, instant(&s.Read), &s.Failure, &s.Revision,
			&claim)
	return s, claim, err
}

// ClaimSource claims a source for the given time; nil if it is not due.
func (s *Store) ClaimSource(
	ctx context.Context, name string, within time.Duration,
) (*dispatch.SourceClaim, error) {
	return result(ctx, s.in, s.write, "ClaimSource", func(q tx, now int64) (*dispatch.SourceClaim, error) {
		err := run(ctx, q, `
			INSERT INTO sources (name)
			VALUES ($1)
			ON CONFLICT (name) DO NOTHING`, name)
		if err != nil {
			return nil, err
		}
		claim := &dispatch.SourceClaim{Now: at(now)}
		claim.Source, claim.Number, err = readSource(ctx, q, `
			UPDATE sources
			SET claim = claim + 1, due = $1
			WHERE name = $2 AND due <= $3
			RETURNING `+sourceColumns, now+within.Microseconds(), name, now)
		if err != nil {
			return nil, missing(err)
		}
		return claim, nil
	})
}

// SaveSource stores what was read under a claim; Conflict if another process has claimed the source since.
func (s *Store) SaveSource(ctx context.Context, c dispatch.SourceClaim, again time.Duration) error {
	documents, err := encode(c.Documents)
	if err != nil {
		return fail("SaveSource", err)
	}
	return s.in(ctx, s.write, "SaveSource", func(q tx, now int64) error {
		return changed("SaveSource", runFound(ctx, q, `
			UPDATE sources
			SET documents = $1, read = $2, failure = $3, revision = $4, due = $5
			WHERE name = $6 AND claim = $7`, documents, micros(c.Read), storableText(c.Failure), c.Revision,
			now+again.Microseconds(), c.Name, c.Number))
	})
}

// Source returns a source; the zero Source if it was never claimed.
func (s *Store) Source(ctx context.Context, name string) (dispatch.Source, error) {
	source, _, err := readSource(ctx, s.on(s.read), `
		SELECT `+sourceColumns+`
		FROM sources
		WHERE name = $1`, name)
	return source, fail("Source", missing(err))
}

// PurgeSources deletes sources that have been due for longer than keep.
func (s *Store) PurgeSources(ctx context.Context, keep time.Duration) error {
	return s.in(ctx, s.write, "PurgeSources", func(q tx, now int64) error {
		return run(ctx, q, "DELETE FROM sources WHERE due < $1", now-keep.Microseconds())
	})
}
