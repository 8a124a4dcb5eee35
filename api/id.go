package api

import (
	"regexp"
	"strconv"

	"github.com/eodispatch/eodispatch/dispatch"
)

// jobID returns the job id in the path of the request.
func (r *request) jobID() (dispatch.JobID, error) {
	return parseID[dispatch.JobID]("job_id", r.http.Param("job_id"), errNoJob)
}

// taskID returns the task id in the path of the request.
func (r *request) taskID() (dispatch.TaskID, error) { return parseTaskID(r.http.Param("task_id")) }

func parseTaskID(text string) (dispatch.TaskID, error) {
	return parseID[dispatch.TaskID]("task_id", text, errNoTask)
}

var integer = regexp.MustCompile(`^[+-]?[0-9]+$`)

// parseID parses an id in a path, where name is the name of the parameter. An integer that no id can be is answered
// with missing, like the id of nothing. The error for any other text is Invalid.
func parseID[ID ~int64](name, text string, missing error) (ID, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !integer.MatchString(text):
		return 0, invalid([]dispatch.Fault{{Loc: []any{"path", name}, Type: "int_parsing",
			Msg: "Input should be a valid integer, unable to parse string as an integer"}})
	case err != nil || id <= 0:
		return 0, missing
	}
	return ID(id), nil
}
