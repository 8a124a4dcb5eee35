package store

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3"
)

// hookMigrations install the trigger that adds a delivery for each hook of a job's owner in the transaction that ends the job. A trigger
// covers every statement that ends jobs, also those of an earlier version of the program that runs beside this one. A job whose owner has no
// hook costs one look at an index, and only when it ends.
func hookMigrations(dialect goose.Dialect) []*goose.Migration {
	triggers := sqliteHookTriggers
	if dialect == goose.DialectPostgres {
		triggers = postgresHookTriggers
	}
	install := func(ctx context.Context, tx *sql.Tx) error {
		for _, statement := range triggers {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
	return []*goose.Migration{goose.NewGoMigration(57, &goose.GoFunc{RunTx: install}, nil)}
}

const addDeliveries = `
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, NEW.id, NEW.turn, NEW.status, NEW.task, NEW.number, NEW.updated, NEW.updated, NEW.updated FROM hooks h
	WHERE h.owner = NEW.owner AND replace(h.statuses, '|' || NEW.status || '|', '') <> h.statuses AND NOT h.gone
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;`

var sqliteHookTriggers = []string{`
CREATE TRIGGER add_deliveries AFTER UPDATE OF status ON jobs
WHEN NEW.status <> OLD.status AND NEW.status IN ('finished', 'failed', 'canceled') AND NOT NEW.hidden BEGIN` + addDeliveries + `
END`}

// postgresHookTriggers find the tables whatever search path the statement was sent with, as that of a restore from a dump.
var postgresHookTriggers = []string{`
CREATE FUNCTION add_deliveries() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$ BEGIN` + addDeliveries + `
	RETURN NULL;
END $body$`, `
CREATE TRIGGER add_deliveries AFTER UPDATE OF status ON jobs FOR EACH ROW
WHEN (NEW.status <> OLD.status AND NEW.status IN ('finished', 'failed', 'canceled') AND NOT NEW.hidden) EXECUTE FUNCTION add_deliveries()`}
