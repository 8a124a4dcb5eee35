package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// itemSearch is how Items are found: in the order of one index. Paths by place and by time read ranges of a curve.
type itemSearch struct {
	q      tx
	owner  dispatch.UserID
	query  dispatch.ItemQuery
	path   string // the column by which the index is read: place, period, task, service, or job
	ranges []cellRange
	key    int64 // after which the page begins
	job    int64
}

// FindItems returns a page of the Items of an owner.
func (s *Store) FindItems(
	ctx context.Context, u dispatch.UserID, query dispatch.ItemQuery,
) (page dispatch.ItemPage, err error) {
	err = s.readOnly(allow(ctx, listWithin), s.read, "FindItems", func(q tx, _ int64) error {
		page = dispatch.ItemPage{}
		search := itemSearch{q: q, owner: u, query: query}
		if err := search.begin(ctx); err != nil {
			return err
		}
		rows, err := search.read(ctx)
		if err != nil || len(rows) == 0 {
			return err
		}
		if n := fitting(rows, query.Limit); n < len(rows) {
			rows = rows[:n]
			last := rows[n-1]
			page.Next = fmt.Sprintf("%s.%d.%d", search.path, last.key, last.Job)
		}
		page.Items, err = withBodies(ctx, q, rows)
		return err
	})
	return page, err
}

// begin sets where the search begins, and by which index.
func (s *itemSearch) begin(ctx context.Context) error {
	if s.query.After != "" {
		return s.resume()
	}
	s.key, s.job = -1<<63, -1<<63
	switch {
	case len(s.query.Jobs) > 0:
		s.path = byJob
	case len(s.query.Tasks) == 1:
		s.path = byTask
	case s.query.Box != nil:
		s.path = byPlace
	case !s.query.From.IsZero() || !s.query.To.IsZero():
		s.path = byPeriod
	case len(s.query.Services) == 1:
		s.path = byService
	default:
		s.path = byJob
	}
	s.plan()
	if s.path != byPlace || s.query.From.IsZero() && s.query.To.IsZero() {
		return nil
	}
	// Of a large area and a short time the index of the shorter list is read.
	few, err := s.few(ctx)
	if few || err != nil {
		return err
	}
	s.path = byPeriod
	s.plan()
	if few, err = s.few(ctx); !few {
		s.path = byPlace
		s.plan()
	}
	return err
}

// fitting returns how many of some rows make a page: n at most, with bodies of itemBytes together, but at least one.
func fitting(rows []itemRow, n int) int {
	size := int64(0)
	for i, r := range rows[:min(n, len(rows))] {
		if size += r.size; size > itemBytes && i > 0 {
			return i
		}
	}
	return min(n, len(rows))
}

// withBodies returns the Items of rows that were read without their bodies.
func withBodies(ctx context.Context, q tx, rows []itemRow) (items []dispatch.Item, err error) {
	at := map[dispatch.JobID]int{}
	for i := range rows {
		at[rows[i].Job] = i
		items = append(items, rows[i].item())
	}
	w := whereAny(q, "results.job", slices.Collect(maps.Keys(at)))
	bodies, err := list(ctx, q, func(r *itemRow) []any { return []any{number(&r.Job), &r.body} }, `
		SELECT results.job, results.body
		FROM results
		WHERE results.body <> '' AND `+w.String(), w.args...)
	for _, r := range bodies {
		items[at[r.Job]].Body = json.RawMessage(r.body)
	}
	return items, err
}

const (
	itemBytes = 8 << 20 // of the results in one page

	byPlace, byPeriod, byTask, byService, byJob = "place", "period", "task", "service", "job"

	fewItems = 2000
)

// resume continues where a page ended.
func (s *itemSearch) resume() (err error) {
	parts := strings.Split(s.query.After, ".")
	bad := &dispatch.Error{Kind: dispatch.Invalid, Op: "store.FindItems", Text: "The token is not one of a next link."}
	if len(parts) != 3 || !slices.Contains([]string{byPlace, byPeriod, byTask, byService, byJob}, parts[0]) {
		return bad
	}
	s.path = parts[0]
	key, notKey := strconv.ParseInt(parts[1], 10, 64)
	job, notJob := strconv.ParseInt(parts[2], 10, 64)
	fits := map[string]bool{byPlace: s.query.Box != nil, byPeriod: !s.query.From.IsZero() || !s.query.To.IsZero(),
		byTask: len(s.query.Tasks) == 1, byService: len(s.query.Services) == 1, byJob: true}
	if errors.Join(notKey, notJob) != nil || !fits[s.path] {
		return bad
	}
	s.key, s.job = key, job
	s.plan()
	return nil
}

// plan sets the ranges of the index that are read, in order.
func (s *itemSearch) plan() {
	s.ranges = nil
	switch s.path {
	case byPlace:
		for _, p := range onEarth(s.query.Box) {
			s.ranges = append(s.ranges, placeCurve.ranges(p[0], p[1])...)
		}
		s.ranges = mergedRanges(s.ranges)
	case byPeriod:
		from, to := [2]float64{0}, [2]float64{1}
		if !s.query.From.IsZero() {
			from = inPeriods(s.query.From.UnixMicro())
		}
		if !s.query.To.IsZero() {
			to = inPeriods(s.query.To.UnixMicro())
		}
		s.ranges = periodCurve.ranges(from, to)
	case byTask:
		s.ranges = []cellRange{{int64(s.query.Tasks[0]), int64(s.query.Tasks[0])}}
	case byService:
		s.ranges = []cellRange{{int64(s.query.Services[0]), int64(s.query.Services[0])}}
	default:
		s.ranges = []cellRange{{0, 1<<63 - 1}}
	}
}

// mergedRanges returns ranges in order, of which none overlap.
func mergedRanges(all []cellRange) (merged []cellRange) {
	slices.SortFunc(all, func(a, b cellRange) int { return int(min(max(a.first-b.first, -1), 1)) })
	for _, r := range all {
		if n := len(merged); n > 0 && r.first <= merged[n-1].last+1 {
			merged[n-1].last = max(merged[n-1].last, r.last)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// few reports whether the ranges hold few Items.
func (s *itemSearch) few(ctx context.Context) (bool, error) {
	left := int64(fewItems)
	for _, r := range s.ranges {
		n, err := value[int64](ctx, s.q, fmt.Sprintf(`
			SELECT count(*)
			FROM (
				SELECT 1 FROM items
				WHERE items.owner = $1 AND items.%[1]s >= $2 AND items.%[1]s <= $3 AND items.period IS NOT NULL
				LIMIT CAST($4 AS BIGINT)) AS counted`, s.path), s.owner, r.first, r.last, left)
		if left -= n; err != nil || left <= 0 {
			return false, err
		}
	}
	return true, nil
}

// read returns the rows of the page, and one more if there is one.
func (s *itemSearch) read(ctx context.Context) (all []itemRow, err error) {
	for _, r := range s.ranges {
		if s.path != byJob && r.last < s.key {
			continue
		}
		more, err := s.readRange(ctx, r, s.query.Limit+1-len(all))
		if all = append(all, more...); err != nil || len(all) > s.query.Limit {
			return all, err
		}
	}
	return all, nil
}

func (s *itemSearch) readRange(ctx context.Context, r cellRange, n int) ([]itemRow, error) {
	var w where
	w.and("items.owner = " + w.arg(s.owner) + " AND items.period IS NOT NULL")
	column := "items." + s.path
	order := column + ", items.job"
	switch s.path {
	case byJob:
		order = "items.job"
		w.and("items.job > " + w.arg(max(r.first, s.job)))
	case byPlace, byPeriod:
		key := w.arg(max(r.first, s.key))
		w.and(column + " >= " + key + " AND " + column + " <= " + w.arg(r.last))
		w.and("(" + column + " > " + w.arg(s.key) + " OR items.job > " + w.arg(s.job) + ")")
	default:
		order = "items.job"
		w.and(column + " = " + w.arg(r.first) + " AND items.job > " + w.arg(s.job))
	}
	s.filter(&w)
	return listAs(ctx, s.q, func(r *itemRow) []any { return append(r.columns(), &r.key, &r.size) },
		func(r *itemRow) (itemRow, error) { return *r, nil }, `
		SELECT `+withoutBody+`, `+column+`, octet_length(results.body)
		FROM items CROSS JOIN results
		WHERE results.job = items.job AND `+w.String()+`
		ORDER BY `+order+`
		LIMIT CAST(`+w.arg(int64(n))+` AS BIGINT)`, w.args...)
}

// filter adds the conditions of the query, exactly.
func (s *itemSearch) filter(w *where) {
	anyOf(s.q, w, "items.job", s.query.Jobs)
	anyOf(s.q, w, "items.task", s.query.Tasks)
	anyOf(s.q, w, "items.service", s.query.Services)
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
		w.and(fmt.Sprintf(`(
			EXISTS (
				SELECT 1 FROM task_labels t
				WHERE t.task = items.task AND t.owner = %[1]s AND t.name = %[2]s AND t.value = %[3]s)
			OR EXISTS (
				SELECT 1 FROM job_labels l
				WHERE l.job = items.job AND l.owner = %[1]s AND l.name = %[2]s AND l.value = %[3]s))`, owner, name,
			label))
	}
}
