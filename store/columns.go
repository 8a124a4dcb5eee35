package store

import (
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

type job = dispatch.Job

// column is a column of the table jobs. A new field of a job has one here and in both schemas; nothing else in the
// store names it.
type column struct {
	name   string
	value  func(*job) any // as it is stored
	place  func(*job) any // where it is scanned to; nil: it follows from others and is not read
	round  func(*job)     // makes the field what the database will return; nil: it is
	listed bool           // lists of records read it, too, see [dispatch.Job.Listed]
}

// identity are the columns that never change.
var identity = []column{
	listed(numberOf("id", func(j *job) *dispatch.JobID { return &j.ID })),
	listed(numberOf("task", func(j *job) *dispatch.TaskID { return &j.Task })),
	listed(numberOf("number", func(j *job) *int { return &j.Number })),
	listed(textOf("owner", func(j *job) *dispatch.UserID { return &j.Owner })),
	listed(jsonOf("names", func(j *job) *[]string { return &j.Names }, isEmpty)),
	listed(numberOf("retries", func(j *job) *int { return &j.Retries })),
	listed(timeOf("created", func(j *job) *time.Time { return &j.Created })),
	flagOf("budgeted", func(j *job) *bool { return &j.Budgeted }),
	spanOf("max_duration", func(j *job) *time.Duration { return &j.MaxDuration }),
	textOf("traceparent", func(j *job) *string { return &j.Traceparent }),
}

// The columns that change, in groups of those that change together. SQLite writes the entries of all indexes on the
// columns that a statement sets, even if their values stay as they are, so only the groups are written in which
// anything changes.
var (
	// reported are the columns that any report about a job changes. They are always written.
	reported = []column{
		numberOf("version", func(j *job) *int64 { return &j.Version }),
		listed(textOf("seen", func(j *job) *dispatch.Status { return &j.Seen })),
		listed(spanOf("duration", func(j *job) *time.Duration { return &j.Duration })),
		listed(timeOf("due", func(j *job) *time.Time { return &j.Due })),
		listed(numberOf("polls", func(j *job) *int { return &j.Polls })),
		numberOf("tries", func(j *job) *int { return &j.Tries }),
		flagOf("awaited", func(j *job) *bool { return &j.Awaited }),
		listed(timeOf("checked", func(j *job) *time.Time { return &j.Checked })),
		timeOf("deadline", func(j *job) *time.Time { return &j.Deadline }),
		spanOf("unmoved", func(j *job) *time.Duration { return &j.Unmoved }),
	}
	// submitted are those that steps of a submission change.
	submitted = []column{
		listed(textOf("phase", func(j *job) *dispatch.Phase { return &j.Phase })),
		listed(numberOf("retried", func(j *job) *int { return &j.Retried })),
		numberOf("epoch", func(j *job) *int { return &j.Epoch }),
		numberOf("attempt", func(j *job) *int { return &j.Attempt }),
		textOf("nonces", func(j *job) *dispatch.Nonces { return &j.Nonces }),
		numberOf("intent_lease", func(j *job) *int64 { return &j.IntentLease }),
		numberOf("begun", func(j *job) *int { return &j.Begun }),
		timeOf("send_by", func(j *job) *time.Time { return &j.SendBy }),
		timeOf("refused", func(j *job) *time.Time { return &j.Refused }),
	}
	// shown are those that tell how far it is.
	shown = []column{
		listed(textOf("status", func(j *job) *dispatch.Status { return &j.Status })),
		listed(amountOf("progress", func(j *job) **float64 { return &j.Progress })),
		listed(textOf("attention", func(j *job) *dispatch.Attention { return &j.Attention })),
		listed(textOf("notice", func(j *job) *string { return &j.Notice })),
		listed(textOf("failure", func(j *job) *string { return &j.Failure })),
		listed(timeOf("updated", func(j *job) *time.Time { return &j.Updated })),
		listed(timeOf("moved", func(j *job) *time.Time { return &j.Moved })),
		listed(timeOf("started", func(j *job) *time.Time { return &j.Started })),
		listed(timeOf("ended", func(j *job) *time.Time { return &j.Ended })),
	}
	// remote are those that tell what is of it at its platform.
	remote = []column{
		listed(textOf("ref_id", func(j *job) *string { return &j.Ref.ID })),
		listed(roundedBy(jsonOf("versions", func(j *job) *dispatch.Versions { return &j.Versions }, isZero),
			func(j *job) {
				v := &j.Versions
				for _, t := range []*string{&v.Software, &v.Version, &v.API, &v.Process} {
					*t = storableText(*t)
				}
			})),
		textOf("ref_base", func(j *job) *string { return &j.Ref.Base }),
		jsonOf("orphans", func(j *job) *[]dispatch.Ref { return &j.Orphans }, isEmpty),
		jsonOf("past", func(j *job) *[]dispatch.Ref { return &j.Past }, isEmpty),
	}
	// paid are those that tell what it costs, and what is to be done after its end.
	paid = []column{
		listed(amountOf("costs", func(j *job) **float64 { return &j.Costs })),
		listed(textOf("unit", func(j *job) *string { return &j.Unit })),
		listed(column{name: "spent", value: func(j *job) any { return j.Spent },
			place: func(j *job) any { return &j.Spent }}),
		listed(jsonOf("metered", func(j *job) *dispatch.Metered { return &j.Metered }, isZero)),
		roundedBy(jsonOf("unmetered", func(j *job) *[]dispatch.Unmetered { return &j.Unmetered }, isEmpty),
			func(j *job) {
				j.Unmetered = slices.Clone(j.Unmetered)
				for i := range j.Unmetered {
					roundTimes(&j.Unmetered[i].Ended, &j.Unmetered[i].Due)
				}
			}),
		{name: "unpriced", value: func(j *job) any { return unpriced(j.Unmetered) }},
		{name: "meter_due", value: func(j *job) any { return micros(j.MeterDue()) }},
		roundedBy(jsonOf("removal", func(j *job) *dispatch.Removal { return &j.Removal }, isZero), func(j *job) {
			roundTimes(&j.Removal.Due, &j.Removal.Since, &j.Removal.Removed)
		}),
		{name: "removal_due", value: func(j *job) any { return micros(j.Removal.Due) }},
	}
	// owned are those that its owner changes, or a move to another account.
	owned = []column{
		listed(textOf("account", func(j *job) *dispatch.Account { return &j.Account })),
		listed(textOf("desired", func(j *job) *dispatch.Desired { return &j.Desired })),
		listed(jsonOf("annotations", func(j *job) *dispatch.Annotations { return &j.Annotations },
			dispatch.Annotations.Empty)),
		textOf("base", func(j *job) *string { return &j.Base }),
		numberOf("service", func(j *job) *dispatch.ServiceHash { return &j.Service }),
		flagOf("hidden", func(j *job) *bool { return &j.Hidden }),
		flagOf("paused", func(j *job) *bool { return &j.Paused }),
	}

	groups = [][]column{reported, submitted, shown, remote, paid, owned}

	// numberedMask selects the statements that also write the number that the owner took.
	numberedMask = 1 << len(groups)
)

var (
	allColumns    = slices.Concat(identity, slices.Concat(groups...))
	readColumns   = slices.DeleteFunc(slices.Clone(allColumns), func(c column) bool { return c.place == nil })
	shortColumns  = slices.DeleteFunc(slices.Clone(readColumns), func(c column) bool { return !c.listed })
	jobColumns    = columnNames(readColumns) // of a job that visits read; whole has their order
	listedColumns = columnNames(shortColumns)
)

// whole returns where jobColumns are scanned to.
func whole(j *job) []any { return places(readColumns, j) }

// columnNames lists columns for a query.
func columnNames(columns []column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = "jobs." + c.name
	}
	return strings.Join(names, ", ")
}

// places returns where columns are scanned to. There is room for those of other tables.
func places(columns []column, j *job) []any {
	to := make([]any, len(columns), len(columns)+16)
	for i, c := range columns {
		to[i] = c.place(j)
	}
	return to
}

func listed(c column) column {
	c.listed = true
	return c
}

func roundedBy(c column, round func(*job)) column {
	c.round = round
	return c
}

func roundTimes(all ...*time.Time) {
	for _, t := range all {
		*t = at(micros(*t))
	}
}

func textOf[T ~string](name string, field func(*job) *T) column {
	return column{name: name, value: func(j *job) any { return string(*field(j)) },
		place: func(j *job) any { return text(field(j)) },
		round: func(j *job) { *field(j) = T(storableText(string(*field(j)))) }}
}

func numberOf[T ~int | ~int64](name string, field func(*job) *T) column {
	return column{name: name, value: func(j *job) any { return int64(*field(j)) },
		place: func(j *job) any { return number(field(j)) }}
}

func timeOf(name string, field func(*job) *time.Time) column {
	return column{name: name, value: func(j *job) any { return micros(*field(j)) },
		place: func(j *job) any { return instant(field(j)) },
		round: func(j *job) { roundTimes(field(j)) }}
}

func spanOf(name string, field func(*job) *time.Duration) column {
	return column{name: name, value: func(j *job) any { return field(j).Microseconds() },
		place: func(j *job) any { return duration(field(j)) },
		round: func(j *job) { *field(j) = field(j).Truncate(time.Microsecond) }}
}

func flagOf(name string, field func(*job) *bool) column {
	return column{name: name, value: func(j *job) any { return *field(j) }, place: func(j *job) any { return field(j) }}
}

// amounts are numbers that may be missing.
func amountOf(name string, field func(*job) **float64) column {
	return column{name: name, place: func(j *job) any { return field(j) }, value: func(j *job) any {
		if n := *field(j); n != nil {
			return *n
		}
		return nil
	}}
}

// jsonOf is of a field that is stored as JSON; ” if it is empty, as most are.
func jsonOf[T any](name string, field func(*job) *T, empty func(T) bool) column {
	return column{name: name, place: func(j *job) any { return encodedIn[T]{field(j)} },
		value: func(j *job) any { return encoded(*field(j), empty) }}
}

func isEmpty[E any](all []E) bool { return len(all) == 0 }

func isZero[T comparable](v T) bool { return v == *new(T) }

// unpriced returns of how many runs the costs are still to be read.
func unpriced(all []dispatch.Unmetered) (n int64) {
	for _, u := range all {
		if !u.Priced {
			n++
		}
	}
	return n
}
