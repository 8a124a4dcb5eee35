package store

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// direction is the order of a list by creation. Indexes are read in both.
type direction struct{ compare, order string }

var ascending, descending = direction{">", ""}, direction{"<", " DESC"}

func directionOf(p dispatch.Page) direction {
	if p.Oldest {
		return ascending
	}
	return descending
}

// follows adds the condition that an entry, whose place two columns hold, comes after the place at which a page begins.
func (d direction) follows(w *where, begin dispatch.Place, created, id string) {
	at, last := d.begin(begin)
	d.after(w, created, id, at, last)
}

// after adds the condition that an entry, whose place two columns hold, comes after a place.
func (d direction) after(w *where, first, second string, at, last int64) {
	a, b := w.arg(at), w.arg(last)
	w.and(first + " " + d.compare + "= " + a)
	w.and("(" + first + " " + d.compare + " " + a + " OR " + second + " " + d.compare + " " + b + ")")
}

// by returns the order by columns.
func (d direction) by(columns ...string) string { return strings.Join(columns, d.order+", ") + d.order }

// begin returns where a page after a place begins.
func (d direction) begin(after dispatch.Place) (created, id int64) {
	switch {
	case after != (dispatch.Place{}):
		return micros(after.Created), after.ID
	case d == ascending:
		return math.MinInt64, math.MinInt64
	default:
		return math.MaxInt64, math.MaxInt64
	}
}

// most returns the LIMIT of a query.
func most(limit int) int64 {
	if limit == 0 {
		return math.MaxInt64
	}
	return int64(limit)
}

// statuses returns the statuses that a filter selects.
func statuses(filter []dispatch.Status) []dispatch.Status {
	if len(filter) == 0 {
		return []dispatch.Status{dispatch.Accepted, dispatch.Submitted, dispatch.Queued, dispatch.Running,
			dispatch.Finished, dispatch.Canceled, dispatch.Failed, dispatch.Unknown}
	}
	return slices.Compact(slices.Sorted(slices.Values(filter)))
}

// jobList is a query of jobs with their requests.
type jobList struct {
	page  dispatch.Page
	from  string // tables; the last one is jobs
	where where
	order string
	n     int64 // at most; 0: from limits them, and they are sorted when they were read

	// ofTask: the jobs are those of a task. They have values in place of requests, which are left out if they are too
	// long.
	ofTask bool

	numbered bool // with the numbers of changes
}

// recordRow is a row of a jobList.
type recordRow struct {
	dispatch.Job

	pruned   bool
	body     string
	size     int64
	changed  bool  // the document of the service
	number   int64 // of the last change
	isHidden bool
}

// read returns what record makes of each job; what jobs show of their accounts is for [showAccounts]. Of bodies longer
// than page.Most bytes, unless that is 0, only the first characters are read, so that a page has a bounded size. A
// definition is not looked for by EXISTS: PostgreSQL would read all definitions for a large page.
func (l jobList) read(
	ctx context.Context, q tx, record func(*recordRow) (dispatch.Record, error),
) ([]dispatch.Record, error) {
	columns := listedColumns
	if l.page.Most == 0 {
		columns = jobColumns
	}
	columns += ", jobs.pruned, " + l.body() + ", octet_length(requests.body)"
	if l.numbered {
		columns += ", jobs.changed, jobs.hidden"
	}
	if !l.ofTask {
		columns += `,
			CASE WHEN jobs.phase = 'waiting' THEN COALESCE((
				SELECT definitions.changed_to <> '' FROM definitions
				WHERE definitions.task = 0 AND definitions.job = jobs.id), FALSE) ELSE FALSE END`
	}
	statement := `
		SELECT ` + columns + `
		FROM ` + l.from + `
			JOIN requests ON requests.job = jobs.id`
	if len(l.where.conditions) > 0 {
		statement += `
		WHERE ` + l.where.String()
	}
	if l.n > 0 {
		statement += `
		ORDER BY ` + l.order + `
		LIMIT CAST(` + l.where.arg(l.n) + ` AS BIGINT)`
	}
	var records []dispatch.Record
	err := eachRow(ctx, q, l.columns, func(r *recordRow) error {
		one, err := record(r)
		records = append(records, one)
		return err
	}, statement, l.where.args...)
	if l.n == 0 {
		slices.SortFunc(records, l.compare)
	}
	return records, err
}

// compare is the order of a list. Databases would copy all columns to sort the jobs that l.find found, and mostly read
// them in their order.
func (l *jobList) compare(a, b dispatch.Record) int {
	if l.ofTask {
		return cmp.Compare(a.Number, b.Number)
	}
	return l.page.Compare(a.Place(), b.Place())
}

// columns returns where the columns of the list are scanned to.
func (l *jobList) columns(r *recordRow) []any {
	read := shortColumns
	if l.page.Most == 0 {
		read = readColumns
	}
	to := append(places(read, &r.Job), &r.pruned, &r.body, number(&r.size))
	if l.numbered {
		to = append(to, &r.number, &r.isHidden)
	}
	if !l.ofTask {
		to = append(to, &r.changed)
	}
	return to
}

// body is the expression for as much of a request as the page has.
func (l *jobList) body() string { return partOf(&l.where, l.page.Most, "requests.body", !l.ofTask) }

// partOf is the expression for a column with requests, or with headed, for their heads if they have more than most
// bytes, unless that is 0.
func partOf(w *where, most int, column string, headed bool) string {
	if most == 0 {
		return column
	}
	n, rest := w.arg(most), "''"
	if most > 0 && headed {
		table, _, _ := strings.Cut(column, ".")
		rest = "substr(CASE WHEN " + table + ".head <> '' THEN " + table + ".head ELSE " + column +
			" END, 1, " + n + ")"
	}
	return "CASE WHEN octet_length(" + column + ") <= " + n + " THEN " + column + " ELSE " + rest + " END"
}

// listRecords reads a page of an owner's jobs. Jobs with a label are found by that, jobs that changed since a time by
// when they changed, others by the other filters.
func listRecords(
	ctx context.Context, q tx, u dispatch.UserID, p dispatch.Page, now int64,
) ([]dispatch.Record, error) {
	d := directionOf(p)
	l := jobList{page: p, from: "jobs", order: d.by("jobs.created", "jobs.id"), n: most(p.Limit)}
	w := &l.where
	switch {
	case p.Label != (dispatch.LabelMatch{}):
		l.from, l.order = "job_labels l JOIN jobs ON jobs.id = l.job", d.by("l.created", "l.job")
		w.and("l.owner = " + w.arg(u) + " AND l.name = " + w.arg(p.Label.Key) + " AND l.value " +
			"= " + w.arg(p.Label.Value))
		d.follows(w, p.After, "l.created", "l.job")
		w.and("NOT jobs.hidden AND jobs.updated > " + w.arg(micros(p.Since)))
		filter(q, w, "jobs", p)
	case !p.Since.IsZero():
		w.and("j.owner = " + w.arg(u) + " AND j.task = 0 AND NOT j.hidden")
		w.and("j.updated > " + w.arg(micros(p.Since)))
		d.follows(w, p.After, "+j.created", "j.id")
		filter(q, w, "j", p)
		l.find(d, "+j.created")
	case len(p.Statuses)+len(p.Accounts) == 0:
		w.and("jobs.owner = " + w.arg(u) + " AND jobs.task = 0 AND NOT jobs.hidden")
		d.follows(w, p.After, "jobs.created", "jobs.id")
	default:
		accounts, err := usedAccounts(ctx, q, u, p.Accounts)
		if err != nil || len(accounts) == 0 {
			return nil, err
		}
		w.and("j.owner = " + w.arg(u) + " AND j.task = 0 AND NOT j.hidden")
		d.follows(w, p.After, "j.created", "j.id")
		l.find(d, "j.created", ranges(q, w, accounts, statuses(p.Statuses))...)
	}
	records, err := l.read(ctx, q, func(r *recordRow) (dispatch.Record, error) { return r.record(p.Most, now) })
	if err != nil {
		return nil, err
	}
	return records, showAccounts(ctx, q, records, nil, now)
}

// ranges returns the conditions of the ranges of an index by account and status that hold a filtered list. SQLite takes
// no more parts of a statement than mostRanges.
func ranges(q tx, w *where, accounts []dispatch.Account, statuses []dispatch.Status) (all []string) {
	if len(accounts)*len(statuses) > mostRanges {
		anyOf(q, w, "j.account", accounts)
		anyOf(q, w, "j.status", statuses)
		return nil
	}
	wanted := ofStatus(w, statuses)
	for _, a := range accounts {
		account := "j.account = " + w.arg(a) + " AND "
		for _, status := range wanted {
			all = append(all, account+status)
		}
	}
	return all
}

const mostRanges = 400

// ofStatus returns a condition for each of some statuses.
func ofStatus(w *where, statuses []dispatch.Status) (all []string) {
	for _, status := range statuses {
		all = append(all, "j.status = CAST("+w.arg(status)+" AS TEXT)")
	}
	return all
}

// find has the list first find the jobs of its page, named j, and then read only their requests. It finds them by the
// conditions of the list and a place, the first column of the order: the first of each of some ranges, and then the
// first of all. A plus before a column keeps databases from reading all jobs in that order instead.
func (l *jobList) find(d direction, place string, ranges ...string) {
	limit := " LIMIT CAST(" + l.where.arg(l.n) + " AS BIGINT)"
	first := func(condition string) string {
		return `
			SELECT j.id, ` + strings.TrimPrefix(place, "+") + ` AS place FROM jobs j
			WHERE ` + condition + `
			ORDER BY ` + d.by(place, "j.id") + limit
	}
	found := first(l.where.String())
	if len(ranges) > 0 {
		parts := make([]string, len(ranges))
		for i, r := range ranges {
			parts[i] = "SELECT p.id, p.place FROM (" + first(l.where.String()+" AND "+r) + ") AS p"
		}
		found = "SELECT f.id FROM (" + strings.Join(parts, " UNION ALL ") + ") AS f " +
			"ORDER BY " + d.by("f.place", "f.id") + limit
	}
	l.from = "(" + found + `) AS found
			JOIN jobs ON jobs.id = found.id`
	l.where, l.n = where{args: l.where.args}, 0
}

// filter adds the filters of a page. They are expressions, so that databases do not take them to an index: another
// condition leads to fewer jobs.
func filter(q tx, w *where, jobs string, p dispatch.Page) {
	anyOf(q, w, jobs+".status || ''", p.Statuses)
	anyOf(q, w, jobs+".account || ''", p.Accounts)
}

// usedAccounts returns the accounts that a filter selects and at which the owner has any jobs.
func usedAccounts(
	ctx context.Context, q tx, u dispatch.UserID, filter []dispatch.Account,
) (used []dispatch.Account, err error) {
	all, err := usageOf(ctx, q, u)
	for _, at := range all {
		if len(filter) == 0 || slices.Contains(filter, at.Account) {
			used = append(used, at.Account)
		}
	}
	return used, err
}

// listTaskJobs reads a page by number or, if only changes or the jobs of some accounts are wanted, by when the jobs
// changed. Requests are joined to a page of them: PostgreSQL, which expects a third of a task, would read the
// requests of all jobs.
func listTaskJobs(
	ctx context.Context, q tx, t dispatch.TaskID, p dispatch.Page, record func(*recordRow) (dispatch.Record, error),
) ([]dispatch.Record, error) {
	l := jobList{page: p, from: "jobs", order: "jobs.number", n: most(p.Limit), ofTask: true}
	w := &l.where
	switch {
	case !p.Since.IsZero(), len(p.Accounts) > 0:
		w.and("j.task = CAST(" + w.arg(t) + " AS BIGINT) AND j.task <> 0 AND NOT j.hidden")
		w.and("j.updated > " + w.arg(micros(p.Since)) + " AND +j.number > " + w.arg(p.After.ID))
		filter(q, w, "j", p)
		l.find(ascending, "+j.number")
	case len(p.Statuses) == 0:
		w.and("jobs.task = CAST(" + w.arg(t) + " AS BIGINT) AND jobs.task <> 0 AND NOT jobs.hidden")
		w.and("jobs.number > " + w.arg(p.After.ID))
	default:
		w.and("j.task = CAST(" + w.arg(t) + " AS BIGINT) AND j.task <> 0 AND NOT j.hidden")
		w.and("j.number > " + w.arg(p.After.ID))
		l.find(ascending, "j.number", ofStatus(w, statuses(p.Statuses))...)
	}
	return l.read(ctx, q, record)
}

// record returns a job of a page of no task, without what its account shows on it. most is the number of bytes of a
// request that the page reads.
func (r *recordRow) record(most int, now int64) (record dispatch.Record, err error) {
	j := redefined(r.Job, r.changed)
	if most != 0 && r.size > int64(most) {
		return dispatch.Record{Job: j, Request: dispatch.ParseRequestHead(r.body), Read: at(now), Size: int(r.size),
			Cut: true}, nil
	}
	record = dispatch.Record{Job: j, Pruned: r.pruned, Read: at(now)}
	if most != 0 {
		record.Size = int(r.size)
	}
	record.Request, err = requestOf(j, r.body, "", "")
	return record, err
}
