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

func inOrder[T any](all []*T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(*v, nil) {
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
		r.lists(l)
	} else if task, err := r.ShareTask(); !r.Failed(err) {
		r.TaskWith(task, l.Jobs)
	}
	return r.Err()
}

// lists writes a JobsStatusResponse.
func (r *Renderer) lists(l listing) {
	r.Text(beforeLists)
	r.tasks(l.tasks)
	r.Text(betweenLists)
	r.each(l.Jobs)
	r.Text(afterLists)
}

// TaskWith writes an UpscalingTask.
func (r *Renderer) TaskWith(task dispatch.TaskRecord, jobs iter.Seq2[dispatch.Record, error]) {
	r.Text(r.frame(task))
	r.each(jobs)
	r.Text(afterJobs)
}

const afterJobs = "]}"

// frame returns the JSON before the jobs of an UpscalingTask. After them follows afterJobs.
func (r *Renderer) frame(task dispatch.TaskRecord) string {
	text, err := dispatch.Encode(r.task(task))
	r.Failed(err)
	return strings.TrimSuffix(string(text), afterJobs)
}

func (r *Renderer) tasks(all iter.Seq2[dispatch.TaskRecord, error]) {
	for task, err := range all {
		if r.ended(err) {
			return
		}
		r.Element(r.TaskSummary(task))
	}
}

func (r *Renderer) each(jobs iter.Seq2[dispatch.Record, error]) {
	for j, err := range jobs {
		if r.ended(err) {
			return
		}
		r.Job(j)
	}
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

// share makes a task the one whose jobs are written, and takes memory for its parameters if they are large.
func (r *Renderer) share(task *dispatch.TaskRecord) error {
	r.Task = task
	if n := len(task.Request.Parameters); !r.topic.Bare && n > largeText {
		return r.weigh(n)
	}
	return nil
}
