package simulator

import (
	"math/rand/v2"
	"time"
)

// Life is how jobs fare. The zero Life runs any number of jobs in no time, and tells the truth about them.
type Life struct {
	Queue  time.Duration `json:"queue"`  // from the start of a job until it runs
	Run    time.Duration `json:"run"`    // from then until it ends
	Spread float64       `json:"spread"` // each job's durations are times 1-Spread to 1+Spread
	Fail   float64       `json:"fail"`   // share of the jobs that end in an error
	Stuck  bool          `json:"stuck"`  // what runs says so for ever, and gets no further

	// Slots is how many started jobs an account may have; a start beyond is refused. 0: any number.
	Slots int `json:"slots"`

	Lag      time.Duration `json:"lag"`      // statuses tell what was so long ago
	Unlisted time.Duration `json:"unlisted"` // how long a new job is missing from listings
	Flicker  time.Duration `json:"flicker"`  // how long after its start a job that is well reads as one in error
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
	flicker         time.Time // until when it reads as failed
	stopped         time.Time // when it was canceled; zero: it was not
	fails           bool
	stuck           bool
}

// begin plans a run that starts now. The same seed and number make the same plan.
func (l Life) begin(now time.Time, seed, number uint64) course {
	r := rand.New(rand.NewPCG(seed, number))
	factor := 1 + l.Spread*(2*r.Float64()-1)
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	c := course{start: now, run: now.Add(scaled(l.Queue)), flicker: now.Add(l.Flicker), fails: r.Float64() < l.Fail, stuck: l.Stuck}
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

// progress is in percent.
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
