package conformance

import "github.com/eodispatch/eodispatch/dispatch"

// touchJob changes what is not shown of a job.
func (t storeTest) touchJob(id dispatch.JobID, change func(*dispatch.Job)) {
	t.Helper()
	j := t.load(id)
	change(&j)
	t.save(j)
}

// change changes what is shown of a job.
func (t storeTest) change(id dispatch.JobID, change func(*dispatch.Job)) {
	t.Helper()
	t.touchJob(id, func(j *dispatch.Job) {
		change(j)
		j.Updated = t.readAgenda().Now
	})
}
