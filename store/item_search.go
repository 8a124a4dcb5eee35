package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/eodispatch/eodispatch/dispatch"
)

// itemSearch finds Items of an owner, by an index that leads to few of them if there is one, else in the order of jobs.
type itemSearch struct {
	q     tx
	owner dispatch.UserID
	query dispatch.ItemQuery
}

const (
	fewItems    = 10_000  // that are read and sorted for a page
	itemsAtOnce = 2000    // that are compared with a geometry
	itemBytes   = 8 << 20 // of the results in one page
)

// FindItems returns a page of the Items of an owner, those of the newest jobs first.
func (s *Store) FindItems(
	ctx context.Context, u dispatch.UserID, query dispatch.ItemQuery,
) (page dispatch.ItemPage, err error) {
	after := dispatch.JobID(math.MaxInt64)
	if query.After != "" {
		last, err := strconv.ParseInt(query.After, 10, 64)
		if err != nil {
			return page, &dispatch.Error{Kind: dispatch.Invalid, Op: "store.FindItems", Err: err,
				Text: "The token is not one of a next link."}
		}
		after = dispatch.JobID(last)
	}
	err = s.readOnly(allow(ctx, listWithin), s.read, "FindItems", func(q tx, _ int64) error {
		search := itemSearch{q, u, query}
		found, err := search.find(ctx, after)
		if err == nil && len(found) > 0 {
			page, err = search.read(ctx, found)
		}
		return err
	})
	return page, err
}

// find returns the jobs of the Items of a page, and at least one more if there is one.
func (s itemSearch) find(ctx context.Context, after dispatch.JobID) (found []dispatch.JobID, err error) {
	by, err := s.short(ctx)
	if err != nil {
		return nil, err
	}
	for len(found) <= s.query.Limit {
		n := s.query.Limit + 1 - len(found)
		if s.query.Meets != nil { // most may not
			n = max(n, itemsAtOnce)
		}
		rows, err := s.list(ctx, by, after, n)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if s.query.Meets == nil || s.query.Meets(r.box()) {
				found = append(found, r.Job)
			}
		}
		if len(rows) < n {
			break
		}
		after = rows[n-1].Job
	}
	return found, nil
}

// path adds a condition of the query that an index serves, and returns the table to which it applies.
type path func(*where) (from string)

// short returns a path to few Items; nil if there is none.
func (s itemSearch) short(ctx context.Context) (path, error) {
	all, err := s.paths(ctx)
	for _, by := range all {
		w := where{conditions: []string{"items.begins IS NOT NULL"}}
		from := by(&w)
		n, err := value[int64](ctx, s.q, `
			SELECT count(*)
			FROM (
				SELECT 1 FROM `+from+`
				WHERE `+w.String()+`
				LIMIT CAST(`+w.arg(int64(fewItems+1))+` AS BIGINT)) AS counted`, w.args...)
		if err != nil || n <= fewItems {
			return by, err
		}
	}
	return nil, err
}

// paths returns the ways in which indexes find what the query asks for.
func (s itemSearch) paths(ctx context.Context) (all []path, err error) {
	q := s.query
	if len(q.Jobs) > 0 {
		all = append(all, func(w *where) string { return oneOf(s.q, w, "items.job", q.Jobs) })
	}
	if len(q.Tasks) > 1 {
		all = append(all, func(w *where) string { return oneOf(s.q, w, "items.task", q.Tasks) })
	}
	if len(q.Labels) > 0 {
		labeled, err := s.labeled(ctx)
		if err != nil {
			return nil, err
		}
		if labeled != nil {
			all = append(all, labeled)
		}
	}
	ofOwner := func(column string, values []int64) {
		if len(values) > 0 {
			all = append(all, func(w *where) string {
				w.and("items.owner = " + w.arg(s.owner))
				return oneOf(s.q, w, column, values)
			})
		}
	}
	if q.Box != nil {
		ofOwner("items.place", boxCells(q.Box))
	}
	if !q.From.IsZero() && !q.To.IsZero() {
		ofOwner("items.period", cellsOf(inTime(q.From.UnixMicro()), inTime(q.To.UnixMicro())))
	}
	var services []int64
	for _, service := range q.Services {
		services = append(services, int64(service))
	}
	ofOwner("items.service", services)
	return all, nil
}

// oneOf is the part of a path that a column has one of some values.
func oneOf[T ~int64](q tx, w *where, column string, values []T) (from string) {
	anyOf(q, w, column, values)
	return "items"
}

// labeled returns the path by the jobs and the tasks with a label; nil if these are many.
func (s itemSearch) labeled(ctx context.Context) (path, error) {
	name := slices.Min(slices.Collect(maps.Keys(s.query.Labels)))
	having := func(table, column string) ([]int64, error) {
		return list(ctx, s.q, single[int64], fmt.Sprintf(`
			SELECT l.%[1]s
			FROM %[2]s l
			WHERE l.owner = $1 AND l.name = $2 AND l.value = $3
			LIMIT CAST($4 AS BIGINT)`, column, table), s.owner, name, s.query.Labels[name], int64(fewItems+1))
	}
	jobs, err := having("job_labels", "job")
	if err != nil {
		return nil, err
	}
	tasks, err := having("task_labels", "task")
	if err != nil || max(len(jobs), len(tasks)) > fewItems {
		return nil, err
	}
	return func(w *where) string {
		return fmt.Sprintf(`(
			SELECT a.* FROM items a WHERE %s
			UNION ALL
			SELECT b.* FROM items b WHERE %s AND b.begins IS NOT NULL) AS items`,
			isAny(s.q, w, "a.job", jobs), isAny(s.q, w, "b.task", tasks))
	}, nil
}

// list returns the next Items on a path; nil: in the order of jobs, those of one task or all. What is written as an
// expression does not lead databases to another index.
func (s itemSearch) list(ctx context.Context, by path, after dispatch.JobID, n int) ([]itemRow, error) {
	var w where
	from, owner, job := "items", "items.owner", "-items.job"
	switch {
	case by != nil:
		from = by(&w)
		owner, job = "items.owner || ''", "0 - items.job"
	case len(s.query.Tasks) == 1:
		w.and("items.task = CAST(" + w.arg(s.query.Tasks[0]) + " AS BIGINT)")
		owner = "items.owner || ''"
	}
	w.and(owner + " = " + w.arg(s.owner) + " AND " + job + " > " + w.arg(-int64(after)))
	w.and("items.begins IS NOT NULL")
	s.filter(&w)
	return list(ctx, s.q, func(r *itemRow) []any {
		return []any{number(&r.Job), &r.west, &r.south, &r.east, &r.north}
	}, `
		SELECT items.job, items.west, items.south, items.east, items.north
		FROM `+from+`
		WHERE `+w.String()+`
		ORDER BY `+job+`
		LIMIT CAST(`+w.arg(int64(n))+` AS BIGINT)`, w.args...)
}

// filter adds the conditions of the query, exactly.
func (s itemSearch) filter(w *where) {
	anyOf(s.q, w, "items.job + 0", s.query.Jobs)
	anyOf(s.q, w, "items.task + 0", s.query.Tasks)
	anyOf(s.q, w, "items.service + 0", s.query.Services)
	if b := s.query.Box; b != nil {
		w.and("items.south <= " + w.arg(b[3]) + " AND items.north >= " + w.arg(b[1]))
		west, east := w.arg(b[0]), w.arg(b[2])
		reaches, begins := "items.east >= "+west, "items.west <= "+east
		if b[0] > b[2] { // also of an Item that crosses the antimeridian, as all do that cross it
			w.and("(items.west > items.east OR " + reaches + " OR " + begins + ")")
		} else {
			w.and("(items.west <= items.east AND " + reaches + " AND " + begins +
				" OR items.west > items.east AND (" + reaches + " OR " + begins + "))")
		}
	}
	if !s.query.From.IsZero() {
		w.and("items.ends >= " + w.arg(s.query.From.UnixMicro()))
	}
	if !s.query.To.IsZero() {
		w.and("items.begins <= " + w.arg(s.query.To.UnixMicro()))
	}
	for name, label := range s.query.Labels {
		owner, name, label := w.arg(s.owner), w.arg(name), w.arg(label)
		// not EXISTS, for which PostgreSQL would read all that have the label
		w.and(fmt.Sprintf(`
			COALESCE((
				SELECT t.value FROM task_labels t
				WHERE t.task = items.task AND t.owner = %[1]s AND t.name = %[2]s), (
				SELECT l.value FROM job_labels l
				WHERE l.job = items.job AND l.owner = %[1]s AND l.name = %[2]s)) = %[3]s`, owner, name, label))
	}
}

// errFull ends the reading of a page.
var errFull = errors.New("the page is full")

// read returns the page with the first of the Items that were found, with bodies of itemBytes together, but at least
// one.
func (s itemSearch) read(ctx context.Context, found []dispatch.JobID) (page dispatch.ItemPage, err error) {
	first := found[:min(len(found), s.query.Limit)]
	w, size := whereAny(s.q, "items.job", first), 0
	err = eachRow(ctx, s.q, (*itemRow).columns, func(r *itemRow) error {
		if size += len(r.body); size > itemBytes && len(page.Items) > 0 {
			return errFull
		}
		page.Items = append(page.Items, r.item())
		return nil
	}, `
		SELECT `+itemColumns+`, results.body
		FROM items
			JOIN results ON results.job = items.job
		WHERE `+w.String()+`
		ORDER BY items.job DESC`, w.args...)
	full := errors.Is(err, errFull)
	if n := len(page.Items); n > 0 && (full || len(first) < len(found)) {
		page.Next = strconv.FormatInt(int64(page.Items[n-1].Job), 10)
	}
	if full {
		err = nil
	}
	return page, err
}
