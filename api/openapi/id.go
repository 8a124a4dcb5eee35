package openapi

import (
	"context"
	"regexp"
	"strconv"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
)

// JobID returns the job id in the path of the request.
func (r *Request) JobID() (dispatch.JobID, error) {
	return parseID[dispatch.JobID]("job_id", r.HTTP.Param("job_id"), errNoJob)
}

// OnJob adapts the handler of an operation on the job in its path.
func OnJob[O any](handle func(context.Context, *Request, dispatch.JobID) (*O, error)) func(context.Context,
	*Request) (*O, error) {
	return func(ctx context.Context, in *Request) (*O, error) {
		id, err := in.JobID()
		if err != nil {
			return nil, err
		}
		return handle(ctx, in, id)
	}
}

// OnTask adapts the handler of an operation on the task in its path. If the user has no such task, it says so.
func OnTask[O any](handle func(context.Context, *Request, dispatch.TaskID) (*O, error)) func(context.Context,
	*Request) (*O, error) {
	return func(ctx context.Context, in *Request) (*O, error) {
		id, err := ParseTaskID(in.HTTP.Param("task_id"))
		if err != nil {
			return nil, err
		}
		out, err := handle(ctx, in, id)
		return out, call.TaskError(err)
	}
}

// TaskID returns the task id in the path of the request.
func (r *Request) TaskID() (dispatch.TaskID, error) { return ParseTaskID(r.HTTP.Param("task_id")) }

func ParseTaskID(text string) (dispatch.TaskID, error) {
	return parseID[dispatch.TaskID]("task_id", text, call.ErrNoTask)
}

var integer = regexp.MustCompile(`^[+-]?[0-9]+$`)

// parseID parses an id in a path, where name is the name of the parameter. An integer that no id can be is answered
// with missing, like the id of nothing. The error for any other text is Invalid.
func parseID[ID ~int64](name, text string, missing error) (ID, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !integer.MatchString(text):
		return 0, call.Invalid([]dispatch.Fault{{Loc: []any{"path", name}, Type: "int_parsing",
			Msg: "Input should be a valid integer, unable to parse string as an integer"}})
	case err != nil || id <= 0:
		return 0, missing
	}
	return ID(id), nil
}

var errNoJob = &dispatch.Error{Kind: dispatch.NotFound, Op: "api"}
