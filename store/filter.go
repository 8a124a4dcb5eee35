package store

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// part is what one range of an index holds of a filtered list: the jobs of one account, if the list has several, and
// of one status.
type part struct {
	account dispatch.Account
	status  dispatch.Status
}

// position is the place of a job in a list, in ascending order.
type position struct{ first, second int64 }

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.first, q.first), cmp.Compare(p.second, q.second))
}

// placed returns the position of a job in a list that is ordered by creation.
func placed(p dispatch.Page, created, id int64) position {
	if p.Oldest {
		return position{created, id}
	}
	return position{-created, -id}
}

// direction is the order of a list by creation. Indexes are read in both.
type direction struct{ compare, order string }

func directionOf(p dispatch.Page) direction {
	if p.Oldest {
		return direction{">", ""}
	}
	return direction{"<", " DESC"}
}

// follows returns the condition that an entry, whose place two columns hold, comes after the place at which a page
// begins.
func (d direction) follows(w *where, p dispatch.Page, created, id string) {
	at, before := beginOf(p)
	a, b := w.arg(at), w.arg(before)
	w.and(created + " " + d.compare + "= " + a)
	w.and("(" + created + " " + d.compare + " " + a + " OR " + id + " " + d.compare + " " + b + ")")
}

// by returns the order by columns.
func (d direction) by(columns ...string) string { return strings.Join(columns, d.order+", ") + d.order }

// beginOf returns where a page begins of a list that is ordered by creation.
func beginOf(p dispatch.Page) (created, id int64) {
	switch {
	case p.After != (dispatch.Place{}):
		return micros(p.After.Created), p.After.ID
	case p.Oldest:
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

// parts reads the first n jobs of a list that consists of several parts.
type parts struct {
	of        []part
	n         int64
	positions func(part, int64) ([]position, error)        // of the first n jobs of a part
	records   func(part, int64) ([]dispatch.Record, error) // the first n jobs of a part
	position  func(*dispatch.Record) position
}

// read reads no requests of other jobs: where there are several parts, it first reads how many of each belong to the
// page.
func (l parts) read() (all []dispatch.Record, err error) {
	shares, err := l.shares()
	if err != nil {
		return nil, err
	}
	for i, p := range l.of {
		if shares[i] == 0 {
			continue
		}
		records, err := l.records(p, shares[i])
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = records
			continue
		}
		all = append(all, records...)
	}
	sort := func(a, b dispatch.Record) int { return l.position(&a).compare(l.position(&b)) }
	if !slices.IsSortedFunc(all, sort) { // as those of one part are
		slices.SortFunc(all, sort)
	}
	return all, nil
}

// shares returns how many jobs of each part are among the first n of all.
func (l parts) shares() ([]int64, error) {
	shares := make([]int64, len(l.of))
	if len(l.of) == 1 || l.n == most(0) {
		for i := range shares {
			shares[i] = l.n
		}
		return shares, nil
	}
	type entry struct {
		position
		part int
	}
	var all []entry
	for i, p := range l.of {
		positions, err := l.positions(p, l.n)
		if err != nil {
			return nil, err
		}
		for _, at := range positions {
			all = append(all, entry{at, i})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return a.compare(b.position) })
	for _, e := range all[:min(int64(len(all)), l.n)] {
		shares[e.part]++
	}
	return shares, nil
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
	n     int64 // at most; 0: from limits them

	// ofTask: the jobs are those of a task. They have values in place of requests, which are left out if they are too
	// long, and what holds their accounts is not read.
	ofTask bool

	numbered bool // with the numbers of changes
}

// recordRow is a row of a jobList.
type recordRow struct {
	jobRow

	pruned   bool
	body     string
	size     int64
	account  accountState
	changed  bool  // the document of the service
	number   int64 // of the last change
	isHidden bool
}

// read returns what record makes of each job. Of bodies longer than page.Most bytes, unless that is 0, only the first
// characters are read, so that a page has a bounded size. A definition is not looked for by EXISTS: PostgreSQL would
// read all definitions for a large page.
func (l jobList) read(
	ctx context.Context, q querier, record func(*recordRow) (dispatch.Record, error),
) ([]dispatch.Record, error) {
	var r recordRow
	columns, to := listedColumns, r.listed()
	if l.page.Most == 0 {
		columns, to = jobColumns, r.whole()
	}
	statement := `
		SELECT ` + columns + `, jobs.pruned, ` + l.body() + `, octet_length(requests.body)`
	to = append(to, &r.pruned, &r.body, number(&r.size))
	if l.numbered {
		statement += `, jobs.changed, jobs.hidden`
		to = append(to, &r.number, &r.isHidden)
	}
	if !l.ofTask {
		statement += `,
			` + accountStateColumns + `,
			COALESCE((
				SELECT definitions.changed_to <> '' FROM definitions
				WHERE definitions.task = 0 AND definitions.job = jobs.id), FALSE)`
		to = append(append(to, r.account.columns()...), &r.changed)
	}
	statement += `
		FROM ` + l.from + `
			JOIN requests ON requests.job = jobs.id`
	if !l.ofTask {
		statement += `
			JOIN accounts ON accounts.id = jobs.account
			LEFT JOIN platforms ON platforms.name = accounts.platform`
	}
	if len(l.where.conditions) > 0 {
		statement += `
		WHERE ` + l.where.String()
	}
	statement += `
		ORDER BY ` + l.order
	if l.n > 0 {
		statement += `
		LIMIT CAST(` + l.where.arg(l.n) + ` AS BIGINT)`
	}
	return list(ctx, q, func(from row) (dispatch.Record, error) {
		if err := from.Scan(to...); err != nil {
			return dispatch.Record{}, err
		}
		return record(&r)
	}, statement, l.where.args...)
}

// body is the expression for as much of a request as the page has.
func (l *jobList) body() string {
	if l.page.Most == 0 {
		return "requests.body"
	}
	n, rest := l.where.arg(l.page.Most), "''"
	if l.page.Most > 0 && !l.ofTask {
		rest = "substr(requests.body, 1, " + n + ")"
	}
	return "CASE WHEN octet_length(requests.body) <= " + n + " THEN requests.body ELSE " + rest + " END"
}

// listRecords reads a page of an owner's jobs. Jobs with a label are found by that, jobs that changed since a time by
// when they changed, others by the other filters.
func listRecords(
	ctx context.Context, q querier, u dispatch.UserID, p dispatch.Page, now int64,
) ([]dispatch.Record, error) {
	d := directionOf(p)
	l := jobList{page: p, from: "jobs", order: d.by("jobs.created", "jobs.id"), n: most(p.Limit)}
	record := func(r *recordRow) (dispatch.Record, error) { return r.record(p.Most, now) }
	w := &l.where
	switch {
	case p.Label != (dispatch.LabelMatch{}):
		l.from, l.order = "job_labels l JOIN jobs ON jobs.id = l.job", d.by("l.created", "l.job")
		w.and("l.owner = " + w.arg(u) + " AND l.name = " + w.arg(p.Label.Key) + " AND l.value = " + w.arg(p.Label.Value))
		d.follows(w, p, "l.created", "l.job")
		w.and("NOT jobs.hidden AND jobs.updated > " + w.arg(micros(p.Since)))
		filter(w, "jobs", p)
	case !p.Since.IsZero():
		var found where
		found.and("j.owner = " + found.arg(u) + " AND j.task = 0 AND NOT j.hidden")
		found.and("j.updated > " + found.arg(micros(p.Since)))
		d.follows(&found, p, "+j.created", "j.id")
		filter(&found, "j", p)
		l.changed(found, d.by("+j.created", "j.id"))
	case len(p.Statuses)+len(p.Accounts) == 0:
		w.and("jobs.owner = " + w.arg(u) + " AND jobs.task = 0 AND NOT jobs.hidden")
		d.follows(w, p, "jobs.created", "jobs.id")
	default:
		return listParts(ctx, q, u, p, record)
	}
	return l.read(ctx, q, record)
}

// changed has the list find by when they changed the first jobs, named j, that meet conditions, and only then their
// requests. The plus before a column in the conditions and the order keeps databases from reading all jobs in that
// order instead.
func (l *jobList) changed(found where, order string) {
	l.from = `(
			SELECT j.id FROM jobs j
			WHERE ` + found.String() + `
			ORDER BY ` + order + `
			LIMIT CAST(` + found.arg(l.n) + ` AS BIGINT)) AS changed
			JOIN jobs ON jobs.id = changed.id`
	l.where, l.n = where{args: found.args}, 0
}

// filter adds the filters of a page. They are expressions, so that databases do not take them to an index: another
// condition leads to fewer jobs.
func filter(w *where, jobs string, p dispatch.Page) {
	in(w, jobs+".status || ''", p.Statuses)
	in(w, jobs+".account || ''", p.Accounts)
}

// listParts reads a page of an owner's jobs with some statuses at some accounts.
func listParts(
	ctx context.Context, q querier, u dispatch.UserID, p dispatch.Page, record func(*recordRow) (dispatch.Record, error),
) ([]dispatch.Record, error) {
	d := directionOf(p)
	accounts, err := usedAccounts(ctx, q, u, p.Accounts)
	if err != nil {
		return nil, err
	}
	l := parts{n: most(p.Limit), position: func(r *dispatch.Record) position {
		return placed(p, micros(r.Created), int64(r.ID))
	}}
	for _, a := range accounts {
		for _, status := range statuses(p.Statuses) {
			l.of = append(l.of, part{a, status})
		}
	}
	conditions := func(each part) (w where) {
		w.and("jobs.owner = " + w.arg(u) + " AND jobs.account = " + w.arg(each.account))
		w.and("jobs.status = CAST(" + w.arg(each.status) + " AS TEXT) AND jobs.task = 0 AND NOT jobs.hidden")
		d.follows(&w, p, "jobs.created", "jobs.id")
		return w
	}
	order := d.by("jobs.created", "jobs.id")
	l.positions = func(each part, n int64) ([]position, error) {
		w := conditions(each)
		return list(ctx, q, func(r row) (at position, err error) {
			var created, id int64
			err = r.Scan(number(&created), number(&id))
			return placed(p, created, id), err
		}, `
			SELECT jobs.created, jobs.id
			FROM jobs
			WHERE `+w.String()+`
			ORDER BY `+order+`
			LIMIT CAST(`+w.arg(n)+` AS BIGINT)`, w.args...)
	}
	l.records = func(each part, n int64) ([]dispatch.Record, error) {
		return jobList{page: p, from: "jobs", where: conditions(each), order: order, n: n}.read(ctx, q, record)
	}
	return l.read()
}

// usedAccounts returns the accounts that a filter selects and at which the owner has any jobs.
func usedAccounts(
	ctx context.Context, q querier, u dispatch.UserID, filter []dispatch.Account,
) (used []dispatch.Account, err error) {
	all, err := usageOf(ctx, q, u)
	for _, at := range all {
		if len(filter) == 0 || slices.Contains(filter, at.account) {
			used = append(used, at.account)
		}
	}
	return used, err
}

// listTaskJobs reads a page by number or, if only changes or the jobs of some accounts are wanted, by when the jobs
// changed. Requests are joined to a page of them: PostgreSQL, which expects a third of a task, would read the
// requests of all jobs.
func listTaskJobs(
	ctx context.Context, q querier, t dispatch.TaskID, p dispatch.Page, record func(*recordRow) (dispatch.Record, error),
) ([]dispatch.Record, error) {
	l := jobList{page: p, from: "jobs", order: "jobs.number", n: most(p.Limit), ofTask: true}
	w := &l.where
	switch {
	case !p.Since.IsZero(), len(p.Accounts) > 0:
		var found where
		found.and("j.task = CAST(" + found.arg(t) + " AS BIGINT) AND j.task <> 0 AND NOT j.hidden")
		found.and("j.updated > " + found.arg(micros(p.Since)) + " AND +j.number > " + found.arg(p.After.ID))
		filter(&found, "j", p)
		l.changed(found, "+j.number")
	case len(p.Statuses) == 0:
		w.and("jobs.task = CAST(" + w.arg(t) + " AS BIGINT) AND jobs.task <> 0 AND NOT jobs.hidden")
		w.and("jobs.number > " + w.arg(p.After.ID))
	default:
		return listPartsOfTask(ctx, q, t, p, record)
	}
	return l.read(ctx, q, record)
}

// listPartsOfTask reads a page of a task's jobs with some statuses.
func listPartsOfTask(
	ctx context.Context, q querier, t dispatch.TaskID, p dispatch.Page, record func(*recordRow) (dispatch.Record, error),
) ([]dispatch.Record, error) {
	l := parts{n: most(p.Limit), position: func(r *dispatch.Record) position { return position{first: int64(r.Number)} }}
	for _, status := range statuses(p.Statuses) {
		l.of = append(l.of, part{status: status})
	}
	conditions := func(each part) (w where) {
		w.and("jobs.task = CAST(" + w.arg(t) + " AS BIGINT) AND jobs.status = CAST(" + w.arg(each.status) + " AS TEXT)")
		w.and("jobs.task <> 0 AND NOT jobs.hidden AND jobs.number > " + w.arg(p.After.ID))
		return w
	}
	l.positions = func(each part, n int64) ([]position, error) {
		w := conditions(each)
		return list(ctx, q, func(r row) (at position, err error) {
			err = r.Scan(number(&at.first))
			return at, err
		}, `
			SELECT jobs.number
			FROM jobs
			WHERE `+w.String()+`
			ORDER BY jobs.number
			LIMIT CAST(`+w.arg(n)+` AS BIGINT)`, w.args...)
	}
	l.records = func(each part, n int64) ([]dispatch.Record, error) {
		l := jobList{page: p, from: "jobs", where: conditions(each), order: "jobs.number", n: n, ofTask: true}
		return l.read(ctx, q, record)
	}
	return l.read()
}

// record returns a job of a page of no task. most is the number of bytes of a request that the page reads.
func (r *recordRow) record(most int, now int64) (dispatch.Record, error) {
	j, err := r.shown(now)
	if err != nil {
		return dispatch.Record{}, err
	}
	if most != 0 && r.size > int64(most) {
		return dispatch.Record{Job: j, Request: dispatch.ParseRequestHead(r.body), Read: at(now), Size: int(r.size),
			Cut: true}, nil
	}
	record := dispatch.Record{Job: j, Pruned: r.pruned, Read: at(now)}
	if most != 0 {
		record.Size = int(r.size)
	}
	record.Request, err = requestOf(j, r.body, "", "")
	return record, err
}

// shown returns the job with what its account and the document of its service show on it.
func (r *recordRow) shown(now int64) (dispatch.Job, error) {
	j, err := r.decoded()
	return redefined(r.account.shownOn(j, now), r.changed), err
}
