package conformance

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (s *MemStore) AnnotateJob(_ context.Context, u dispatch.UserID, id dispatch.JobID,
	c dispatch.AnnotationChange) error {
	now, unlock := s.lock()
	defer unlock()
	r, err := s.visible(u, id)
	if err != nil {
		return err
	}
	a, err := c.Apply(r.Annotations)
	if err != nil {
		return err
	}
	r.Annotations, r.Version, r.Updated = a, r.Version+1, now
	return nil
}

func (s *MemStore) AnnotateTask(_ context.Context, u dispatch.UserID, id dispatch.TaskID,
	c dispatch.AnnotationChange) error {
	now, unlock := s.lock()
	defer unlock()
	if _, err := s.task(u, id); err != nil {
		return err
	}
	t := s.tasks[id]
	a, err := c.Apply(t.Annotations)
	if err != nil {
		return err
	}
	t.Annotations, t.Edited, t.Updated = a, now, now
	s.tasks[id] = t
	return nil
}
