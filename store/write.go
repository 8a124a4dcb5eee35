package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

func newDialect(parameter func(n int) string, locks bool) *dialect {
	d := &dialect{parameter: parameter, locks: locks, adds: map[*tally][]string{}}
	for _, t := range tallies {
		for keys := range keysAtOnce {
			d.adds[t] = append(d.adds[t], t.add(d, keys+1))
		}
	}
	for mask := range 2 << len(groups) {
		var sets []string
		for i, g := range groups {
			for _, c := range g {
				if mask&(1<<i) != 0 {
					sets = append(sets, c.name+" = "+parameter(len(sets)+1))
				}
			}
		}
		id := parameter(len(sets) + 1)
		if mask&numberedMask != 0 {
			sets = append(sets, "changed = "+presentNumber)
		}
		d.updates = append(d.updates, fmt.Sprintf("UPDATE jobs SET %s WHERE id = %s", strings.Join(sets, ", "), id))
	}
	return d
}

// updateOf returns the statement that replaces a stored job by its new state. If the owner sees the change, the owner
// has taken a number before.
func (d *dialect) updateOf(before, now *dispatch.Job) command {
	mask, args := 0, make([]any, 0, 64)
	for i, g := range groups {
		written, differs := len(args), i == 0
		for _, c := range g {
			value := c.value(now)
			args, differs = append(args, value), differs || value != c.value(before)
		}
		if !differs {
			args = args[:written]
			continue
		}
		mask |= 1 << i
	}
	if !now.LooksLike(*before) {
		mask |= numberedMask
	}
	return command{d.updates[mask], append(args, int64(now.ID))}
}

// change is a job as it was, and as it becomes.
type change struct{ before, now stored }

// apply writes changes of jobs that are locked, with all that follows from them.
func apply(ctx context.Context, q tx, changes []change) error {
	e := effects{numbers: q.numbers.drain()}
	var all []command
	for i := range changes {
		c := &changes[i] // it has two jobs, of a kilobyte each
		all = append(all, q.updateOf(&c.before.Job, &c.now.Job))
		all = append(all, itemChange(c.before.Job, c.now.Job)...)
		if c.now.Result != nil {
			all = append(all, command{`
				INSERT INTO results (job, body) VALUES ($1, $2) ON CONFLICT (job) DO UPDATE SET body = excluded.body, head = ''`,
				[]any{int64(c.now.ID), storableText(string(c.now.Result))}})
		}
		e.change(&c.before, &c.now)
	}
	follow, err := e.statements(ctx, q)
	if err != nil {
		return err
	}
	err = q.runAll(ctx, slices.Concat(e.numbers.take(q.now), all, e.numbers.ofTasks(), follow))
	if err != nil {
		return err
	}
	return e.notifyTasks(ctx, q)
}

// write writes outcomes and then intents, each of other jobs, and returns the jobs that it wrote, as they are now: not
// those that changed meanwhile, and no intents of those that their owner no longer wants, or that a change of their
// task under way stops. It gives those that wait their turns, and returns how many: only the visit that has the lease
// of an account intends anything, so nobody else gives away its slots meanwhile.
func write(ctx context.Context, q tx, outcomes, intents []dispatch.Job) (kept []dispatch.Job, turns int64, err error) {
	jobs := make([]*dispatch.Job, 0, len(outcomes)+len(intents))
	for _, part := range [][]dispatch.Job{outcomes, intents} {
		for i := range part {
			jobs = append(jobs, &part[i])
		}
	}
	changes := make([]change, 0, len(jobs))
	var found map[dispatch.JobID]*stored
	for n, j := range jobs {
		if n%idsAtOnce == 0 {
			all, err := lockLoaded(ctx, q, jobs[n:min(n+idsAtOnce, len(jobs))])
			if err != nil {
				return nil, 0, err
			}
			found = make(map[dispatch.JobID]*stored, len(all))
			for i := range all {
				found[all[i].ID] = &all[i]
			}
		}
		before, known := found[j.ID]
		wanted := n >= len(outcomes)
		if !known || before.Version != j.Version || wanted && (before.Desired != dispatch.WantRun ||
			before.Phase == dispatch.Waiting && before.stopped) {
			continue
		}
		changes = append(changes, change{*before, *before})
		c := &changes[len(changes)-1]
		c.now.Job = *j
		asStored(&c.now.Job)
		c.now.Version++
		c.now.takeOwned(&c.before.Job)
		if wanted && c.before.Phase == dispatch.Waiting {
			turns++
			c.now.served += turns
		}
	}
	kept = make([]dispatch.Job, len(changes))
	for i := range changes {
		kept[i] = changes[i].now.Job
		kept[i].Result = nil
	}
	return asLoaded(kept), turns, apply(ctx, q, changes)
}

// takeOwned gives a job what its owner, or a move to another account, may have changed without a new version.
func (s *stored) takeOwned(from *dispatch.Job) {
	s.Wish, s.Target = from.Wish, from.Target
}

// changeJobs changes the jobs that w selects by a rule, which reports whether it changes a job, and returns those that
// it changed.
func changeJobs(ctx context.Context, q tx, w where, rule func(stored) (dispatch.Job, bool)) (changed []dispatch.Job,
	err error) {
	found, err := lockJobs(ctx, q, w)
	if err != nil {
		return nil, err
	}
	var changes []change
	for _, before := range found {
		j, differs := rule(before)
		if !differs {
			continue
		}
		now := before
		now.Job = j
		asStored(&now.Job)
		changes, changed = append(changes, change{before, now}), append(changed, now.Job)
	}
	return changed, apply(ctx, q, changes)
}

// lockJobs returns the jobs that w selects, by id, and keeps others from changing them until the end of the
// transaction.
func lockJobs(ctx context.Context, q tx, w where) ([]stored, error) {
	condition := w.String()
	if w.most > 0 {
		condition = "jobs.id IN (SELECT jobs.id FROM jobs WHERE " + condition + " LIMIT CAST(" + w.arg(int64(w.most)) +
			" AS BIGINT))"
	}
	return list(ctx, q, func(s *stored) []any { return append(whole(&s.Job), s.beside()...) }, `SELECT `+jobColumns+besideColumns+` FROM jobs WHERE `+condition+` ORDER BY jobs.id`+q.lock("jobs"), w.args...)
}

// besideColumns are the columns of stored besides the job. stored.beside has their order.
const besideColumns = `, jobs.bytes, jobs.changed,
		EXISTS (SELECT 1 FROM task_changes s WHERE s.task = jobs.task AND s.stops),
		EXISTS (SELECT 1 FROM hooks h WHERE h.owner = jobs.owner),
		COALESCE((SELECT a.served FROM accounts a WHERE a.id = jobs.account), 0)`

// beside returns where besideColumns are scanned to.
func (s *stored) beside() []any {
	return []any{&s.bytes, &s.changed, &s.stopped, &s.watched, &s.served}
}

// lockLoaded is lockJobs for jobs of a visit. If all are loaded, it reads only what may have changed without a new
// version; the rest of a job whose version has changed is not that of the database.
func lockLoaded(ctx context.Context, q tx, jobs []*dispatch.Job) ([]stored, error) {
	ids, loaded := make([]int64, len(jobs)), map[dispatch.JobID]*dispatch.Job{}
	for i, j := range jobs {
		ids[i] = int64(j.ID)
		if j.Loaded != nil && j.Loaded.ID == j.ID && j.Loaded.Version == j.Version {
			loaded[j.ID] = j.Loaded
		}
	}
	var w where
	anyOf(q, &w, "jobs.id", ids)
	if len(loaded) < len(jobs) {
		return lockJobs(ctx, q, w)
	}
	found := make([]stored, 0, len(jobs))
	err := eachRow(ctx, q, func(s *stored) []any {
		return append([]any{number(&s.ID), number(&s.Version)}, append(places(owned, &s.Job), s.beside()...)...)
	}, func(s *stored) error {
		found = append(found, *s)
		read := &found[len(found)-1]
		read.Job = *loaded[s.ID]
		read.Version = s.Version
		read.takeOwned(&s.Job)
		return nil
	}, `SELECT jobs.id, jobs.version, `+columnNames(owned)+besideColumns+`
		FROM jobs WHERE `+w.String()+` ORDER BY jobs.id`+q.lock("jobs"), w.args...)
	return found, err
}

// deleteJobs deletes the jobs that w selects, and returns their ids.
func deleteJobs(ctx context.Context, q tx, w where) (ids []dispatch.JobID, err error) {
	found, err := lockJobs(ctx, q, w)
	if err != nil {
		return nil, err
	}
	var e effects
	var all []command
	for i := range found {
		ids = append(ids, found[i].ID)
		all = append(all, command{`DELETE FROM jobs WHERE id = $1`, []any{int64(found[i].ID)}})
		e.change(&found[i], &stored{})
	}
	floors := e.forgetNumbers(found)
	follow, err := e.statements(ctx, q)
	if err != nil {
		return nil, err
	}
	return ids, q.runAll(ctx, slices.Concat(e.numbers.take(q.now), all, e.numbers.ofTasks(), floors, follow))
}

// asStored makes j what the database will return.
func asStored(j *dispatch.Job) {
	for _, c := range allColumns {
		if c.round != nil {
			c.round(j)
		}
	}
}
