package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

var _ dispatch.SessionStore = (*Store)(nil)

// AddSession stores a new session and ends the oldest of its owner's that are too many.
func (s *Store) AddSession(ctx context.Context, n dispatch.Session, most int) error {
	return s.in(ctx, s.write, "AddSession", func(q tx, _ int64) error {
		if err := q.AddSession(ctx, query.AddSessionParams{ID: n.ID, Owner: n.Owner, Issuer: n.Issuer, Sid: n.SID, Key: n.Key, Sealed: n.Text,
			Created: micros(n.Created), Ends: micros(n.Ends)}); err != nil {
			return err
		}
		return q.EndOldestSessions(ctx, n.Owner, int64(most))
	})
}

// Session returns a session.
func (s *Store) Session(ctx context.Context, id string) (dispatch.Session, error) {
	row, err := s.queries(s.read).GetSession(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return dispatch.Session{}, &dispatch.Error{Kind: dispatch.NotFound, Op: "store.Session", Text: "There is no such session.", Err: err}
	}
	return sessionOf(row), fail("Session", err)
}

// RenewSession stores the sealed tokens of a session, unless the session changed or was ended meanwhile: then it returns Conflict.
func (s *Store) RenewSession(ctx context.Context, n dispatch.Session) (dispatch.Session, error) {
	row, err := s.queries(s.write).RenewSession(ctx, query.RenewSessionParams{ID: n.ID, Version: n.Version, Key: n.Key, Sealed: n.Text})
	if errors.Is(err, sql.ErrNoRows) {
		return dispatch.Session{}, conflict("RenewSession")
	}
	return sessionOf(row), fail("RenewSession", err)
}

// ExtendSession moves the end of a session to a later time.
func (s *Store) ExtendSession(ctx context.Context, id string, ends time.Time) error {
	return fail("ExtendSession", s.queries(s.write).ExtendSession(ctx, micros(ends), id))
}

// EndSession deletes a session.
func (s *Store) EndSession(ctx context.Context, id string) error {
	return fail("EndSession", s.queries(s.write).EndSession(ctx, id))
}

// EndSessions deletes the sessions of a provider's session and of a user.
func (s *Store) EndSessions(ctx context.Context, issuer, sid string, u dispatch.UserID) (int, error) {
	rows, err := s.queries(s.write).EndSessions(ctx, issuer, sid, string(u))
	return int(rows), fail("EndSessions", err)
}

func sessionOf(r query.Session) dispatch.Session {
	return dispatch.Session{ID: r.ID, Owner: r.Owner, Issuer: r.Issuer, SID: r.Sid, Created: at(r.Created), Ends: at(r.Ends),
		Version: r.Version, Sealed: dispatch.Sealed{Key: r.Key, Text: r.Sealed}}
}
