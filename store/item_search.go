package store

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// itemSearch is how a page of Items is found.
type itemSearch struct {
	q     tx
	owner dispatch.UserID
	query dispatch.ItemQuery
	steps []itemStep // are read one after the other
	key   int64      // after which the page begins in the first step
	job   int64
}

// itemStep reads Items in the order of one index. By place and by time it reads ranges of a curve.
type itemStep struct {
	name   string // in tokens
	column string // of the index: place, period, task, service, or job
	ranges []cellRange
	jobs   []dispatch.JobID // with job: only these
}

// FindItems returns a page of the Items of an owner.
func (s *Store) FindItems(
	ctx context.Context, u dispatch.UserID, query dispatch.ItemQuery,
) (page dispatch.ItemPage, err error) {
	err = s.readOnly(allow(ctx, listWithin), s.read, "FindItems", func(q tx, _ int64) error {
		page = dispatch.ItemPage{}
		search := itemSearch{q: q, owner: u, query: query, key: math.MinInt64, job: math.MinInt64}
		begin := search.begin
		if query.After != "" {
			begin = search.resume
		}
		if err := begin(ctx); err != nil {
			return err
		}
		rows, err := search.read(ctx)
		if err != nil || len(rows) == 0 {
			return err
		}
		n, err := fitting(ctx, q, rows, query.Limit)
		if err != nil {
			return err
		}
		if n < len(rows) {
			rows = rows[:n]
			last := rows[n-1]
			page.Next = fmt.Sprintf("%s.%d.%d", last.step, last.key, last.Job)
		}
		page.Items, err = readTexts(ctx, q, rows)
		return err
	})
	return page, err
}

// The ways in which Items are found, in the order in which they are tried. They are named after the column of the
// index, but for labels: those of jobs come first, then those of tasks.
const (
	byJob, byTask, byLabel, byPlace, byPeriod, byService = "job", "task", "label", "place", "period", "service"

	byTaskLabel = "labeled"
)

// begin chooses a way that reads few Items. If there is none, the first.
func (s *itemSearch) begin(ctx context.Context) error {
	var ways [][]itemStep
	for _, name := range []string{byJob, byTask, byLabel, byPlace, byPeriod, byService} {
		if name == byPeriod && s.query.From.IsZero() && s.query.To.IsZero() {
			continue
		}
		steps, err := s.way(ctx, name, mostItemRanges)
		if err != nil {
			return err
		}
		if steps != nil {
			ways = append(ways, steps)
		}
	}
	if len(ways) == 0 {
		ways = [][]itemStep{{{byPeriod, byPeriod, []cellRange{allNumbers}, nil}}}
	}
	s.steps = ways[0]
	if len(ways) == 1 {
		return nil
	}
	for _, steps := range ways {
		if few, err := s.few(ctx, steps); few || err != nil {
			s.steps = steps
			return err
		}
	}
	return nil
}

// resume continues where a page ended.
func (s *itemSearch) resume(ctx context.Context) (err error) {
	parts := strings.Split(s.query.After, ".")
	bad := &dispatch.Error{Kind: dispatch.Invalid, Op: "store.FindItems", Text: "The token is not one of a next link."}
	if len(parts) != 3 {
		return bad
	}
	name := parts[0]
	if name == byTaskLabel {
		name = byLabel
	}
	steps, err := s.way(ctx, name, math.MaxInt32)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(steps, func(one itemStep) bool { return one.name == parts[0] })
	var notKey, notJob error
	s.key, notKey = strconv.ParseInt(parts[1], 10, 64)
	s.job, notJob = strconv.ParseInt(parts[2], 10, 64)
	if at < 0 || notKey != nil || notJob != nil {
		return bad
	}
	s.steps = steps[at:]
	return nil
}

// way returns the steps of a way in which the query can be answered; nil if it is none, or if more than most jobs or
// tasks have the label.
func (s *itemSearch) way(ctx context.Context, name string, most int) ([]itemStep, error) {
	q, step := s.query, itemStep{name: name, column: name}
	switch {
	case name == byJob && len(q.Jobs) > 0:
		step.ranges, step.jobs = []cellRange{allNumbers}, q.Jobs
	case name == byTask && len(q.Tasks) > 0:
		step.ranges = rangesOf(q.Tasks)
	case name == byPlace && q.Box != nil:
		step.ranges = placeRanges(q.Box)
	case name == byPeriod:
		step.ranges = periodRanges(q)
	case name == byService && len(q.Services) > 0:
		step.ranges = rangesOf(q.Services)
	case name == byLabel && len(q.Labels) > 0:
		return s.labeled(ctx, most)
	default:
		return nil, nil
	}
	return []itemStep{step}, nil
}

// labeled returns the steps through the Items of jobs and of tasks with one of the labels.
func (s *itemSearch) labeled(ctx context.Context, most int) ([]itemStep, error) {
	name := slices.Min(slices.Collect(maps.Keys(s.query.Labels)))
	having := func(table, column string) ([]int64, error) {
		return list(ctx, s.q, single[int64], fmt.Sprintf(`
			SELECT l.%[1]s
			FROM %[2]s l
			WHERE l.owner = $1 AND l.name = $2 AND l.value = $3
			LIMIT CAST($4 AS BIGINT)`, column, table), s.owner, name, s.query.Labels[name], most+1)
	}
	jobs, err := having("job_labels", "job")
	if err != nil {
		return nil, err
	}
	tasks, err := having("task_labels", "task")
	if err != nil || max(len(jobs), len(tasks)) > most {
		return nil, err
	}
	ids := make([]dispatch.JobID, len(jobs))
	for i, id := range jobs {
		ids[i] = dispatch.JobID(id)
	}
	return []itemStep{{byLabel, byJob, []cellRange{allNumbers}, ids}, {byTaskLabel, byTask, rangesOf(tasks), nil}}, nil
}

// allNumbers are those of cells, and ids.
var allNumbers = cellRange{0, math.MaxInt64}

// rangesOf returns a range for each of some numbers.
func rangesOf[T ~int64](values []T) (all []cellRange) {
	for _, v := range slices.Compact(slices.Sorted(slices.Values(values))) {
		all = append(all, cellRange{int64(v), int64(v)})
	}
	return all
}

func placeRanges(box []float64) (all []cellRange) {
	for _, p := range onEarth(box) {
		all = append(all, placeCurve.ranges(p[0], p[1])...)
	}
	return mergedRanges(all)
}

func periodRanges(q dispatch.ItemQuery) []cellRange {
	from, to := [2]float64{0}, [2]float64{1}
	if !q.From.IsZero() {
		from = inPeriods(q.From.UnixMicro())
	}
	if !q.To.IsZero() {
		to = inPeriods(q.To.UnixMicro())
	}
	return periodCurve.ranges(from, to)
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

// few reports whether steps read few Items.
func (s *itemSearch) few(ctx context.Context, steps []itemStep) (bool, error) {
	left := int64(fewItems)
	for _, step := range steps {
		if left -= int64(len(step.jobs)); len(step.ranges) > mostItemRanges || left <= 0 {
			return false, nil
		}
		for _, r := range step.ranges {
			if step.column == byJob {
				continue
			}
			var w where
			column := "items." + step.column
			w.and(column + " >= " + w.arg(r.first) + " AND " + column + " <= " + w.arg(r.last))
			if step.column != byTask { // whose index has no owners
				w.and("items.owner = " + w.arg(s.owner))
			}
			n, err := value[int64](ctx, s.q, `
				SELECT count(*)
				FROM (
					SELECT 1 FROM items
					WHERE items.period IS NOT NULL AND `+w.String()+`
					LIMIT CAST(`+w.arg(left)+` AS BIGINT)) AS counted`, w.args...)
			if left -= n; err != nil || left <= 0 {
				return false, err
			}
		}
	}
	return true, nil
}

// foundItem is a row of a page.
type foundItem struct {
	itemRow

	step string
}

// read returns the rows of the page, and at least one more if there is one.
func (s *itemSearch) read(ctx context.Context) (all []foundItem, err error) {
	for _, step := range s.steps {
		for _, r := range step.ranges {
			if r.last < s.key {
				continue
			}
			if all, err = s.readRange(ctx, step, r, all); err != nil || len(all) > s.query.Limit {
				return all, err
			}
		}
		s.key, s.job = math.MinInt64, math.MinInt64
	}
	return all, nil
}

// readRange adds the rows of a range to a page until that is full.
func (s *itemSearch) readRange(ctx context.Context, step itemStep, r cellRange, all []foundItem) ([]foundItem, error) {
	for {
		n := s.query.Limit + 1 - len(all)
		if s.query.Meets != nil { // most may not
			n = max(n, itemsAtOnce)
		}
		part := s.part(step, r)
		rows, err := s.readRows(ctx, step, part, n)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if s.query.Meets == nil || s.query.Meets(row.box()) {
				all = append(all, foundItem{row, step.name})
			}
		}
		switch {
		case len(all) > s.query.Limit:
			return all, nil
		case len(rows) == n:
			s.key, s.job = rows[n-1].key, int64(rows[n-1].Job)
		case part.last < r.last:
			r.first = part.last + 1
		default:
			return all, nil
		}
	}
}

// part returns what is read first of a range: after an Item the others of its number.
func (s *itemSearch) part(step itemStep, r cellRange) cellRange {
	if step.column != byJob && s.key >= r.first {
		return cellRange{s.key, s.key}
	}
	return r
}

func (s *itemSearch) readRows(ctx context.Context, step itemStep, r cellRange, n int) ([]itemRow, error) {
	var w where
	owner, column, order, after := "items.owner", "items."+step.column, "items.job", int64(math.MinInt64)
	if s.key >= r.first {
		after = s.job
	}
	switch {
	case step.column == byJob:
		owner = "items.owner || ''" // SQLite would read all of the owner
		w.and(isAny(s.q, &w, column, step.jobs) + " AND items.job > " + w.arg(after))
	case r.first == r.last:
		w.and(column + " = " + w.arg(r.first) + " AND items.job > " + w.arg(after))
	default:
		order = column + ", items.job"
		w.and(column + " >= " + w.arg(r.first) + " AND " + column + " <= " + w.arg(r.last))
	}
	w.and(owner + " = " + w.arg(s.owner) + " AND items.period IS NOT NULL")
	s.filter(&w)
	return list(ctx, s.q, func(r *itemRow) []any { return append(r.columns(), &r.key) }, `
		SELECT `+itemColumns+`, `+column+`
		FROM items
		WHERE `+w.String()+`
		ORDER BY `+order+`
		LIMIT CAST(`+w.arg(int64(n))+` AS BIGINT)`, w.args...)
}

// filter adds the conditions of the query, exactly.
func (s *itemSearch) filter(w *where) {
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
		// not EXISTS, for which PostgreSQL would read all that have the label
		w.and(fmt.Sprintf(`
			COALESCE((
				SELECT t.value FROM task_labels t
				WHERE t.task = items.task AND t.owner = %[1]s AND t.name = %[2]s), (
				SELECT l.value FROM job_labels l
				WHERE l.job = items.job AND l.owner = %[1]s AND l.name = %[2]s)) = %[3]s`, owner, name, label))
	}
}

// fitting returns how many of some rows make a page: n at most, with bodies of itemBytes together, but at least one.
func fitting(ctx context.Context, q tx, rows []foundItem, n int) (int, error) {
	rows = rows[:min(n, len(rows))]
	w := whereAny(q, "results.job", idsOfItems(rows))
	sizes := map[dispatch.JobID]int64{}
	err := eachRow(ctx, q, func(r *itemRow) []any { return []any{number(&r.Job), &r.key} }, func(r *itemRow) error {
		sizes[r.Job] = r.key
		return nil
	}, `
		SELECT results.job, octet_length(results.body)
		FROM results
		WHERE `+w.String(), w.args...)
	size := int64(0)
	for i, r := range rows {
		if size += sizes[r.Job]; size > itemBytes && i > 0 {
			return i, err
		}
	}
	return len(rows), err
}

func idsOfItems(rows []foundItem) []dispatch.JobID {
	ids := make([]dispatch.JobID, len(rows))
	for i, r := range rows {
		ids[i] = r.Job
	}
	return ids
}

// readTexts returns the Items of rows, which were read without what is in results.
func readTexts(ctx context.Context, q tx, rows []foundItem) ([]dispatch.Item, error) {
	w := whereAny(q, "results.job", idsOfItems(rows))
	texts := map[dispatch.JobID]itemRow{}
	err := eachRow(ctx, q, func(r *itemRow) []any {
		return []any{number(&r.Job), instant(&r.Until), &r.head, &r.body}
	}, func(r *itemRow) error {
		texts[r.Job] = *r
		return nil
	}, `
		SELECT results.job, results.until, results.head, results.body
		FROM results
		WHERE `+w.String(), w.args...)
	items := make([]dispatch.Item, len(rows))
	for i, r := range rows {
		t := texts[r.Job]
		r.head, r.body, r.Until = t.head, t.body, t.Until
		items[i] = r.item()
	}
	return items, err
}

const (
	itemBytes      = 8 << 20 // of the results in one page
	fewItems       = 2000
	itemsAtOnce    = 2000 // that are compared with a geometry
	mostItemRanges = 300  // that are read to find out whether they hold few Items
)
