package store

import (
	"context"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// AddTaskEvents adds the deliveries about tasks whose jobs have ended since it was last called, of n tasks at most, and reports whether there may be
// more. On PostgreSQL the jobs of a task end in transactions that do not see one another, so none of them can tell which one passed a share. So each
// leaves a mark, and whoever takes the marks of a task counts its jobs afterwards, and so sees all whose marks it took. An event has one row
// for each hook, whoever finds it and however often.
func (s *Store) AddTaskEvents(ctx context.Context, n int) (more bool, err error) {
	tasks, err := s.queries(s.read).ListMarkedTasks(ctx, int64(n))
	for _, id := range tasks {
		if err == nil {
			err = s.in(ctx, s.write, "AddTaskEvents", func(q tx, now int64) error { return addTaskEvents(ctx, q, id, now) })
		}
	}
	return len(tasks) == n, fail("AddTaskEvents", err)
}

func addTaskEvents(ctx context.Context, q tx, task, now int64) error {
	taken, err := q.TakeMarks(ctx, task)
	if err != nil || taken == 0 {
		return err
	}
	counts, err := q.CountTask(ctx, task)
	if err != nil {
		return err
	}
	sums, err := q.SumTask(ctx, task)
	if err != nil {
		return err
	}
	jobs, ended := int64(0), int64(0)
	for _, c := range counts {
		jobs += c.N
		if dispatch.Status(c.Status).Final() {
			ended += c.N
		}
	}
	hooks, err := q.ListTaskHooks(ctx, task)
	for _, h := range hooks {
		for _, of := range splitStatuses(h.Statuses) {
			epoch, happened := taskEvent(of, jobs, ended, sums.Epochs)
			if !happened || err != nil {
				continue
			}
			err = q.AddTaskDelivery(ctx, query.AddTaskDeliveryParams{Hook: h.ID, Subject: dispatch.JobID(-task), Epoch: epoch, Status: of, Task: dispatch.TaskID(task), Now: now})
		}
	}
	return err
}

// taskEvent reports whether a task whose jobs have ended in part has come to an event, and the epoch of it: of a share the share, so that it happens
// once; of the end more, so that it comes after them, and again if jobs were retried.
func taskEvent(of dispatch.Status, jobs, ended, epochs int64) (epoch int, happened bool) {
	if of == dispatch.TaskEnded {
		return 100 + int(epochs), jobs > 0 && ended == jobs
	}
	share, is := strings.CutPrefix(string(of), dispatch.SharePrefix)
	percent, err := strconv.Atoi(share)
	return percent, is && err == nil && jobs > 0 && 100*ended >= int64(percent)*jobs
}
