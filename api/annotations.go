package api

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// annotations returns the labels and the note of a request.
func annotations(f *openapi.Faults, given wire.Annotations) dispatch.Annotations {
	all := dispatch.Annotations(given)
	if wrong, ok := errors.AsType[*dispatch.Error](all.Check()); ok && len(f.All) == 0 {
		f.All = append(f.All, wrong.Faults...)
	}
	return all
}

// annotationChange reads a JSON merge patch of annotations. A member that is not known is a fault, because its sender
// expects a change.
func (a *api) annotationChange(in *openapi.Request) (c dispatch.AnnotationChange, err error) {
	body, err := a.ReadBody(in)
	if err != nil {
		return c, err
	}
	given, f, _ := openapi.ReadInto[wire.AnnotationsPatch](a.Document, body)
	if len(f.All) > 0 {
		return c, call.Invalid(f.Sorted())
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(body, &members) // it is an object
	c.Labels, c.Replace = given.Labels, openapi.IsNull(members["labels"])
	if c.Note = given.Note; openapi.IsNull(members["note"]) {
		c.Note = new("")
	}
	return c, nil
}

func (a *api) annotateJob(ctx context.Context, in *openapi.Request,
	id dispatch.JobID) (*openapi.Tagged[wire.ProcessingJob], error) {
	c, err := a.annotationChange(in)
	if err != nil {
		return nil, err
	}
	return a.tagged(a.Broker.AnnotateJob(ctx, call.User(ctx), id, c))
}

func (a *api) annotateTask(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*taskSummary, error) {
	c, err := a.annotationChange(in)
	if err != nil {
		return nil, err
	}
	return a.changed(a.Broker.AnnotateTask(ctx, call.User(ctx), id, c))
}
