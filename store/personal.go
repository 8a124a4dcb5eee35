package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// secretColumns are not exported: they are sealed, or serve only to recognize secrets.
var secretColumns = []string{"sealed", "key", "secret", "fingerprint"}

// The tables with rows of users, of their jobs, and of their tasks: those with a column owner, without one and with a
// column job, and with a column task alone.
var (
	tablesOfUsers = []string{"definitions", "grants", "hooks", "items", "job_labels", "jobs", "keys", "label_costs",
		"ledger", "owner_counts", "owners", "period_counts", "processes", "queue_counts", "sessions", "sync_runs",
		"task_changes", "task_labels", "task_numbers", "tasks", "tokens", "unstarted", "withdrawals"}
	tablesOfJobs  = []string{"deliveries", "events", "requests", "results"}
	tablesOfTasks = []string{"task_costs", "task_counts", "task_placements"}
)

// rowsOfUsers say which rows of tables are of the user $1. Forget deletes the last ones first.
var rowsOfUsers = []struct {
	tables []string
	which  string
}{
	{tablesOfUsers, "owner = $1"},
	{tablesOfJobs, "job IN (SELECT id FROM jobs WHERE owner = $1)"},
	{tablesOfTasks, "task IN (SELECT id FROM tasks WHERE owner = $1)"},
	// those of tasks, of sign-ins, of tests, and of jobs that were purged
	{[]string{"deliveries"}, `hook IN (SELECT id FROM hooks WHERE owner = $1)
		AND job NOT IN (SELECT id FROM jobs WHERE owner = $1)`},
}

// tablesOfAccounts have rows of accounts, each in a column of its own name. That of the accounts is the last.
var tablesOfAccounts = []struct{ name, account string }{
	{"unrecognized", "account"}, {"operator_holds", "scope"}, {"account_counts", "account"}, {"accounts", "id"},
}

// Owned is a row that the database holds of a user.
type Owned struct {
	Table string         `json:"table"`
	Row   map[string]any `json:"row"`
}

// Export calls yield for each row that the database holds of a user, without secrets, until it returns an error. JSON
// is exported as such.
func (s *Store) Export(ctx context.Context, u dispatch.UserID, yield func(Owned) error) error {
	ctx = allow(ctx, upkeepWithin)
	for _, rows := range rowsOfUsers {
		for _, table := range rows.tables {
			if err := s.exportRows(ctx, table, rows.which, string(u), yield); err != nil {
				return fail("Export", err)
			}
		}
	}
	if err := s.exportRows(ctx, "revocations", "owner_hash = $1", u.Hash(), yield); err != nil {
		return fail("Export", err)
	}
	accounts, err := accountsOf(ctx, s.on(s.read), u)
	if err != nil {
		return fail("Export", err)
	}
	for _, a := range accounts {
		for _, table := range tablesOfAccounts {
			if err := s.exportRows(ctx, table.name, table.account+" = $1", string(a), yield); err != nil {
				return fail("Export", err)
			}
		}
	}
	return nil
}

// accountsOf returns a user's own accounts at platforms.
func accountsOf(ctx context.Context, q querier, u dispatch.UserID) ([]dispatch.Account, error) {
	all, err := list(ctx, q, single[dispatch.Account], "SELECT id FROM accounts ORDER BY id")
	return slices.DeleteFunc(all, func(a dispatch.Account) bool { return a.Identity() != string(u) }), err
}

// exportRows calls yield with the rows of a table for which a condition on $1 holds.
func (s *Store) exportRows(ctx context.Context, table, which, value string, yield func(Owned) error) error {
	rows, err := s.on(s.read).QueryContext(ctx, "SELECT * FROM "+table+" WHERE "+which, value)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := yield(Owned{table, exportable(table, columns, values)}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// exportable returns the members of an exported row.
func exportable(table string, columns []string, values []any) map[string]any {
	row := map[string]any{}
	for i, column := range columns {
		if slices.Contains(secretColumns, column) || table == "sessions" && column == "id" {
			continue
		}
		row[column] = values[i]
		if b, ok := values[i].([]byte); ok {
			row[column] = string(b)
		}
		if text, ok := row[column].(string); ok && strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
			row[column] = json.RawMessage(text)
		}
	}
	return row
}

// Unended counts a user's jobs that have not ended, or of which an orphan is yet to be canceled, and the user's
// synchronous runs.
func (s *Store) Unended(ctx context.Context, u dispatch.UserID) (int, error) {
	return result(ctx, s.readOnly, s.read, "Unended", func(q tx, now int64) (int, error) {
		return value[int](ctx, q, `
			SELECT (
				SELECT count(*) FROM jobs j
				WHERE j.owner = $1 AND (j.phase <> 'ended' OR j.orphans <> '' OR j.removal_due > 0))
			+ (
				SELECT count(*) FROM sync_runs r
				WHERE r.owner = $1 AND r.ended = 0 AND r.lapses > $2)`, u, now)
	})
}

// CancelAll cancels and hides all of a user's jobs and tasks. Visits cancel at the platforms what was submitted.
func (s *Store) CancelAll(ctx context.Context, u dispatch.UserID) error {
	tasks, err := list(ctx, s.on(s.read), single[dispatch.TaskID], `
		SELECT id FROM tasks
		WHERE owner = $1 AND NOT hidden
		ORDER BY id`, u)
	if err != nil {
		return fail("CancelAll", err)
	}
	for _, id := range tasks {
		if _, err := s.CancelTask(ctx, u, id, true); err != nil && !dispatch.Is(err, dispatch.NotFound) {
			return err
		}
	}
	jobs, err := list(ctx, s.on(s.read), single[dispatch.JobID], `
		SELECT id FROM jobs
		WHERE owner = $1 AND phase <> 'ended' AND NOT hidden
		ORDER BY id`, u)
	if err != nil {
		return fail("CancelAll", err)
	}
	for _, id := range jobs {
		if _, err := s.Cancel(ctx, u, id, true); err != nil && !dispatch.Is(err, dispatch.NotFound) {
			return err
		}
	}
	return nil
}

// Forget deletes everything that the database holds of a user of whom no job lives; otherwise it returns Conflict. It
// returns the number of deleted rows by table. The user's grants become revocations, which the broker sends to the
// identity provider and then deletes: their number is returned, too.
func (s *Store) Forget(
	ctx context.Context, u dispatch.UserID,
) (deleted map[string]int64, revocations int64, err error) {
	ctx = allow(ctx, upkeepWithin)
	if n, err := s.Unended(ctx, u); err != nil || n > 0 {
		if err == nil {
			err = &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Forget",
				Text: fmt.Sprintf("%d jobs of the user have not ended.", n)}
		}
		return nil, 0, err
	}
	deleted = map[string]int64{}
	if err := s.forgetJobs(ctx, u, deleted); err != nil {
		return nil, 0, fail("Forget", err)
	}
	if revocations, err = s.forgetUser(ctx, u, deleted); err == nil {
		err = s.purgeDocuments(ctx)
	}
	return deleted, revocations, err
}

// forgetUser deletes what is left of a user without jobs. Conflict if the user has submitted jobs meanwhile: what
// belongs to them must stay.
func (s *Store) forgetUser(
	ctx context.Context, u dispatch.UserID, deleted map[string]int64,
) (revocations int64, err error) {
	err = s.forgetPart(ctx, deleted, func(q tx, now int64, deleted map[string]int64) error {
		if err := s.refuseJobs(ctx, q, u); err != nil {
			return err
		}
		if revocations, err = revokeAll(ctx, q, u, now); err != nil {
			return err
		}
		return forgetRows(ctx, q, u, deleted)
	})
	return revocations, err
}

// forgetPart deletes rows in a transaction, which may be run more than once, and adds their numbers after its commit.
func (s *Store) forgetPart(
	ctx context.Context, deleted map[string]int64, forget func(q tx, now int64, deleted map[string]int64) error,
) error {
	part, err := result(ctx, s.in, s.write, "Forget", func(q tx, now int64) (map[string]int64, error) {
		part := map[string]int64{}
		return part, forget(q, now, part)
	})
	for table, n := range part {
		deleted[table] += n
	}
	return err
}

// refuseJobs returns Conflict if a user has jobs, and keeps others from adding any until the end of the transaction.
func (s *Store) refuseJobs(ctx context.Context, q tx, u dispatch.UserID) error {
	if s.remote { // an SQLite transaction that writes is the only one
		if err := run(ctx, q, "LOCK TABLE jobs IN SHARE MODE"); err != nil {
			return err
		}
	}
	any, err := value[bool](ctx, q, "SELECT EXISTS (SELECT 1 FROM jobs WHERE owner = $1)", u)
	if err != nil || !any {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Forget",
		Text: "The user has submitted or retried jobs meanwhile. Run the command again when they have ended."}
}

// forgetJobs deletes a user's jobs with all that belongs to them, some in each transaction.
func (s *Store) forgetJobs(ctx context.Context, u dispatch.UserID, deleted map[string]int64) error {
	for more := true; more; {
		jobs, err := list(ctx, s.on(s.read), single[dispatch.JobID], `
			SELECT id FROM jobs
			WHERE owner = $1 AND phase = 'ended'
			LIMIT CAST($2 AS BIGINT)`, u, purgedAtOnce)
		if err != nil {
			return err
		}
		err = s.forgetPart(ctx, deleted, func(q tx, _ int64, deleted map[string]int64) error {
			return forgetEnded(ctx, q, jobs, deleted)
		})
		if err != nil {
			return err
		}
		more = len(jobs) == purgedAtOnce
	}
	return nil
}

// forgetEnded deletes jobs with all that belongs to them, but for those that were retried since they were listed. Jobs
// are deleted first, so that none can be retried meanwhile.
func forgetEnded(ctx context.Context, q tx, ids []dispatch.JobID, deleted map[string]int64) error {
	w := whereAny(q, "jobs.id", ids)
	w.and("jobs.phase = 'ended'")
	gone, err := deleteJobs(ctx, q, w)
	if err != nil || len(gone) == 0 {
		return err
	}
	deleted["jobs"] += int64(len(gone))
	for _, table := range tablesOfJobs {
		w := whereAny(q, "job", gone)
		err := deleteCounted(ctx, q, deleted, table, w.String(), w.args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// revokeAll makes revocations of a user's grants.
func revokeAll(ctx context.Context, q tx, u dispatch.UserID, now int64) (n int64, err error) {
	grants, err := grantsOf(ctx, q, u)
	for _, g := range grants {
		kept, failed := keepRevocation(ctx, q, u, g.ID, now)
		if failed != nil {
			return 0, failed
		}
		n += kept
	}
	return n, err
}

// forgetRows deletes the other rows of a user, and the user's accounts.
func forgetRows(ctx context.Context, q tx, u dispatch.UserID, deleted map[string]int64) error {
	for _, rows := range slices.Backward(rowsOfUsers) {
		for _, table := range rows.tables {
			if table == "jobs" { // forgetJobs has deleted them
				continue
			}
			if err := deleteCounted(ctx, q, deleted, table, rows.which, string(u)); err != nil {
				return err
			}
		}
	}
	accounts, err := accountsOf(ctx, q, u)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if err := forgetAccount(ctx, q, a, deleted); err != nil {
			return err
		}
	}
	return nil
}

// forgetAccount deletes a user's own account at a platform, if it has no jobs.
func forgetAccount(ctx context.Context, q tx, a dispatch.Account, deleted map[string]int64) error {
	for _, table := range tablesOfAccounts {
		err := deleteCounted(ctx, q, deleted, table.name, table.account+` = $1
				AND NOT EXISTS (SELECT 1 FROM owner_counts c WHERE c.account = $1 AND c.jobs > 0)`, a)
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteCounted deletes the rows of a table for which a condition holds, and adds their number.
func deleteCounted(ctx context.Context, q tx, deleted map[string]int64, table, which string, args ...any) error {
	n, err := exec(ctx, q, "DELETE FROM "+table+" WHERE "+which, args...)
	if n > 0 {
		deleted[table] += n
	}
	return err
}

// AwaitEnds waits until no job of a user lives, or returns the context's error. It looks every two seconds.
func (s *Store) AwaitEnds(ctx context.Context, u dispatch.UserID) error {
	ticks := time.NewTicker(2 * time.Second)
	defer ticks.Stop()
	for {
		if n, err := s.Unended(ctx, u); err != nil || n == 0 {
			return err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
