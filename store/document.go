package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// storeDocuments stores the documents of accepted jobs: one for the task, or one for each job.
func (a *acceptance) storeDocuments(ctx context.Context, q tx) error {
	if a.task != nil {
		return storeDocument(ctx, q, a.id, 0, a.task.Owner, a.task.Document)
	}
	for i, j := range a.jobs {
		if err := storeDocument(ctx, q, 0, a.first+dispatch.JobID(i), j.Owner, j.Document); err != nil {
			return err
		}
	}
	return nil
}

// storeDocument stores a document of a task or a job unless it is already stored. An unused document may be purged
// meanwhile; then the reference to it fails, and the transaction is run again.
func storeDocument(
	ctx context.Context, q querier, task dispatch.TaskID, job dispatch.JobID, u dispatch.UserID, d *dispatch.Document,
) error {
	if d == nil {
		return nil
	}
	service, err := encode(d.Service)
	if err != nil {
		return err
	}
	kept, err := value[bool](ctx, q, `
		SELECT EXISTS (SELECT 1 FROM documents WHERE hash = $1)`, d.Hash())
	if err == nil && !kept { // large bodies are sent only if they are missing
		_, err = q.ExecContext(ctx, `
			INSERT INTO documents (hash, body)
			VALUES ($1, $2)
			ON CONFLICT (hash) DO NOTHING`,
			d.Hash(), storableText(string(d.Body)))
	}
	if err != nil {
		return err
	}
	_, err = q.ExecContext(ctx, `
		INSERT INTO definitions (task, job, owner, platform, service, document)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		task, job, u, d.Platform, service, d.Hash())
	return err
}

// Document returns the document that defined a job's service when the job was accepted; nil if none was stored.
func (s *Store) Document(ctx context.Context, u dispatch.UserID, id dispatch.JobID) ([]byte, error) {
	if _, err := s.Record(ctx, u, id); err != nil {
		return nil, err
	}
	body, err := definition(ctx, s.on(s.read), id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return []byte(body), fail("Document", err)
}

// Definition returns the document that defined a job's service when the job was accepted.
func (s *Store) Definition(ctx context.Context, id dispatch.JobID) ([]byte, error) {
	body, err := definition(ctx, s.on(s.agendas), id)
	return []byte(body), fail("Definition", err)
}

func definition(ctx context.Context, q querier, id dispatch.JobID) (string, error) {
	return value[string](ctx, q, `
		SELECT documents.body
		FROM jobs
			JOIN definitions ON definitions.task = jobs.task
				AND definitions.job = CASE WHEN jobs.task = 0 THEN jobs.id ELSE 0 END
			JOIN documents ON documents.hash = definitions.document
		WHERE jobs.id = $1`, id)
}

// The definitions, d, of waiting jobs, which have status created. Only they are read, by an index that has no others:
// definitions of ended jobs are many. The further placements, h, are those of tasks with such jobs; CROSS keeps SQLite
// from reading the placements of all tasks.
const (
	definitionsOfWaiting = `
		FROM jobs j
			JOIN definitions d ON d.task = j.task AND d.job = CASE j.task WHEN 0 THEN j.id ELSE 0 END
		WHERE j.phase <> 'ended' AND j.phase = 'waiting' AND NOT j.hidden AND j.status = 'created'`
	placementsOfWaiting = `
		FROM tasks
			CROSS JOIN task_placements h
		WHERE tasks.moves > 0 AND h.task = tasks.id AND h.document <> ''
			AND EXISTS (
				SELECT 1 FROM jobs k
				WHERE k.task = tasks.id AND k.task <> 0 AND k.status = 'created' AND NOT k.hidden
					AND k.phase = 'waiting')`
)

// Origins returns the origins of all documents that define the services of waiting jobs.
func (s *Store) Origins(ctx context.Context) ([]dispatch.Origin, error) {
	origins, err := list(ctx, s.on(s.read), func(o *dispatch.Origin) []any {
		return []any{&o.Platform, encodedIn[dispatch.Service]{&o.Service}}
	}, `
		SELECT d.platform, d.service`+definitionsOfWaiting+`
		UNION
		SELECT h.platform, h.service`+placementsOfWaiting)
	return origins, fail("Origins", err)
}

// hashesAtOnce is how many definitions one transaction of SetDocumentHash changes, so that other writes do not wait
// for a popular service.
const hashesAtOnce = 100

// SetDocumentHash stores the current hash of the document of an origin. It returns the owners of the jobs concerned.
func (s *Store) SetDocumentHash(
	ctx context.Context, o dispatch.Origin, hash string,
) (owners []dispatch.UserID, err error) {
	service, err := encode(o.Service)
	if err != nil {
		return nil, fail("SetDocumentHash", err)
	}
	ctx = allow(ctx, listWithin)
	for _, find := range []string{`
		SELECT DISTINCT d.task, d.job, '' AS account` + definitionsOfWaiting + `
			AND d.platform = $1 AND d.service = $2 AND d.changed_to <> CASE WHEN d.document = $3 THEN '' ELSE $3 END
		ORDER BY d.task, d.job, account`, `
		SELECT h.task, 0, h.account` + placementsOfWaiting + `
			AND h.platform = $1 AND h.service = $2 AND h.changed_to <> CASE WHEN h.document = $3 THEN '' ELSE $3 END
		ORDER BY tasks.id, h.account`,
	} {
		found, err := list(ctx, s.on(s.read), func(d *outdated) []any {
			return []any{number(&d.task), number(&d.job), text(&d.account)}
		}, find, o.Platform, service, hash)
		if err != nil {
			return owners, fail("SetDocumentHash", err)
		}
		changed, err := s.setHashes(ctx, found, hash)
		if owners = append(owners, changed...); err != nil {
			return owners, err
		}
	}
	return owners, nil
}

// outdated is a definition, of a task or of a job, or a further placement of a task, of which is not known that the
// document of its origin has a hash.
type outdated struct {
	task    dispatch.TaskID
	job     dispatch.JobID
	account dispatch.Account // of the placement; "": it is a definition
}

// setHashes stores the hash of what is outdated, some in each transaction, and returns the owners of what was still so.
func (s *Store) setHashes(ctx context.Context, all []outdated, hash string) (owners []dispatch.UserID, err error) {
	for chunk := range slices.Chunk(all, hashesAtOnce) {
		var changed []dispatch.UserID
		err := s.in(ctx, s.write, "SetDocumentHash", func(q tx, _ int64) error {
			changed = nil
			var alone []dispatch.JobID
			for _, d := range chunk {
				owner, err := d.setHash(ctx, q, hash)
				if missing(err) != nil {
					return err
				}
				if err != nil { // another process was faster
					continue
				}
				changed = append(changed, owner)
				if d.task != 0 {
					q.numbers.task(d.task, owner, true)
				} else {
					alone = append(alone, d.job)
				}
			}
			return renumber(ctx, q, alone)
		})
		if err != nil {
			return owners, err
		}
		owners = append(owners, changed...)
	}
	return owners, nil
}

// setHash returns the owner; sql.ErrNoRows if the hash was stored meanwhile.
func (d outdated) setHash(ctx context.Context, q querier, hash string) (dispatch.UserID, error) {
	if d.account != "" {
		return value[dispatch.UserID](ctx, q, `
			UPDATE task_placements
			SET changed_to = CASE WHEN document = $3 THEN '' ELSE $3 END
			WHERE task = CAST($1 AS BIGINT) AND account = $2 AND changed_to <> CASE WHEN document = $3 THEN '' ELSE $3 END
			RETURNING (SELECT owner FROM tasks WHERE tasks.id = task_placements.task)`,
			d.task, d.account, hash)
	}
	return value[dispatch.UserID](ctx, q, `
		UPDATE definitions
		SET changed_to = CASE WHEN document = $3 THEN '' ELSE $3 END
		WHERE task = CAST($1 AS BIGINT) AND job = CAST($2 AS BIGINT) AND changed_to <> CASE WHEN document = $3 THEN '' ELSE $3 END
		RETURNING owner`,
		d.task, d.job, hash)
}

// redefined sets the attention ServiceChanged on a waiting job that has no other attention.
func redefined(j dispatch.Job, changed bool) dispatch.Job {
	if changed && j.Phase == dispatch.Waiting && j.Attention == dispatch.None {
		j.Attention = dispatch.ServiceChanged
	}
	return j
}
