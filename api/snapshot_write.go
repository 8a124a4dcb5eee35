package api

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/facade"
)

// writeSnapshot writes the body of a snapshot: the held one, or the current state from the database.
func (a *api) writeSnapshot(ctx context.Context, w io.Writer, p *snapshot) error {
	switch {
	case p.message != nil:
		_, err := w.Write(p.message[p.begin:p.end])
		return err
	case p.packed != nil:
		return a.writePacked(w, p)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, requestWithin, facade.ErrTooSlow)
	defer cancel()
	release, err := a.rendering.enterList(waiting, p.topic.user)
	if err != nil {
		return err
	}
	defer release()
	before, after, err := a.frame(p)
	if err != nil {
		return err
	}
	r := a.newRenderer(ctx, w, p.topic.user, p.topic.bare)
	defer r.turn.releaseTurn()
	if err := r.text(before); err != nil {
		return err
	}
	if p.topic.task != 0 {
		err = r.taskJobs(p)
	} else {
		err = r.lists(p.topic)
	}
	if err != nil {
		return err
	}
	return r.text(after)
}

func (a *api) writePacked(w io.Writer, p *snapshot) error {
	before, after, err := a.frame(p)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, before); err != nil {
		return err
	}
	if err := p.packed.writeTo(w); err != nil {
		return err
	}
	_, err = io.WriteString(w, after)
	return err
}

const (
	beforeLists  = `{"upscaling_tasks":[`
	betweenLists = `],"processing_jobs":[`
	afterLists   = `]}`
)

// frame returns the JSON before and after the elements of a snapshot's body.
func (a *api) frame(p *snapshot) (before, after string, err error) {
	if p.task == nil {
		return beforeLists, afterLists, nil
	}
	text, err := dispatch.Encode(a.task(*p.task))
	return strings.TrimSuffix(string(text), "]}"), "]}", err
}

// lists writes the tasks and jobs of a list.
func (r *renderer) lists(t topic) error {
	if t.want.upscaling {
		for task, err := range r.Broker.Tasks(r.ctx, t.user, dispatch.Page{}) {
			if err == nil {
				err = r.element(r.taskSummary(task))
			}
			if err != nil {
				return err
			}
		}
	}
	if err := r.text(betweenLists); err != nil || !t.want.processing {
		return err
	}
	return r.each(r.Broker.Jobs(r.ctx, t.user, dispatch.Page{}))
}

func (r *renderer) each(jobs iter.Seq2[dispatch.Record, error]) error {
	for j, err := range jobs {
		if err == nil {
			err = r.job(j)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// taskJobs writes the jobs of a task. What they share stays in memory until the end.
func (r *renderer) taskJobs(p *snapshot) error {
	release, err := r.shares(p.topic, p.largest)
	if err != nil {
		return err
	}
	defer release()
	return r.each(r.Broker.TaskJobs(r.ctx, p.topic.user, p.topic.task, dispatch.Page{}))
}

// shares reads what the jobs of a task share, after taking memory for the largest of them.
func (r *renderer) shares(t topic, largest int) (release func(), err error) {
	if release, err = r.reserve(t.user, largest); err != nil {
		return nil, err
	}
	task, err := r.Broker.Task(r.ctx, t.user, t.task)
	if err != nil {
		release()
		return nil, err
	}
	r.task, r.weighed = &task, true
	return release, nil
}
