package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// ledgerMigration installs the triggers that book what runs cost, and books what is known already. A trigger books whatever program changes the
// job, also one of the version before, which clears the costs of a job that is retried. The program itself cannot do it, because it does not know
// what the row held before.
func ledgerMigration(dialect goose.Dialect) *goose.Migration {
	if dialect == goose.DialectPostgres {
		return goose.NewGoMigration(60, &goose.GoFunc{RunDB: bookOnPostgreSQL}, nil)
	}
	return goose.NewGoMigration(60, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		return execAll(ctx, tx, slices.Concat(sqliteLedger, bookKnown(sqliteMonth)))
	}}, nil)
}

// bookOnPostgreSQL installs the triggers in a transaction whose lock keeps others from changing jobs. It holds the lock only until a second one has
// its snapshot, which adds up the jobs as they were at that moment while others go on. After an interruption all begins anew.
func bookOnPostgreSQL(ctx context.Context, db *sql.DB) error {
	install, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer install.Rollback() // fails after the commit
	if err := execAll(ctx, install, postgresLedger); err != nil {
		return err
	}
	sum, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return err
	}
	defer sum.Rollback()                                            // likewise
	if err := execAll(ctx, sum, []string{"SELECT 1"}); err != nil { // takes the snapshot
		return err
	}
	if err := install.Commit(); err != nil {
		return err
	}
	if err := execAll(ctx, sum, bookKnown(postgresMonth)); err != nil {
		return err
	}
	return sum.Commit()
}

// booked is the condition under which an update of a job is booked: the platform reported other costs of the present attempt, or costs of an
// attempt before. A retry moves costs to spent, which is neither.
const booked = `(NEW.costs IS NOT NULL AND NEW.costs IS DISTINCT FROM OLD.costs OR NEW.spent <> OLD.spent AND NEW.costs IS NOT DISTINCT FROM OLD.costs)`

// booking is what a booked update adds, see dispatch.Bookable.
const booking = `CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN NEW.costs ELSE 0 END - CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN OLD.costs ELSE 0 END + NEW.spent - OLD.spent,
	CASE WHEN OLD.costs IS NULL OR NEW.spent <> OLD.spent THEN 1 ELSE 0 END`

var sqliteLedger = []string{sqliteLedgerWhen(booked)}

func sqliteLedgerWhen(condition string) string {
	return `
CREATE TRIGGER book_costs AFTER UPDATE OF costs, spent ON jobs WHEN ` + condition + ` BEGIN
	INSERT INTO ledger (owner, account, month, unit, costs, runs)
	VALUES (NEW.owner, NEW.account, ` + strings.ReplaceAll(sqliteMonth, "updated", "NEW.updated") + `, NEW.unit, ` + booking + `)
	ON CONFLICT (owner, account, month, unit, shard) DO UPDATE SET costs = costs + excluded.costs, runs = runs + excluded.runs;
	INSERT INTO task_costs (task, unit, costs, runs) SELECT NEW.task, NEW.unit, ` + booking + ` WHERE NEW.task <> 0
	ON CONFLICT (task, unit, shard) DO UPDATE SET costs = costs + excluded.costs, runs = runs + excluded.runs;
END`
}

// postgresLedger also removes what an interrupted migration left.
var postgresLedger = []string{
	fmt.Sprintf("SET LOCAL lock_timeout = %d", migrationWaits.Milliseconds()),
	"DROP FUNCTION IF EXISTS book_costs() CASCADE",
	"DELETE FROM ledger",
	"DELETE FROM task_costs",
	"ALTER TABLE ledger ALTER COLUMN shard SET DEFAULT pg_backend_pid()",
	"ALTER TABLE task_costs ALTER COLUMN shard SET DEFAULT pg_backend_pid()",
	"CREATE " + postgresLedgerFunction(""), `
CREATE TRIGGER book_costs AFTER UPDATE OF costs, spent ON jobs FOR EACH ROW WHEN ` + booked + ` EXECUTE FUNCTION book_costs()`,
}

// postgresLedgerFunction returns the function of the trigger, which begins with a guard.
func postgresLedgerFunction(guard string) string {
	return `FUNCTION book_costs() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$ BEGIN` + guard + `
	INSERT INTO ledger AS c (owner, account, month, unit, costs, runs)
	VALUES (NEW.owner, NEW.account, ` + strings.ReplaceAll(postgresMonth, "updated", "NEW.updated") + `, NEW.unit, ` + booking + `)
	ON CONFLICT (owner, account, month, unit, shard) DO UPDATE SET costs = c.costs + excluded.costs, runs = c.runs + excluded.runs;
	INSERT INTO task_costs AS c (task, unit, costs, runs) SELECT NEW.task, NEW.unit, ` + booking + ` WHERE NEW.task <> 0
	ON CONFLICT (task, unit, shard) DO UPDATE SET costs = c.costs + excluded.costs, runs = c.runs + excluded.runs;
	RETURN NULL;
END $body$`
}

// stays is the condition under which a booked update does not move the job to another account. A move leaves at the former account what runs there
// cost, and the job forgets it: then spent is 0 again, and nothing is to be booked.
const stays = `NEW.account = OLD.account`

// unlessMoved is that condition in a function of PostgreSQL, which can be replaced without a lock on jobs.
const unlessMoved = `
	IF NOT (` + stays + `) THEN RETURN NULL; END IF;`

// movedCostsMigration keeps the triggers of the ledger, and those of costs by label, from booking moves.
func movedCostsMigration(dialect goose.Dialect) *goose.Migration {
	statements := []string{
		"DROP TRIGGER book_costs", sqliteLedgerWhen(booked + " AND " + stays),
		"DROP TRIGGER book_label_costs", sqliteLabelCostsWhen(labelable + " AND " + stays),
	}
	if dialect == goose.DialectPostgres {
		statements = []string{"CREATE OR REPLACE " + postgresLedgerFunction(unlessMoved), "CREATE OR REPLACE " + postgresLabelCostsFunction(unlessMoved)}
	}
	return goose.NewGoMigration(189, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error { return execAll(ctx, tx, statements) }}, nil)
}

const sqliteMonth = `strftime('%Y-%m', updated / 1000000, 'unixepoch')`

const postgresMonth = `to_char(to_timestamp(updated / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM')`

// bookKnown returns the statements that book the costs that jobs had when the triggers were installed. Only an interrupted migration finds costs of
// attempts before.
func bookKnown(month string) []string {
	const costs = `SUM(CASE WHEN costs BETWEEN 0 AND 1e12 THEN costs ELSE 0 END + spent), count(costs)`
	const known = `(costs BETWEEN 0 AND 1e12 OR spent <> 0)`
	return []string{
		`INSERT INTO ledger (owner, account, month, unit, shard, costs, runs)
		SELECT owner, account, ` + month + `, unit, 0, ` + costs + ` FROM jobs WHERE ` + known + ` GROUP BY 1, 2, 3, 4`,
		`INSERT INTO task_costs (task, unit, shard, costs, runs)
		SELECT task, unit, 0, ` + costs + ` FROM jobs WHERE task <> 0 AND ` + known + ` GROUP BY 1, 2`,
	}
}

// ledgerRows is how many rows Usage reads at most: those of some years.
const ledgerRows = 1000

// withLedger adds what an owner's runs cost to the usage of each account.
func withLedger(ctx context.Context, q *query.Queries, usage []dispatch.Usage, u dispatch.UserID) ([]dispatch.Usage, error) {
	rows, err := q.ListLedger(ctx, u, ledgerRows)
	for _, r := range rows {
		usage = dispatch.AddCharge(usage, r.Account, dispatch.Charge{Month: r.Month, Unit: r.Unit, Costs: rounded(r.Costs), Runs: int(r.Runs)})
	}
	return usage, err
}

// highestCharge returns what an owner's runs at an account cost in the month of now, in the unit in which they cost most.
func highestCharge(ctx context.Context, q tx, u dispatch.UserID, a dispatch.Account, now int64) (dispatch.Charge, error) {
	c := dispatch.Charge{Month: at(now).Format("2006-01")}
	rows, err := q.ListMonth(ctx, u, a, c.Month)
	for _, r := range rows {
		if costs := rounded(r.Costs); costs > c.Costs {
			c.Costs, c.Unit = costs, r.Unit
		}
	}
	return c, err
}

// rounded returns a sum of costs without its rounding errors.
func rounded(costs float64) float64 { return dispatch.RoundAmount(costs) }

// unmetered is a dispatch.Unmetered in the database.
type unmetered struct {
	Base   string `json:"base,omitempty"`
	ID     string `json:"id"`
	Ended  int64  `json:"ended"`
	Due    int64  `json:"due"`
	Priced bool   `json:"priced,omitempty"`
}

func unmeteredText(all []dispatch.Unmetered) string {
	if len(all) == 0 {
		return ""
	}
	kept := make([]unmetered, len(all))
	for i, u := range all {
		kept[i] = unmetered{u.Ref.Base, u.Ref.ID, micros(u.Ended), micros(u.Due), u.Priced}
	}
	text, _ := encode(kept) // cannot fail: strings and numbers only
	return text
}

// unmeteredOf is the inverse of unmeteredText.
func unmeteredOf(text string) (all []dispatch.Unmetered, err error) {
	kept, err := decoded[[]unmetered](text)
	for _, u := range kept {
		all = append(all, dispatch.Unmetered{Ref: dispatch.Ref{Base: u.Base, ID: u.ID}, Ended: at(u.Ended), Due: at(u.Due), Priced: u.Priced})
	}
	return all, err
}

// meteredText is the inverse of decoded.
func meteredText(m dispatch.Metered) string {
	if m == (dispatch.Metered{}) {
		return ""
	}
	text, _ := encode(m) // cannot fail: adapters report finite numbers only
	return text
}
