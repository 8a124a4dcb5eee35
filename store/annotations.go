package store

import (
	"context"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
)

// AnnotateJob changes the annotations of a job of its owner. The version of the job changes, so that a visit that has
// read it before does not undo the change.
func (s *Store) AnnotateJob(
	ctx context.Context, u dispatch.UserID, id dispatch.JobID, c dispatch.AnnotationChange,
) error {
	return s.in(ctx, s.write, "AnnotateJob", func(q tx, now int64) error {
		var refused error
		j, err := changeOwnJob(ctx, q, u, id, func(j dispatch.Job) dispatch.Job {
			j.Annotations, refused = c.Apply(j.Annotations)
			j.Updated, j.Version = at(now), j.Version+1
			return j
		})
		if err = errors.Join(refused, err); err != nil || j.Task != 0 {
			return err
		}
		if err := run(ctx, q, "DELETE FROM job_labels WHERE job = $1", id); err != nil {
			return err
		}
		return insertLabels(ctx, q, addJobLabel, id, u, j.Annotations.Labels, micros(j.Created))
	})
}

// AnnotateTask changes the annotations of a task of its owner.
func (s *Store) AnnotateTask(
	ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.AnnotationChange,
) error {
	return s.in(ctx, s.write, "AnnotateTask", func(q tx, now int64) error {
		var created int64
		var a dispatch.Annotations
		err := q.QueryRowContext(ctx, `
			UPDATE tasks
			SET edited = $3
			WHERE id = $1 AND owner = $2 AND NOT hidden
			RETURNING created, annotations`,
			id, u, now).Scan(number(&created), encodedIn[dispatch.Annotations]{&a})
		if err != nil {
			return err
		}
		if a, err = c.Apply(a); err != nil {
			return err
		}
		err = run(ctx, q, "UPDATE tasks SET annotations = $2 WHERE id = $1", id, encoded(a, dispatch.Annotations.Empty))
		if err != nil {
			return err
		}
		if err := run(ctx, q, "DELETE FROM task_labels WHERE task = $1", id); err != nil {
			return err
		}
		q.numbers.task(id, u, false)
		return insertLabels(ctx, q, addTaskLabel, id, u, a.Labels, created)
	})
}

// insertLabels stores the labels of a task, or of jobs of no task.
func (a *acceptance) insertLabels(ctx context.Context, q tx) error {
	if a.task != nil {
		return insertLabels(ctx, q, addTaskLabel, a.id, a.task.Owner, a.task.Annotations.Labels, a.now)
	}
	for i, j := range a.jobs {
		if err := insertLabels(ctx, q, addJobLabel, a.first+dispatch.JobID(i), j.Owner, j.Annotations.Labels,
			a.now); err != nil {
			return err
		}
	}
	return nil
}

const (
	addJobLabel = `
		INSERT INTO job_labels (job, owner, name, value, created)
		VALUES ($1, $2, $3, $4, $5)`
	addTaskLabel = `
		INSERT INTO task_labels (task, owner, name, value, created)
		VALUES ($1, $2, $3, $4, $5)`
)

// insertLabels adds labels of a job or a task by a statement.
func insertLabels[ID ~int64](
	ctx context.Context, q querier, add string, id ID, u dispatch.UserID, labels map[string]string, created int64,
) error {
	for name, value := range labels {
		if err := run(ctx, q, add, id, u, name, value, created); err != nil {
			return err
		}
	}
	return nil
}
