package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// CreateUnstarted stores an unstarted job or task if its owner may have one more job. Its id comes from the sequence
// of jobs, or of tasks.
func (s *Store) CreateUnstarted(
	ctx context.Context, n *dispatch.Unstarted, task bool, life time.Duration, within ...dispatch.Quota,
) error {
	if err := storableUnstarted(n); err != nil {
		return err
	}
	end, err := s.lockCount(ctx, "CreateUnstarted", n.Owner, within)
	if err != nil {
		return err
	}
	defer end()
	err = s.withNewIDs(ctx, func() error { return s.createUnstarted(ctx, n, task, life, within) })
	return fail("CreateUnstarted", err)
}

func (s *Store) createUnstarted(
	ctx context.Context, n *dispatch.Unstarted, task bool, life time.Duration, within []dispatch.Quota,
) error {
	id, err := s.takeUnstarted(ctx, task)
	if err != nil {
		return err
	}
	return s.in(ctx, s.write, "CreateUnstarted", func(q tx, now int64) error {
		first, err := s.useKey(ctx, q, n.Owner, n.Key, id.Task, id.Job, now)
		if err != nil || first != (dispatch.KeyTarget{}) {
			n.ID = dispatch.UnstartedID{Job: first.Job, Task: first.Task}
			return err
		}
		if err := s.admit(ctx, q, n.Owner, 1, int64(len(n.Body)), submittedLater(within), now); err != nil {
			return err
		}
		switch used, err := idInUse(ctx, q, id); { // no constraint keeps it apart from them
		case err != nil:
			return err
		case used:
			return errDuplicateID
		}
		n.ID, n.Created, n.Updated, n.Expires, n.Version = id, at(now), at(now), at(now+life.Microseconds()), 1
		_, err = q.ExecContext(ctx, `
			INSERT INTO unstarted (job, task, owner, account, title, body, created, updated, expires)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)`,
			id.Job, id.Task, n.Owner, n.Account, n.Title, string(n.Body), now, now+life.Microseconds())
		q.numbers.owner(n.Owner)
		return err
	})
}

// idInUse reports whether a job or a task has an id.
func idInUse(ctx context.Context, q querier, id dispatch.UnstartedID) (bool, error) {
	return value[bool](ctx, q, `
		SELECT EXISTS (
			SELECT 1 FROM jobs WHERE jobs.id = $1
			UNION ALL
			SELECT 1 FROM tasks WHERE tasks.id = $2)`,
		id.Job, id.Task)
}

func (s *Store) takeUnstarted(ctx context.Context, task bool) (id dispatch.UnstartedID, err error) {
	if task {
		n, err := s.take(ctx, "task", 1)
		return dispatch.UnstartedID{Task: dispatch.TaskID(n)}, err
	}
	n, err := s.take(ctx, "job", 1)
	return dispatch.UnstartedID{Job: dispatch.JobID(n)}, err
}

func storableUnstarted(n *dispatch.Unstarted) error {
	return allStorable("Unstarted", string(n.Owner), string(n.Account), n.Title, string(n.Body))
}

// submittedLater returns the quotas without their limits on the jobs that are submitted in a day. They apply when a
// job is started.
func submittedLater(within []dispatch.Quota) (later []dispatch.Quota) {
	for _, q := range within {
		q.Daily = 0
		later = append(later, q)
	}
	return later
}

// Unstarted returns an unstarted job to its owner.
func (s *Store) Unstarted(
	ctx context.Context, u dispatch.UserID, id dispatch.UnstartedID,
) (dispatch.Unstarted, error) {
	return result(ctx, s.readOnly, s.read, "Unstarted", func(q tx, now int64) (dispatch.Unstarted, error) {
		return getUnstarted(ctx, q, u, id, now)
	})
}

// unstartedColumns are the columns of an unstarted job without its body, which may be large.
const unstartedColumns = "job, task, owner, account, title, created, updated, expires, version"

// unstartedPlaces returns where unstartedColumns are scanned to.
func unstartedPlaces(n *dispatch.Unstarted) []any {
	return []any{number(&n.ID.Job), number(&n.ID.Task), text(&n.Owner), text(&n.Account), &n.Title, instant(&n.Created),
		instant(&n.Updated), instant(&n.Expires), number(&n.Version)}
}

func getUnstarted(
	ctx context.Context, q querier, u dispatch.UserID, id dispatch.UnstartedID, now int64,
) (n dispatch.Unstarted, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT `+unstartedColumns+`, body
		FROM unstarted
		WHERE job = $1 AND task = CAST($2 AS BIGINT) AND owner = $3 AND expires > $4`,
		id.Job, id.Task, u, now).Scan(bodyPlaces(&n)...)
	return n, err
}

// bodyPlaces returns where unstartedColumns and a body are scanned to.
func bodyPlaces(n *dispatch.Unstarted) []any {
	return append(unstartedPlaces(n), &n.Body)
}

// UnstartedJobs returns the owner's unstarted jobs and tasks, newest first. See dispatch.UnstartedID.Number for the
// order.
func (s *Store) UnstartedJobs(
	ctx context.Context, u dispatch.UserID, p dispatch.Page,
) ([]dispatch.Unstarted, error) {
	const id = "2 * (job + task) + CASE WHEN task = 0 THEN 0 ELSE 1 END"
	ctx = allow(ctx, listWithin)
	return result(ctx, s.readOnly, s.read, "UnstartedJobs", func(q tx, now int64) ([]dispatch.Unstarted, error) {
		var w where
		w.and("owner = " + w.arg(u) + " AND expires > " + w.arg(now))
		descending.follows(&w, p.After, "created", id)
		anyOf(q, &w, "account", p.Accounts)
		return list(ctx, q, bodyPlaces, `
			SELECT `+unstartedColumns+`, substr(body, 1, `+strconv.Itoa(dispatch.UnstartedBeginning)+`)
			FROM unstarted
			WHERE `+w.String()+`
			ORDER BY `+descending.by("created", id)+`
			LIMIT CAST(`+w.arg(most(p.Limit))+` AS BIGINT)`,
			w.args...)
	})
}

// ChangeUnstarted replaces the body of an unstarted job, unless it changed meanwhile: then it returns Conflict.
func (s *Store) ChangeUnstarted(ctx context.Context, n *dispatch.Unstarted, within ...dispatch.Quota) error {
	if err := storableUnstarted(n); err != nil {
		return err
	}
	end, err := s.lockCount(ctx, "ChangeUnstarted", n.Owner, within)
	if err != nil {
		return err
	}
	defer end()
	return s.in(ctx, s.write, "ChangeUnstarted", func(q tx, now int64) error {
		stored, err := getUnstarted(ctx, q, n.Owner, n.ID, now)
		if err != nil {
			return err
		}
		if more := int64(len(n.Body) - len(stored.Body)); more > 0 {
			if err := s.admit(ctx, q, n.Owner, 0, more, submittedLater(within), now); err != nil {
				return err
			}
		}
		replaced := *n
		err = q.QueryRowContext(ctx, `
			UPDATE unstarted
			SET title = $6, body = $7, updated = $4, version = version + 1
			WHERE job = $1 AND task = CAST($2 AS BIGINT) AND owner = $3 AND expires > $4 AND version = $5
			RETURNING `+unstartedColumns,
			n.ID.Job, n.ID.Task, n.Owner, now, n.Version, n.Title, string(n.Body)).Scan(unstartedPlaces(&replaced)...)
		if err == nil {
			*n = replaced
		}
		q.numbers.owner(n.Owner)
		return changed("ChangeUnstarted", err)
	})
}

// DeleteUnstarted deletes an unstarted job.
func (s *Store) DeleteUnstarted(ctx context.Context, u dispatch.UserID, id dispatch.UnstartedID) error {
	return s.in(ctx, s.write, "DeleteUnstarted", func(q tx, now int64) error {
		q.numbers.owner(u)
		return runFound(ctx, q, `
			DELETE FROM unstarted
			WHERE job = $1 AND task = CAST($2 AS BIGINT) AND owner = $3 AND expires > $4`,
			id.Job, id.Task, u, now)
	})
}

// Start stores the job or the task of an unstarted job, which it deletes. The deletion comes first: it serializes
// requests that start the same one.
func (s *Store) Start(
	ctx context.Context, n dispatch.Unstarted, t *dispatch.Task, jobs []dispatch.Draft, within ...dispatch.Quota,
) error {
	a, err := newAcceptance("Start", dispatch.Key{}, t, jobs)
	if err != nil {
		return err
	}
	a.id, a.first = n.ID.Task, n.ID.Job
	ctx = allow(ctx, callWithin+time.Duration(a.n)*perJob)
	end, err := s.lockCount(ctx, "Start", n.Owner, within)
	if err != nil {
		return err
	}
	defer end()
	if err = s.start(ctx, a, n, within); isDuplicateID(err) {
		if err := s.skipIDsUnless(ctx, n.ID); err != nil {
			return err
		}
		err = s.start(ctx, a, n, within)
	}
	return err
}

// skipIDsUnless does what SkipIDs does, unless the duplicate id is that of the unstarted job, which cannot get
// another one: then it returns Conflict.
func (s *Store) skipIDsUnless(ctx context.Context, id dispatch.UnstartedID) error {
	used, err := idInUse(ctx, s.on(s.write), id)
	if err != nil {
		return fail("Start", err)
	}
	if used {
		return &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Start",
			Text: "The id of this job was given to another one, because the database was set back to an earlier " +
				"state. Create the job again."}
	}
	return s.SkipIDs(ctx)
}

func (s *Store) start(ctx context.Context, a acceptance, n dispatch.Unstarted, within []dispatch.Quota) error {
	if a.task != nil {
		first, err := s.take(ctx, "job", a.n)
		if err != nil {
			return fail("Start", err)
		}
		a.first = dispatch.JobID(first)
	}
	err := s.in(ctx, s.write, "Start", func(q tx, now int64) error {
		if err := deleteStarted(ctx, q, n, now); err != nil {
			return err
		}
		if err := s.admit(ctx, q, n.Owner, a.n, a.bytes, within, now); err != nil {
			return err
		}
		return a.insert(ctx, q, now)
	})
	if err == nil {
		a.fillIn()
	}
	return err
}

func deleteStarted(ctx context.Context, q querier, n dispatch.Unstarted, now int64) error {
	err := runFound(ctx, q, `
		DELETE FROM unstarted
		WHERE job = $1 AND task = CAST($2 AS BIGINT) AND owner = $3 AND expires > $4 AND version = $5`,
		n.ID.Job, n.ID.Task, n.Owner, now, n.Version)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if _, err := getUnstarted(ctx, q, n.Owner, n.ID, now); err != nil {
		return err
	}
	return conflict("Start")
}
