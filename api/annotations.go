package api

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// annotations returns the labels and the note of a request.
func annotations(f *faults, given wire.Annotations) dispatch.Annotations {
	all := dispatch.Annotations(given)
	if wrong, ok := errors.AsType[*dispatch.Error](all.Check()); ok && len(f.all) == 0 {
		f.all = append(f.all, wrong.Faults...)
	}
	return all
}

// annotationChange reads a JSON merge patch of annotations. A member that is not known is a fault, because its sender
// expects a change.
func (a *api) annotationChange(in *request) (c dispatch.AnnotationChange, err error) {
	body, err := a.readBody(in)
	if err != nil {
		return c, err
	}
	given, f, _ := readInto[wire.AnnotationsPatch](a, body)
	if len(f.all) > 0 {
		return c, invalid(f.sorted())
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(body, &members) // it is an object
	c.Labels, c.Replace = given.Labels, isNull(members["labels"])
	if c.Note = given.Note; isNull(members["note"]) {
		c.Note = new("")
	}
	return c, nil
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
