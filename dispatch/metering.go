package dispatch

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Metered is what a job used, as its platform reported it. The amounts are in the platform's own units.
type Metered struct {
	CPU    *Amount `json:"cpu,omitempty"`
	Memory *Amount `json:"memory,omitempty"`
	Input  *Amount `json:"input,omitempty"` // the data that was read
}

// Amount is a quantity in a unit that a platform named.
type Amount struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

func (m Metered) values() (all [3]float64) {
	for i, a := range []*Amount{m.CPU, m.Memory, m.Input} {
		if all[i] = -1; a != nil {
			all[i] = a.Value
		}
	}
	return all
}

// Unmetered is a run of a job at its platform whose costs or usage the platform has not reported yet.
type Unmetered struct {
	Ref    Ref       `json:"ref"`
	Ended  time.Time `json:"ended"`
	Due    time.Time `json:"due"`              // when they are read next
	Priced bool      `json:"priced,omitempty"` // its costs were reported, and so are booked: only usage is missing
}

// meterAges are the ages after its end at which a job's costs are read again while they are missing: platforms that
// account for jobs in a process of its own report them minutes to hours later. Results that could not be read have the
// same pauses.
var meterAges = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// next returns u with the time of its next read after now; false if the last one is over.
func (u Unmetered) next(now time.Time) (Unmetered, bool) {
	for _, age := range meterAges {
		if due := u.Ended.Add(age); due.After(now) {
			u.Due = due
			return u, true
		}
	}
	return u, false
}

// HighestCosts is the largest amount that is booked for a run. A platform that reports more reports nonsense.
const HighestCosts = 1e12

// Bookable returns the costs that are booked: 0 for none, and for nonsense.
func Bookable(costs *float64) float64 {
	if costs == nil || !(*costs >= 0 && *costs <= HighestCosts) {
		return 0
	}
	return *costs
}

// AllCosts returns what all runs of the job cost, also those of attempts before a retry; nil if the platform reported
// no costs of any.
func (j Job) AllCosts() *float64 {
	if j.Costs == nil && j.Spent == 0 {
		return nil
	}
	all := RoundAmount(j.Spent + Bookable(j.Costs))
	return &all
}

// RoundAmount returns a sum of amounts, such as costs, without its rounding errors: to six decimals.
func RoundAmount(sum float64) float64 { return math.Round(sum*1e6) / 1e6 }

// noteReport keeps what a status report says about costs and usage. A report that leaves something out does not erase
// it.
func (j Job) noteReport(r Report) Job {
	j.Costs, j.Unit = cmp.Or(r.Costs, j.Costs), cmp.Or(r.Unit, j.Unit)
	j.Metered.CPU, j.Metered.Memory = cmp.Or(r.Metered.CPU, j.Metered.CPU), cmp.Or(r.Metered.Memory, j.Metered.Memory)
	j.Metered.Input = cmp.Or(r.Metered.Input, j.Metered.Input)
	return j
}

// PlanMetering plans to read the costs of a job that has just ended, if the platform charges and has not reported them,
// and its usage if the report of its end was incomplete.
func PlanMetering(before, j Job, o Outcome, now time.Time) Job {
	if j.Phase != Ended || before.Phase == Ended || j.Ref == (Ref{}) ||
		before.Phase != Started && o.Asked != AskStatus {
		return j
	}
	if o.Report.Partial || j.Unit != "" && j.Costs == nil {
		j.Unmetered = append(slices.Clone(j.Unmetered), Unmetered{Ref: j.Ref, Ended: now, Due: now.Add(meterAges[0]),
			Priced: j.Costs != nil})
	}
	return j
}

// forgetMetering returns j without the planned reads of a run.
func (j Job) forgetMetering(r Ref) Job {
	j.Unmetered = slices.DeleteFunc(slices.Clone(j.Unmetered), func(u Unmetered) bool { return u.Ref == r })
	return j
}

// MeterDue returns when costs of the job are to be read next; zero: they are not.
func (j Job) MeterDue() (due time.Time) {
	for _, u := range j.Unmetered {
		due = Earlier(due, u.Due)
	}
	return due
}

// FirstUnmetered returns the run of the job whose costs are to be read first.
func (j Job) FirstUnmetered() Unmetered {
	if len(j.Unmetered) == 0 {
		return Unmetered{}
	}
	return slices.MinFunc(j.Unmetered, func(a, b Unmetered) int { return a.Due.Compare(b.Due) })
}

// applyMetering applies a read of the costs of a run that has ended: of the job itself, or of an attempt before a
// retry, whose costs count as spent. It does not change the status, however the platform revises it. Costs that were
// booked before are not spent again: a retry has moved them to Spent.
func applyMetering(j Job, o Outcome, now time.Time) Job {
	i := slices.IndexFunc(j.Unmetered, func(u Unmetered) bool { return u.Ref == o.Ref })
	if i < 0 {
		return j
	}
	before, u := j, j.Unmetered[i]
	j = j.forgetMetering(o.Ref)
	reported := o.Err == nil && (o.Report.Costs != nil || o.Report.Unit == "")
	switch {
	case o.Err != nil:
	case o.Ref == j.Ref:
		j = j.noteReport(o.Report)
		j.Duration = cmp.Or(o.Report.Duration, j.Duration)
	case before.Unmetered[i].Priced:
	default:
		j.Spent, j.Unit = j.Spent+Bookable(o.Report.Costs), cmp.Or(o.Report.Unit, j.Unit)
	}
	if u, again := u.next(now); again && !reported && !Is(o.Err, NotFound) {
		j.Unmetered = append(j.Unmetered, u)
	}
	if j.shown() != before.shown() {
		j.Updated = now
	}
	return j
}
