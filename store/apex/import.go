package apex

import (
	"context"
	"fmt"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Keeper stores what is taken over.
type Keeper interface {
	// Import stores jobs that are new under their ids, with their task unless it is nil. Conflict, and nothing stored,
	// if the id of the task is that of another.
	Import(ctx context.Context, t *dispatch.Task, jobs []dispatch.Draft) (dispatch.Imported, error)
}

// Import takes over all records.
type Import struct {
	Issuer string                                         // of all users
	Adopt  func(dispatch.Foreign) (dispatch.Draft, error) // see broker.Broker.Adopt
	Keeper Keeper
}

// Report says what came, or would come, and what cannot.
type Report struct {
	Tasks   int
	Jobs    map[dispatch.Status]int // new ones, by the status that they have now
	Reading int                     // of these, jobs at platforms whose statuses are read from now on
	Present int                     // jobs that had been taken over before
	Refused map[string][]string     // reasons, and what cannot be taken over
}

// Records is how many jobs were considered.
func (r Report) Records() (n int) {
	for _, k := range r.Jobs {
		n += k
	}
	return n + r.Present
}

func (r *Report) refuse(err error, what string) {
	reason := dispatch.TextFor(err)
	r.Refused[reason] = append(r.Refused[reason], what)
}

// How many records are read, and stored in one transaction.
const (
	tasksAtOnce = 100
	jobsAtOnce  = 500
)

// Run takes over the records of a database: tasks with their jobs first, then the other jobs. Repeated, it takes over
// what is missing. It returns what it did, also if it fails, and calls progress after each step.
func (i Import) Run(ctx context.Context, from *Source, progress func(Report)) (Report, error) {
	r := Report{Jobs: map[dispatch.Status]int{}, Refused: map[string][]string{}}
	for after := int64(0); ; {
		tasks, err := from.tasks(ctx, after, tasksAtOnce)
		if err != nil {
			return r, err
		}
		for _, t := range tasks {
			if err := i.task(ctx, from, t, &r); err != nil {
				return r, err
			}
			after = t.id
			progress(r)
		}
		if len(tasks) < tasksAtOnce {
			break
		}
	}
	return r, i.singles(ctx, from, &r, progress)
}

func (i Import) singles(ctx context.Context, from *Source, r *Report, progress func(Report)) error {
	for after := int64(0); ; {
		records, err := from.singles(ctx, after, jobsAtOnce)
		if err != nil {
			return err
		}
		if err := i.keep(ctx, nil, i.drafts(records, r), r); err != nil {
			return err
		}
		progress(*r)
		if len(records) < jobsAtOnce {
			return nil
		}
		after = records[len(records)-1].id
	}
}

// drafts converts records of jobs, and notes those that cannot be taken over.
func (i Import) drafts(records []record, r *Report) (all []dispatch.Draft) {
	for _, one := range records {
		f, err := one.foreign(i.Issuer)
		var d dispatch.Draft
		if err == nil {
			d, err = i.Adopt(f)
		}
		if err != nil {
			r.refuse(err, fmt.Sprintf("job %d", one.id))
			continue
		}
		all = append(all, d)
	}
	return all
}

// task takes over a task with its jobs. If they cannot be kept as a task, they are kept as jobs without one.
func (i Import) task(ctx context.Context, from *Source, one record, r *Report) error {
	records, err := from.jobsOf(ctx, one.id)
	if err != nil {
		return err
	}
	jobs := i.drafts(records, r)
	name := fmt.Sprintf("task %d", one.id)
	if len(jobs) == 0 {
		r.refuse(refused("None of the jobs of the task can be imported."), name)
		return nil
	}
	for _, j := range jobs {
		if j.Account != jobs[0].Account || j.Owner != one.owner(i.Issuer) {
			r.refuse(refused("The jobs of the task belong to several users or platforms: they come without the task."),
				name)
			return i.keep(ctx, nil, jobs, r)
		}
	}
	t, members, err := one.task(i.Issuer, jobs[0].Account, jobs)
	if err != nil {
		r.refuse(refused("%s They come without the task.", dispatch.TextFor(err)), name)
		return i.keep(ctx, nil, jobs, r)
	}
	err = i.keep(ctx, t, members, r)
	if dispatch.Is(err, dispatch.Conflict) {
		r.refuse(err, name)
		return nil
	}
	return err
}

// keep stores jobs and counts them.
func (i Import) keep(ctx context.Context, t *dispatch.Task, jobs []dispatch.Draft, r *Report) error {
	if len(jobs) == 0 {
		return nil
	}
	done, err := i.Keeper.Import(ctx, t, jobs)
	if err != nil {
		return err
	}
	imported := map[dispatch.JobID]bool{}
	for _, id := range done.New {
		imported[id] = true
	}
	for _, j := range jobs {
		if imported[j.ID] {
			r.Jobs[j.Status]++
			if j.Phase == dispatch.Started {
				r.Reading++
			}
		}
	}
	if t != nil && done.Task {
		r.Tasks++
	}
	r.Present += len(done.Present)
	for _, id := range done.Taken {
		r.refuse(refused("The id is that of another job of this broker."), fmt.Sprintf("job %d", id))
	}
	return nil
}
