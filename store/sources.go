package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

var _ dispatch.Sources = (*Store)(nil)

// SourceStates returns the states of all sources by name.
func (s *Store) SourceStates(ctx context.Context) (map[string]dispatch.SourceState, error) {
	now, err := s.now(ctx, s.read)
	if err != nil {
		return nil, fail("SourceStates", err)
	}
	rows, err := s.queries(s.read).ListSourceStates(ctx)
	states := make(map[string]dispatch.SourceState, len(rows))
	for _, r := range rows {
		states[r.Name] = dispatch.SourceState{Revision: r.Revision, Due: r.Due <= now}
	}
	return states, fail("SourceStates", err)
}

// ClaimSource claims a source for the given time; nil if it is not due.
func (s *Store) ClaimSource(ctx context.Context, name string, within time.Duration) (claim *dispatch.SourceClaim, err error) {
	err = s.in(ctx, s.write, "ClaimSource", func(q tx, now int64) error {
		claim = nil
		if err := q.AddSource(ctx, name); err != nil {
			return err
		}
		row, err := q.ClaimSource(ctx, now+within.Microseconds(), name, now)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		source, err := sourceOf(row)
		claim = &dispatch.SourceClaim{Source: source, Number: row.Claim, Now: at(now)}
		return err
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
		rows, err := q.SaveSource(ctx, query.SaveSourceParams{Name: c.Name, Claim: c.Number, Documents: documents, Read: micros(c.Read),
			Failure: storableText(c.Failure), Revision: c.Revision, Due: now + again.Microseconds()})
		return changed("SaveSource", rows, err)
	})
}

// Source returns a source; the zero Source if it was never claimed.
func (s *Store) Source(ctx context.Context, name string) (dispatch.Source, error) {
	row, err := s.queries(s.read).GetSource(ctx, name)
	if err != nil {
		return dispatch.Source{}, fail("Source", missing(err))
	}
	source, err := sourceOf(row)
	return source, fail("Source", err)
}

// PurgeSources deletes sources that have been due for longer than keep.
func (s *Store) PurgeSources(ctx context.Context, keep time.Duration) error {
	return s.in(ctx, s.write, "PurgeSources", func(q tx, now int64) error { return q.PurgeSources(ctx, now-keep.Microseconds()) })
}

func sourceOf(r query.Source) (dispatch.Source, error) {
	s := dispatch.Source{Name: r.Name, Read: at(r.Read), Failure: r.Failure, Revision: r.Revision}
	return s, json.Unmarshal([]byte(r.Documents), &s.Documents)
}
