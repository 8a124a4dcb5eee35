package visit

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/forecast"
)

// While jobs wait for a slot, a visit also reads the statuses of running jobs when they are likely to have ended, so
// that slots do not stay empty until the next planned read. These reads are called looks. They change no plan in the
// database: when nothing waits, statuses are read as rarely as [Timing] says.

const (
	shortestGap = 250 * time.Millisecond // between two looks
	gapShare    = 50                     // looks are at least this part of the usual run time apart,
	gapPaces    = 5                      // and at least so many send times of the platform
	mostLooked  = 200                    // running jobs that are considered
	replanned   = 250 * time.Millisecond // how often looks are planned anew while requests are under way
)

// planLooks decides when the visit looks next, and adds the jobs that are to be read now to the agenda.
func (v *visit) planLooks(ctx context.Context) error {
	if !v.agenda.WaitsForSlot(v.backend.Limits) {
		v.lookAt = time.Time{}
		return nil
	}
	if v.pending > 0 && time.Since(v.planned) < replanned {
		return nil
	}
	running, err := v.visits.Store.Running(ctx, v.account, mostLooked)
	if err != nil {
		return err
	}
	v.planned, v.lookAt = time.Now(), time.Time{}
	for base, jobs := range v.lookable(running) {
		looks, gap, err := v.looks(ctx, base, jobs)
		if err != nil {
			return err
		}
		at := bestOf(looks, gap)
		if at.After(v.agenda.Now) {
			v.lookAt = dispatch.Earlier(v.lookAt, at)
			continue
		}
		v.agenda.Poll = append(v.agenda.Poll, v.lookedAt(base, looks)...)
	}
	return nil
}

// lookedAt returns the jobs below a base whose statuses are read at a look that is due: those that are likely to have
// ended, and all others that a listing shows if it is read.
func (v *visit) lookedAt(base string, looks []look) (jobs []dispatch.Job) {
	listed := 0
	for _, l := range looks {
		if !v.mustReadSingly(l.job) {
			listed++
		}
	}
	all := listed >= listingPays && v.lists(base)
	for _, l := range looks {
		if all && !v.mustReadSingly(l.job) || !l.at.After(v.agenda.Now) {
			jobs = append(jobs, l.job)
		}
	}
	return jobs
}

// lookable returns the jobs whose statuses can be read earlier than planned, by base. A job whose reads fail, whose
// failure is to be confirmed, or which is due anyway keeps its plan.
func (v *visit) lookable(running []dispatch.Job) map[string][]dispatch.Job {
	due := byID(v.agenda.Poll)
	jobs := map[string][]dispatch.Job{}
	for _, j := range running {
		_, is := due[j.ID]
		if !is && !v.busy[j.ID] && j.Tries == 0 && j.Looks == 0 && j.Seen != dispatch.Failed {
			jobs[j.Base] = append(jobs[j.Base], j)
		}
	}
	return jobs
}

// look is when the status of a job is best read, and how likely the job has ended by then.
type look struct {
	job    dispatch.Job
	at     time.Time
	likely float64
}

// looks returns when the statuses of running jobs below one base are best read, and how far apart two looks must be. If
// the base has a listing, which shows all of them, that holds for the base, otherwise for each job.
func (v *visit) looks(ctx context.Context, base string, jobs []dispatch.Job) (looks []look, gap time.Duration,
	err error) {
	var last time.Time // when a listing was read last
	for _, j := range jobs {
		c, err := v.visits.RunTimes.Curve(ctx, v.visits.Store, ServiceAt{v.backend.Name, j.Service})
		if err != nil {
			return nil, 0, err
		}
		own := v.lookGap(base, c.Usual())
		start := j.SendBy.Add(-v.backend.Limits.Send)
		age, likely := c.BestLook(max(0, j.Checked.Sub(start)), own)
		read := start
		if j.Seen != "" {
			read, last = j.Checked, dispatch.Later(last, j.Checked)
		}
		at := dispatch.Later(start.Add(age), read.Add(own))
		if asked, ok := v.asked[j.ID]; ok { // the response may have changed nothing
			at = dispatch.Later(at, v.now().Add(shortestGap-time.Since(asked)))
		}
		looks = append(looks, look{j, at, likely})
		if gap == 0 || own < gap {
			gap = own
		}
	}
	if v.lists(base) && !last.IsZero() {
		for i := range looks {
			looks[i].at = dispatch.Later(looks[i].at, last.Add(gap))
		}
	}
	return looks, gap, nil
}

// lookGap returns how far apart two looks must be, so that they do not burden a platform with a low rate or with slow
// listings.
func (v *visit) lookGap(base string, usual time.Duration) time.Duration {
	l := v.backend.Limits
	took := v.visits.listings.of(baseOf{v.backend.Name, base}).took
	return max(shortestGap, l.MinPoll, usual/gapShare, gapPaces*l.Pace, took)
}

// bestOf returns the one of the times of looks at which a common look leaves slots empty for the shortest time. A job
// whose best time is later is then read no sooner than gap afterwards.
func bestOf(looks []look, gap time.Duration) (best time.Time) {
	slices.SortFunc(looks, func(a, b look) int { return a.at.Compare(b.at) })
	near, _ := slices.BinarySearchFunc(looks, looks[0].at.Add(gap),
		func(l look, t time.Time) int { return l.at.Compare(t) })
	near = max(near, 1)
	least := 0.
	for i, l := range looks[:near] {
		lost := 0.
		for k, other := range looks[:near] {
			empty := l.at.Sub(other.at)
			if k > i && empty < 0 {
				empty += gap
			}
			lost += other.likely * empty.Seconds()
		}
		if i == 0 || lost < least {
			best, least = l.at, lost
		}
	}
	return best
}

// noteRead records that a step begins to read statuses.
func (v *visit) noteRead(s step) {
	if s.kind == stepStatus || s.kind == stepList {
		for _, j := range s.jobs {
			dispatch.SetInMap(&v.asked, j.ID, time.Now())
		}
	}
}

// noteRunTime records the run time of a job if its saved status shows that it has ended.
func (v *visit) noteRunTime(was, is dispatch.Job) {
	if r, ok := forecast.RunTimeShown(was, is, v.backend.Limits.Send); ok {
		s := ServiceAt{v.backend.Name, is.Service}
		v.visits.RunTimes.add(s, r)
		v.ran = append(v.ran, s)
	}
}

// saveRunTimes stores the run times of the services of which one was noted.
func (v *visit) saveRunTimes(ctx context.Context) error {
	ran := v.ran
	v.ran = nil
	for _, s := range ran {
		if err := v.visits.RunTimes.save(ctx, v.visits.Store, s); err != nil {
			return err
		}
	}
	return nil
}
