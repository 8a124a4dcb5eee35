package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// column is a column of the table jobs that visits write.
type column struct {
	name, kind string
	of         func(dispatch.Job) any
}

// columns lists id and version, which identify the row, and then all columns that visits write.
var columns = []column{
	{"id", "BIGINT", func(j dispatch.Job) any { return j.ID }},
	{"version", "BIGINT", func(j dispatch.Job) any { return j.Version }},
	{"phase", "TEXT", func(j dispatch.Job) any { return j.Phase }},
	{"turn", "BIGINT", func(j dispatch.Job) any { return j.Epoch }},
	{"attempt", "BIGINT", func(j dispatch.Job) any { return j.Attempt }},
	{"nonces", "TEXT", func(j dispatch.Job) any { return j.Nonces }},
	{"intent_lease", "BIGINT", func(j dispatch.Job) any { return j.IntentLease }},
	{"begun", "BIGINT", func(j dispatch.Job) any { return j.Begun }},
	{"send_by", "BIGINT", func(j dispatch.Job) any { return micros(j.SendBy) }},
	{"ref_base", "TEXT", func(j dispatch.Job) any { return j.Ref.Base }},
	{"ref_id", "TEXT", func(j dispatch.Job) any { return j.Ref.ID }},
	{"strays", "TEXT", func(j dispatch.Job) any { return textOf(j.Orphans) }},
	{"past", "TEXT", func(j dispatch.Job) any { return textOf(j.Past) }},
	{"refused", "BIGINT", func(j dispatch.Job) any { return micros(j.Refused) }},
	{"status", "TEXT", func(j dispatch.Job) any { return j.Status }},
	{"seen", "TEXT", func(j dispatch.Job) any { return j.Seen }},
	{"progress", "DOUBLE PRECISION", func(j dispatch.Job) any { return j.Progress }},
	{"costs", "DOUBLE PRECISION", func(j dispatch.Job) any { return j.Costs }},
	{"attention", "TEXT", func(j dispatch.Job) any { return j.Attention }},
	{"notice", "TEXT", func(j dispatch.Job) any { return j.Notice }},
	{"failure", "TEXT", func(j dispatch.Job) any { return j.Failure }},
	{"deadline", "BIGINT", func(j dispatch.Job) any { return micros(j.Deadline) }},
	{"duration", "BIGINT", func(j dispatch.Job) any { return j.Duration.Microseconds() }},
	{"due", "BIGINT", func(j dispatch.Job) any { return micros(j.Due) }},
	{"looks", "BIGINT", func(j dispatch.Job) any { return j.Looks }},
	{"unmoved", "BIGINT", func(j dispatch.Job) any { return j.Unmoved.Microseconds() }},
	{"tries", "BIGINT", func(j dispatch.Job) any { return j.Tries }},
	{"awaited", "BOOLEAN", func(j dispatch.Job) any { return j.Awaited }},
	{"updated", "BIGINT", func(j dispatch.Job) any { return micros(j.Updated) }},
	{"checked", "BIGINT", func(j dispatch.Job) any { return micros(j.Checked) }},
	{"moved", "BIGINT", func(j dispatch.Job) any { return micros(j.Moved) }},
}

// write returns the jobs that it wrote, as they are now: not those that changed meanwhile and, with wanted, not those that
// their owner no longer wants.
func write(ctx context.Context, q tx, jobs []dispatch.Job, wanted bool) (kept []dispatch.Job, err error) {
	for some := range slices.Chunk(jobs, rowsAtOnce) {
		written, err := writeSome(ctx, q, some, wanted)
		if err != nil {
			return nil, err
		}
		kept = append(kept, written...)
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

// writeSome writes jobs by one statement: for a thousand jobs, a statement each takes three times as long.
func writeSome(ctx context.Context, q tx, jobs []dispatch.Job, wanted bool) (kept []dispatch.Job, err error) {
	written := map[dispatch.JobID]dispatch.Job{}
	args := make([]any, 0, len(jobs)*len(columns))
	for _, j := range jobs {
		j = storedAs(j)
		written[j.ID] = j
		for _, c := range columns {
			args = append(args, c.of(j))
		}
	}
	rows, err := q.DBTX.QueryContext(ctx, writing(q, len(jobs), wanted), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id dispatch.JobID
		var desired dispatch.Desired
		var hidden bool
		if err := rows.Scan(&id, &desired, &hidden); err != nil {
			return nil, err
		}
		j := written[id]
		j.Desired, j.Hidden, j.Version = desired, hidden, j.Version+1
		kept = append(kept, j)
	}
	return kept, rows.Err()
}

// writing returns the statement that writes n jobs. It is not generated because sqlc cannot vary its number of rows.
func writing(q tx, jobs int, wanted bool) string {
	var names, sets, first []string
	for i, c := range columns {
		names = append(names, c.name)
		first = append(first, fmt.Sprintf("CAST(%s AS %s)", q.parameter(i+1), c.kind)) // the types of the first row hold for all rows
		if i > 1 {
			sets = append(sets, c.name+" = new."+c.name)
		}
	}
	text := "WITH new (" + strings.Join(names, ", ") + ") AS (VALUES (" + strings.Join(first, ", ") + ")" + q.rows(len(columns), len(columns), jobs-1) +
		") UPDATE jobs SET version = jobs.version + 1, " + strings.Join(sets, ", ") + " FROM new WHERE jobs.id = new.id AND jobs.version = new.version"
	if wanted {
		text += " AND jobs.desired = 'run'"
	}
	return text + " RETURNING jobs.id, jobs.desired, jobs.hidden"
}

// storedAs returns j as the database will return it: with its precision of time.
func storedAs(j dispatch.Job) dispatch.Job {
	for _, t := range []*time.Time{&j.SendBy, &j.Refused, &j.Deadline, &j.Due, &j.Updated, &j.Checked, &j.Moved} {
		*t = at(micros(*t))
	}
	for _, text := range []*string{&j.Ref.Base, &j.Ref.ID, &j.Notice, &j.Failure} {
		*text = storableText(*text)
	}
	j.Duration, j.Unmoved = j.Duration.Truncate(time.Microsecond), j.Unmoved.Truncate(time.Microsecond)
	return j
}
