package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// column is a column of the table jobs that visits write.
type column struct {
	name, kind string
	changes    changes
	of         func(dispatch.Job) any
	all        func([]dispatch.Job) any // the values of many jobs, as an array of PostgreSQL
}

// changes is the kind of events that change a column.
type changes int

const (
	reports changes = iota // also a report about a job that goes on as before. Of these columns only due is in indexes
	steps                  // steps of a submission that its owner does not see, such as the intent to send it
	shown                  // what owners see, and what follows from it. Most indexes and triggers are on these columns
)

// often returns a column that every report about a job changes.
func often[T any](name, kind string, of func(dispatch.Job) T) column {
	return column{name: name, kind: kind, of: func(j dispatch.Job) any { return of(j) }, all: func(jobs []dispatch.Job) any {
		values := make([]T, len(jobs))
		for i, j := range jobs {
			values[i] = of(j)
		}
		return values
	}}
}

func step[T any](name, kind string, of func(dispatch.Job) T) column {
	c := often(name, kind, of)
	c.changes = steps
	return c
}

func show[T any](name, kind string, of func(dispatch.Job) T) column {
	c := often(name, kind, of)
	c.changes = shown
	return c
}

// columns lists id and version, which identify the row, and then all columns that visits write.
var columns = []column{
	often("id", "BIGINT", func(j dispatch.Job) int64 { return int64(j.ID) }),
	often("version", "BIGINT", func(j dispatch.Job) int64 { return j.Version }),
	step("phase", "TEXT", func(j dispatch.Job) string { return string(j.Phase) }),
	step("turn", "BIGINT", func(j dispatch.Job) int64 { return int64(j.Epoch) }),
	step("attempt", "BIGINT", func(j dispatch.Job) int64 { return int64(j.Attempt) }),
	step("nonces", "TEXT", func(j dispatch.Job) string { return string(j.Nonces) }),
	step("intent_lease", "BIGINT", func(j dispatch.Job) int64 { return j.IntentLease }),
	step("begun", "BIGINT", func(j dispatch.Job) int64 { return int64(j.Begun) }),
	step("retried", "BIGINT", func(j dispatch.Job) int64 { return int64(j.Retried) }),
	step("send_by", "BIGINT", func(j dispatch.Job) int64 { return micros(j.SendBy) }),
	show("ref_base", "TEXT", func(j dispatch.Job) string { return j.Ref.Base }),
	show("ref_id", "TEXT", func(j dispatch.Job) string { return j.Ref.ID }),
	show("versions", "TEXT", func(j dispatch.Job) string { return versionsText(j.Versions) }),
	show("strays", "TEXT", func(j dispatch.Job) string { return textOf(j.Orphans) }),
	step("past", "TEXT", func(j dispatch.Job) string { return textOf(j.Past) }),
	step("refused", "BIGINT", func(j dispatch.Job) int64 { return micros(j.Refused) }),
	show("status", "TEXT", func(j dispatch.Job) string { return string(j.Status) }),
	often("seen", "TEXT", func(j dispatch.Job) string { return string(j.Seen) }),
	show("progress", "DOUBLE PRECISION", func(j dispatch.Job) *float64 { return j.Progress }),
	show("costs", "DOUBLE PRECISION", func(j dispatch.Job) *float64 { return j.Costs }),
	show("unit", "TEXT", func(j dispatch.Job) string { return j.Unit }),
	show("spent", "DOUBLE PRECISION", func(j dispatch.Job) float64 { return j.Spent }),
	show("metered", "TEXT", func(j dispatch.Job) string { return meteredText(j.Metered) }),
	show("unmetered", "TEXT", func(j dispatch.Job) string { return unmeteredText(j.Unmetered) }),
	show("meter_due", "BIGINT", func(j dispatch.Job) int64 { return micros(j.MeterDue()) }),
	show("removal_due", "BIGINT", func(j dispatch.Job) int64 { return micros(j.Removal.Due) }),
	show("removal", "TEXT", func(j dispatch.Job) string { return removalText(j.Removal) }),
	show("attention", "TEXT", func(j dispatch.Job) string { return string(j.Attention) }),
	show("notice", "TEXT", func(j dispatch.Job) string { return j.Notice }),
	show("failure", "TEXT", func(j dispatch.Job) string { return j.Failure }),
	often("deadline", "BIGINT", func(j dispatch.Job) int64 { return micros(j.Deadline) }),
	often("duration", "BIGINT", func(j dispatch.Job) int64 { return j.Duration.Microseconds() }),
	often("due", "BIGINT", func(j dispatch.Job) int64 { return micros(j.Due) }),
	often("looks", "BIGINT", func(j dispatch.Job) int64 { return int64(j.Looks) }),
	often("unmoved", "BIGINT", func(j dispatch.Job) int64 { return j.Unmoved.Microseconds() }),
	often("tries", "BIGINT", func(j dispatch.Job) int64 { return int64(j.Tries) }),
	often("awaited", "BOOLEAN", func(j dispatch.Job) bool { return j.Awaited }),
	show("updated", "BIGINT", func(j dispatch.Job) int64 { return micros(j.Updated) }),
	often("checked", "BIGINT", func(j dispatch.Job) int64 { return micros(j.Checked) }),
	show("moved", "BIGINT", func(j dispatch.Job) int64 { return micros(j.Moved) }),
}

// update selects what a statement writes.
type update struct {
	wanted bool    // only jobs that their owner wants to run, and that no change of their task under way stops
	upTo   changes // only jobs whose columns of other changes stay as they are, and only the columns of these changes
}

// text returns the statement that writes the jobs that from lists as rows of new. It is not generated because sqlc has no form for
// many rows that both databases understand.
func (u update) text(with, from string) string {
	var sets, where strings.Builder
	for _, c := range columns[2:] {
		if c.changes > u.upTo {
			fmt.Fprintf(&where, " AND jobs.%s IS NOT DISTINCT FROM new.%[1]s", c.name)
		} else {
			fmt.Fprintf(&sets, ", %s = new.%[1]s", c.name)
		}
	}
	if u.wanted {
		where.WriteString(" AND jobs.desired = 'run' AND (jobs.phase <> 'waiting' OR NOT EXISTS (SELECT 1 FROM task_changes s WHERE s.task = jobs.task AND s.stops))")
	}
	return with + "UPDATE jobs SET version = jobs.version + 1" + sets.String() + " FROM " + from +
		" WHERE jobs.id = new.id AND jobs.version = new.version" + where.String() + " RETURNING jobs.id, jobs.desired, jobs.hidden, jobs.paused"
}

func columnNames() string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

// write returns the jobs that it wrote, as they are now: not those that changed meanwhile and, with wanted, not those that
// their owner no longer wants.
func write(ctx context.Context, q tx, jobs []dispatch.Job, wanted bool) (kept []dispatch.Job, err error) {
	stored := make([]dispatch.Job, len(jobs))
	for i, j := range jobs {
		stored[i] = storedAs(j)
	}
	if kept, err = q.updateJobs(ctx, q, stored, wanted); err != nil {
		return nil, err
	}
	for i, j := range kept {
		if j.Result == nil {
			continue
		}
		if err := q.KeepResult(ctx, j.ID, storableText(string(j.Result))); err != nil {
			return nil, err
		}
		kept[i].Result = nil
	}
	return kept, nil
}

// updateByArrays writes jobs on PostgreSQL: one statement for any number of them, whose parameters are arrays, and one that lists the values of a
// single job, which takes half as long for it. Each number of listed jobs would be prepared and planned apart on each connection, which takes longer than it saves.
func updateByArrays(ctx context.Context, q tx, jobs []dispatch.Job, wanted bool) (kept []dispatch.Job, err error) {
	if len(jobs) == 1 {
		return runUpdate(ctx, q, jobs, postgresRows.of(update{wanted, shown}, 1), rowsOf(jobs))
	}
	for some := range slices.Chunk(jobs, arrayLength) {
		args := make([]any, len(columns))
		for i, c := range columns {
			args[i] = c.all(some)
		}
		written, err := runUpdate(ctx, q, some, arrayUpdates[wanted](), args)
		if err != nil {
			return nil, err
		}
		kept = append(kept, written...)
	}
	return kept, nil
}

// arrayLength is how many jobs one statement of updateByArrays writes.
const arrayLength = 500

// arrayUpdates are the statements of updateByArrays, with wanted or not.
var arrayUpdates = map[bool]func() string{
	false: sync.OnceValue(func() string { return update{upTo: shown}.text("", arrays()) }),
	true:  sync.OnceValue(func() string { return update{wanted: true, upTo: shown}.text("", arrays()) }),
}

func arrays() string {
	types := make([]string, len(columns))
	for i, c := range columns {
		types[i] = fmt.Sprintf("$%d::%s[]", i+1, c.kind)
	}
	return "unnest(" + strings.Join(types, ", ") + ") AS new (" + columnNames() + ")"
}

// updateByRows writes jobs on SQLite, whose statements list the parameters of each row: a statement for each job takes three times
// as long. SQLite writes the entries of all indexes on the columns that a statement sets, even if the values do not change, and runs the triggers
// on them. So jobs of which fewer columns seem to change are first tried without the others.
func updateByRows(ctx context.Context, q tx, jobs []dispatch.Job, wanted bool) (kept []dispatch.Job, err error) {
	var left []dispatch.Job
	for upTo := reports; upTo <= shown; upTo++ {
		for _, j := range jobs {
			if seems(j) == upTo {
				left = append(left, j)
			}
		}
		written, err := updateRows(ctx, q, left, update{wanted, upTo})
		if err != nil {
			return nil, err
		}
		if kept = append(kept, written...); len(written) == len(left) {
			left = nil
		} else { // the guess was wrong, or the versions have changed
			left = without(left, written)
		}
	}
	return kept, nil
}

// without returns the jobs that are not among others.
func without(jobs, others []dispatch.Job) []dispatch.Job {
	is := map[dispatch.JobID]bool{}
	for _, j := range others {
		is[j.ID] = true
	}
	return slices.DeleteFunc(jobs, func(j dispatch.Job) bool { return is[j.ID] })
}

// seems guesses which columns of a job have changed since it was read. If it is wrong, updateByRows only takes longer.
func seems(j dispatch.Job) changes {
	switch {
	case j.Phase == dispatch.Started && !j.Updated.Equal(j.Checked):
		return reports
	case j.Phase == dispatch.Creating: // with the intent to start a job, mostly its creation is stored too
		return steps
	default:
		return shown
	}
}

func updateRows(ctx context.Context, q tx, jobs []dispatch.Job, u update) (kept []dispatch.Job, err error) {
	for some := range slices.Chunk(jobs, rowsAtOnce) {
		written, err := runUpdate(ctx, q, some, sqliteRows.of(u, len(some)), rowsOf(some))
		if err != nil {
			return nil, err
		}
		kept = append(kept, written...)
	}
	return kept, nil
}

// rowsOf returns the parameters of a statement that lists jobs.
func rowsOf(jobs []dispatch.Job) []any {
	args := make([]any, 0, len(jobs)*len(columns))
	for _, j := range jobs {
		for _, c := range columns {
			args = append(args, c.of(j))
		}
	}
	return args
}

// The statements that list jobs.
var (
	sqliteRows   = rowStatements{parameter: func(int, string) string { return "?" }}
	postgresRows = rowStatements{parameter: func(n int, kind string) string { return fmt.Sprintf("$%d::%s", n, kind) }}
)

// rowStatements keeps statements: to build one takes longer than to run it for one job.
type rowStatements struct {
	parameter func(n int, kind string) string // refers to the nth parameter

	mu    sync.Mutex
	texts map[update][rowsAtOnce + 1]string // by number of rows
}

func (s *rowStatements) of(u update, rows int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := s.texts[u]
	if texts[rows] == "" {
		texts[rows] = s.build(u, rows)
		if s.texts == nil {
			s.texts = map[update][rowsAtOnce + 1]string{}
		}
		s.texts[u] = texts
	}
	return texts[rows]
}

func (s *rowStatements) build(u update, rows int) string {
	var values strings.Builder
	for row := range rows {
		for i, c := range columns {
			separator := ", "
			if i == 0 {
				separator = "), ("
			}
			values.WriteString(separator + s.parameter(row*len(columns)+i+1, c.kind))
		}
	}
	return u.text("WITH new ("+columnNames()+") AS (VALUES "+strings.TrimPrefix(values.String(), "), ")+")) ", "new")
}

// runUpdate runs a statement that writes jobs, and returns those that it wrote, as they are now.
func runUpdate(ctx context.Context, q tx, jobs []dispatch.Job, text string, args []any) (kept []dispatch.Job, err error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	given := make(map[dispatch.JobID]dispatch.Job, len(jobs))
	for _, j := range jobs {
		given[j.ID] = j
	}
	for rows.Next() {
		var id dispatch.JobID
		var desired dispatch.Desired
		var hidden, paused bool
		if err := rows.Scan(&id, &desired, &hidden, &paused); err != nil {
			return nil, err
		}
		j := given[id]
		j.Desired, j.Hidden, j.Paused, j.Version = desired, hidden, paused, j.Version+1
		kept = append(kept, j)
	}
	return kept, rows.Err()
}

// storedAs returns j as the database will return it: with its precision of time.
func storedAs(j dispatch.Job) dispatch.Job {
	for _, t := range []*time.Time{&j.SendBy, &j.Refused, &j.Deadline, &j.Due, &j.Updated, &j.Checked, &j.Moved, &j.Removal.Due, &j.Removal.Since, &j.Removal.Removed} {
		*t = at(micros(*t))
	}
	for _, text := range []*string{&j.Ref.Base, &j.Ref.ID, &j.Notice, &j.Failure, &j.Unit, &j.Versions.Software, &j.Versions.Version, &j.Versions.API, &j.Versions.Process} {
		*text = storableText(*text)
	}
	j.Unmetered = slices.Clone(j.Unmetered)
	for i, u := range j.Unmetered {
		j.Unmetered[i].Ended, j.Unmetered[i].Due = at(micros(u.Ended)), at(micros(u.Due))
	}
	j.Duration, j.Unmoved = j.Duration.Truncate(time.Microsecond), j.Unmoved.Truncate(time.Microsecond)
	return j
}
