package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
)

// hookMigrations install the trigger that adds a delivery for each hook of a job's owner in the transaction that ends the job. A trigger
// covers every statement that ends jobs, also those of an earlier version of the program that runs beside this one. A job whose owner has no
// hook costs one look at an index, and only when it ends.
func hookMigrations(dialect goose.Dialect) []*goose.Migration {
	former, triggers, taskTriggers := sqliteHookTriggers, sqliteNotifyTriggers, sqliteTaskTriggers
	gone, reasons, progress := sqliteGoneTriggers, sqliteReasonTriggers, sqliteProgressTriggers
	if dialect == goose.DialectPostgres {
		former, triggers, taskTriggers = postgresHookTriggers, postgresNotifyTriggers, postgresTaskTriggers
		gone, reasons, progress = postgresGoneTriggers, postgresReasonTriggers, postgresProgressTriggers
	}
	install := func(statements []string) *goose.GoFunc {
		return &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error { return execAll(ctx, tx, statements) }}
	}
	return []*goose.Migration{goose.NewGoMigration(57, install(former), nil), goose.NewGoMigration(70, install(triggers), nil),
		goose.NewGoMigration(73, install(taskTriggers), nil), goose.NewGoMigration(82, install(gone), nil),
		goose.NewGoMigration(96, install(reasons), nil), goose.NewGoMigration(109, install(progress), nil)}
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

// ofNew are the hooks that are notified of the job NEW: of all jobs, of this one, or of its task. None is of a job and a task. The lists let both
// databases find them in the index hooks_of_job, so that the hooks of the owner's other jobs are not read.
const ofNew = `h.owner = NEW.owner AND h.job IN (0, NEW.id) AND h.task IN (0, NEW.task) AND (h.job = 0 OR h.task = 0) AND NOT h.gone`

// addNotices is addDeliveries with hooks of one job or task.
const addNotices = `
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, NEW.id, NEW.turn, NEW.status, NEW.task, NEW.number, NEW.updated, NEW.updated, NEW.updated FROM hooks h
	WHERE ` + ofNew + ` AND replace(h.statuses, '|' || NEW.status || '|', '') <> h.statuses
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;`

// addProgress is addNotices with what OGC API - Processes has: its inProgressUri is notified also of a job that has finished without having been seen to
// run, and before the end: ends are due a microsecond earlier, by which ClaimDeliveries knows them. A job that failed or was canceled may never have run.
const addProgress = `
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, NEW.id, NEW.turn, CASE WHEN h.statuses = '|running|' THEN 'running' ELSE NEW.status END, NEW.task, NEW.number, NEW.updated, NEW.updated,
		NEW.updated - CASE WHEN h.kind = 'ogc' AND NEW.status <> 'running' AND h.statuses <> '|running|' THEN 1 ELSE 0 END FROM hooks h
	WHERE ` + ofNew + ` AND (replace(h.statuses, '|' || NEW.status || '|', '') <> h.statuses
		OR h.kind = 'ogc' AND h.statuses = '|running|' AND NEW.status = 'finished'
			AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.hook = h.id AND d.job = NEW.id AND d.status = 'running'))
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;`

var sqliteProgressTriggers = []string{`DROP TRIGGER add_deliveries`, `
CREATE TRIGGER add_deliveries AFTER UPDATE OF status ON jobs
WHEN NEW.status <> OLD.status AND NEW.status IN ('running', 'finished', 'failed', 'canceled') AND NOT NEW.hidden BEGIN` + addProgress + `
END`}

var postgresProgressTriggers = []string{`
CREATE OR REPLACE FUNCTION add_deliveries() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$ BEGIN` + addProgress + `
	RETURN NULL;
END $body$`}

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

// markTask leaves a mark for AddTaskEvents if a hook wants to know.
const markTask = `
	INSERT INTO task_marks (task, job, epoch) SELECT NEW.task, NEW.id, NEW.turn
	WHERE EXISTS (SELECT 1 FROM hooks h WHERE ` + ofNew + ` AND replace(h.statuses, '|task_', '') <> h.statuses)
	ON CONFLICT (task, job, epoch) DO NOTHING;`

const whenMarked = `NEW.status <> OLD.status AND NEW.status IN ('finished', 'failed', 'canceled') AND NEW.task <> 0 AND NOT NEW.hidden`

// whenGone is the condition under which a job is deleted before it has ended. The others of its task may have ended.
const whenGone = `NEW.hidden AND NOT OLD.hidden AND NEW.phase <> 'ended' AND NEW.task <> 0`

// addAttention adds the deliveries for a job that waits for its owner, once in an epoch. addReason has replaced it.
const addAttention = `
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, NEW.id, NEW.turn, 'attention', NEW.task, NEW.number, NEW.updated, NEW.updated, NEW.updated FROM hooks h
	WHERE ` + ofNew + ` AND replace(h.statuses, '|attention|', '') <> h.statuses
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;`

const whenAttention = `NEW.attention <> OLD.attention AND NEW.phase <> 'ended' AND NOT NEW.hidden
	AND NEW.attention IN ('sign_in_required', 'submission_unknown', 'set_aside', 'stalled')`

// addSignIn adds the deliveries when all jobs of an account begin to wait for the sign-in of its user, once each time. $AT is the function that
// finds a text in another.
const addSignIn = `
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, 0, NEW.sign_in_since, 'sign_in_required', 0, 0, NEW.sign_in_since, NEW.sign_in_since, NEW.sign_in_since FROM hooks h
	WHERE h.owner = substr(NEW.id, $AT(NEW.id, '/') + 1) AND NOT h.gone AND replace(h.statuses, '|attention|', '') <> h.statuses
		AND (h.job = 0 AND h.task = 0 OR EXISTS (SELECT 1 FROM jobs j WHERE j.id = h.job AND j.account = NEW.id AND j.phase <> 'ended')
			OR EXISTS (SELECT 1 FROM jobs j WHERE j.task = h.task AND j.task <> 0 AND j.account = NEW.id AND j.phase <> 'ended'))
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;`

const whenSignIn = `NEW.sign_in_since > OLD.sign_in_since`

var sqliteTaskTriggers = []string{
	"CREATE TRIGGER mark_task AFTER UPDATE OF status ON jobs WHEN " + whenMarked + " BEGIN" + markTask + "\nEND",
	"CREATE TRIGGER add_attention AFTER UPDATE OF attention ON jobs WHEN " + whenAttention + " BEGIN" + addAttention + "\nEND",
	"CREATE TRIGGER add_sign_in AFTER UPDATE OF sign_in_since ON accounts WHEN " + whenSignIn + " BEGIN" + strings.ReplaceAll(addSignIn, "$AT", "instr") + "\nEND",
}

var sqliteGoneTriggers = []string{"CREATE TRIGGER mark_gone AFTER UPDATE OF hidden ON jobs WHEN " + whenGone + " BEGIN" + markTask + "\nEND"}

var postgresGoneTriggers = postgresTrigger("mark_gone", "hidden ON jobs", whenGone, markTask)

var postgresTaskTriggers = slices.Concat(
	postgresTrigger("mark_task", "status ON jobs", whenMarked, markTask),
	postgresTrigger("add_attention", "attention ON jobs", whenAttention, addAttention),
	postgresTrigger("add_sign_in", "sign_in_since ON accounts", whenSignIn, strings.ReplaceAll(addSignIn, "$AT", "strpos")))

// addReason adds the deliveries for the reason for which a job waits for its owner, once in an epoch for each reason.
var addReason = strings.ReplaceAll(addAttention, "'attention'", "'attention_' || NEW.attention")

// markTrial is markTask, which also leaves a mark if a job of a trial ends and a hook wants to know that the trial has ended.
const markTrial = `
	INSERT INTO task_marks (task, job, epoch) SELECT NEW.task, NEW.id, NEW.turn
	WHERE EXISTS (SELECT 1 FROM hooks h WHERE ` + ofNew + ` AND (replace(h.statuses, '|task_', '') <> h.statuses OR replace(h.statuses, '|attention|', '') <> h.statuses
		AND EXISTS (SELECT 1 FROM tasks t WHERE t.id = NEW.task AND t.paused_for = 'trial' AND t.trial >= NEW.number)))
	ON CONFLICT (task, job, epoch) DO NOTHING;`

// addPause adds the deliveries for a task that is paused because of its budget, once for each pause.
const addPause = `
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, -NEW.id, NEW.edited, 'attention_' || NEW.paused_for, NEW.id, 0, NEW.edited, NEW.edited, NEW.edited FROM hooks h
	WHERE h.owner = NEW.owner AND h.job = 0 AND h.task IN (0, NEW.id) AND NOT h.gone AND replace(h.statuses, '|attention|', '') <> h.statuses
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;`

const whenPaused = `NEW.paused_for <> OLD.paused_for AND NEW.paused_for IN ('budget_reached', 'budget_unusable') AND NOT NEW.hidden`

var sqliteReasonTriggers = []string{
	"DROP TRIGGER add_attention", "CREATE TRIGGER add_attention AFTER UPDATE OF attention ON jobs WHEN " + whenAttention + " BEGIN" + addReason + "\nEND",
	"DROP TRIGGER mark_task", "CREATE TRIGGER mark_task AFTER UPDATE OF status ON jobs WHEN " + whenMarked + " BEGIN" + markTrial + "\nEND",
	"DROP TRIGGER mark_gone", "CREATE TRIGGER mark_gone AFTER UPDATE OF hidden ON jobs WHEN " + whenGone + " BEGIN" + markTrial + "\nEND",
	"CREATE TRIGGER add_pause AFTER UPDATE OF paused_for ON tasks WHEN " + whenPaused + " BEGIN" + addPause + "\nEND",
}

var postgresReasonTriggers = append([]string{postgresFunction("add_attention", addReason), postgresFunction("mark_task", markTrial), postgresFunction("mark_gone", markTrial)},
	postgresTrigger("add_pause", "paused_for ON tasks", whenPaused, addPause)...)

// postgresFunction returns the statement that creates or replaces the function of a trigger.
func postgresFunction(name, body string) string {
	return "CREATE OR REPLACE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$ BEGIN" + body + "\n\tRETURN NULL;\nEND $body$"
}

// postgresTrigger returns the statements that create a trigger after an update, with its function.
func postgresTrigger(name, of, when, body string) []string {
	return []string{postgresFunction(name, body),
		"CREATE TRIGGER " + name + " AFTER UPDATE OF " + of + " FOR EACH ROW WHEN (" + when + ") EXECUTE FUNCTION " + name + "()"}
}
