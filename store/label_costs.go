package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/eodispatch/eodispatch/dispatch"
)

// labelCostsMigration installs the triggers that book what runs cost by label, under the same condition and with the same amounts as those of the
// ledger. What was booked before has no label.
func labelCostsMigration(dialect goose.Dialect) *goose.Migration {
	statements := sqliteLabelCosts
	if dialect == goose.DialectPostgres {
		statements = postgresLabelCosts
	}
	return goose.NewGoMigration(141, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error { return execAll(ctx, tx, statements) }}, nil)
}

// labelable is the condition under which a booked job may have labels: its own, or those of its task.
const labelable = booked + ` AND (NEW.annotations <> '' OR NEW.task <> 0)`

// bookLabels adds one row for each label of the job, and for each of its task that the job does not have. labels selects key and value of the labels
// in annotations.
func bookLabels(month, labels string) string {
	own := fmt.Sprintf(labels, "NEW.annotations")
	ofTask := fmt.Sprintf(labels, "(SELECT annotations FROM tasks WHERE id = NEW.task AND NEW.task <> 0)")
	return `
	INSERT INTO label_costs (owner, name, month, account, unit, value, costs, runs)
	SELECT NEW.owner, l.key, ` + strings.ReplaceAll(month, "updated", "NEW.updated") + `, NEW.account, NEW.unit, l.value, ` + booking + `
	FROM (` + own + ` UNION ALL SELECT key, value FROM (` + ofTask + `) AS t WHERE key NOT IN (SELECT key FROM (` + own + `) AS o)) AS l WHERE TRUE
	ON CONFLICT (owner, name, month, account, unit, value, shard) DO UPDATE SET costs = label_costs.costs + excluded.costs, runs = label_costs.runs + excluded.runs;`
}

var sqliteLabelCosts = []string{sqliteLabelCostsWhen(labelable)}

func sqliteLabelCostsWhen(condition string) string {
	return `
CREATE TRIGGER book_label_costs AFTER UPDATE OF costs, spent ON jobs WHEN ` + condition + ` BEGIN` +
		bookLabels(sqliteMonth, `SELECT key, value FROM json_each(COALESCE(NULLIF(%s, ''), '{}'), '$.labels')`) + `
END`
}

var postgresLabelCosts = []string{
	fmt.Sprintf("SET LOCAL lock_timeout = %d", migrationWaits.Milliseconds()),
	"ALTER TABLE label_costs ALTER COLUMN shard SET DEFAULT pg_backend_pid()",
	"CREATE " + postgresLabelCostsFunction(""), `
CREATE TRIGGER book_label_costs AFTER UPDATE OF costs, spent ON jobs FOR EACH ROW WHEN (` + labelable + `) EXECUTE FUNCTION book_label_costs()`,
}

// postgresLabelCostsFunction is like postgresLedgerFunction.
func postgresLabelCostsFunction(guard string) string {
	return `FUNCTION book_label_costs() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$ BEGIN` + guard +
		bookLabels(postgresMonth, `SELECT key, value FROM jsonb_each_text(CAST(NULLIF(%s, '') AS jsonb) -> 'labels')`) + `
	RETURN NULL;
END $body$`
}

// LabelCharges returns what an owner's runs cost in each month, by the value that a label of their jobs had when the costs were reported.
func (s *Store) LabelCharges(ctx context.Context, u dispatch.UserID, label string, n int) ([]dispatch.AccountCharge, error) {
	rows, err := s.queries(s.read).ListLabelCosts(ctx, u, label, int64(n))
	charges := make([]dispatch.AccountCharge, len(rows))
	for i, r := range rows {
		charges[i] = dispatch.AccountCharge{Account: r.Account,
			Charge: dispatch.Charge{Month: r.Month, Unit: r.Unit, Costs: rounded(r.Costs), Runs: int(r.Runs), Label: &r.Value}}
	}
	return charges, fail("LabelCharges", err)
}

// forgottenMonth returns the first month of which costs by label are kept.
func forgottenMonth(now int64) string { return at(now).Add(-dispatch.LabelCostsLife).Format("2006-01") }
