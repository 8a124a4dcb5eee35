package facade

import (
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// ID is a job, or a task, whether or not it was started. The other one is 0.
type ID = dispatch.UnstartedID

const taskPrefix = "t-"

// WriteID returns the text by which clients know a job or a task, such as 17 or t-17.
func WriteID(id ID) string {
	if id.Task != 0 {
		return taskPrefix + strconv.FormatInt(int64(id.Task), 10)
	}
	return strconv.FormatInt(int64(id.Job), 10)
}

// ParseID is the inverse of [WriteID]. ok is false for a text that stands for nothing.
func ParseID(text string) (id ID, ok bool) {
	digits, isTask := strings.CutPrefix(text, taskPrefix)
	n, _ := strconv.ParseInt(digits, 10, 64)
	if id.Job = dispatch.JobID(n); isTask {
		id = ID{Task: dispatch.TaskID(n)}
	}
	if n < 1 || WriteID(id) != text {
		return ID{}, false
	}
	return id, true
}
