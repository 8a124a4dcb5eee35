package visit

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// While jobs wait for a slot, a visit also reads the statuses of running jobs earlier than planned, so that slots do
// not stay empty for long. These reads are called early polls. They change no plan in the database: when nothing waits,
// statuses are read as rarely as [Timing] says.

const (
	shortestGap = 250 * time.Millisecond // between two early polls
	gapShare    = 30                     // early polls are at least this part of the mean age of running jobs apart,
	gapPaces    = 5                      // and at least so many send times of the platform
	mostPolled  = 200                    // running jobs that are considered
	replanned   = 250 * time.Millisecond // how often early polls are planned anew while requests are under way
)

// planEarlyPolls decides when the visit polls early next, and adds the jobs that are to be read now to the agenda.
func (v *visit) planEarlyPolls(ctx context.Context) error {
	if !v.agenda.WaitsForSlot(v.backend.Limits) {
		v.earlyPollAt = time.Time{}
		return nil
	}
	if v.pending > 0 && time.Since(v.planned) < replanned {
		return nil
	}
	running, err := v.visits.Store.Running(ctx, v.account, mostPolled)
	if err != nil {
		return err
	}
	v.planned, v.earlyPollAt = time.Now(), time.Time{}
	jobs := v.pollableEarly(running)
	for _, base := range slices.Sorted(maps.Keys(jobs)) {
		v.planEarlyPoll(base, jobs[base])
	}
	return nil
}

// planEarlyPoll decides when the statuses of jobs below a base are read next: a gap after the last read, of all
// together if a listing shows them, otherwise of each.
func (v *visit) planEarlyPoll(base string, jobs []dispatch.Job) {
	gap := v.earlyPollGap(base, jobs)
	var last time.Time
	listed := 0
	for _, j := range jobs {
		if !v.mustReadSingly(j) {
			listed, last = listed+1, dispatch.Later(last, v.lastRead(j))
		}
	}
	together := listed >= listingPays && v.lists(base)
	for _, j := range jobs {
		at := v.lastRead(j).Add(gap)
		if together && !v.mustReadSingly(j) {
			at = last.Add(gap)
		}
		if at.After(v.agenda.Now) {
			v.earlyPollAt = dispatch.Earlier(v.earlyPollAt, at)
		} else {
			v.agenda.Poll = append(v.agenda.Poll, j)
		}
	}
}

// lastRead returns when the status of a job was read last, or else when the job was submitted, in the store's time.
func (v *visit) lastRead(j dispatch.Job) time.Time {
	read := v.startOf(j)
	if j.Seen != "" {
		read = dispatch.Later(read, j.Checked)
	}
	if asked, ok := v.asked[j.ID]; ok { // the response may have changed nothing
		read = dispatch.Later(read, v.now().Add(-time.Since(asked)))
	}
	return read
}

func (v *visit) startOf(j dispatch.Job) time.Time { return j.SendBy.Add(-v.backend.Limits.Send) }

// earlyPollGap returns how far apart two early polls of jobs below a base must be, so that they do not burden a
// platform with a low rate or with slow listings.
func (v *visit) earlyPollGap(base string, jobs []dispatch.Job) time.Duration {
	var ages time.Duration
	for _, j := range jobs {
		ages += max(0, v.now().Sub(v.startOf(j)))
	}
	l := v.backend.Limits
	took := v.visits.listings.get(baseOf{v.backend.Name, base}).took
	return max(shortestGap, l.MinPoll, ages/time.Duration(len(jobs))/gapShare, gapPaces*l.Pace, took)
}

// pollableEarly returns the jobs whose statuses can be read earlier than planned, by base. A job whose reads fail,
// whose failure is to be confirmed, or which is due anyway keeps its plan.
func (v *visit) pollableEarly(running []dispatch.Job) map[string][]dispatch.Job {
	due := byID(v.agenda.Poll)
	jobs := map[string][]dispatch.Job{}
	for _, j := range running {
		_, planned := due[j.ID]
		if !planned && !v.busy[j.ID] && j.Tries == 0 && j.Polls == 0 && j.Seen != dispatch.Failed {
			jobs[j.Base] = append(jobs[j.Base], j)
		}
	}
	return jobs
}

// noteRead records that a step begins to read statuses.
func (v *visit) noteRead(s step) {
	if s.kind == stepStatus || s.kind == stepList {
		for _, j := range s.jobs {
			dispatch.SetInMap(&v.asked, j.ID, time.Now())
		}
	}
}
