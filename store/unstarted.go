package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// CreateUnstarted stores an unstarted job or task if its owner may have one more job. Its id comes from the sequence of jobs, or of tasks.
func (s *Store) CreateUnstarted(ctx context.Context, n *dispatch.Unstarted, task bool, life time.Duration, within ...dispatch.Quota) error {
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

func (s *Store) createUnstarted(ctx context.Context, n *dispatch.Unstarted, task bool, life time.Duration, within []dispatch.Quota) error {
	id, err := s.takeUnstarted(ctx, task)
	if err != nil {
		return err
	}
	return s.in(ctx, s.write, "CreateUnstarted", func(q tx, now int64) error {
		if err := s.admit(ctx, q, n.Owner, 1, int64(len(n.Body)), submittedLater(within), now); err != nil {
			return err
		}
		switch used, err := q.IDInUse(ctx, id.Job, int64(id.Task)); { // by a job or a task, from which no constraint keeps it apart
		case err != nil:
			return err
		case used:
			return errDuplicateID
		}
		n.ID, n.Created, n.Updated, n.Expires, n.Version = id, at(now), at(now), at(now+life.Microseconds()), 1
		return q.CreateUnstarted(ctx, query.CreateUnstartedParams{Job: id.Job, Task: id.Task, Owner: n.Owner, Account: n.Account, Title: n.Title, Body: string(n.Body),
			Now: now, Expires: now + life.Microseconds()})
	})
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
	if storable(string(n.Owner)) && storable(string(n.Account)) && storable(n.Title) && storable(string(n.Body)) {
		return nil
	}
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "store.Unstarted", Text: "A text is not valid UTF-8, or holds a NUL character."}
}

// submittedLater returns the quotas without their limits on the jobs that are submitted in a day. They apply when a job is started.
func submittedLater(within []dispatch.Quota) (later []dispatch.Quota) {
	for _, q := range within {
		q.Daily = 0
		later = append(later, q)
	}
	return later
}

// Unstarted returns an unstarted job to its owner.
func (s *Store) Unstarted(ctx context.Context, u dispatch.UserID, id dispatch.UnstartedID) (n dispatch.Unstarted, err error) {
	err = s.readOnly(ctx, s.read, "Unstarted", func(q tx, now int64) error {
		row, err := q.GetUnstarted(ctx, query.GetUnstartedParams{Job: id.Job, Task: int64(id.Task), Owner: u, Now: now})
		n = unstartedOf(row)
		return err
	})
	return n, err
}

// UnstartedJobs returns the owner's unstarted jobs and tasks, newest first.
func (s *Store) UnstartedJobs(ctx context.Context, u dispatch.UserID, p dispatch.Page) (all []dispatch.Unstarted, err error) {
	created, before := from(p.After)
	err = s.readOnly(allow(ctx, listWithin), s.read, "UnstartedJobs", func(q tx, now int64) error {
		rows, err := q.ListUnstarted(ctx, query.ListUnstartedParams{Owner: u, Now: now, Created: created, Before: before,
			OfAccounts: joinList(p.Accounts), N: most(p.Limit)})
		for _, row := range rows {
			all = append(all, dispatch.Unstarted{ID: dispatch.UnstartedID{Job: row.Job, Task: row.Task}, Owner: row.Owner, Account: row.Account, Title: row.Title,
				Created: at(row.Created), Updated: at(row.Updated), Expires: at(row.Expires), Version: row.Version})
		}
		return err
	})
	return all, err
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
		was, err := q.GetUnstarted(ctx, query.GetUnstartedParams{Job: n.ID.Job, Task: int64(n.ID.Task), Owner: n.Owner, Now: now})
		if err != nil {
			return err
		}
		if more := int64(len(n.Body) - len(was.Body)); more > 0 {
			if err := s.admit(ctx, q, n.Owner, 0, more, submittedLater(within), now); err != nil {
				return err
			}
		}
		row, err := q.ChangeUnstarted(ctx, query.ChangeUnstartedParams{Title: n.Title, Body: string(n.Body), Now: now, Job: n.ID.Job, Task: int64(n.ID.Task), Owner: n.Owner, Version: n.Version})
		if errors.Is(err, sql.ErrNoRows) {
			return conflict("ChangeUnstarted")
		}
		if err == nil {
			*n = unstartedOf(row)
		}
		return err
	})
}

// DeleteUnstarted deletes an unstarted job.
func (s *Store) DeleteUnstarted(ctx context.Context, u dispatch.UserID, id dispatch.UnstartedID) error {
	return s.in(ctx, s.write, "DeleteUnstarted", func(q tx, now int64) error {
		n, err := q.DeleteUnstarted(ctx, query.DeleteUnstartedParams{Job: id.Job, Task: int64(id.Task), Owner: u, Now: now})
		if err == nil && n == 0 {
			err = sql.ErrNoRows
		}
		return err
	})
}

// Start stores the job or the task of an unstarted job, which it deletes. The deletion comes first: it serializes requests that start the same one.
func (s *Store) Start(ctx context.Context, n dispatch.Unstarted, t *dispatch.Task, jobs []dispatch.Draft, within ...dispatch.Quota) error {
	if err := acceptable(dispatch.Key{}, t, jobs); err != nil {
		return err
	}
	ctx = allow(ctx, callWithin+time.Duration(len(jobs))*perJob)
	a := acceptance{task: t, jobs: jobs, id: n.ID.Task, first: n.ID.Job}
	if err := a.measure(); err != nil {
		return fail("Start", err)
	}
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

// skipIDsUnless does what SkipIDs does, unless the duplicate id is that of the unstarted job, which cannot get another one: then it returns Conflict.
func (s *Store) skipIDsUnless(ctx context.Context, id dispatch.UnstartedID) error {
	used, err := s.queries(s.write).IDInUse(ctx, id.Job, int64(id.Task))
	if err != nil {
		return fail("Start", err)
	}
	if used {
		return &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Start", Text: "The id of this job was given to another one, because the database " +
			"was set back to an earlier state. Create the job again."}
	}
	return s.SkipIDs(ctx)
}

func (s *Store) start(ctx context.Context, a acceptance, n dispatch.Unstarted, within []dispatch.Quota) error {
	if a.task != nil {
		first, err := s.take(ctx, "job", len(a.jobs))
		if err != nil {
			return fail("Start", err)
		}
		a.first = dispatch.JobID(first)
	}
	err := s.in(ctx, s.write, "Start", func(q tx, now int64) error {
		if err := deleteStarted(ctx, q, n, now); err != nil {
			return err
		}
		if err := s.admit(ctx, q, n.Owner, len(a.jobs), a.bytes, within, now); err != nil {
			return err
		}
		return a.insert(ctx, q, now)
	})
	if err == nil {
		a.fillIn()
	}
	return err
}

func deleteStarted(ctx context.Context, q tx, n dispatch.Unstarted, now int64) error {
	rows, err := q.StartUnstarted(ctx, query.StartUnstartedParams{Job: n.ID.Job, Task: int64(n.ID.Task), Owner: n.Owner, Now: now, Version: n.Version})
	if err != nil || rows > 0 {
		return err
	}
	if _, err := q.GetUnstarted(ctx, query.GetUnstartedParams{Job: n.ID.Job, Task: int64(n.ID.Task), Owner: n.Owner, Now: now}); err != nil {
		return err
	}
	return conflict("Start")
}

func unstartedOf(r query.Unstarted) dispatch.Unstarted {
	return dispatch.Unstarted{ID: dispatch.UnstartedID{Job: r.Job, Task: r.Task}, Owner: r.Owner, Account: r.Account, Title: r.Title, Body: []byte(r.Body),
		Created: at(r.Created), Updated: at(r.Updated), Expires: at(r.Expires), Version: r.Version}
}
