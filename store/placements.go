package store

import (
	"context"
	"errors"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// noMoves is tasks.moves of a task whose jobs cannot be moved.
const noMoves = 0

// insertPlacements stores the placements of the task that its jobs may run at.
func (a *acceptance) insertPlacements(ctx context.Context, q tx) error {
	for i, h := range a.task.Request.Placements {
		if h.Unused != "" {
			continue
		}
		service, document := "", ""
		// that of the task's own account is stored with its document
		if h.Document != "" && h.Account != a.task.Account {
			var err error
			if service, err = encode(h.Service); err != nil {
				return err
			}
			document = h.Document
		}
		_, err := q.ExecContext(ctx, `
			INSERT INTO task_placements (task, account, number, platform, base, hash, service, document)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			a.id, h.Account, i, h.Account.Platform(), h.Base, h.Hash, service, document)
		if err != nil {
			return err
		}
	}
	return nil
}

// wakeTask wakes the account of a task, or the accounts of all its placements. The jobs of a task with several
// placements are spread again from now on.
func wakeTask(ctx context.Context, q querier, t lockedTask, now int64) error {
	if !t.spread {
		return wake(ctx, q, t.account, now)
	}
	if _, err := setMoves(ctx, q, t.id, t.moves, max(now, t.moves+1)); err != nil {
		return err
	}
	accounts, err := list(ctx, q, single[dispatch.Account],
		"SELECT account FROM task_placements WHERE task = CAST($1 AS BIGINT) ORDER BY account", t.id)
	slices.Sort(accounts) // in one order, so that two processes do not deadlock
	for _, a := range accounts {
		err = errors.Join(err, wake(ctx, q, a, now))
	}
	return err
}

// setMoves replaces tasks.moves if it still has the value that was read, and reports whether it did. It also locks the
// task.
func setMoves(ctx context.Context, q querier, id dispatch.TaskID, seen, moves int64) (bool, error) {
	n, err := exec(ctx, q, `
		UPDATE tasks
		SET moves = $3
		WHERE id = $1 AND moves = CAST($2 AS BIGINT)`,
		id, seen, moves)
	return n > 0, err
}

// SpreadTasks returns the tasks with several placements that have jobs which have not ended.
func (s *Store) SpreadTasks(ctx context.Context) (tasks []dispatch.SpreadTask, err error) {
	var ended []dispatch.SpreadTask
	err = s.readOnly(ctx, s.agendas, "SpreadTasks", func(q tx, now int64) error {
		tasks, ended = nil, nil
		placements, err := listSpread(ctx, q, now)
		for _, h := range placements {
			if !h.live {
				ended = append(ended, h.task)
				continue
			}
			if n := len(tasks); n == 0 || tasks[n-1].ID != h.task.ID {
				tasks = append(tasks, h.task)
			}
			t := &tasks[len(tasks)-1]
			t.Placements = append(t.Placements, h.load)
		}
		return err
	})
	for _, t := range ended {
		if err == nil {
			_, err = setMoves(ctx, s.on(s.write), t.ID, t.Seen, noMoves)
			err = fail("SpreadTasks", err)
		}
	}
	return tasks, err
}

// spreadPlacement is a placement of a task that spreads its jobs.
type spreadPlacement struct {
	task dispatch.SpreadTask // without Placements
	load dispatch.PlacementLoad
	live bool // jobs of the task have not ended

	hold                    // of the account
	operator           bool // an operator holds it
	restored, failures int64
}

func (h *spreadPlacement) columns() []any {
	return []any{number(&h.task.ID), text(&h.task.Owner), number(&h.task.Seen), text(&h.load.Account), &h.load.Base,
		number(&h.load.Hash), number(&h.until), text(&h.why), number(&h.restored), &h.operator, number(&h.load.Held),
		number(&h.load.Waiting), number(&h.load.Retrying), number(&h.failures), &h.live}
}

// listSpread returns the placements of tasks that spread their jobs and whose jobs had not all ended when that was last
// looked at. failures are those since the service last finished a job of the owner there; three are enough to know.
func listSpread(ctx context.Context, q querier, now int64) ([]spreadPlacement, error) {
	return listAs(ctx, q, (*spreadPlacement).columns, func(h *spreadPlacement) (spreadPlacement, error) {
		h.load.Failing, h.load.Why = h.failures >= dispatch.FailuresInRow, dispatch.None
		switch {
		case h.operator:
			h.load.Why = dispatch.HeldByOperator
		case h.until > now:
			h.load.Why = h.why
		case h.restored != 0:
			h.load.Why = dispatch.Unreachable
		}
		return *h, nil
	}, `
		SELECT tasks.id, tasks.owner, tasks.moves, h.account, h.base, h.hash,
			COALESCE(a.hold, 0), COALESCE(a.hold_attention, ''), COALESCE(a.restored, 0),
			EXISTS (SELECT 1 FROM operator_holds o WHERE o.scope = h.account OR o.scope = h.platform),
			COALESCE((SELECT c.held FROM account_counts c WHERE c.account = h.account), 0),
			COALESCE((
				SELECT l.waiting FROM queue_counts l
				WHERE l.account = h.account AND l.owner = tasks.owner AND l.task = tasks.id), 0),
			(SELECT count(*) FROM jobs j
				WHERE j.task = tasks.id AND j.task <> 0 AND j.attention = 'retrying' AND j.attention <> '' AND NOT j.hidden
					AND j.account = h.account AND j.phase = 'waiting' AND j.desired = 'run' AND NOT j.paused AND j.begun = 0
					AND j.orphans = '' AND j.meter_due = 0),
			(SELECT count(*) FROM (
				SELECT 1 FROM jobs f
				WHERE f.task = tasks.id AND f.task <> 0 AND f.status = 'failed' AND NOT f.hidden AND f.account = h.account
					AND f.moved > COALESCE((
						SELECT g.moved FROM jobs g
						WHERE g.owner = tasks.owner AND g.account = h.account AND g.service = h.hash
							AND g.status = 'finished'
						ORDER BY g.moved DESC LIMIT 1), 0)
				LIMIT 3) AS few),
			EXISTS (SELECT 1 FROM jobs k WHERE k.owner = tasks.owner AND k.task = tasks.id AND k.phase <> 'ended')
		FROM tasks
			JOIN task_placements h ON h.task = tasks.id
			LEFT JOIN accounts a ON a.id = h.account
		WHERE tasks.moves > 0
		ORDER BY tasks.id, h.number`)
}

// pauseSpread pauses the tasks with several placements: a job that waits at one may have been moved to another since,
// and run there.
func pauseSpread(ctx context.Context, q tx, now int64) error {
	ids, err := list(ctx, q, single[dispatch.TaskID], `
		SELECT id
		FROM tasks
		WHERE moves > 0 AND NOT paused
		ORDER BY id`)
	for _, id := range ids {
		_, failed := pauseTask(ctx, q, id, dispatch.None, now)
		err = errors.Join(err, failed)
	}
	return err
}

// errNothingMoved undoes a move that moved nothing.
var errNothingMoved = errors.New("nothing was moved")

// MoveJobs moves jobs that wait to another account. Those who move jobs of a task do so one after the other.
func (s *Store) MoveJobs(
	ctx context.Context, m dispatch.JobMove, within ...dispatch.Quota,
) (n int, seen int64, err error) {
	ctx = allow(ctx, listWithin)
	owner, err := value[dispatch.UserID](ctx, s.on(s.agendas), `
		SELECT owner
		FROM tasks
		WHERE id = $1`, m.Task)
	if err != nil {
		return 0, m.Seen, fail("MoveJobs", err)
	}
	end, err := s.lockCount(ctx, "MoveJobs", owner, within)
	if err != nil {
		return 0, m.Seen, err
	}
	defer end()
	err = s.in(ctx, s.write, "MoveJobs", func(q tx, now int64) error {
		n, seen = 0, max(now, m.Seen+1)
		if unchanged, err := setMoves(ctx, q, m.Task, m.Seen, seen); err != nil {
			return err
		} else if !unchanged {
			return errNothingMoved
		}
		if err := s.admit(ctx, q, owner, m.N, 0, within, now); err != nil {
			return err
		}
		moved, err := moveToPlacement(ctx, q, m, owner, now)
		if err != nil {
			return err
		}
		if n = len(moved); n == 0 {
			return errNothingMoved
		}
		return wake(ctx, q, m.To.Account, now)
	})
	if errors.Is(err, errNothingMoved) {
		return 0, m.Seen, nil
	}
	if err != nil {
		return 0, m.Seen, err
	}
	return n, seen, nil
}

// moveToPlacement moves jobs of a queue that wait. Nothing of them can be at a platform, and nothing is still to be
// read at their present one, see [dispatch.Job.MovedTo].
func moveToPlacement(ctx context.Context, q tx, m dispatch.JobMove, owner dispatch.UserID, now int64) ([]dispatch.Job,
	error) {
	var w where
	account := w.arg(string(m.From.Account))
	w.and(`jobs.id IN (
		SELECT j.id FROM jobs j
		WHERE j.account = ` + account + ` AND j.owner = ` + w.arg(string(owner)) + `
			AND j.task = CAST(` + w.arg(int64(m.Task)) + ` AS BIGINT)
			AND j.phase = 'waiting' AND NOT j.paused AND j.desired = 'run' AND NOT j.hidden
			AND j.begun = 0 AND j.orphans = '' AND j.meter_due = 0
			AND (j.attention = 'retrying') = CAST(` + w.arg(m.Retrying) + ` AS BOOLEAN)
		ORDER BY j.due, j.id LIMIT CAST(` + w.arg(int64(m.N)) + ` AS BIGINT) OFFSET CAST(` + w.arg(int64(m.Skip)) +
		` AS BIGINT))`)
	w.and("NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = CAST(" + account + " AS TEXT) AND a.restored <> 0)")
	return changeJobs(ctx, q, w, func(j stored) (dispatch.Job, bool) {
		if j.Account != m.From.Account { // moved meanwhile
			return j.Job, false
		}
		next, moves := j.MovedTo(m.To, at(now))
		next.Version++
		return next, moves
	})
}
