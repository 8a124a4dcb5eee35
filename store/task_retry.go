package store

import (
	"context"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// RetryTask resets the chosen failed jobs of a task to waiting.
func (s *Store) RetryTask(
	ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice, within ...dispatch.Quota,
) (a dispatch.Account, n int, err error) {
	end, err := s.lockCount(allow(ctx, listWithin), "RetryTask", u, within)
	if err != nil {
		return "", 0, err
	}
	defer end()
	return s.changeTask(ctx, "RetryTask", u, id, func(q tx, t lockedTask, now int64) (*taskChange, error) {
		named, err := chosen(ctx, q, id, c)
		if err != nil {
			return nil, err
		}
		change := &taskChange{task: id, action: changeRetry}
		failed, err := listFailed(ctx, q, id)
		if err == nil && len(failed) == 0 {
			err = refusePruned(ctx, q, id)
		}
		if err != nil {
			return nil, err
		}
		var numbers []int64
		if c.Statuses != nil && !slices.Contains(c.Statuses, dispatch.Failed) {
			failed = nil
		}
		for _, j := range failed {
			if _, picked := named[j.id]; picked || c.Jobs == nil {
				numbers = append(numbers, j.number)
				change.jobs, change.bytes = change.jobs+1, change.bytes+j.bytes
			}
		}
		if len(numbers) == 0 {
			return nil, s.admit(ctx, q, u, 0, 0, within, now)
		}
		shared, err := sharedBytes(ctx, q, id)
		if err != nil {
			return nil, err
		}
		return change.only(numbers), s.admit(ctx, q, u, len(numbers), change.bytes+shared, within, now)
	})
}

// failedJob is a failed job of a task that can be retried.
type failedJob struct {
	id            dispatch.JobID
	number, bytes int64
}

func listFailed(ctx context.Context, q tx, id dispatch.TaskID) ([]failedJob, error) {
	return list(ctx, q, func(j *failedJob) []any {
		return []any{number(&j.id), number(&j.number), number(&j.bytes)}
	}, `
		SELECT id, number, bytes
		FROM jobs
		WHERE task = CAST($1 AS BIGINT) AND task <> 0 AND NOT hidden AND phase = 'ended' AND status = 'failed'
			AND desired = 'run' AND NOT pruned
		ORDER BY number`,
		id)
}

// sharedBytes returns the bytes of a task's shared request, with a process that was sent with it; 0 if those of its
// owner already contain them, because one of the jobs has not ended.
func sharedBytes(ctx context.Context, q tx, id dispatch.TaskID) (int64, error) {
	return value[int64](ctx, q, `
		SELECT CASE
			WHEN EXISTS (SELECT 1 FROM jobs WHERE jobs.owner = tasks.owner AND jobs.task = tasks.id AND jobs.phase <> 'ended')
			THEN 0
			ELSE octet_length(tasks.request) + tasks.sent END
		FROM tasks
		WHERE tasks.id = $1`, id)
}

// refusePruned returns Conflict for a task whose failed jobs cannot run again, because their parameters were deleted.
func refusePruned(ctx context.Context, q tx, id dispatch.TaskID) error {
	pruned, err := value[bool](ctx, q, `
		SELECT EXISTS (
			SELECT 1 FROM jobs
			WHERE task = CAST($1 AS BIGINT) AND task <> 0 AND NOT hidden AND status = 'failed' AND pruned)`, id)
	if err != nil || !pruned {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Conflict, Op: "store.RetryTask",
		Text: "The parameters of the failed jobs were deleted, because the jobs ended long ago. Submit the task again."}
}
