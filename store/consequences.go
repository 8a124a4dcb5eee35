package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// A tally is a table of sums over the jobs that have a key in common. What belongs to no key of a table is in none of
// its rows, and a sum that has become 0 may stay.
type tally struct {
	table  string
	keys   []string
	sums   []string // of whole numbers
	costs  bool     // it has a sum of costs, too
	serves bool     // it has the last turn, which replaces the one before
}

// The tallies, in the order in which a transaction writes them.
var (
	taskTally  = &tally{"task_counts", []string{"task", "status"}, []string{"jobs", "progress"}, false, false}
	taskCosts  = &tally{"task_costs", []string{"task", "unit"}, []string{"runs"}, true, false}
	labelCosts = &tally{"label_costs", []string{"owner", "name", "month", "account", "unit", "value"}, []string{"runs"},
		true, false}
	ledger      = &tally{"ledger", []string{"owner", "account", "month", "unit"}, []string{"runs"}, true, false}
	periodTally = &tally{"period_counts", []string{"owner", "account", "period"}, []string{"jobs"}, false, false}
	ownerTally  = &tally{"owner_counts", []string{"owner", "account"}, []string{"waiting", "held", "bytes", "jobs",
		"priced"}, true, true}
	queueTally = &tally{"queue_counts", []string{"account", "owner", "task"}, []string{"waiting", "held"}, false,
		true}
	accountTally = &tally{"account_counts", []string{"account"}, []string{"waiting", "held", "started"}, false, false}

	tallies = []*tally{taskTally, taskCosts, labelCosts, ledger, periodTally, ownerTally, queueTally, accountTally}
)

// keysAtOnce is to the sums of how many keys of a tally one statement adds at most. Most changes of a job concern one
// or two: its status before and its status now.
const keysAtOnce = 4

// add returns the statement that adds to the sums of some keys.
func (t *tally) add(d *dialect, keys int) string {
	columns, sums := slices.Concat(t.keys, t.sums), t.sums
	if t.costs {
		columns, sums = append(columns, "costs"), append(slices.Clone(sums), "costs")
	}
	sets := make([]string, len(sums))
	for i, sum := range sums {
		sets[i] = fmt.Sprintf("%s = %s.%[1]s + excluded.%[1]s", sum, t.table)
	}
	if t.serves {
		columns = append(columns, "served")
		sets = append(sets, "served = CASE WHEN excluded.served > 0 THEN excluded.served ELSE "+t.table+".served END")
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES %s ON CONFLICT (%s) DO UPDATE SET %s", t.table,
		strings.Join(columns, ", "), d.values(len(columns), keys), strings.Join(t.keys, ", "), strings.Join(sets, ", "))
}

// key holds the values of the keys of a tally, as the database takes them.
type key [6]any

// compare compares two keys of one tally.
func (k key) compare(l key) int {
	for i := range k {
		var c int
		switch v := k[i].(type) {
		case string:
			c = cmp.Compare(v, l[i].(string))
		case int64:
			c = cmp.Compare(v, l[i].(int64))
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// sum holds what is added to the sums of a key.
type sum struct {
	n      [5]int64
	costs  float64
	served int64 // the last turn; 0: there was none
}

// stored is a job as it is stored: with what counts and notifications need beyond what dispatch knows of it.
type stored struct {
	dispatch.Job
	bytes   int64 // of its request
	stopped bool  // a change of its task under way keeps it from being submitted
	watched bool  // its owner has hooks
	changed int64 // number of the last change that its owner saw
	served  int64 // slots that its account has given away, up to that of the job if it was given one
}

// exists reports whether there is such a job.
func (s *stored) exists() bool { return s.ID != 0 }

// effects are what follows from changes of jobs in one transaction: counts, the ledger, and what hooks are notified of.
type effects struct {
	numbers numbers
	sums    map[tallied]sum
	booked  []charge
	events  []event
	tasks   map[dispatch.TaskID]*taskEnds // see notifyTasks
}

// tallied is a key of a tally.
type tallied struct {
	by *tally
	key
}

func (e *effects) add(t *tally, k key, s sum) {
	all := e.sums[tallied{t, k}]
	for i, n := range s.n {
		all.n[i] += n
	}
	all.costs += s.costs
	all.served = max(all.served, s.served)
	dispatch.SetInMap(&e.sums, tallied{t, k}, all)
}

// change notes that a job has become another. One that does not exist was inserted, or is deleted.
func (e *effects) change(before, now *stored) {
	e.count(before, -1)
	e.count(now, 1)
	if before.exists() && now.exists() && before.Account == now.Account {
		e.book(before, now)
	}
	if now.served > before.served {
		e.add(queueTally, key{string(now.Account), string(now.Owner), int64(now.Task)}, sum{served: now.served})
		e.add(ownerTally, key{string(now.Owner), string(now.Account)}, sum{served: now.served})
	}
	e.events = append(e.events, eventsOf(before, now)...)
	if !before.exists() || !now.exists() {
		return
	}
	if !now.LooksLike(before.Job) {
		e.numbers.owner(now.Owner)
	}
	if now.Task != 0 && !now.TaskLooksLike(before.Job) {
		e.numbers.task(now.Task, now.Owner, false)
	}
}

// count adds a job to the counts, or removes it. Paused jobs count among those of their owner that wait, which limit
// how many an owner may have, and not among those of their queue and account. [CheckCounts] implements the same rule in
// SQL.
func (e *effects) count(j *stored, sign int64) {
	if !j.exists() {
		return
	}
	one := func(counts bool) int64 {
		if counts {
			return sign
		}
		return 0
	}
	waits, held := one(j.Phase == dispatch.Waiting && !j.Paused), one(j.Phase.HoldsSlot())
	account, owner := string(j.Account), string(j.Owner)
	e.add(accountTally, key{account}, sum{n: [5]int64{waits, held, one(j.Phase == dispatch.Started)}})
	e.add(queueTally, key{account, owner, int64(j.Task)}, sum{n: [5]int64{waits, held}})
	bytes := j.bytes
	if j.Phase == dispatch.Ended {
		bytes = 0
	}
	priced := j.Costs != nil && *j.Costs >= 0 && *j.Costs <= dispatch.HighestCosts
	e.add(ownerTally, key{owner, account}, sum{costs: float64(sign) * dispatch.Bookable(j.Costs),
		n: [5]int64{one(j.Phase == dispatch.Waiting), held, sign * bytes, sign, one(priced)}})
	e.add(periodTally, key{owner, account, micros(j.Created) / period}, sum{n: [5]int64{sign}})
	if j.Task == 0 || j.Hidden {
		return
	}
	e.add(taskTally, key{int64(j.Task), string(j.Status)}, sum{n: [5]int64{sign, sign * millionths(j.Progress)}})
}

// millionths returns the progress of a job in millionths of a percent, whose sums have no rounding errors.
func millionths(progress *float64) int64 {
	if progress == nil || !(*progress >= 0 && *progress <= 100) {
		return 0
	}
	return int64(math.Floor(*progress*1e6 + 0.5)) // databases round half a number in different ways
}

// charge is what a job cost more than was booked for it.
type charge struct {
	stored
	month string
	sum
}

// book adds to the ledger what a run cost: if the platform reported other costs of the present attempt, or those of an
// attempt before. A retry moves costs to Spent, exactly as they are added up here, so that it is neither.
func (e *effects) book(before, now *stored) {
	c := charge{*now, now.Updated.UTC().Format("2006-01"), sum{}}
	c.costs = now.Spent + dispatch.Bookable(now.Costs) - (before.Spent + dispatch.Bookable(before.Costs))
	known, knownBefore := now.Costs != nil, before.Costs != nil
	if known && !knownBefore || known == knownBefore && now.Spent != before.Spent {
		c.n[0] = 1
	}
	if c.sum == (sum{}) {
		return
	}
	e.add(ledger, key{string(c.Owner), string(c.Account), c.month, c.Unit}, c.sum)
	if c.Task != 0 {
		e.add(taskCosts, key{int64(c.Task), c.Unit}, c.sum)
	}
	e.booked = append(e.booked, c)
}

// bookLabels books what was booked by label, too: by those of a job, and those of its task that the job does not have.
func (e *effects) bookLabels(ctx context.Context, q querier) error {
	ofTasks := map[dispatch.TaskID]map[string]string{}
	for _, c := range e.booked {
		labels := c.Annotations.Labels
		if c.Task != 0 {
			shared, known := ofTasks[c.Task]
			if !known {
				task, err := one(ctx, q, func(t *dispatch.Task) []any {
					return []any{encodedIn[dispatch.Annotations]{&t.Annotations}}
				}, "SELECT annotations FROM tasks WHERE id = $1", int64(c.Task))
				if missing(err) != nil {
					return err
				}
				shared, ofTasks[c.Task] = task.Annotations.Labels, task.Annotations.Labels
			}
			labels = map[string]string{}
			maps.Copy(labels, shared)
			maps.Copy(labels, c.Annotations.Labels)
		}
		for name, value := range labels {
			e.add(labelCosts, key{string(c.Owner), name, c.month, string(c.Account), c.Unit, value}, c.sum)
		}
	}
	return nil
}

// command is a statement whose result nobody asks for.
type command struct {
	text string
	args []any
}

// statements returns what writes the effects.
func (e *effects) statements(ctx context.Context, q tx) ([]command, error) {
	if err := e.bookLabels(ctx, q); err != nil {
		return nil, err
	}
	all, err := e.notify(ctx, q)
	for _, t := range tallies { // in one order, so that transactions do not deadlock
		var changed []key
		for k, s := range e.sums {
			if k.by == t && s != (sum{}) {
				changed = append(changed, k.key)
			}
		}
		slices.SortFunc(changed, key.compare)
		for keys := range slices.Chunk(changed, keysAtOnce) {
			var args []any
			for _, k := range keys {
				args = append(args, t.row(k, e.sums[tallied{t, k}])...)
			}
			all = append(all, command{q.adds[t][len(keys)-1], args})
		}
	}
	return all, err
}

// row returns what is added to the sums of a key, in the order of the columns.
func (t *tally) row(k key, s sum) []any {
	row := append([]any{}, k[:len(t.keys)]...)
	for i := range t.sums {
		row = append(row, s.n[i])
	}
	if t.costs {
		row = append(row, s.costs)
	}
	if t.serves {
		row = append(row, s.served)
	}
	return row
}
