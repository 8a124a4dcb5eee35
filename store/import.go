package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Import stores foreign jobs under their ids and with their times, with their task unless it is nil, in one
// transaction. Jobs that were stored before, which have the same owner and time of creation, are skipped. Conflict,
// and nothing stored, if the id of the task is that of another. Call SkipIDs after the last.
func (s *Store) Import(ctx context.Context, t *dispatch.Task, jobs []dispatch.Draft) (r dispatch.Imported, err error) {
	err = s.in(allow(ctx, upkeepWithin), s.write, "Import", func(q tx, now int64) error {
		fresh, err := compareForeign(ctx, q, t, jobs, &r)
		if err != nil {
			return err
		}
		return insertForeign(ctx, q, t, fresh, r.Task, now)
	})
	return r, err
}

// WouldImport returns what Import would, and stores nothing.
func (s *Store) WouldImport(
	ctx context.Context, t *dispatch.Task, jobs []dispatch.Draft,
) (dispatch.Imported, error) {
	ctx = allow(ctx, upkeepWithin)
	return result(ctx, s.in, s.read, "WouldImport", func(q tx, _ int64) (r dispatch.Imported, err error) {
		_, err = compareForeign(ctx, q, t, jobs, &r)
		return r, err
	})
}

// compareForeign returns the jobs that are not stored yet.
func compareForeign(
	ctx context.Context, q tx, t *dispatch.Task, jobs []dispatch.Draft, r *dispatch.Imported,
) (fresh []dispatch.Draft, err error) {
	*r = dispatch.Imported{}
	if t != nil {
		if r.Task, err = isNewTask(ctx, q, t); err != nil {
			return nil, err
		}
	}
	first, last := jobs[0].ID, jobs[0].ID
	for _, j := range jobs {
		first, last = min(first, j.ID), max(last, j.ID)
	}
	all, err := list(ctx, q, (*origin).columns, "SELECT id, owner, created FROM jobs WHERE id BETWEEN $1 AND $2", first,
		last)
	if err != nil {
		return nil, err
	}
	stored := map[dispatch.JobID]origin{}
	for _, o := range all {
		stored[dispatch.JobID(o.id)] = o
	}
	for _, j := range jobs {
		switch known, present := stored[j.ID]; {
		case !present:
			fresh = append(fresh, j)
			r.New = append(r.New, j.ID)
		case known == origin{int64(j.ID), j.Owner, micros(j.Created)}:
			r.Present = append(r.Present, j.ID)
		default:
			r.Taken = append(r.Taken, j.ID)
		}
	}
	return fresh, nil
}

// origin tells jobs, and tasks, with the same id apart.
type origin struct {
	id      int64
	owner   dispatch.UserID
	created int64
}

func (o *origin) columns() []any { return []any{&o.id, text(&o.owner), &o.created} }

func isNewTask(ctx context.Context, q tx, t *dispatch.Task) (bool, error) {
	known, err := one(ctx, q, (*origin).columns, "SELECT id, owner, created FROM tasks WHERE id = $1", t.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err == nil && known != (origin{int64(t.ID), t.Owner, micros(t.Created)}) {
		err = &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Import",
			Text: "The id is that of another task of this broker."}
	}
	return false, err
}

func insertForeign(ctx context.Context, q tx, t *dispatch.Task, jobs []dispatch.Draft, task bool, now int64) error {
	if task {
		shared, err := encode(t.Request)
		if err != nil {
			return err
		}
		imported := dispatch.Task{Owner: t.Owner, Account: t.Account, Dimension: storableText(t.Dimension)}
		if err := insertTask(ctx, q, imported, t.ID, storableText(shared), micros(t.Created)); err != nil {
			return err
		}
	}
	live := map[dispatch.Account]bool{}
	for _, j := range jobs {
		live[j.Account] = live[j.Account] || j.Phase != dispatch.Ended
	}
	if err := insertJobs(ctx, q, slices.Values(foreign(jobs))); err != nil {
		return fmt.Errorf("foreign jobs from %d on: %w", jobs[0].ID, err)
	}
	for a, unfinished := range live {
		err := run(ctx, q, "INSERT INTO accounts (id, platform) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING", a,
			a.Platform())
		if err == nil && unfinished {
			err = wake(ctx, q, a, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foreign returns jobs as they can be stored.
func foreign(jobs []dispatch.Draft) []dispatch.Draft {
	all := slices.Clone(jobs)
	for i := range all {
		asStored(&all[i].Job)
	}
	return all
}
