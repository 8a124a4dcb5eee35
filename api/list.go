package api

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// listing is what is written of a list or a task: tasks first, then jobs.
type listing struct {
	task  *dispatch.TaskRecord // of which all are; nil: none, or it is not read yet
	tasks iter.Seq2[dispatch.TaskRecord, error]
	jobs  iter.Seq2[dispatch.Record, error]
}

// listingOf reads what a page selects of a topic, part by part.
func (a *api) listingOf(ctx context.Context, t topic, p dispatch.Page) listing {
	l := listing{nil, inOrder[dispatch.TaskRecord](nil), inOrder[dispatch.Record](nil)}
	switch {
	case t.task != 0:
		l.jobs = a.Broker.TaskJobs(ctx, t.user, t.task, p)
		return l
	case t.want.upscaling:
		l.tasks = a.Broker.Tasks(ctx, t.user, p)
	}
	if t.want.processing {
		l.jobs = a.Broker.Jobs(ctx, t.user, p)
	}
	return l
}

func inOrder[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

const (
	beforeLists  = `{"upscaling_tasks":[`
	betweenLists = `],"processing_jobs":[`
	afterLists   = `]}`
)

// wholeList returns all of a topic as one page.
func (a *api) wholeList(t topic) *listPart {
	return &listPart{write: func(ctx context.Context, w io.Writer) error { return a.writeWhole(ctx, w, t) }}
}

// writeWhole writes the body of a whole topic while it is read: a JobsStatusResponse or an UpscalingTask.
func (a *api) writeWhole(ctx context.Context, w io.Writer, t topic) error {
	release, err := a.enterList(ctx, t.user)
	if err != nil {
		return err
	}
	defer release()
	r := a.newRenderer(ctx, w, t)
	defer r.close()
	l := a.listingOf(ctx, t, dispatch.Page{})
	if t.task == 0 {
		return r.lists(l)
	}
	task, err := r.shareTask()
	if err != nil {
		return err
	}
	return r.taskWith(task, l.jobs)
}

// enterList waits for one of the places of a user's lists.
func (a *api) enterList(ctx context.Context, u dispatch.UserID) (release func(), err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, requestWithin, facade.ErrTooSlow)
	defer cancel()
	return a.rendering.enterList(waiting, u)
}

// lists writes a JobsStatusResponse.
func (r *renderer) lists(l listing) error {
	if err := r.text(beforeLists); err != nil {
		return err
	}
	if err := r.tasks(l.tasks); err != nil {
		return err
	}
	if err := r.text(betweenLists); err != nil {
		return err
	}
	if err := r.each(l.jobs); err != nil {
		return err
	}
	return r.text(afterLists)
}

// taskWith writes an UpscalingTask.
func (r *renderer) taskWith(task dispatch.TaskRecord, jobs iter.Seq2[dispatch.Record, error]) error {
	before, after, err := r.frame(task)
	if err != nil {
		return err
	}
	if err := r.text(before); err != nil {
		return err
	}
	if err := r.each(jobs); err != nil {
		return err
	}
	return r.text(after)
}

// frame returns the JSON before and after the jobs of an UpscalingTask.
func (a *api) frame(task dispatch.TaskRecord) (before, after string, err error) {
	text, err := dispatch.Encode(a.task(task))
	return strings.TrimSuffix(string(text), "]}"), "]}", err
}

func (r *renderer) tasks(all iter.Seq2[dispatch.TaskRecord, error]) error {
	for task, err := range all {
		if err == nil {
			err = r.next()
		}
		if err == nil {
			err = r.element(r.taskSummary(task))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) each(jobs iter.Seq2[dispatch.Record, error]) error {
	for j, err := range jobs {
		if err == nil {
			err = r.next()
		}
		if err == nil {
			err = r.job(j)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shareTask reads the task whose jobs are written, with its forecast. What the jobs share stays in memory until the
// renderer is closed.
func (r *renderer) shareTask() (task dispatch.TaskRecord, err error) {
	if task, err = r.Broker.Task(r.ctx, r.topic.user, r.topic.task); err != nil {
		return task, taskError(err)
	}
	if task, err = r.Broker.ForecastTask(r.ctx, task); err != nil {
		return task, err
	}
	return task, r.share(&task)
}

// share has the jobs of a task written.
func (r *renderer) share(task *dispatch.TaskRecord) error {
	r.task = task
	if n := len(task.Request.Parameters); !r.topic.bare && n > largeText {
		return r.weigh(n)
	}
	return nil
}
