package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/eodispatch/eodispatch/store/query"
)

// countMigrations install the triggers that keep the counts of jobs, and count the jobs that exist. They are in Go because the
// two databases have no common form of triggers. Once the triggers are committed every program keeps the counts, also one of an
// earlier version; so the jobs can be counted without blocking anyone, and counted again if that was interrupted. A later
// migration that changes what is counted replaces the triggers and moves the counting behind itself, as that of paused jobs did: versions
// 30 and 31, which did both before, do nothing.
func countMigrations(dialect goose.Dialect) []*goose.Migration {
	triggers := sqliteCountTriggers
	if dialect == goose.DialectPostgres {
		triggers = postgresCountTriggers()
	}
	install := func(ctx context.Context, tx *sql.Tx) error {
		for _, statement := range slices.Concat(formerTriggers[dialect], triggers) {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
	fill := func(ctx context.Context, tx *sql.Tx) error {
		if dialect == goose.DialectPostgres { // behind a pooler goose's own lock does not exclude other processes
			if _, err := tx.ExecContext(ctx, takeLock, correcting); err != nil {
				return err
			}
		}
		_, err := correctCounts(ctx, query.New(tx), 0)
		return err
	}
	return []*goose.Migration{
		goose.NewGoMigration(30, nil, nil),
		goose.NewGoMigration(31, nil, nil),
		goose.NewGoMigration(49, &goose.GoFunc{RunTx: install}, nil),
		goose.NewGoMigration(50, &goose.GoFunc{RunTx: fill}, nil),
		countSingleJobs(dialect),
		countMoves(dialect),
	}
}

// countSingleJobs replaces the functions of the triggers of databases that version 49 gave ones without a short way for single jobs. The
// triggers stay, so that no table is locked.
func countSingleJobs(dialect goose.Dialect) *goose.Migration {
	if dialect != goose.DialectPostgres {
		return goose.NewGoMigration(88, nil, nil)
	}
	return goose.NewGoMigration(88, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		return execAll(ctx, tx, []string{countInsert.function(), countUpdate.function()})
	}}, nil)
}

// countMoves adds the trigger that counts jobs that move to another account, which no job did before.
func countMoves(dialect goose.Dialect) *goose.Migration {
	statements := []string{sqliteCountMove}
	if dialect == goose.DialectPostgres {
		statements = []string{countInsert.function(), countUpdate.function(), postgresCountMove,
			"CREATE TRIGGER count_move AFTER UPDATE OF account ON jobs FOR EACH ROW WHEN (OLD.account <> NEW.account) EXECUTE FUNCTION count_move()"}
	}
	return goose.NewGoMigration(103, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		return execAll(ctx, tx, statements)
	}}, nil)
}

// sqliteCountMove counts a job at another account. Only jobs that wait move.
const sqliteCountMove = `
CREATE TRIGGER count_move AFTER UPDATE OF account ON jobs WHEN OLD.account <> NEW.account BEGIN
	INSERT INTO line_counts (account, owner, task, waiting, held)
	VALUES (OLD.account, OLD.owner, OLD.task, -(OLD.phase = 'waiting' AND NOT OLD.paused), -(OLD.phase NOT IN ('waiting', 'ended'))),
		(NEW.account, NEW.owner, NEW.task, NEW.phase = 'waiting' AND NOT NEW.paused, NEW.phase NOT IN ('waiting', 'ended'))
	ON CONFLICT (account, owner, task, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held;
	INSERT INTO account_counts (account, waiting, held, started)
	VALUES (OLD.account, -(OLD.phase = 'waiting' AND NOT OLD.paused), -(OLD.phase NOT IN ('waiting', 'ended')), -(OLD.phase = 'started')),
		(NEW.account, NEW.phase = 'waiting' AND NOT NEW.paused, NEW.phase NOT IN ('waiting', 'ended'), NEW.phase = 'started')
	ON CONFLICT (account, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held,
		started = started + excluded.started;
	INSERT INTO owner_counts (owner, account, waiting, held, bytes, jobs, costs, priced)
	VALUES (OLD.owner, OLD.account, -(OLD.phase = 'waiting'), -(OLD.phase NOT IN ('waiting', 'ended')), -(OLD.bytes * (OLD.phase <> 'ended')), -1,
			CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN -OLD.costs ELSE 0 END, CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN -1 ELSE 0 END),
		(NEW.owner, NEW.account, NEW.phase = 'waiting', NEW.phase NOT IN ('waiting', 'ended'), NEW.bytes * (NEW.phase <> 'ended'), 1,
			CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN NEW.costs ELSE 0 END, CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END)
	ON CONFLICT (owner, account, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held,
		bytes = bytes + excluded.bytes, jobs = jobs + excluded.jobs, costs = costs + excluded.costs, priced = priced + excluded.priced;
	INSERT INTO period_counts (owner, account, period, jobs)
	VALUES (OLD.owner, OLD.account, OLD.created / 300000000, -1), (NEW.owner, NEW.account, NEW.created / 300000000, 1)
	ON CONFLICT (owner, account, period, shard) DO UPDATE SET jobs = jobs + excluded.jobs;
END`

// postgresCountMove is the function of a trigger that counts what the trigger of all updates does not: in which period a job was created. The trigger is one for
// each row, because only those can be limited to statements that write a column.
const postgresCountMove = `CREATE OR REPLACE FUNCTION count_move() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$ BEGIN
	INSERT INTO period_counts AS c (owner, account, period, jobs)
	VALUES (OLD.owner, OLD.account, OLD.created / 300000000, -1), (NEW.owner, NEW.account, NEW.created / 300000000, 1)
	ON CONFLICT (owner, account, period, shard) DO UPDATE SET jobs = c.jobs + excluded.jobs;
	RETURN NULL;
END $body$`

// formerTriggers are the statements that remove the triggers of a database that has them already.
var formerTriggers = map[goose.Dialect][]string{
	goose.DialectSQLite3: {"DROP TRIGGER IF EXISTS count_inserted", "DROP TRIGGER IF EXISTS count_deleted", "DROP TRIGGER IF EXISTS count_phase",
		"DROP TRIGGER IF EXISTS count_costs", "DROP TRIGGER IF EXISTS count_shown"},
	goose.DialectPostgres: {"DROP FUNCTION IF EXISTS count_insert() CASCADE", "DROP FUNCTION IF EXISTS count_delete() CASCADE",
		"DROP FUNCTION IF EXISTS count_update() CASCADE"},
}

// sqliteCountTriggers count job by job: SQLite has no triggers for statements. Paused jobs wait in the counts of their owner, which limit how
// many an owner may have, and not in those of their line and account. Owner and task of a job never change, and
// the account only by a move, see sqliteCountMove.
var sqliteCountTriggers = []string{`
CREATE TRIGGER count_inserted AFTER INSERT ON jobs WHEN NOT NEW.counted BEGIN
	INSERT INTO line_counts (account, owner, task, waiting, held)
	VALUES (NEW.account, NEW.owner, NEW.task, NEW.phase = 'waiting' AND NOT NEW.paused, NEW.phase NOT IN ('waiting', 'ended'))
	ON CONFLICT (account, owner, task, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held;
	INSERT INTO account_counts (account, waiting, held, started)
	VALUES (NEW.account, NEW.phase = 'waiting' AND NOT NEW.paused, NEW.phase NOT IN ('waiting', 'ended'), NEW.phase = 'started')
	ON CONFLICT (account, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held,
		started = started + excluded.started;
	INSERT INTO owner_counts (owner, account, waiting, held, bytes, jobs, costs, priced)
	VALUES (NEW.owner, NEW.account, NEW.phase = 'waiting', NEW.phase NOT IN ('waiting', 'ended'), NEW.bytes * (NEW.phase <> 'ended'), 1,
		CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN NEW.costs ELSE 0 END, CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END)
	ON CONFLICT (owner, account, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held,
		bytes = bytes + excluded.bytes, jobs = jobs + 1, costs = costs + excluded.costs, priced = priced + excluded.priced;
	INSERT INTO period_counts (owner, account, period, jobs) VALUES (NEW.owner, NEW.account, NEW.created / 300000000, 1)
	ON CONFLICT (owner, account, period, shard) DO UPDATE SET jobs = jobs + 1;
	INSERT INTO task_counts (task, status, jobs, progress, first, second, epochs)
	SELECT NEW.task, NEW.status, 1, CASE WHEN NEW.progress BETWEEN 0 AND 100 THEN CAST(round(NEW.progress * 1000000) AS INTEGER) ELSE 0 END,
		NEW.updated % 2147483647, (NEW.updated % 1000003) * (NEW.updated % 1000003), NEW.turn
	WHERE NEW.task <> 0 AND NOT NEW.hidden
	ON CONFLICT (task, status, shard) DO UPDATE SET jobs = jobs + 1, progress = progress + excluded.progress, first = first + excluded.first,
		second = second + excluded.second, epochs = epochs + excluded.epochs;
END`, `
CREATE TRIGGER count_deleted AFTER DELETE ON jobs BEGIN
	UPDATE line_counts SET waiting = waiting - (OLD.phase = 'waiting' AND NOT OLD.paused), held = held - (OLD.phase NOT IN ('waiting', 'ended'))
	WHERE account = OLD.account AND owner = OLD.owner AND task = OLD.task AND shard = 0 AND OLD.phase <> 'ended';
	UPDATE account_counts SET waiting = waiting - (OLD.phase = 'waiting' AND NOT OLD.paused), held = held - (OLD.phase NOT IN ('waiting', 'ended')),
		started = started - (OLD.phase = 'started')
	WHERE account = OLD.account AND shard = 0 AND OLD.phase <> 'ended';
	UPDATE owner_counts SET waiting = waiting - (OLD.phase = 'waiting'), held = held - (OLD.phase NOT IN ('waiting', 'ended')),
		bytes = bytes - OLD.bytes * (OLD.phase <> 'ended'), jobs = jobs - 1,
		costs = costs - CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN OLD.costs ELSE 0 END,
		priced = priced - CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END
	WHERE owner = OLD.owner AND account = OLD.account AND shard = 0;
	UPDATE period_counts SET jobs = jobs - 1
	WHERE owner = OLD.owner AND account = OLD.account AND period = OLD.created / 300000000 AND shard = 0;
	UPDATE task_counts SET jobs = jobs - 1,
		progress = progress - CASE WHEN OLD.progress BETWEEN 0 AND 100 THEN CAST(round(OLD.progress * 1000000) AS INTEGER) ELSE 0 END,
		first = first - OLD.updated % 2147483647, second = second - (OLD.updated % 1000003) * (OLD.updated % 1000003), epochs = epochs - OLD.turn
	WHERE OLD.task <> 0 AND NOT OLD.hidden AND task = OLD.task AND status = OLD.status AND shard = 0;
END`, `
CREATE TRIGGER count_phase AFTER UPDATE OF phase, bytes, paused ON jobs
WHEN OLD.phase <> NEW.phase OR OLD.bytes <> NEW.bytes OR OLD.paused <> NEW.paused BEGIN
	INSERT INTO line_counts (account, owner, task, waiting, held)
	VALUES (NEW.account, NEW.owner, NEW.task, (NEW.phase = 'waiting' AND NOT NEW.paused) - (OLD.phase = 'waiting' AND NOT OLD.paused),
		(NEW.phase NOT IN ('waiting', 'ended')) - (OLD.phase NOT IN ('waiting', 'ended')))
	ON CONFLICT (account, owner, task, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held;
	INSERT INTO account_counts (account, waiting, held, started)
	VALUES (NEW.account, (NEW.phase = 'waiting' AND NOT NEW.paused) - (OLD.phase = 'waiting' AND NOT OLD.paused),
		(NEW.phase NOT IN ('waiting', 'ended')) - (OLD.phase NOT IN ('waiting', 'ended')), (NEW.phase = 'started') - (OLD.phase = 'started'))
	ON CONFLICT (account, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held,
		started = started + excluded.started;
	INSERT INTO owner_counts (owner, account, waiting, held, bytes, jobs, costs, priced)
	VALUES (NEW.owner, NEW.account, (NEW.phase = 'waiting') - (OLD.phase = 'waiting'),
		(NEW.phase NOT IN ('waiting', 'ended')) - (OLD.phase NOT IN ('waiting', 'ended')),
		NEW.bytes * (NEW.phase <> 'ended') - OLD.bytes * (OLD.phase <> 'ended'), 0, 0, 0)
	ON CONFLICT (owner, account, shard) DO UPDATE SET waiting = waiting + excluded.waiting, held = held + excluded.held,
		bytes = bytes + excluded.bytes;
END`, `
CREATE TRIGGER count_costs AFTER UPDATE OF costs ON jobs WHEN OLD.costs IS NOT NEW.costs BEGIN
	UPDATE owner_counts SET costs = costs + CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN NEW.costs ELSE 0 END
			- CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN OLD.costs ELSE 0 END,
		priced = priced + CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END - CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END
	WHERE owner = NEW.owner AND account = NEW.account AND shard = 0;
END`, `
CREATE TRIGGER count_shown AFTER UPDATE OF status, progress, updated, hidden, turn ON jobs
WHEN NEW.task <> 0 AND (OLD.status <> NEW.status OR OLD.updated <> NEW.updated OR OLD.turn <> NEW.turn OR OLD.hidden <> NEW.hidden
	OR OLD.progress IS NOT NEW.progress) BEGIN
	UPDATE task_counts SET jobs = jobs - 1,
		progress = progress - CASE WHEN OLD.progress BETWEEN 0 AND 100 THEN CAST(round(OLD.progress * 1000000) AS INTEGER) ELSE 0 END,
		first = first - OLD.updated % 2147483647, second = second - (OLD.updated % 1000003) * (OLD.updated % 1000003), epochs = epochs - OLD.turn
	WHERE NOT OLD.hidden AND task = OLD.task AND status = OLD.status AND shard = 0;
	INSERT INTO task_counts (task, status, jobs, progress, first, second, epochs)
	SELECT NEW.task, NEW.status, 1, CASE WHEN NEW.progress BETWEEN 0 AND 100 THEN CAST(round(NEW.progress * 1000000) AS INTEGER) ELSE 0 END,
		NEW.updated % 2147483647, (NEW.updated % 1000003) * (NEW.updated % 1000003), NEW.turn
	WHERE NOT NEW.hidden
	ON CONFLICT (task, status, shard) DO UPDATE SET jobs = jobs + 1, progress = progress + excluded.progress, first = first + excluded.first,
		second = second + excluded.second, epochs = epochs + excluded.epochs;
END`}

// postgresCountTriggers count once for each statement, however many jobs it changes. The functions find the tables of counts whatever search
// path the statement was sent with, as that of a restore from a dump. Costs are summed as decimals, so that equal ones cancel out.
func postgresCountTriggers() (statements []string) {
	for _, table := range []string{"line_counts", "account_counts", "owner_counts", "period_counts", "task_counts"} {
		statements = append(statements, "ALTER TABLE "+table+" ALTER COLUMN shard SET DEFAULT pg_backend_pid()")
	}
	for _, on := range []countTrigger{countInsert, countDelete, countUpdate} {
		statements = append(statements, on.function(), "CREATE TRIGGER count_"+on.event+" AFTER "+strings.ToUpper(on.event)+" ON jobs REFERENCING "+on.tables+
			" FOR EACH STATEMENT EXECUTE FUNCTION count_"+on.event+"()")
	}
	return statements
}

// countTrigger is a trigger of PostgreSQL that counts.
type countTrigger struct {
	event  string
	tables string // the names of the jobs that the statement added and removed
	jobs   string // selects the number of jobs
	rows   string // the jobs that the statement added, with sign 1, and those that it removed, with sign -1; an update does both
	single string // sets n, and o to what it was before, if there is one job; "": single jobs are counted like several
	count  string // counts several jobs
}

var (
	countInsert = countTrigger{"insert", "NEW TABLE AS added", "added WHERE NOT counted", "(SELECT 1 AS sign, * FROM added WHERE NOT counted)",
		newJob, postgresCount + postgresCountPeriods}
	countDelete = countTrigger{"delete", "OLD TABLE AS removed", "removed", "(SELECT -1 AS sign, * FROM removed)", "", postgresCount + postgresCountPeriods}
	countUpdate = countTrigger{"update", "OLD TABLE AS removed NEW TABLE AS added", "added", "(SELECT 1 AS sign, * FROM added UNION ALL SELECT -1 AS sign, * FROM removed)",
		"SELECT * INTO n FROM added; SELECT * INTO o FROM removed;", unlessChanged + postgresCount}
)

// unlessChanged returns if nothing that is counted has changed.
const unlessChanged = `
	IF NOT EXISTS (SELECT id, account, phase, paused, bytes, costs, status, progress, updated, hidden, turn FROM added
		EXCEPT SELECT id, account, phase, paused, bytes, costs, status, progress, updated, hidden, turn FROM removed) THEN RETURN NULL; END IF;`

// newJob sets o to a job like n that counts nothing.
const newJob = `SELECT * INTO n FROM added WHERE NOT counted; o := n; o.phase := 'ended'; o.costs := NULL; o.hidden := TRUE; appeared := 1;
	INSERT INTO period_counts AS c (owner, account, period, jobs) VALUES (n.owner, n.account, n.created / 300000000, 1)
	ON CONFLICT (owner, account, period, shard) DO UPDATE SET jobs = c.jobs + 1;`

// function returns the statement that makes the trigger's function.
func (t countTrigger) function() string {
	body := "DECLARE n jobs; o jobs; many BIGINT; appeared BIGINT := 0; BEGIN\n SELECT count(*) INTO many FROM " + t.jobs + ";\n IF many = 0 THEN RETURN NULL; END IF;"
	if t.single != "" {
		body += "\n IF many = 1 THEN " + t.single + "\n IF o.account = n.account THEN" + singleCount() + " RETURN NULL;\n END IF; END IF;"
	}
	return "CREATE OR REPLACE FUNCTION count_" + t.event + "() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$ " + body +
		strings.ReplaceAll(t.count, "$ROWS", t.rows) + " RETURN NULL;\nEND $body$"
}

// singleCount returns the statements that count the change of one job from o to n; appeared is 1 if it did not exist. They write no count that does
// not change. Sums over sets, as for several jobs, take three times as long.
func singleCount() string {
	var (
		waits   = changeOf("CAST($.phase = 'waiting' AND NOT $.paused AS INTEGER)")
		queued  = changeOf("CAST($.phase = 'waiting' AS INTEGER)")
		held    = changeOf("CAST($.phase NOT IN ('waiting', 'ended') AS INTEGER)")
		started = changeOf("CAST($.phase = 'started' AS INTEGER)")
		bytes   = changeOf("CASE $.phase WHEN 'ended' THEN 0 ELSE $.bytes END")
		costs   = changeOf("CASE WHEN $.costs BETWEEN 0 AND 1e12 THEN CAST($.costs AS NUMERIC) ELSE 0 END")
		priced  = changeOf("CASE WHEN $.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END")
	)
	return `
	IF o.phase <> n.phase OR o.paused <> n.paused THEN
		IF (` + waits + `, ` + held + `) <> (0, 0) THEN
			INSERT INTO line_counts AS c (account, owner, task, waiting, held) VALUES (n.account, n.owner, n.task, ` + waits + `, ` + held + `)
			ON CONFLICT (account, owner, task, shard) DO UPDATE SET waiting = c.waiting + excluded.waiting, held = c.held + excluded.held;
		END IF;
		IF (` + waits + `, ` + held + `, ` + started + `) <> (0, 0, 0) THEN
			INSERT INTO account_counts AS c (account, waiting, held, started) VALUES (n.account, ` + waits + `, ` + held + `, ` + started + `)
			ON CONFLICT (account, shard) DO UPDATE SET waiting = c.waiting + excluded.waiting, held = c.held + excluded.held,
				started = c.started + excluded.started;
		END IF;
	END IF;
	IF appeared <> 0 OR (` + queued + `, ` + held + `) <> (0, 0) OR o.bytes <> n.bytes OR o.costs IS DISTINCT FROM n.costs THEN
		INSERT INTO owner_counts AS c (owner, account, waiting, held, bytes, jobs, costs, priced)
		VALUES (n.owner, n.account, ` + queued + `, ` + held + `, ` + bytes + `, appeared, ` + costs + `, ` + priced + `)
		ON CONFLICT (owner, account, shard) DO UPDATE SET waiting = c.waiting + excluded.waiting, held = c.held + excluded.held,
			bytes = c.bytes + excluded.bytes, jobs = c.jobs + excluded.jobs, costs = c.costs + excluded.costs, priced = c.priced + excluded.priced;
	END IF;
	IF n.task = 0 THEN RETURN NULL; END IF;
	IF o.status = n.status AND o.hidden = n.hidden THEN
		IF NOT n.hidden AND ((o.updated, o.turn) <> (n.updated, n.turn) OR o.progress IS DISTINCT FROM n.progress) THEN` + countTask("n.status", "0", changeOf) + `
		END IF;
		RETURN NULL;
	END IF;
	IF NOT o.hidden THEN` + countTask("o.status", "-1", func(of string) string { return "-(" + strings.ReplaceAll(of, "$", "o") + ")" }) + `
	END IF;
	IF NOT n.hidden THEN` + countTask("n.status", "1", func(of string) string { return strings.ReplaceAll(of, "$", "n") }) + `
	END IF;`
}

// changeOf returns by how much an expression differs between o and n; the expression calls the job $.
func changeOf(of string) string {
	return strings.ReplaceAll(of, "$", "n") + " - " + strings.ReplaceAll(of, "$", "o")
}

// countTask returns the statement that adds to the counts of a task's jobs with a status; value returns what it adds to a sum.
func countTask(status, jobs string, value func(of string) string) string {
	return `
		INSERT INTO task_counts AS c (task, status, jobs, progress, first, second, epochs)
		VALUES (n.task, ` + status + `, ` + jobs + `, ` + value("CASE WHEN $.progress BETWEEN 0 AND 100 THEN CAST(round($.progress * 1000000) AS BIGINT) ELSE 0 END") + `,
			` + value("$.updated % 2147483647") + `, ` + value("($.updated % 1000003) * ($.updated % 1000003)") + `, ` + value("$.turn") + `)
		ON CONFLICT (task, status, shard) DO UPDATE SET jobs = c.jobs + excluded.jobs, progress = c.progress + excluded.progress,
			first = c.first + excluded.first, second = c.second + excluded.second, epochs = c.epochs + excluded.epochs;`
}

const postgresCount = `
	INSERT INTO line_counts AS c (account, owner, task, waiting, held)
	SELECT * FROM (SELECT account, owner, task, SUM(CASE WHEN phase = 'waiting' AND NOT paused THEN sign ELSE 0 END) AS waiting,
			SUM(CASE WHEN phase IN ('waiting', 'ended') THEN 0 ELSE sign END) AS held
		FROM $ROWS AS r GROUP BY account, owner, task) AS d
	WHERE (waiting, held) <> (0, 0)
	ON CONFLICT (account, owner, task, shard) DO UPDATE SET waiting = c.waiting + excluded.waiting, held = c.held + excluded.held;
	INSERT INTO account_counts AS c (account, waiting, held, started)
	SELECT * FROM (SELECT account, SUM(CASE WHEN phase = 'waiting' AND NOT paused THEN sign ELSE 0 END) AS waiting,
			SUM(CASE WHEN phase IN ('waiting', 'ended') THEN 0 ELSE sign END) AS held, SUM(CASE phase WHEN 'started' THEN sign ELSE 0 END) AS started
		FROM $ROWS AS r GROUP BY account) AS d
	WHERE (waiting, held, started) <> (0, 0, 0)
	ON CONFLICT (account, shard) DO UPDATE SET waiting = c.waiting + excluded.waiting, held = c.held + excluded.held,
		started = c.started + excluded.started;
	INSERT INTO owner_counts AS c (owner, account, waiting, held, bytes, jobs, costs, priced)
	SELECT * FROM (SELECT owner, account, SUM(CASE phase WHEN 'waiting' THEN sign ELSE 0 END) AS waiting,
			SUM(CASE WHEN phase IN ('waiting', 'ended') THEN 0 ELSE sign END) AS held, SUM(CASE phase WHEN 'ended' THEN 0 ELSE sign * bytes END) AS bytes,
			SUM(sign) AS jobs, SUM(CASE WHEN costs BETWEEN 0 AND 1e12 THEN sign * CAST(costs AS NUMERIC) ELSE 0 END) AS costs,
			SUM(CASE WHEN costs BETWEEN 0 AND 1e12 THEN sign ELSE 0 END) AS priced
		FROM $ROWS AS r GROUP BY owner, account) AS d
	WHERE (waiting, held, bytes, jobs, costs, priced) <> (0, 0, 0, 0, 0, 0)
	ON CONFLICT (owner, account, shard) DO UPDATE SET waiting = c.waiting + excluded.waiting, held = c.held + excluded.held,
		bytes = c.bytes + excluded.bytes, jobs = c.jobs + excluded.jobs, costs = c.costs + excluded.costs, priced = c.priced + excluded.priced;
	INSERT INTO task_counts AS c (task, status, jobs, progress, first, second, epochs)
	SELECT * FROM (SELECT task, status, SUM(sign) AS jobs,
			SUM(CASE WHEN progress BETWEEN 0 AND 100 THEN sign * CAST(round(progress * 1000000) AS BIGINT) ELSE 0 END) AS progress,
			SUM(sign * (updated % 2147483647)) AS first, SUM(sign * (updated % 1000003) * (updated % 1000003)) AS second, SUM(sign * turn) AS epochs
		FROM $ROWS AS r WHERE task <> 0 AND NOT hidden GROUP BY task, status) AS d
	WHERE (jobs, progress, first, second, epochs) <> (0, 0, 0, 0, 0)
	ON CONFLICT (task, status, shard) DO UPDATE SET jobs = c.jobs + excluded.jobs, progress = c.progress + excluded.progress,
		first = c.first + excluded.first, second = c.second + excluded.second, epochs = c.epochs + excluded.epochs;`

// postgresCountPeriods counts by the time of creation, which never changes.
const postgresCountPeriods = `
	INSERT INTO period_counts AS c (owner, account, period, jobs)
	SELECT * FROM (SELECT owner, account, created / 300000000 AS period, SUM(sign) AS jobs FROM $ROWS AS r GROUP BY owner, account, period) AS d
	WHERE jobs <> 0
	ON CONFLICT (owner, account, period, shard) DO UPDATE SET jobs = c.jobs + excluded.jobs;`
