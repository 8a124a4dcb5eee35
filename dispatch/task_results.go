package dispatch

import (
	"cmp"
	"fmt"
	"time"
)

// ResultPosition is a position in the order in which the jobs of a task finished, after that job. The zero value is the
// beginning.
type ResultPosition struct {
	At  time.Time
	Job JobID
}

// ResultPosition returns the position after a finished job.
func (r Record) ResultPosition() ResultPosition { return ResultPosition{r.Moved, r.ID} }

// Compare returns -1, 0 or 1 if m is before n, equal to it, or after it.
func (m ResultPosition) Compare(n ResultPosition) int {
	return cmp.Or(m.At.Compare(n.At), cmp.Compare(m.Job, n.Job))
}

// DescribeResults returns a description of the results of a task if those of some finished jobs could not be read.
func (t TaskRecord) DescribeResults(missing int) string {
	finished := fmt.Sprintf("the %d jobs", t.Counts[Finished])
	if missing > 0 {
		finished = fmt.Sprintf("%d of %s", t.Counts[Finished]-missing, finished)
	}
	return fmt.Sprintf("Results of %s that have finished, of %d.", finished, t.Counts.Jobs())
}
