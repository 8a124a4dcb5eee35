package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// annotationsText is the inverse of decoded.
func annotationsText(a dispatch.Annotations) string {
	if a.Empty() {
		return ""
	}
	text, _ := encode(a) // cannot fail: texts only
	return text
}

// annotate returns what a change makes of stored annotations.
func annotate(stored string, c dispatch.AnnotationChange) (dispatch.Annotations, error) {
	a, err := decoded[dispatch.Annotations](stored)
	if err != nil {
		return a, err
	}
	return c.Apply(a)
}

// AnnotateJob changes the annotations of a job of its owner.
func (s *Store) AnnotateJob(ctx context.Context, u dispatch.UserID, id dispatch.JobID, c dispatch.AnnotationChange) error {
	return s.in(ctx, s.write, "AnnotateJob", func(q tx, now int64) error {
		is, err := q.TouchJob(ctx, now, id, u)
		if err != nil {
			return err
		}
		a, err := annotate(is.Annotations, c)
		if err != nil {
			return err
		}
		if err := q.AnnotateJob(ctx, annotationsText(a), id); err != nil || is.Task != 0 {
			return err
		}
		if err := q.DeleteJobLabels(ctx, id); err != nil {
			return err
		}
		return insertJobLabels(ctx, q, id, u, a.Labels, is.Created)
	})
}

// AnnotateTask changes the annotations of a task of its owner.
func (s *Store) AnnotateTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.AnnotationChange) error {
	return s.in(ctx, s.write, "AnnotateTask", func(q tx, now int64) error {
		is, err := q.TouchTask(ctx, now, id, u)
		if err != nil {
			return err
		}
		a, err := annotate(is.Annotations, c)
		if err != nil {
			return err
		}
		if err := q.AnnotateTask(ctx, annotationsText(a), id); err != nil {
			return err
		}
		if err := q.DeleteTaskLabels(ctx, int64(id)); err != nil {
			return err
		}
		return insertTaskLabels(ctx, q, id, u, a.Labels, is.Created)
	})
}

// insertLabels stores the labels of a task, or of jobs of no task.
func (a *acceptance) insertLabels(ctx context.Context, q tx) error {
	if a.task != nil {
		return insertTaskLabels(ctx, q, a.id, a.task.Owner, a.task.Annotations.Labels, a.now)
	}
	for i, j := range a.jobs {
		if err := insertJobLabels(ctx, q, a.first+dispatch.JobID(i), j.Owner, j.Annotations.Labels, a.now); err != nil {
			return err
		}
	}
	return nil
}

func insertJobLabels(ctx context.Context, q tx, id dispatch.JobID, u dispatch.UserID, labels map[string]string, created int64) error {
	for name, value := range labels {
		if err := q.InsertJobLabel(ctx, query.InsertJobLabelParams{Job: id, Owner: u, Name: name, Value: value, Created: created}); err != nil {
			return err
		}
	}
	return nil
}

func insertTaskLabels(ctx context.Context, q tx, id dispatch.TaskID, u dispatch.UserID, labels map[string]string, created int64) error {
	for name, value := range labels {
		if err := q.InsertTaskLabel(ctx, query.InsertTaskLabelParams{Task: id, Owner: u, Name: name, Value: value, Created: created}); err != nil {
			return err
		}
	}
	return nil
}
