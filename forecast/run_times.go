package forecast

import (
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// RunTimeShown returns the run time of a job of which a status has shown that it ended by itself. send is the time
// limit of its start request.
func RunTimeShown(was, is dispatch.Job, send time.Duration) (r dispatch.RunTime, ok bool) {
	if was.Phase != dispatch.Started || is.Phase != dispatch.Ended || is.Attention != dispatch.None ||
		is.Status != dispatch.Finished && is.Status != dispatch.Failed ||
		is.Checked.Equal(was.Checked) {
		return r, false
	}
	start := was.SendBy.Add(-send)
	r = dispatch.RunTime{After: max(0, was.Checked.Sub(start)), By: is.Checked.Sub(start)}
	if was.Seen == dispatch.Failed { // it had ended when the failure was first reported
		r = dispatch.RunTime{By: was.Checked.Sub(start)}
	}
	return r, r.By > r.After
}

const (
	fewRunTimes = 8    // with fewer run times, jobs are also read as if nothing were known
	soonest     = .005 // share of the jobs that end before it is worthwhile to read a status
	nearlyAll   = .99
	fitRounds   = 100 // of the estimate; more change little
	curveParts  = 16  // of a curve, each with the same share of the jobs
)

// RunTimeCurve is the distribution of the run times of a service. Between two points it is linear. It does not change.
type RunTimeCurve struct {
	runs int
	at   []time.Duration // ascending
	by   []float64       // the share that has ended by then; first 0, last 1
}

// NewRunTimeCurve returns the distribution that explains run times best (maximum likelihood), smoothed: it knows only
// where each sixteenth of the jobs has ended, because the exact one has all ends where known jobs have ended, and none
// between them.
func NewRunTimeCurve(r dispatch.RunTimes) *RunTimeCurve {
	if len(r) == 0 {
		return &RunTimeCurve{}
	}
	exact := &RunTimeCurve{}
	for _, s := range r {
		exact.at = append(exact.at, s.After, s.By)
	}
	slices.Sort(exact.at)
	exact.at = slices.Compact(exact.at)
	exact.by = cumulate(fit(exact.cellsOf(r), len(exact.at)-1))
	c := &RunTimeCurve{runs: len(r), at: []time.Duration{exact.ageAt(soonest)}, by: []float64{0}}
	for i := range curveParts {
		share := float64(i+1) / curveParts
		if at := exact.ageAt(min(share, 1-soonest)); at > c.at[len(c.at)-1] {
			c.at, c.by = append(c.at, at), append(c.by, share)
		}
	}
	c.by[len(c.by)-1] = 1
	return c
}

// cells is a range of cells of a curve: from first to before last. Cell i lies between at[i] and at[i+1].
type cells struct{ first, last int }

func (c *RunTimeCurve) cellsOf(r dispatch.RunTimes) []cells {
	all := make([]cells, len(r))
	for i, s := range r {
		first, _ := slices.BinarySearch(c.at, s.After)
		last, _ := slices.BinarySearch(c.at, s.By)
		all[i] = cells{first, last}
	}
	return all
}

// fit returns the share of jobs in each of n cells that explains the given ranges best. In each round of this
// expectation maximization, each range is divided among its cells in proportion to their shares.
func fit(ranges []cells, n int) []float64 {
	share := slices.Repeat([]float64{1 / float64(n)}, n)
	for range fitRounds {
		next := make([]float64, n)
		for _, r := range ranges {
			sum := 0.
			for _, s := range share[r.first:r.last] {
				sum += s
			}
			for i := r.first; i < r.last; i++ {
				next[i] += share[i] / sum / float64(len(ranges))
			}
		}
		share = next
	}
	return share
}

// cumulate returns the sums of the first shares, from none to all.
func cumulate(shares []float64) []float64 {
	by := make([]float64, 1, len(shares)+1)
	for _, s := range shares {
		by = append(by, min(by[len(by)-1]+s, 1))
	}
	by[len(shares)] = 1
	return by
}

// endedBy returns the share of jobs that end within age.
func (c *RunTimeCurve) endedBy(age time.Duration) float64 {
	i, _ := slices.BinarySearch(c.at, age)
	switch {
	case i == len(c.at):
		return 1
	case i == 0:
		return 0
	}
	part := float64(age-c.at[i-1]) / float64(c.at[i]-c.at[i-1])
	return c.by[i-1] + part*(c.by[i]-c.by[i-1])
}

// ageAt returns the age by which a share of the jobs has ended.
func (c *RunTimeCurve) ageAt(share float64) time.Duration {
	i, _ := slices.BinarySearch(c.by, share)
	switch {
	case i >= len(c.at):
		return c.at[len(c.at)-1]
	case i == 0:
		return c.at[0]
	}
	part := (share - c.by[i-1]) / (c.by[i] - c.by[i-1])
	return c.at[i-1] + time.Duration(part*float64(c.at[i]-c.at[i-1]))
}

// Usual returns the median run time; 0: none is known.
func (c *RunTimeCurve) Usual() time.Duration {
	if c.runs == 0 {
		return 0
	}
	return c.ageAt(.5)
}

// BestLook returns the age at which the status of a job is best read next, and how likely the job has ended by then.
// The job had not ended when it was read last, at the age read. A read that comes too early is repeated no sooner than
// gap later.
//
// That is soon after nearly all jobs have ended that end within a gap of the first. While run times are not known that
// exactly, it is in the middle of the time in question, so that each read halves what is unknown.
func (c *RunTimeCurve) BestLook(read, gap time.Duration) (age time.Duration, likely float64) {
	guess := read + max(gap, read/10)
	before := c.endedBy(read)
	if c.runs == 0 || 1-before < .5/float64(c.runs) { // it has outlasted all known jobs
		return guess, .5
	}
	first := max(read, c.ageAt(before+soonest*(1-before)))
	last := max(first, c.ageAt(before+nearlyAll*(c.endedBy(first+gap)-before)))
	if age = last + gap/16; last-first > gap/8 {
		age = first + (last-first)/2
	}
	if c.runs < fewRunTimes {
		age = min(age, guess)
	}
	return age, (c.endedBy(age) - before) / (1 - before)
}
