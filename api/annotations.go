package api

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// longestAnnotation bounds the characters of a value or note that is read; Annotations.Check has the bounds of each.
const longestAnnotation = dispatch.LongestNote

// annotations returns the members labels and note of a request.
func (f *form) annotations() (a dispatch.Annotations) {
	if note := f.optionalText("note", longestAnnotation); note != nil {
		a.Note = *note
	}
	raw := f.members["labels"]
	if raw == nil || raw[0] == 'n' {
		return a
	}
	own := f.nested("labels")
	if own == nil {
		return a
	}
	a.Labels = map[string]string{}
	for key, value := range own.members {
		a.Labels[key] = own.textIn(value, key, longestAnnotation)
	}
	f.check(a)
	return a
}

// check adds the faults of annotations that exceed their bounds.
func (f *form) check(a dispatch.Annotations) {
	if err, wrong := errors.AsType[*dispatch.Error](a.Check()); wrong && len(*f.faults) == 0 {
		*f.faults = append(*f.faults, err.Faults...)
	}
}

// annotationChange reads a JSON merge patch of annotations. A member that is not known is a fault, because its sender
// expects a change.
func (a *api) annotationChange(in *request) (c dispatch.AnnotationChange, err error) {
	body, err := a.readBody(in)
	if err != nil {
		return c, err
	}
	f, faults := a.openObject(body)
	if f == nil {
		return c, invalid(faults)
	}
	f.only("labels", "note")
	c.Labels, c.Replace = f.labelChange()
	if f.members["note"] != nil {
		c.Note = new(string)
		if note := f.optionalText("note", longestAnnotation); note != nil {
			c.Note = note
		}
	}
	if faults = append(faults, *f.faults...); len(faults) > 0 {
		return c, invalid(faults)
	}
	return c, nil
}

// labelChange reads the member labels of a merge patch.
func (f *form) labelChange() (labels map[string]*string, replace bool) {
	raw := f.members["labels"]
	if raw == nil || raw[0] == 'n' {
		return nil, raw != nil
	}
	own := f.nested("labels")
	if own == nil {
		return nil, false
	}
	labels = map[string]*string{}
	for key, value := range own.members {
		if labels[key] = nil; !isNull(value) {
			labels[key] = new(own.textIn(value, key, longestAnnotation))
		}
	}
	return labels, false
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

func (a *api) annotateJob(ctx context.Context, in *request) (*tagged[wire.ProcessingJob], error) {
	id, err := in.jobID()
	if err != nil {
		return nil, err
	}
	c, err := a.annotationChange(in)
	if err != nil {
		return nil, err
	}
	r, err := a.Broker.AnnotateJob(ctx, user(ctx), id, c)
	if err != nil {
		return nil, err
	}
	return &tagged[wire.ProcessingJob]{revalidate, jobTag(r), a.job(r)}, nil
}

func (a *api) annotateTask(ctx context.Context, in *request) (*status[wire.UpscalingTaskSummary], error) {
	c, err := a.annotationChange(in)
	if err != nil {
		return nil, err
	}
	return a.taskChange(func(b taskBroker, ctx context.Context, u dispatch.UserID,
		id dispatch.TaskID) (dispatch.TaskRecord, error) {
		return b.AnnotateTask(ctx, u, id, c)
	})(ctx, in)
}
