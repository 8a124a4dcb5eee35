package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/client"
)

const idHelp = `ID is job-42, task-7, the number alone if only one of them exists, or @latest for your newest job or task.`

// target is a job or a task.
type target struct {
	task bool
	id   int64
}

func (t target) String() string {
	if t.task {
		return fmt.Sprintf("task-%d", t.id)
	}
	return fmt.Sprintf("job-%d", t.id)
}

// parse reads what a user writes for a job or a task.
func parse(ctx context.Context, c *client.Client, text string) (target, error) {
	if text == "@latest" {
		return latest(ctx, c)
	}
	number, task := strings.CutPrefix(text, "task-")
	number, job := strings.CutPrefix(number, "job-")
	id, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil || id <= 0 || task && job:
		return target{}, usage("invalid id %q: write job-42, task-7 or @latest", text)
	case task || job:
		return target{task, id}, nil
	}
	return either(ctx, c, id)
}

// either finds out whether a number is that of a job or of a task.
func either(ctx context.Context, c *client.Client, id int64) (target, error) {
	_, noJob := c.Job(ctx, id)
	_, noTask := c.TaskSummary(ctx, id)
	switch {
	case noJob == nil && noTask == nil:
		return target{}, usage("number %d is both a job and a task: write job-%d or task-%d", id, id, id)
	case noJob == nil:
		return target{false, id}, nil
	case noTask == nil:
		return target{true, id}, nil
	case !client.IsCode(noJob, "JOB_NOT_FOUND"):
		return target{}, noJob
	case !client.IsCode(noTask, "TASK_NOT_FOUND"):
		return target{}, noTask
	}
	return target{}, fmt.Errorf("you have no job or task with number %d", id)
}

// latest returns the newest job or task.
func latest(ctx context.Context, c *client.Client) (newest target, err error) {
	var at time.Time
	for t, err := range c.Tasks(ctx, client.Filter{PageSize: 1}) {
		if err != nil {
			return newest, err
		}
		newest, at = target{true, t.ID}, t.Created
		break
	}
	for j, err := range c.Jobs(ctx, client.Filter{PageSize: 1}) {
		if err != nil {
			return newest, err
		}
		if j.Created.After(at) {
			newest = target{false, j.ID}
		}
		break
	}
	if newest.id == 0 {
		err = errors.New("you have no jobs or tasks")
	}
	return newest, err
}
