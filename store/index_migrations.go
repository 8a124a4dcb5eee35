package store

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3"
)

// indexMigrations create indexes on large tables. They are in Go because PostgreSQL creates an index without keeping others from writing to the
// table only outside of a transaction, and SQLite has no such form.
func indexMigrations(dialect goose.Dialect) []*goose.Migration {
	migrations := []*goose.Migration{
		// Waiting jobs that are due at some time, which paused ones are not: their time is that of dispatch.Never. Visits read the lines of an account
		// by it, and pass over no paused line. With phase in it SQLite, which has not counted its rows, takes it rather than jobs_line.
		indexMigration(dialect, 52, "jobs_queue", "ON jobs (account, phase, line, due, id) WHERE phase = 'waiting' AND due < 253370764800000000"),
		// Jobs whose costs are still to be read.
		indexMigration(dialect, 61, "jobs_meter", "ON jobs (account, meter_due, id) WHERE meter_due > 0"),
		// Ended jobs of no task by age, so that Retain reads nothing else.
		indexMigration(dialect, 64, "jobs_aging", "ON jobs (pruned, moved) WHERE task = 0 AND phase = 'ended'"),
		// Unfinished jobs by owner and task. The indexes that it replaces had the phase in their entries, which each step of a job wrote anew; what they
		// added up is counted in owner_counts.
		indexMigration(dialect, 71, "jobs_open", "ON jobs (owner, task) WHERE phase <> 'ended'", "jobs_live", "jobs_bytes"),
		// Runs of tasks with a budget whose costs are not known yet.
		indexMigration(dialect, 93, "jobs_budgeted", "ON jobs (task) WHERE task <> 0 AND budgeted AND (phase NOT IN ('waiting', 'ended') OR meter_due > 0)"),
		// The latest finished runs of a user's service, from which requests are estimated.
		indexMigration(dialect, 94, "jobs_finished_runs", "ON jobs (owner, account, service_hash, moved) WHERE status = 'finished'"),
		// Ended jobs that are to be removed from their platforms, see dispatch.Job.RemovalDue.
		indexMigration(dialect, 106, "jobs_removal", "ON jobs (account, removal_due, id) WHERE removal_due > 0 AND phase = 'ended' AND strays = '' AND meter_due = 0"),
		// The jobs of a task that ended without results, by when they ended. With jobs_finished it gives the end of a task, without a look at all its jobs.
		indexMigration(dialect, 198, "jobs_stopped", "ON jobs (task, moved) WHERE task <> 0 AND status IN ('failed', 'canceled') AND NOT hidden"),
		// The job that has an identifier at its platform, see RefHolder.
		indexMigration(dialect, 206, "jobs_refs", "ON jobs (account, ref_id) WHERE ref_id <> ''"),
		// What operators list and the census counts: jobs at platforms that need attention, jobs that were set aside, and accounts of which nothing is
		// submitted.
		indexesMigration(dialect, 95, []index{
			{"jobs_troubled", "ON jobs (moved, id) WHERE phase NOT IN ('waiting', 'ended') AND attention <> ''"},
			{"jobs_set_aside", "ON jobs (moved, id) WHERE attention = 'set_aside' AND NOT hidden"},
			{"accounts_held", "ON accounts (hold) WHERE hold > 0"},
		}),
	}
	if dialect == goose.DialectPostgres {
		// PostgreSQL does not search by a column that the condition of an index sets, so by jobs_queue it reads all waiting jobs of an account for each line.
		migrations = append(migrations, indexMigration(dialect, 200, "jobs_next", "ON jobs (account, line, due, id) WHERE phase = 'waiting' AND due < 253370764800000000", "jobs_queue"))
	}
	return migrations
}

// index is an index that a migration creates.
type index struct{ name, definition string }

// indexMigration creates an index, and drops those that it replaces.
func indexMigration(dialect goose.Dialect, version int64, name, definition string, replaced ...string) *goose.Migration {
	return indexesMigration(dialect, version, []index{{name, definition}}, replaced...)
}

// indexesMigration creates indexes, and drops those that they replace. On PostgreSQL one whose creation was interrupted is left behind, and is dropped
// first.
func indexesMigration(dialect goose.Dialect, version int64, indexes []index, replaced ...string) *goose.Migration {
	run := func(statements ...string) *goose.GoFunc {
		if dialect == goose.DialectPostgres {
			return &goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error { return execAll(ctx, db, statements) }}
		}
		return &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error { return execAll(ctx, tx, statements) }}
	}
	how := ""
	if dialect == goose.DialectPostgres {
		how = "CONCURRENTLY "
	}
	drop := "DROP INDEX " + how + "IF EXISTS "
	var up, down []string
	for _, i := range indexes {
		up = append(up, drop+i.name, "CREATE INDEX "+how+i.name+" "+i.definition)
		down = append(down, drop+i.name)
	}
	for _, other := range replaced {
		up = append(up, drop+other)
	}
	return goose.NewGoMigration(version, run(up...), run(down...))
}

func execAll(ctx context.Context, on interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statements []string) error {
	for _, statement := range statements {
		if _, err := on.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
