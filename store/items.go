package store

import (
	"context"
	"database/sql"
	"encoding/json"

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
			ON CONFLICT (job) DO UPDATE SET given = excluded.given, due = excluded.due, tries = 0, begins = NULL`,
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
func (s *Store) DuePlatforms(ctx context.Context) ([]string, error) {
	return result(ctx, s.readOnly, s.read, "DuePlatforms", func(q tx, now int64) ([]string, error) {
		return list(ctx, q, single[string], `
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
	})
}

// DueItems returns Items at a platform whose results are to be read, n at most, and plans the next try of each.
func (s *Store) DueItems(ctx context.Context, platform string, n int) ([]dispatch.DueItem, error) {
	return result(ctx, s.in, s.write, "DueItems", func(q tx, now int64) ([]dispatch.DueItem, error) {
		due, err := list(ctx, q, func(d *dispatch.DueItem) []any {
			return []any{number(&d.Job), text(&d.Owner), number(&d.Tries)}
		}, `
			SELECT i.job, i.owner, i.tries + 1
			FROM items i
			WHERE i.platform = $1 AND i.due > 0 AND i.due <= $2
			ORDER BY i.due
			LIMIT CAST($3 AS BIGINT)`+q.skipLocked(), platform, now, n)
		if err != nil {
			return nil, err
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
		return due, q.runAll(ctx, plans)
	})
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
			WHERE j.id = $1 AND j.status = 'finished' AND NOT j.hidden`+q.lock("j")+`
			ON CONFLICT (job) DO UPDATE SET due = 0, place = excluded.place, period = excluded.period,
				west = excluded.west, south = excluded.south, east = excluded.east, north = excluded.north,
				begins = excluded.begins, ends = excluded.ends`,
			i.Job, i.Account.Platform(), placeOf(i.Box), cellOf(inTime(begins), inTime(ends)), box[0], box[1], box[2],
			box[3], begins, ends)
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
}

// itemColumns are the columns of an Item without its body, of which results are joined.
const itemColumns = `items.job, items.task, items.account, items.given, items.begins IS NOT NULL,
			items.west, items.south, items.east, items.north, items.begins, items.ends, results.until, results.head`

// columns returns where itemColumns and a body are scanned to.
func (r *itemRow) columns() []any {
	return []any{number(&r.Job), number(&r.Task), text(&r.Account), &r.Given, &r.Read, &r.west, &r.south, &r.east,
		&r.north, &r.begins, &r.ends, instant(&r.Until), &r.head, &r.body}
}

func (r *itemRow) item() dispatch.Item {
	i := r.Item
	i.Head, i.Body, i.Box = nil, nil, r.box()
	if r.head != "" {
		i.Head = json.RawMessage(r.head)
	}
	if r.body != "" {
		i.Body = json.RawMessage(r.body)
	}
	i.First, i.Last = at(r.begins.Int64), at(r.ends.Int64)
	return i
}

func (r *itemRow) box() []float64 {
	if !r.west.Valid {
		return nil
	}
	return []float64{r.west.Float64, r.south.Float64, r.east.Float64, r.north.Float64}
}

// Items returns the Items of jobs of an owner as far as they are kept, with or without Body.
func (s *Store) Items(
	ctx context.Context, u dispatch.UserID, jobs []dispatch.JobID, bodies bool,
) (map[dispatch.JobID]dispatch.Item, error) {
	q := s.on(s.read)
	w := whereAny(q, "items.job", jobs)
	w.and("items.owner = " + w.arg(u))
	body := "results.body"
	if !bodies {
		body = "''"
	}
	all, err := listAs(ctx, q, (*itemRow).columns, func(r *itemRow) (dispatch.Item, error) { return r.item(), nil }, `
		SELECT `+itemColumns+`, `+body+`
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
	w.and("items.begins IS NOT NULL")
	// one that crosses the antimeridian is as wide as the Earth
	all, err := list(ctx, q, func(r *itemRow) []any {
		return []any{number(&r.Task), &r.west, &r.south, &r.east, &r.north, &r.begins, &r.ends}
	}, `
		SELECT items.task, min(CASE WHEN items.west > items.east THEN -180 ELSE items.west END), min(items.south),
			max(CASE WHEN items.west > items.east THEN 180 ELSE items.east END), max(items.north),
			min(CASE WHEN items.begins <> 0 THEN items.begins END), max(CASE WHEN items.begins <> 0 THEN items.ends END)
		FROM items
		WHERE `+w.String()+`
		GROUP BY items.task
		HAVING min(items.owner) = `+w.arg(u), w.args...)
	extents := map[dispatch.TaskID]dispatch.ItemExtent{}
	for _, r := range all {
		i := r.item()
		extents[r.Task] = dispatch.ItemExtent{Box: i.Box, First: i.First, Last: i.Last}
	}
	return extents, fail("ItemExtents", err)
}

// mostItemServices is of how many services ItemServices returns jobs.
const mostItemServices = 200

// ItemServices returns a job with an Item of each service. It hops from service to service in the index: the cost
// depends on their number, not on that of Items.
func (s *Store) ItemServices(ctx context.Context, u dispatch.UserID) (map[dispatch.ServiceHash]dispatch.JobID, error) {
	jobs := map[dispatch.ServiceHash]dispatch.JobID{}
	err := eachRow(ctx, s.on(s.read), func(j *dispatch.Job) []any {
		return []any{number(&j.Service), number(&j.ID)}
	}, func(j *dispatch.Job) error {
		jobs[j.Service] = j.ID
		return nil
	}, `
		WITH RECURSIVE first (job) AS (
			SELECT (SELECT a.job FROM items a WHERE a.owner = $1 AND a.begins IS NOT NULL
				ORDER BY a.service, a.job LIMIT 1)
			UNION ALL
			SELECT (SELECT n.job FROM items n WHERE n.owner = $1 AND n.begins IS NOT NULL
					AND n.service > (SELECT i.service FROM items i WHERE i.job = first.job)
				ORDER BY n.service, n.job LIMIT 1)
			FROM first
			WHERE first.job IS NOT NULL)
		SELECT items.service, items.job
		FROM items
		WHERE items.job IN (SELECT first.job FROM first LIMIT CAST($2 AS BIGINT))`, u, mostItemServices)
	return jobs, fail("ItemServices", err)
}
