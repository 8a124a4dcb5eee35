package simulator

import (
	"math/rand/v2"
	"time"
)

// Life describes how jobs proceed. With the zero Life any number of jobs finish at once, and statuses are true.
type Life struct {
	Queue  time.Duration // from the start of a job until it runs
	Run    time.Duration // from then until it ends
	Spread float64       // a job's durations are multiplied by a factor between 1-Spread and 1+Spread
	Fail   float64       // share of the jobs that end in an error
	Stuck  bool          // running jobs run for ever, without progress

	// Slots is how many started jobs an account may have; further starts are refused. 0: any number.
	Slots int

	Lag      time.Duration // delay of statuses
	Unlisted time.Duration // time until a new job appears in listings
	Billing  time.Duration // time from the end of a job until its costs are known
	Flicker  time.Duration // time after its start during which a healthy job reports an error
}

type phase int

const (
	created phase = iota
	queued
	running
	finished
	failed
	canceled
)

func (p phase) final() bool { return p >= finished }

// course is one run of a job, from its start to its end.
type course struct {
	start, run, end time.Time
	flicker         time.Time // until then it reports an error
	stopped         time.Time // when it was canceled; zero: never
	fails           bool
	stuck           bool
}

// begin plans a run that starts now. The same seed and number give the same plan.
func (l Life) begin(now time.Time, seed, number uint64) course {
	r := rand.New(rand.NewPCG(seed, number))
	factor := 1 + l.Spread*(2*r.Float64()-1)
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	c := course{start: now, run: now.Add(scaled(l.Queue)), flicker: now.Add(l.Flicker), fails: r.Float64() < l.Fail,
		stuck: l.Stuck}
	c.end = c.run.Add(scaled(l.Run))
	return c
}

func (c course) at(t time.Time) phase {
	switch {
	case t.Before(c.start):
		return created
	case !c.stopped.IsZero() && !t.Before(c.stopped):
		return canceled
	case t.Before(c.run):
		return queued
	case t.Before(c.end), c.stuck:
		return running
	case c.fails:
		return failed
	}
	return finished
}

// progress returns the progress in percent.
func (c course) progress(t time.Time) float64 {
	if !c.stopped.IsZero() && t.After(c.stopped) {
		t = c.stopped
	}
	switch {
	case c.stuck:
		return 0
	case !t.Before(c.end):
		return 100
	}
	return max(0, 100*float64(t.Sub(c.run))/float64(c.end.Sub(c.run)))
}
