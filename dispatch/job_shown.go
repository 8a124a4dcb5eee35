package dispatch

import (
	"maps"
	"slices"
	"time"
)

// shown holds the fields that the owner of a job sees. Job.Updated is set when one of them changes.
type shown struct {
	status          Status
	ref             Ref
	attention       Attention
	notice, failure string
	progress, costs float64
	spent           float64
	duration        time.Duration
	started, ended  int64
	metered         [3]float64
}

func (j Job) shown() shown {
	return shown{j.Status, j.Ref, j.Attention, j.Notice, j.Failure, value(j.Progress), value(j.Costs), j.Spent,
		j.Duration, j.Started.UnixMicro(), j.Ended.UnixMicro(), j.Metered.values()}
}

// LooksLike reports whether the owner of a job sees the same as before; if not, the change takes a number, see
// broker.Records. The phase alone is not seen: it decides only whether a job shows what holds its account, and
// whatever the response to its request brings is seen.
func (j Job) LooksLike(before Job) bool {
	if j.Hidden && before.Hidden {
		return true
	}
	return j.Hidden == before.Hidden && j.Updated.Equal(before.Updated) && j.shown() == before.shown() &&
		j.Account == before.Account && j.Desired == before.Desired && j.Unit == before.Unit &&
		j.Retried == before.Retried && j.Versions == before.Versions && j.Annotations.Note == before.Annotations.Note &&
		maps.Equal(j.Annotations.Labels, before.Annotations.Labels)
}

// TaskLooksLike reports whether the owner of a task sees the same as before one of its jobs changed: counts, the end of
// a trial and, with a budget, what is expected of it.
func (j Job) TaskLooksLike(before Job) bool {
	if j.Hidden && before.Hidden {
		return true
	}
	return j.LooksLike(before) && (j.Phase == Ended) == (before.Phase == Ended) &&
		(!j.Budgeted || j.Phase.HoldsSlot() == before.Phase.HoldsSlot() &&
			slices.EqualFunc(j.Unmetered, before.Unmetered, func(a, b Unmetered) bool { return a.Priced == b.Priced }))
}

func value(f *float64) float64 {
	if f == nil {
		return -1
	}
	return *f
}
