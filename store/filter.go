package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"

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
var reversed = newRewriting("created <= CAST(", "created >= CAST(", "created < CAST(", "created > CAST(", "id < CAST(", "id > CAST(",
	"l.job < CAST(", "l.job > CAST(", "l.task < CAST(", "l.task > CAST(",
	"created DESC", "created", "id DESC", "id", "l.job DESC", "l.job", "l.task DESC", "l.task")

// rewriting replaces parts of generated queries. It keeps each result, because to make it takes as long as many a query runs.
type rewriting struct {
	replacer *strings.Replacer
	made     sync.Map // of texts by texts
}

func newRewriting(oldnew ...string) *rewriting {
	return &rewriting{replacer: strings.NewReplacer(oldnew...)}
}

func (r *rewriting) Replace(q string) string {
	made, known := r.made.Load(q)
	if !known {
		made, _ = r.made.LoadOrStore(q, r.replacer.Replace(q))
	}
	return made.(string)
}

// parts reads the first n jobs of a list that consists of several parts.
type parts struct {
	of        []part
	n         int64
	positions func(part, int64) ([]position, error)        // of the first n jobs of a part
	records   func(part, int64) ([]dispatch.Record, error) // the first n jobs of a part
	position  func(*dispatch.Record) position
}

// read reads no requests of other jobs: where there are several parts, it first reads how many of each belong to the page.
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
		return []dispatch.Status{dispatch.Accepted, dispatch.Submitted, dispatch.Queued, dispatch.Running, dispatch.Finished, dispatch.Canceled,
			dispatch.Failed, dispatch.Unknown}
	}
	return slices.Compact(slices.Sorted(slices.Values(filter)))
}

// listRecords reads a page of an owner's jobs. Jobs with a label are found by that, jobs that changed since a time by when they changed, others by the
// other filters.
func listRecords(ctx context.Context, q tx, u dispatch.UserID, p dispatch.Page, now int64) ([]dispatch.Record, error) {
	created, before := beginOf(p)
	if p.Oldest {
		q.DBTX = oldestFirst{q.DBTX}
		q.Queries = query.New(q.DBTX)
	}
	record := func(row *query.ListRecordsRow) (dispatch.Record, error) { return listedOf(row, p.Most, now) }
	switch {
	case p.Label != (dispatch.LabelMatch{}):
		return collect(ctx, q, notOf(p), func(q *query.Queries) ([]query.ListLabeledRecordsRow, error) {
			return q.ListLabeledRecords(ctx, query.ListLabeledRecordsParams{Owner: u, Name: p.Label.Key, Value: p.Label.Value, Created: created, Before: before,
				Since: micros(p.Since), Statuses: joinList(p.Statuses), OfAccounts: joinList(p.Accounts), Most: int64(p.Most), N: most(p.Limit)})
		}, func(row *query.ListLabeledRecordsRow) (dispatch.Record, error) {
			return record((*query.ListRecordsRow)(row))
		})
	case !p.Since.IsZero():
		return collect(ctx, q, notOf(p), func(q *query.Queries) ([]query.ListChangedRecordsRow, error) {
			return q.ListChangedRecords(ctx, query.ListChangedRecordsParams{Owner: u, Since: micros(p.Since), Created: created, Before: before,
				Statuses: joinList(p.Statuses), OfAccounts: joinList(p.Accounts), Most: int64(p.Most),
				N: most(p.Limit)})
		}, func(row *query.ListChangedRecordsRow) (dispatch.Record, error) {
			return record((*query.ListRecordsRow)(row))
		})
	case len(p.Statuses)+len(p.Accounts) == 0:
		return collect(ctx, q, notOf(p), func(q *query.Queries) ([]query.ListRecordsRow, error) {
			return q.ListRecords(ctx, query.ListRecordsParams{Owner: u, Created: created, Before: before, Most: int64(p.Most), N: most(p.Limit)})
		}, record)
	}
	accounts, err := usedAccounts(ctx, q, u, p.Accounts)
	if err != nil {
		return nil, err
	}
	l := parts{n: most(p.Limit), position: func(r *dispatch.Record) position { return placed(p, micros(r.Created), int64(r.ID)) }}
	for _, a := range accounts {
		for _, status := range statuses(p.Statuses) {
			l.of = append(l.of, part{a, status})
		}
	}
	l.positions = func(of part, n int64) ([]position, error) {
		places, err := q.ListPlacesOf(ctx, query.ListPlacesOfParams{Owner: u, Account: of.account, Status: string(of.status), Created: created, Before: before, N: n})
		return rowsAs(places, func(r query.ListPlacesOfRow) position { return placed(p, r.Created, int64(r.ID)) }), err
	}
	l.records = func(of part, n int64) ([]dispatch.Record, error) {
		return collect(ctx, q, notOf(p), func(q *query.Queries) ([]query.ListRecordsOfRow, error) {
			return q.ListRecordsOf(ctx, query.ListRecordsOfParams{Owner: u, Account: of.account, Status: string(of.status), Created: created, Before: before,
				Most: int64(p.Most), N: n})
		}, func(row *query.ListRecordsOfRow) (dispatch.Record, error) {
			return record((*query.ListRecordsRow)(row))
		})
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

// listTaskJobs reads a page by number or, if only changes or the jobs of some accounts are wanted, by when the jobs
// changed.
func listTaskJobs(ctx context.Context, q tx, t dispatch.Task, p dispatch.Page, record func(*query.ListTaskJobsRow) (dispatch.Record, error)) ([]dispatch.Record, error) {
	id := int64(t.ID)
	switch {
	case !p.Since.IsZero(), len(p.Accounts) > 0:
		return collect(ctx, q, notOf(p), func(q *query.Queries) ([]query.ListChangedJobsRow, error) {
			return q.ListChangedJobs(ctx, query.ListChangedJobsParams{Task: id, After: p.After.ID, Since: micros(p.Since),
				Statuses: joinList(p.Statuses), OfAccounts: joinList(p.Accounts), Most: int64(p.Most),
				N: most(p.Limit)})
		}, func(row *query.ListChangedJobsRow) (dispatch.Record, error) {
			return record((*query.ListTaskJobsRow)(row))
		})
	case len(p.Statuses) == 0:
		return collect(ctx, q, notOf(p), func(q *query.Queries) ([]query.ListTaskJobsRow, error) {
			return q.ListTaskJobs(ctx, query.ListTaskJobsParams{Task: id, After: p.After.ID,
				Most: int64(p.Most), N: most(p.Limit)})
		}, record)
	}
	l := parts{n: most(p.Limit), position: func(r *dispatch.Record) position { return position{first: int64(r.Number)} }}
	for _, status := range statuses(p.Statuses) {
		l.of = append(l.of, part{status: status})
	}
	l.positions = func(of part, n int64) ([]position, error) {
		numbers, err := q.ListNumbersOf(ctx, query.ListNumbersOfParams{Task: id, Status: string(of.status),
			After: p.After.ID, N: n})
		return rowsAs(numbers, func(number int) position { return position{first: int64(number)} }), err
	}
	l.records = func(of part, n int64) ([]dispatch.Record, error) {
		return collect(ctx, q, notOf(p), func(q *query.Queries) ([]query.ListTaskJobsOfRow, error) {
			return q.ListTaskJobsOf(ctx, query.ListTaskJobsOfParams{Task: id, Status: string(of.status),
				After: p.After.ID, Most: int64(p.Most), N: n})
		}, func(row *query.ListTaskJobsOfRow) (dispatch.Record, error) {
			return record((*query.ListTaskJobsRow)(row))
		})
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
