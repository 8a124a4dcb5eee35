package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// storeDocuments stores the documents of accepted jobs: one for the task, or one for each job.
func (a *acceptance) storeDocuments(ctx context.Context, q tx) error {
	if a.task != nil {
		return storeDocument(ctx, q, query.DefineParams{Task: a.id, Owner: a.task.Owner}, a.task.Document)
	}
	for i, j := range a.jobs {
		if err := storeDocument(ctx, q, query.DefineParams{Job: a.first + dispatch.JobID(i), Owner: j.Owner}, j.Document); err != nil {
			return err
		}
	}
	return nil
}

// storeDocument stores a document unless it is already stored. An unused document may be purged meanwhile; then the reference to it
// fails, and the transaction is run again.
func storeDocument(ctx context.Context, q tx, of query.DefineParams, d *dispatch.Document) error {
	if d == nil {
		return nil
	}
	var err error
	if of.Service, err = encode(d.Service); err != nil {
		return err
	}
	of.Platform, of.Document = d.Platform, d.Hash()
	kept, err := q.HasDocument(ctx, of.Document)
	if err == nil && !kept { // large bodies are sent only if they are missing
		err = q.KeepDocument(ctx, of.Document, storableText(string(d.Body)))
	}
	if err != nil {
		return err
	}
	return q.Define(ctx, of)
}

// Document returns the document that defined a job's service when the job was accepted; nil if none was stored.
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

// Definition returns the document that defined a job's service when the job was accepted.
func (s *Store) Definition(ctx context.Context, id dispatch.JobID) ([]byte, error) {
	body, err := s.queries(s.look).GetSentProcess(ctx, id)
	return []byte(body), fail("Definition", err)
}

// Origins returns the origins of all documents that define the services of waiting jobs.
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

// hashesAtOnce is how many definitions one transaction of SetDocumentHash changes, so that other writes do not wait for a popular service.
const hashesAtOnce = 100

// SetDocumentHash stores the current hash of the document of an origin. It returns the owners of the jobs concerned.
func (s *Store) SetDocumentHash(ctx context.Context, o dispatch.Origin, hash string) (owners []dispatch.UserID, err error) {
	service, err := encode(o.Service)
	if err != nil {
		return nil, fail("SetDocumentHash", err)
	}
	ctx = allow(ctx, listWithin)
	outdated, err := s.queries(s.read).ListOutdated(ctx, o.Platform, service, hash)
	if err != nil {
		return nil, fail("SetDocumentHash", err)
	}
	for some := range slices.Chunk(outdated, hashesAtOnce) {
		told, err := s.setDocumentHash(ctx, some, hash)
		if err != nil {
			return owners, err
		}
		owners = append(owners, told...)
	}
	homes, err := s.queries(s.read).ListOutdatedHomes(ctx, o.Platform, service, hash)
	if err != nil {
		return owners, fail("SetDocumentHash", err)
	}
	for some := range slices.Chunk(homes, hashesAtOnce) {
		told, err := s.setHomesHash(ctx, some, hash)
		if err != nil {
			return owners, err
		}
		owners = append(owners, told...)
	}
	return owners, nil
}

// setHomesHash does the same for further homes of tasks.
func (s *Store) setHomesHash(ctx context.Context, homes []query.ListOutdatedHomesRow, hash string) (owners []dispatch.UserID, err error) {
	err = s.in(ctx, s.write, "SetDocumentHash", func(q tx, _ int64) error {
		owners = nil
		for _, h := range homes {
			rows, err := q.SetHomeDocumentHash(ctx, hash, int64(h.Task), h.Account)
			if err != nil {
				return err
			}
			if rows > 0 {
				owners = append(owners, h.Owner)
			}
		}
		return nil
	})
	return owners, err
}

func (s *Store) setDocumentHash(ctx context.Context, of []query.ListOutdatedRow, hash string) (owners []dispatch.UserID, err error) {
	err = s.in(ctx, s.write, "SetDocumentHash", func(q tx, _ int64) error {
		owners = nil
		for _, d := range of {
			told, err := q.SetDocumentHash(ctx, hash, int64(d.Task), int64(d.Job))
			if err != nil {
				return err
			}
			owners = append(owners, told...)
		}
		return nil
	})
	return owners, err
}

// redefined sets the attention ServiceChanged on a waiting job that has no other attention.
func redefined(j dispatch.Job, changed bool) dispatch.Job {
	if changed && j.Phase == dispatch.Waiting && j.Attention == dispatch.None {
		j.Attention = dispatch.ServiceChanged
	}
	return j
}
