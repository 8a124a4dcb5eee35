package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

var _ dispatch.Processes = (*Store)(nil)

// SaveProcess stores a process of a user, whose quota is checked in the same transaction.
func (s *Store) SaveProcess(ctx context.Context, u dispatch.UserID, p dispatch.StoredProcess, within dispatch.ProcessQuota) error {
	return s.in(ctx, s.write, "SaveProcess", func(q tx, now int64) error {
		if err := s.lockInTransaction(ctx, q, "processes of "+string(u)); err != nil {
			return err
		}
		others, err := q.CountOtherProcesses(ctx, u, p.ID)
		if err != nil {
			return err
		}
		size := int64(len(p.Body))
		if err := within.Admit(int(others.N), others.Bytes, size); err != nil {
			return err
		}
		return q.SaveProcess(ctx, query.SaveProcessParams{Owner: u, ID: p.ID, Body: string(p.Body), Bytes: size, Updated: now})
	})
}

// Process returns a process of a user.
func (s *Store) Process(ctx context.Context, u dispatch.UserID, id string) (dispatch.StoredProcess, error) {
	row, err := s.queries(s.read).GetProcess(ctx, u, id)
	if errors.Is(err, sql.ErrNoRows) {
		return dispatch.StoredProcess{}, noProcess(err)
	}
	return processOf(row), fail("Process", err)
}

// Processes returns a page of the processes of a user.
func (s *Store) Processes(ctx context.Context, u dispatch.UserID, after string, most int) ([]dispatch.StoredProcess, error) {
	rows, err := s.queries(s.read).ListProcesses(ctx, u, after, int64(most))
	all := make([]dispatch.StoredProcess, len(rows))
	for i, row := range rows {
		all[i] = processOf(row)
	}
	return all, fail("Processes", err)
}

// DeleteProcess deletes a process of a user.
func (s *Store) DeleteProcess(ctx context.Context, u dispatch.UserID, id string) error {
	rows, err := s.queries(s.write).DeleteProcess(ctx, u, id)
	if err == nil && rows == 0 {
		return noProcess(nil)
	}
	return fail("DeleteProcess", err)
}

func processOf(r query.Process) dispatch.StoredProcess {
	return dispatch.StoredProcess{ID: r.ID, Body: []byte(r.Body), Updated: at(r.Updated)}
}

func noProcess(err error) error {
	return &dispatch.Error{Kind: dispatch.NotFound, Op: "store.Process", Text: "You have stored no such process.", Err: err}
}
