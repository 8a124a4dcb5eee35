package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// itemChange returns what a change of a job does to its Item: there is one of each finished job that its owner sees.
func itemChange(before, now dispatch.Job) []command {
	existed := before.Status == dispatch.Finished && !before.Hidden
	exists := now.Status == dispatch.Finished && !now.Hidden
	switch {
	case exists && (!existed || now.Result != nil):
		return []command{{`
			INSERT INTO items (job, owner, task, account, platform, service, given, due)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (job) DO UPDATE SET given = excluded.given, due = excluded.due, tries = 0, place = NULL, period = NULL`,
			[]any{int64(now.ID), string(now.Owner), int64(now.Task), string(now.Account), now.Account.Platform(),
				int64(now.Service), now.Result != nil, micros(now.Moved)}}}
	case existed && !exists:
		return []command{{"DELETE FROM items WHERE job = $1", []any{int64(now.ID)}}}
	case exists && before.Removal.Removed.IsZero() && !now.Removal.Removed.IsZero():
		return []command{{"DELETE FROM items WHERE job = $1 AND NOT given", []any{int64(now.ID)}}}
	}
	return nil
}

// DuePlatforms returns the platforms with Items whose results are to be read. It hops from platform to platform in the
// index: the cost depends on their number, not on that of Items.
func (s *Store) DuePlatforms(ctx context.Context) (platforms []string, err error) {
	err = s.readOnly(ctx, s.read, "DuePlatforms", func(q tx, now int64) error {
		platforms, err = list(ctx, q, single[string], `
			WITH RECURSIVE reading (platform) AS (
				SELECT CAST('' AS TEXT)
				UNION ALL
				SELECT (SELECT n.platform FROM items n WHERE n.due > 0 AND n.platform > reading.platform
					ORDER BY n.platform LIMIT 1)
				FROM reading
				WHERE reading.platform IS NOT NULL)
			SELECT reading.platform
			FROM reading
			WHERE (SELECT i.due FROM items i WHERE i.platform = reading.platform AND i.due > 0 ORDER BY i.due LIMIT 1) <= $1`,
			now)
		return err
	})
	return platforms, err
}

// DueItems returns Items at a platform whose results are to be read, n at most, and plans the next try of each.
func (s *Store) DueItems(ctx context.Context, platform string, n int) (due []dispatch.DueItem, err error) {
	err = s.in(ctx, s.write, "DueItems", func(q tx, now int64) error {
		due, err = list(ctx, q, func(d *dispatch.DueItem) []any {
			return []any{number(&d.Job), text(&d.Owner), number(&d.Tries)}
		}, `
			SELECT i.job, i.owner, i.tries + 1
			FROM items i
			WHERE i.platform = $1 AND i.due > 0 AND i.due <= $2
			ORDER BY i.due
			LIMIT CAST($3 AS BIGINT)`+q.skipLocked(), platform, now, n)
		if err != nil {
			return err
		}
		plans := make([]command, len(due))
		for i, d := range due {
			next := int64(0)
			if pause := d.Pause(); pause > 0 {
				next = now + pause.Microseconds()
			}
			plans[i] = command{"UPDATE items SET due = $1, tries = $2 WHERE job = $3",
				[]any{next, int64(d.Tries), int64(d.Job)}}
		}
		return q.runAll(ctx, plans)
	})
	return due, err
}

// KeepItem keeps what was read of the results of a finished job that its owner sees, in place of what was kept before.
// What a platform returned in its response to the submission stays.
func (s *Store) KeepItem(ctx context.Context, i dispatch.Item) error {
	return s.in(ctx, s.write, "KeepItem", func(q tx, _ int64) error {
		begins, ends := micros(i.First), micros(i.Last)
		box := make([]any, 4)
		for n, v := range i.Box {
			box[n] = v
		}
		n, err := exec(ctx, q, `
			INSERT INTO items (job, owner, task, account, platform, service, due, place, period, west, south, east, north,
				begins, ends)
			SELECT j.id, j.owner, j.task, j.account, $2, j.service, 0, $3, $4, $5, $6, $7, $8, $9, $10
			FROM jobs j
			WHERE j.id = $1 AND j.status = 'finished' AND NOT j.hidden
			ON CONFLICT (job) DO UPDATE SET due = 0, place = excluded.place, period = excluded.period, west = excluded.west,
				south = excluded.south, east = excluded.east, north = excluded.north, begins = excluded.begins,
				ends = excluded.ends`,
			i.Job, i.Account.Platform(), placeOf(i.Box), periodOf(begins, ends), box[0], box[1], box[2], box[3], begins,
			ends)
		if err != nil || n == 0 {
			return err
		}
		return run(ctx, q, `
			INSERT INTO results (job, body, head, until)
			VALUES ($1, $2, $3, $4)
			ON CONFLICT (job) DO UPDATE SET head = excluded.head, until = excluded.until,
				body = CASE WHEN EXISTS (SELECT 1 FROM items WHERE items.job = results.job AND items.given)
					THEN results.body ELSE excluded.body END`,
			i.Job, storableText(string(i.Body)), storableText(string(i.Head)), micros(i.Until))
	})
}

// DropItem forgets what was read of the results of a job, which its platform no longer has.
func (s *Store) DropItem(ctx context.Context, id dispatch.JobID) error {
	return s.in(ctx, s.write, "DropItem", func(q tx, _ int64) error {
		n, err := exec(ctx, q, "DELETE FROM items WHERE job = $1 AND NOT given", id)
		if err != nil || n == 0 {
			return err
		}
		return run(ctx, q, "DELETE FROM results WHERE job = $1", id)
	})
}

// itemRow is a row of an Item.
type itemRow struct {
	dispatch.Item

	head, body               string
	begins, ends             sql.NullInt64
	west, south, east, north sql.NullFloat64
	key, size                int64
}

const itemColumns = `items.job, items.task, items.account, items.given, items.period IS NOT NULL, items.west, items.south,
			items.east, items.north, items.begins, items.ends, results.head, results.body, results.until`

// withoutBody are itemColumns, with an empty body.
var withoutBody = strings.Replace(itemColumns, "results.body", "''", 1)

func (r *itemRow) columns() []any {
	return []any{number(&r.Job), number(&r.Task), text(&r.Account), &r.Given, &r.Read, &r.west, &r.south, &r.east,
		&r.north, &r.begins, &r.ends, &r.head, &r.body, instant(&r.Until)}
}

func (r *itemRow) item() dispatch.Item {
	i := r.Item
	i.Head, i.Body, i.Box = nil, nil, nil
	if r.head != "" {
		i.Head = json.RawMessage(r.head)
	}
	if r.body != "" {
		i.Body = json.RawMessage(r.body)
	}
	if r.west.Valid {
		i.Box = []float64{r.west.Float64, r.south.Float64, r.east.Float64, r.north.Float64}
	}
	i.First, i.Last = at(r.begins.Int64), at(r.ends.Int64)
	return i
}

// Items returns the Items of jobs of an owner as far as they are kept, with or without Body.
func (s *Store) Items(
	ctx context.Context, u dispatch.UserID, jobs []dispatch.JobID, bodies bool,
) (map[dispatch.JobID]dispatch.Item, error) {
	q := s.on(s.read)
	w := whereAny(q, "items.job", jobs)
	w.and("items.owner = " + w.arg(u))
	columns := itemColumns
	if !bodies {
		columns = withoutBody
	}
	all, err := listAs(ctx, q, (*itemRow).columns, func(r *itemRow) (dispatch.Item, error) { return r.item(), nil }, `
		SELECT `+columns+`
		FROM items
			JOIN results ON results.job = items.job
		WHERE `+w.String(), w.args...)
	items := map[dispatch.JobID]dispatch.Item{}
	for _, i := range all {
		items[i.Job] = i
	}
	return items, fail("Items", err)
}

// ItemExtents returns what the Items of tasks cover, as far as it is known.
func (s *Store) ItemExtents(
	ctx context.Context, u dispatch.UserID, tasks []dispatch.TaskID,
) (map[dispatch.TaskID]dispatch.ItemExtent, error) {
	q := s.on(s.read)
	w := whereAny(q, "items.task", tasks)
	w.and("items.owner = " + w.arg(u) + " AND items.period IS NOT NULL")
	// one that crosses the antimeridian is as wide as the Earth
	all, err := list(ctx, q, func(r *itemRow) []any {
		return []any{number(&r.Task), &r.west, &r.south, &r.east, &r.north, &r.begins, &r.ends}
	}, `
		SELECT items.task, min(CASE WHEN items.west > items.east THEN -180 ELSE items.west END), min(items.south),
			max(CASE WHEN items.west > items.east THEN 180 ELSE items.east END), max(items.north),
			min(CASE WHEN items.begins <> 0 THEN items.begins END), max(CASE WHEN items.begins <> 0 THEN items.ends END)
		FROM items
		WHERE `+w.String()+`
		GROUP BY items.task`, w.args...)
	extents := map[dispatch.TaskID]dispatch.ItemExtent{}
	for _, r := range all {
		i := r.item()
		extents[r.Task] = dispatch.ItemExtent{Box: i.Box, First: i.First, Last: i.Last}
	}
	return extents, fail("ItemExtents", err)
}

// ItemServices returns a job with an Item of each service, of as many services as mostItemServices.
func (s *Store) ItemServices(
	ctx context.Context, u dispatch.UserID,
) (jobs map[dispatch.ServiceHash]dispatch.JobID, err error) {
	type one struct {
		service dispatch.ServiceHash
		job     dispatch.JobID
	}
	jobs = map[dispatch.ServiceHash]dispatch.JobID{}
	// The first service has no lower bound that a parameter could say in both databases.
	after, compare := int64(-1<<63), ">="
	for len(jobs) < mostItemServices {
		next, err := list(ctx, s.on(s.read), func(o *one) []any { return []any{number(&o.service), number(&o.job)} },
			fmt.Sprintf(`
			SELECT items.service, items.job
			FROM items
			WHERE items.owner = $1 AND items.service %s $2 AND items.period IS NOT NULL
			ORDER BY items.service, items.job LIMIT 1`, compare), u, after)
		if err != nil || len(next) == 0 {
			return jobs, fail("ItemServices", err)
		}
		jobs[next[0].service] = next[0].job
		after, compare = int64(next[0].service), ">"
	}
	return jobs, nil
}

const mostItemServices = 200

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
