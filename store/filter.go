package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// part is what one range of an index holds of a filtered list: the jobs of one account, if the list has several, and of one status.
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

// oldestFirst runs the queries of lists that are ordered newest first in the opposite order, in which their indexes are read as well.
type oldestFirst struct{ query.DBTX }

func (o oldestFirst) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	return o.DBTX.QueryContext(ctx, reversed.Replace(q), args...)
}

// reversed replaces the order of such a query, and what selects the entries behind a place.
var reversed = strings.NewReplacer("created <= CAST(", "created >= CAST(", "created < CAST(", "created > CAST(", "id < CAST(", "id > CAST(",
	"l.job < CAST(", "l.job > CAST(", "l.task < CAST(", "l.task > CAST(",
	"created DESC", "created", "id DESC", "id", "l.job DESC", "l.job", "l.task DESC", "l.task")

// parts reads the first n jobs of a list that consists of several parts. R is a row of the list.
type parts[R any] struct {
	of        []part
	n         int64
	positions func(part, int64) ([]position, error) // of the first n jobs of a part
	rows      func(part, int64) ([]R, error)        // the first n jobs of a part
	position  func(R) position
}

// read reads no requests of other jobs: where there are several parts, it first reads how many of each belong to the page.
func (l parts[R]) read() (all []R, err error) {
	shares, err := l.shares()
	if err != nil {
		return nil, err
	}
	for i, p := range l.of {
		if shares[i] == 0 {
			continue
		}
		rows, err := l.rows(p, shares[i])
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	slices.SortFunc(all, func(a, b R) int { return l.position(a).compare(l.position(b)) })
	return all, nil
}

// shares returns how many jobs of each part are among the first n of all.
func (l parts[R]) shares() ([]int64, error) {
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
		return []dispatch.Status{dispatch.Accepted, dispatch.Submitted, dispatch.Queued, dispatch.Running, dispatch.Finished, dispatch.Canceled,
			dispatch.Failed, dispatch.Unknown}
	}
	return slices.Compact(slices.Sorted(slices.Values(filter)))
}

// listRecords reads a page of an owner's jobs. Jobs with a label are found by that, jobs that changed since a time by when they changed, others by the
// other filters.
func listRecords(ctx context.Context, q tx, u dispatch.UserID, p dispatch.Page) ([]query.ListRecordsRow, error) {
	created, before := beginOf(p)
	if p.Oldest {
		q.Queries = query.New(oldestFirst{q.DBTX})
	}
	switch {
	case p.Label != (dispatch.LabelMatch{}):
		rows, err := q.ListLabeledRecords(ctx, query.ListLabeledRecordsParams{Owner: u, Name: p.Label.Key, Value: p.Label.Value, Created: created, Before: before,
			Since: micros(p.Since), Statuses: joinList(p.Statuses), OfAccounts: joinList(p.Accounts), Most: int64(p.Most), N: most(p.Limit)})
		return rowsAs(rows, func(r query.ListLabeledRecordsRow) query.ListRecordsRow { return query.ListRecordsRow(r) }), err
	case !p.Since.IsZero():
		rows, err := q.ListChangedRecords(ctx, query.ListChangedRecordsParams{Owner: u, Since: micros(p.Since), Created: created, Before: before,
			Statuses: joinList(p.Statuses), OfAccounts: joinList(p.Accounts), Most: int64(p.Most), N: most(p.Limit)})
		return rowsAs(rows, func(r query.ListChangedRecordsRow) query.ListRecordsRow { return query.ListRecordsRow(r) }), err
	case len(p.Statuses)+len(p.Accounts) == 0:
		return q.ListRecords(ctx, query.ListRecordsParams{Owner: u, Created: created, Before: before, Most: int64(p.Most), N: most(p.Limit)})
	}
	accounts, err := usedAccounts(ctx, q, u, p.Accounts)
	if err != nil {
		return nil, err
	}
	l := parts[query.ListRecordsRow]{n: most(p.Limit), position: func(r query.ListRecordsRow) position { return placed(p, r.Job.Created, int64(r.Job.ID)) }}
	for _, a := range accounts {
		for _, status := range statuses(p.Statuses) {
			l.of = append(l.of, part{a, status})
		}
	}
	l.positions = func(of part, n int64) ([]position, error) {
		places, err := q.ListPlacesOf(ctx, query.ListPlacesOfParams{Owner: u, Account: of.account, Status: string(of.status), Created: created, Before: before, N: n})
		return rowsAs(places, func(r query.ListPlacesOfRow) position { return placed(p, r.Created, int64(r.ID)) }), err
	}
	l.rows = func(of part, n int64) ([]query.ListRecordsRow, error) {
		rows, err := q.ListRecordsOf(ctx, query.ListRecordsOfParams{Owner: u, Account: of.account, Status: string(of.status), Created: created, Before: before,
			Most: int64(p.Most), N: n})
		return rowsAs(rows, func(r query.ListRecordsOfRow) query.ListRecordsRow { return query.ListRecordsRow(r) }), err
	}
	return l.read()
}

// usedAccounts returns the accounts that a filter selects and at which the owner has any jobs.
func usedAccounts(ctx context.Context, q tx, u dispatch.UserID, filter []dispatch.Account) (used []dispatch.Account, err error) {
	rows, err := q.ListUsage(ctx, u)
	for _, r := range rows {
		if len(filter) == 0 || slices.Contains(filter, r.Account) {
			used = append(used, r.Account)
		}
	}
	return used, err
}

// listTaskJobs reads a page by number, or if only changes are wanted, by when the jobs changed. All jobs of a task are at one account.
func listTaskJobs(ctx context.Context, q tx, t dispatch.Task, p dispatch.Page) ([]query.ListTaskJobsRow, error) {
	id := int64(t.ID)
	switch {
	case len(p.Accounts) > 0 && !slices.Contains(p.Accounts, t.Account):
		return nil, nil
	case !p.Since.IsZero():
		rows, err := q.ListChangedJobs(ctx, query.ListChangedJobsParams{Task: id, After: p.After.ID, Since: micros(p.Since),
			Statuses: joinList(p.Statuses), Most: int64(p.Most), N: most(p.Limit)})
		return rowsAs(rows, func(r query.ListChangedJobsRow) query.ListTaskJobsRow { return query.ListTaskJobsRow(r) }), err
	case len(p.Statuses) == 0:
		return q.ListTaskJobs(ctx, query.ListTaskJobsParams{Task: id, After: p.After.ID, Most: int64(p.Most), N: most(p.Limit)})
	}
	l := parts[query.ListTaskJobsRow]{n: most(p.Limit), position: func(r query.ListTaskJobsRow) position { return position{first: int64(r.Job.Number)} }}
	for _, status := range statuses(p.Statuses) {
		l.of = append(l.of, part{status: status})
	}
	l.positions = func(of part, n int64) ([]position, error) {
		numbers, err := q.ListNumbersOf(ctx, query.ListNumbersOfParams{Task: id, Status: string(of.status), After: p.After.ID, N: n})
		return rowsAs(numbers, func(number int) position { return position{first: int64(number)} }), err
	}
	l.rows = func(of part, n int64) ([]query.ListTaskJobsRow, error) {
		rows, err := q.ListTaskJobsOf(ctx, query.ListTaskJobsOfParams{Task: id, Status: string(of.status), After: p.After.ID, Most: int64(p.Most), N: n})
		return rowsAs(rows, func(r query.ListTaskJobsOfRow) query.ListTaskJobsRow { return query.ListTaskJobsRow(r) }), err
	}
	return l.read()
}

// rowsAs converts the rows of one query into those of another.
func rowsAs[A, B any](rows []A, as func(A) B) []B {
	if rows == nil {
		return nil
	}
	converted := make([]B, len(rows))
	for i, r := range rows {
		converted[i] = as(r)
	}
	return converted
}
