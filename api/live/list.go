package live

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
)

// listing is what is written of a list or a task: tasks first, then jobs.
type listing struct {
	task  *dispatch.TaskRecord // of which all are; nil: none, or it is not read yet
	tasks iter.Seq2[dispatch.TaskRecord, error]
	Jobs  iter.Seq2[dispatch.Record, error]
}

// ListingOf reads what a page selects of a topic, part by part.
func (a *Lists) ListingOf(ctx context.Context, t Topic, p dispatch.Page) listing {
	l := listing{nil, inOrder[dispatch.TaskRecord](nil), inOrder[dispatch.Record](nil)}
	switch {
	case t.Task != 0:
		l.Jobs = a.Broker.TaskJobs(ctx, t.User, t.Task, p)
		return l
	case t.Want.Upscaling:
		l.tasks = a.Broker.Tasks(ctx, t.User, p)
	}
	if t.Want.Processing {
		l.Jobs = a.Broker.Jobs(ctx, t.User, p)
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

// WholeList returns all of a topic as one page.
func (a *Lists) WholeList(t Topic) *ListPart {
	return &ListPart{write: func(ctx context.Context, w io.Writer) error { return a.WriteWhole(ctx, w, t) }}
}

// WriteWhole writes the body of a whole topic while it is read: a JobsStatusResponse or an UpscalingTask.
func (a *Lists) WriteWhole(ctx context.Context, w io.Writer, t Topic) error {
	release, err := a.EnterList(ctx, t.User)
	if err != nil {
		return err
	}
	defer release()
	r := a.NewRenderer(ctx, w, t)
	defer r.Close()
	l := a.ListingOf(ctx, t, dispatch.Page{})
	if t.Task == 0 {
		return r.lists(l)
	}
	task, err := r.ShareTask()
	if err != nil {
		return err
	}
	return r.TaskWith(task, l.Jobs)
}

// lists writes a JobsStatusResponse.
func (r *Renderer) lists(l listing) error {
	if err := r.Text(beforeLists); err != nil {
		return err
	}
	if err := r.tasks(l.tasks); err != nil {
		return err
	}
	if err := r.Text(betweenLists); err != nil {
		return err
	}
	if err := r.each(l.Jobs); err != nil {
		return err
	}
	return r.Text(afterLists)
}

// TaskWith writes an UpscalingTask.
func (r *Renderer) TaskWith(task dispatch.TaskRecord, jobs iter.Seq2[dispatch.Record, error]) error {
	before, after, err := r.frame(task)
	if err != nil {
		return err
	}
	if err := r.Text(before); err != nil {
		return err
	}
	if err := r.each(jobs); err != nil {
		return err
	}
	return r.Text(after)
}

// frame returns the JSON before and after the jobs of an UpscalingTask.
func (a *Lists) frame(task dispatch.TaskRecord) (before, after string, err error) {
	text, err := dispatch.Encode(a.task(task))
	return strings.TrimSuffix(string(text), "]}"), "]}", err
}

func (r *Renderer) tasks(all iter.Seq2[dispatch.TaskRecord, error]) error {
	for task, err := range all {
		if err == nil {
			err = r.next()
		}
		if err == nil {
			err = r.Element(r.TaskSummary(task))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Renderer) each(jobs iter.Seq2[dispatch.Record, error]) error {
	for j, err := range jobs {
		if err == nil {
			err = r.next()
		}
		if err == nil {
			err = r.Job(j)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ShareTask reads the task whose jobs are written, with its forecast. What the jobs share stays in memory until the
// renderer is closed.
func (r *Renderer) ShareTask() (task dispatch.TaskRecord, err error) {
	if task, err = r.Broker.Task(r.Ctx, r.topic.User, r.topic.Task); err != nil {
		return task, call.TaskError(err)
	}
	if task, err = r.Broker.ForecastTask(r.Ctx, task); err != nil {
		return task, err
	}
	return task, r.share(&task)
}

// share has the jobs of a task written.
func (r *Renderer) share(task *dispatch.TaskRecord) error {
	r.Task = task
	if n := len(task.Request.Parameters); !r.topic.Bare && n > largeText {
		return r.weigh(n)
	}
	return nil
}
