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
	former, triggers := sqliteHookTriggers, sqliteNotifyTriggers
	if dialect == goose.DialectPostgres {
		former, triggers = postgresHookTriggers, postgresNotifyTriggers
	}
	install := func(statements []string) *goose.GoFunc {
		return &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error { return execAll(ctx, tx, statements) }}
	}
	return []*goose.Migration{goose.NewGoMigration(57, install(former), nil), goose.NewGoMigration(70, install(triggers), nil)}
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

// addNotices is addDeliveries with hooks of one job or task.
const addNotices = `
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, NEW.id, NEW.turn, NEW.status, NEW.task, NEW.number, NEW.updated, NEW.updated, NEW.updated FROM hooks h
	WHERE h.owner = NEW.owner AND (h.job = 0 AND h.task = 0 OR h.job = NEW.id AND h.task = 0 OR h.job = 0 AND h.task = NEW.task)
		AND replace(h.statuses, '|' || NEW.status || '|', '') <> h.statuses AND NOT h.gone
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;`

var sqliteNotifyTriggers = []string{`DROP TRIGGER add_deliveries`, `
CREATE TRIGGER add_deliveries AFTER UPDATE OF status ON jobs
WHEN NEW.status <> OLD.status AND NEW.status IN ('running', 'finished', 'failed', 'canceled') AND NOT NEW.hidden BEGIN` + addNotices + `
END`}

var postgresNotifyTriggers = []string{`
CREATE OR REPLACE FUNCTION add_deliveries() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$ BEGIN` + addNotices + `
	RETURN NULL;
END $body$`, `DROP TRIGGER add_deliveries ON jobs`, `
CREATE TRIGGER add_deliveries AFTER UPDATE OF status ON jobs FOR EACH ROW
WHEN (NEW.status <> OLD.status AND NEW.status IN ('running', 'finished', 'failed', 'canceled') AND NOT NEW.hidden) EXECUTE FUNCTION add_deliveries()`}
