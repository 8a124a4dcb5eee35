package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// define keeps the documents of what is accepted: one for the task, or one for each job.
func (a *acceptance) define(ctx context.Context, q tx) error {
	if a.task != nil {
		return define(ctx, q, a.id, 0, a.task.Document)
	}
	for _, j := range a.jobs {
		if err := define(ctx, q, 0, j.ID, j.Document); err != nil {
			return err
		}
	}
	return nil
}

// define keeps a document unless it is kept. One that nobody used any more may be purged meanwhile: then the reference
// to it fails, and the transaction is run again.
func define(ctx context.Context, q tx, task dispatch.TaskID, job dispatch.JobID, d *dispatch.Document) error {
	if d == nil {
		return nil
	}
	service, err := encode(d.Service)
	if err != nil {
		return err
	}
	hash := d.Hash()
	kept, err := q.HasDocument(ctx, hash)
	if err == nil && !kept { // bodies are large: not sent where they are
		err = q.KeepDocument(ctx, hash, clean(string(d.Body)))
	}
	if err != nil {
		return err
	}
	return q.Define(ctx, query.DefineParams{Task: task, Job: job, Platform: d.Platform, Service: service, Document: hash})
}

// Document gives the document that defined a job's service when it was accepted; nil if none was kept.
func (s *Store) Document(ctx context.Context, u dispatch.UserID, id dispatch.JobID) ([]byte, error) {
	if _, err := s.Record(ctx, u, id); err != nil {
		return nil, err
	}
	body, err := s.queries(s.read).GetDocument(ctx, id, u)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return []byte(body), fail("Document", err)
}

// Origins gives the origins of all documents that define the services of waiting jobs.
func (s *Store) Origins(ctx context.Context) ([]dispatch.Origin, error) {
	rows, err := s.queries(s.read).ListOrigins(ctx)
	if err != nil {
		return nil, fail("Origins", err)
	}
	origins := make([]dispatch.Origin, len(rows))
	for i, row := range rows {
		origins[i].Platform = row.Platform
		if err := json.Unmarshal([]byte(row.Service), &origins[i].Service); err != nil {
			return nil, fail("Origins", err)
		}
	}
	return origins, nil
}

// Redefine says that the document of an origin has this hash now.
func (s *Store) Redefine(ctx context.Context, o dispatch.Origin, hash string) (int, error) {
	service, err := encode(o.Service)
	if err != nil {
		return 0, fail("Redefine", err)
	}
	var changed int64
	err = s.in(ctx, s.write, "Redefine", func(q tx, _ int64) error {
		changed, err = q.Redefine(ctx, hash, o.Platform, service)
		return err
	})
	return int(changed), err
}

// redefined shows on a waiting job that the document of its service has changed, unless there is more to say.
func redefined(j dispatch.Job, changed bool) dispatch.Job {
	if changed && j.Phase == dispatch.Waiting && j.Attention == dispatch.None {
		j.Attention = dispatch.ServiceChanged
	}
	return j
}
