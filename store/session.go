package store

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const sessionColumns = "id, owner, issuer, sid, created, ends, version, key, sealed"

func sessionPlaces(n *dispatch.Session) []any {
	return []any{&n.ID, text(&n.Owner), &n.Issuer, &n.SID, instant(&n.Created), instant(&n.Ends), &n.Version, &n.Key,
		&n.Text}
}

// AddSession stores a new session and ends the oldest of its owner's that are too many.
func (s *Store) AddSession(ctx context.Context, n dispatch.Session, most int) error {
	return s.in(ctx, s.write, "AddSession", func(q tx, _ int64) error {
		err := run(ctx, q, `
			INSERT INTO sessions (id, owner, issuer, sid, key, sealed, created, ends)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			n.ID, n.Owner, n.Issuer, n.SID, n.Key, n.Text, micros(n.Created), micros(n.Ends))
		if err != nil {
			return err
		}
		return run(ctx, q, `
			DELETE FROM sessions
			WHERE owner = $1 AND id NOT IN (
				SELECT s.id FROM sessions s
				WHERE s.owner = $1
				ORDER BY s.created DESC, s.id DESC
				LIMIT CAST($2 AS BIGINT))`, n.Owner, most)
	})
}

// Session returns a session.
func (s *Store) Session(ctx context.Context, id string) (dispatch.Session, error) {
	n, err := one(ctx, s.on(s.read), sessionPlaces, "SELECT "+sessionColumns+" FROM sessions WHERE id = $1", id)
	return n, noSuch("Session", "There is no such session.", err)
}

// RenewSession stores the sealed tokens of a session, unless the session changed or was ended meanwhile: then it
// returns Conflict.
func (s *Store) RenewSession(ctx context.Context, n dispatch.Session) (dispatch.Session, error) {
	renewed, err := one(ctx, s.on(s.write), sessionPlaces, `
		UPDATE sessions
		SET key = $1, sealed = $2, version = version + 1
		WHERE id = $3 AND version = $4
		RETURNING `+sessionColumns, n.Key, n.Text, n.ID, n.Version)
	return renewed, fail("RenewSession", changed("RenewSession", err))
}

// ExtendSession moves the end of a session to a later time.
func (s *Store) ExtendSession(ctx context.Context, id string, ends time.Time) error {
	return fail("ExtendSession", run(ctx, s.on(s.write), `
		UPDATE sessions
		SET ends = $1
		WHERE id = $2 AND ends < $1`, micros(ends), id))
}

// EndSession deletes a session.
func (s *Store) EndSession(ctx context.Context, id string) error {
	return fail("EndSession", run(ctx, s.on(s.write), "DELETE FROM sessions WHERE id = $1", id))
}

// EndSessions deletes the sessions of a provider's session and of a user.
func (s *Store) EndSessions(ctx context.Context, issuer, sid string, u dispatch.UserID) (int, error) {
	n, err := exec(ctx, s.on(s.write), `
		DELETE FROM sessions
		WHERE issuer = $1
			AND (CAST($2 AS TEXT) = '' OR sid = $2)
			AND (CAST($3 AS TEXT) = '' OR owner = $3)`, issuer, sid, u)
	return int(n), fail("EndSessions", err)
}
