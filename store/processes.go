package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

const noProcess = "You have stored no such process."

// SaveProcess stores a process of a user, whose quota is checked in the same transaction.
func (s *Store) SaveProcess(
	ctx context.Context, u dispatch.UserID, p dispatch.StoredProcess, within dispatch.ProcessQuota,
) error {
	return s.in(ctx, s.write, "SaveProcess", func(q tx, now int64) error {
		if err := s.lockInTransaction(ctx, q, "processes of "+string(u)); err != nil {
			return err
		}
		var others int
		var bytes int64
		err := q.QueryRowContext(ctx, `
			SELECT count(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT)
			FROM processes
			WHERE owner = $1 AND id <> $2`, u, p.ID).Scan(number(&others), &bytes)
		if err != nil {
			return err
		}
		size := int64(len(p.Body))
		if err := within.Admit(others, bytes, size); err != nil {
			return err
		}
		return run(ctx, q, `
			INSERT INTO processes (owner, id, body, bytes, updated)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (owner, id) DO UPDATE
			SET body = excluded.body, bytes = excluded.bytes, updated = excluded.updated`, u, p.ID, string(p.Body), size, now)
	})
}

func processColumns(p *dispatch.StoredProcess) []any {
	return []any{&p.ID, &p.Body, instant(&p.Updated)}
}

// Process returns a process of a user.
func (s *Store) Process(ctx context.Context, u dispatch.UserID, id string) (dispatch.StoredProcess, error) {
	p, err := one(ctx, s.on(s.read), processColumns, `
		SELECT id, body, updated
		FROM processes
		WHERE owner = $1 AND id = $2`, u, id)
	return p, noSuch("Process", noProcess, err)
}

// Processes returns a page of the processes of a user.
func (s *Store) Processes(
	ctx context.Context, u dispatch.UserID, after string, most int,
) ([]dispatch.StoredProcess, error) {
	all, err := list(ctx, s.on(s.read), processColumns, `
		SELECT id, body, updated
		FROM processes
		WHERE owner = $1 AND id > $2
		ORDER BY id
		LIMIT CAST($3 AS BIGINT)`, u, after, most)
	return all, fail("Processes", err)
}

// DeleteProcess deletes a process of a user.
func (s *Store) DeleteProcess(ctx context.Context, u dispatch.UserID, id string) error {
	return noSuch("DeleteProcess", noProcess,
		runFound(ctx, s.on(s.write), "DELETE FROM processes WHERE owner = $1 AND id = $2", u, id))
}
