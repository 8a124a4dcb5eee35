CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
CREATE TABLE accounts (
	id             TEXT PRIMARY KEY,
	generation     BIGINT NOT NULL DEFAULT 0,
	lease_until    BIGINT NOT NULL DEFAULT 0,
	wakes          BIGINT NOT NULL DEFAULT 0,
	due            BIGINT NOT NULL DEFAULT 0,
	hold           BIGINT NOT NULL DEFAULT 0, -- until when nothing is submitted
	hold_attention TEXT NOT NULL DEFAULT '',
	hold_notice    TEXT NOT NULL DEFAULT ''
, sign_in_since BIGINT NOT NULL DEFAULT 0, reading_slot BIGINT NOT NULL DEFAULT 0, acting_slot BIGINT NOT NULL DEFAULT 0, served BIGINT NOT NULL DEFAULT 0, restored BIGINT NOT NULL DEFAULT 0, lapses BIGINT NOT NULL DEFAULT 0, lapsed BIGINT NOT NULL DEFAULT 0);
CREATE INDEX accounts_due ON accounts (due, id) WHERE due > 0;
CREATE INDEX accounts_leased ON accounts (lease_until) WHERE lease_until > 0;
CREATE TABLE tasks (
	id        BIGINT PRIMARY KEY,
	owner     TEXT NOT NULL,
	account   TEXT NOT NULL,
	request   TEXT NOT NULL, -- what its jobs share
	dimension TEXT NOT NULL,
	hidden    BOOLEAN NOT NULL DEFAULT FALSE,
	created   BIGINT NOT NULL
, paused BOOLEAN NOT NULL DEFAULT FALSE, edited BIGINT NOT NULL DEFAULT 0, pruned BOOLEAN NOT NULL DEFAULT FALSE, sent BIGINT NOT NULL DEFAULT 0, annotations TEXT NOT NULL DEFAULT '', told_share BIGINT NOT NULL DEFAULT 0, ends BIGINT NOT NULL DEFAULT 0, ended_as TEXT NOT NULL DEFAULT '', budget DOUBLE PRECISION NOT NULL DEFAULT 0, budget_unit TEXT NOT NULL DEFAULT '', trial BIGINT NOT NULL DEFAULT 0, paused_for TEXT NOT NULL DEFAULT '');
CREATE TABLE jobs (
	id        BIGINT PRIMARY KEY,
	task      BIGINT NOT NULL, -- 0: none
	number    BIGINT NOT NULL,
	owner     TEXT NOT NULL,
	account   TEXT NOT NULL,
	base      TEXT NOT NULL,
	desired   TEXT NOT NULL,
	hidden    BOOLEAN NOT NULL DEFAULT FALSE,
	phase     TEXT NOT NULL,
	turn      BIGINT NOT NULL DEFAULT 0,
	attempt   BIGINT NOT NULL DEFAULT 0,
	send_by   BIGINT NOT NULL DEFAULT 0,
	ref_base  TEXT NOT NULL DEFAULT '',
	ref_id    TEXT NOT NULL DEFAULT '',
	strays    TEXT NOT NULL DEFAULT '', -- JSON, '' for none
	status    TEXT NOT NULL,
	seen      TEXT NOT NULL DEFAULT '',
	progress  DOUBLE PRECISION,
	costs     DOUBLE PRECISION,
	attention TEXT NOT NULL DEFAULT '',
	notice    TEXT NOT NULL DEFAULT '',
	failure   TEXT NOT NULL DEFAULT '',
	due       BIGINT NOT NULL,
	looks     BIGINT NOT NULL DEFAULT 0,
	tries     BIGINT NOT NULL DEFAULT 0,
	awaited   BOOLEAN NOT NULL,
	created   BIGINT NOT NULL,
	updated   BIGINT NOT NULL,
	checked   BIGINT NOT NULL DEFAULT 0,
	moved     BIGINT NOT NULL,
	version   BIGINT NOT NULL DEFAULT 1,

	-- Who waits together, see dispatch.Line.
	line      TEXT NOT NULL GENERATED ALWAYS AS (owner || '/' || CAST(task AS TEXT)) STORED,
	-- What a visit has to do for it once it is due. A cancel waits until what is in doubt is over, and until there is
	-- something to cancel.
	step      TEXT NOT NULL GENERATED ALWAYS AS (CASE
		WHEN strays <> '' THEN 'cancel'
		WHEN phase = 'waiting' THEN 'wait'
		WHEN phase = 'ended' THEN 'none'
		WHEN phase = 'creating' THEN 'settle'
		WHEN desired = 'canceled' THEN 'cancel'
		WHEN phase = 'starting' THEN 'settle'
		WHEN phase = 'created' THEN 'start'
		ELSE 'learn' END) STORED
, past TEXT NOT NULL DEFAULT '', refused BIGINT NOT NULL DEFAULT 0, max_duration BIGINT NOT NULL DEFAULT 0, deadline BIGINT NOT NULL DEFAULT 0, duration BIGINT NOT NULL DEFAULT 0, intent_lease BIGINT NOT NULL DEFAULT 0, nonces TEXT NOT NULL DEFAULT '', unmoved BIGINT NOT NULL DEFAULT 0, begun BIGINT NOT NULL DEFAULT 0, bytes BIGINT NOT NULL DEFAULT 0, counted BOOLEAN NOT NULL DEFAULT FALSE, service_hash BIGINT NOT NULL DEFAULT 0, paused BOOLEAN NOT NULL DEFAULT FALSE, unit TEXT NOT NULL DEFAULT '', spent DOUBLE PRECISION NOT NULL DEFAULT 0, metered TEXT NOT NULL DEFAULT '', unmetered TEXT NOT NULL DEFAULT '', meter_due BIGINT NOT NULL DEFAULT 0, pruned BOOLEAN NOT NULL DEFAULT FALSE, annotations TEXT NOT NULL DEFAULT '', traceparent TEXT NOT NULL DEFAULT '', retries BIGINT NOT NULL DEFAULT 0, retried BIGINT NOT NULL DEFAULT 0, budgeted BOOLEAN NOT NULL DEFAULT FALSE);
CREATE INDEX jobs_step ON jobs (account, step, due, id);
CREATE INDEX jobs_line ON jobs (account, line, due, id) WHERE phase = 'waiting';
CREATE INDEX jobs_held ON jobs (account) WHERE phase NOT IN ('waiting', 'ended');
CREATE INDEX jobs_single ON jobs (owner, created, id) WHERE task = 0;
CREATE INDEX jobs_hidden ON jobs (moved) WHERE hidden;
CREATE TABLE requests (
	job  BIGINT PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
	body TEXT NOT NULL
);
CREATE TABLE results (
	job  BIGINT PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
	body TEXT NOT NULL
);
CREATE TABLE keys (
	owner       TEXT NOT NULL,
	name        TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	task        BIGINT NOT NULL,
	job         BIGINT NOT NULL,
	created     BIGINT NOT NULL,
	PRIMARY KEY (owner, name)
);
CREATE INDEX keys_created ON keys (created);
CREATE TABLE ids (
	name TEXT PRIMARY KEY,
	last BIGINT NOT NULL
);
CREATE TABLE installation (
	one  BIGINT PRIMARY KEY CHECK (one = 1),
	name TEXT NOT NULL
);
CREATE INDEX tasks_owner ON tasks (owner, created, id) WHERE NOT hidden;
CREATE TABLE grants (
	id      TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	issuer  TEXT NOT NULL,
	kind    TEXT NOT NULL,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	created BIGINT NOT NULL,
	renewed BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	version BIGINT NOT NULL DEFAULT 1,
	UNIQUE (owner, issuer)
);
CREATE TABLE tokens (
	name    TEXT PRIMARY KEY,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	expires BIGINT NOT NULL
);
CREATE TABLE documents (
	hash TEXT PRIMARY KEY, -- SHA-256 of the body
	body TEXT NOT NULL
);
CREATE TABLE definitions (
	task     BIGINT NOT NULL, -- 0: a job's
	job      BIGINT NOT NULL, -- 0: a task's
	owner    TEXT NOT NULL,
	platform TEXT NOT NULL,
	service  TEXT NOT NULL, -- a dispatch.Service in JSON
	document TEXT NOT NULL REFERENCES documents,
	told     TEXT NOT NULL DEFAULT '', -- the hash of the document since, if that is another
	PRIMARY KEY (task, job)
);
CREATE INDEX definitions_document ON definitions (document);
CREATE INDEX jobs_owner ON jobs (owner, created, account);
CREATE INDEX jobs_number ON jobs (task, number) WHERE task <> 0;
CREATE TABLE timetables (
	platform TEXT PRIMARY KEY,
	free     BIGINT NOT NULL DEFAULT 0,
	kept     BIGINT NOT NULL DEFAULT 0,
	seen     BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE platforms (
	name     TEXT PRIMARY KEY,
	answered BIGINT NOT NULL, -- when it last answered
	failed   BIGINT NOT NULL, -- when it last did not
	failure  TEXT NOT NULL
, prompt_starts BIGINT NOT NULL DEFAULT 0, start_lag BIGINT NOT NULL DEFAULT 0);
CREATE INDEX jobs_started ON jobs (owner, phase, task) WHERE phase = 'started';
CREATE TABLE turns (
	account TEXT NOT NULL,
	line    TEXT NOT NULL,
	served  BIGINT NOT NULL,
	PRIMARY KEY (account, line)
);
CREATE TABLE served (
	platform TEXT PRIMARY KEY,
	seen     BIGINT NOT NULL
);
CREATE TABLE settings (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
);
CREATE TABLE unrecognized (
	account  TEXT NOT NULL,
	ref_base TEXT NOT NULL,
	ref_id   TEXT NOT NULL,
	tag      TEXT NOT NULL,
	status   TEXT NOT NULL,
	found    BIGINT NOT NULL,
	PRIMARY KEY (account, ref_base, ref_id)
);
CREATE INDEX jobs_attention ON jobs (task, attention) WHERE task <> 0 AND attention <> '' AND NOT hidden;
CREATE TABLE sync_runs (
	id       BIGINT PRIMARY KEY,
	owner    TEXT NOT NULL,
	account  TEXT NOT NULL,
	request  TEXT NOT NULL,
	status   TEXT NOT NULL,
	ref_base TEXT NOT NULL DEFAULT '',
	ref_id   TEXT NOT NULL DEFAULT '',
	failure  TEXT NOT NULL DEFAULT '',
	lapses   BIGINT NOT NULL, -- when the process that runs it is lost, unless it renews
	created  BIGINT NOT NULL,
	ended    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sync_runs_owner ON sync_runs (owner, created, id, account);
CREATE INDEX sync_runs_live ON sync_runs (owner, lapses, account) WHERE ended = 0;
CREATE INDEX sync_runs_created ON sync_runs (created);
CREATE TABLE withdrawals (
	owner  TEXT NOT NULL,
	issuer TEXT NOT NULL,
	PRIMARY KEY (owner, issuer)
);
CREATE TABLE revocations (
	id      TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	issuer  TEXT NOT NULL,
	kind    TEXT NOT NULL,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	created BIGINT NOT NULL
);
CREATE INDEX jobs_unprepared ON jobs (account, step, attention, due, id) WHERE step = 'wait' AND attention = 'application_unreachable';
CREATE TABLE line_counts (
	account TEXT NOT NULL,
	owner   TEXT NOT NULL,
	task    BIGINT NOT NULL,
	shard   BIGINT NOT NULL DEFAULT 0,
	waiting BIGINT NOT NULL,
	held    BIGINT NOT NULL, -- that hold a slot
	PRIMARY KEY (account, owner, task, shard)
);
CREATE TABLE account_counts (
	account TEXT NOT NULL,
	shard   BIGINT NOT NULL DEFAULT 0,
	waiting BIGINT NOT NULL,
	held    BIGINT NOT NULL,
	started BIGINT NOT NULL, -- of those held
	PRIMARY KEY (account, shard)
);
CREATE TABLE owner_counts (
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	shard   BIGINT NOT NULL DEFAULT 0,
	waiting BIGINT NOT NULL,
	held    BIGINT NOT NULL,
	bytes   BIGINT NOT NULL, -- of the requests of unfinished jobs
	jobs    BIGINT NOT NULL, -- all that are stored
	costs   DOUBLE PRECISION NOT NULL,
	priced  BIGINT NOT NULL, -- jobs with costs
	PRIMARY KEY (owner, account, shard)
);
CREATE TABLE period_counts (
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	period  BIGINT NOT NULL, -- jobs.created divided by five minutes
	shard   BIGINT NOT NULL DEFAULT 0,
	jobs    BIGINT NOT NULL,
	PRIMARY KEY (owner, account, period, shard)
);
CREATE TABLE task_counts (
	task     BIGINT NOT NULL,
	status   TEXT NOT NULL,
	shard    BIGINT NOT NULL DEFAULT 0,
	jobs     BIGINT NOT NULL,
	progress BIGINT NOT NULL, -- sum, in millionths of a percent, which have no rounding errors
	first    BIGINT NOT NULL, -- sums over jobs.updated, see dispatch.SumUpdated
	second   BIGINT NOT NULL,
	epochs   BIGINT NOT NULL, -- sum of jobs.turn
	PRIMARY KEY (task, status, shard)
);
CREATE INDEX jobs_finished ON jobs (task, moved, id) WHERE task <> 0 AND status = 'finished' AND NOT hidden;
CREATE INDEX jobs_changed ON jobs (task, updated) WHERE task <> 0;
CREATE TABLE run_times (
	platform TEXT NOT NULL,
	service  BIGINT NOT NULL,
	spans    TEXT NOT NULL,
	updated  BIGINT NOT NULL,
	PRIMARY KEY (platform, service)
);
CREATE TABLE sources (
	name      TEXT PRIMARY KEY,
	documents TEXT NOT NULL DEFAULT '[]', -- JSON, see dispatch.SourceDocument
	read      BIGINT NOT NULL DEFAULT 0,
	failure   TEXT NOT NULL DEFAULT '',
	revision  BIGINT NOT NULL DEFAULT 0,
	claim     BIGINT NOT NULL DEFAULT 0, -- number of the last claim
	due       BIGINT NOT NULL DEFAULT 0  -- when a process may claim it
);
CREATE TABLE sessions (
	id      TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	issuer  TEXT NOT NULL,
	sid     TEXT NOT NULL,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	created BIGINT NOT NULL,
	ends    BIGINT NOT NULL,
	version BIGINT NOT NULL DEFAULT 1
);
CREATE INDEX sessions_of_owner ON sessions (owner, created);
CREATE INDEX sessions_of_provider ON sessions (issuer, sid);
CREATE INDEX sessions_by_end ON sessions (ends);
CREATE INDEX jobs_filtered ON jobs (owner, account, status, created, id) WHERE task = 0 AND NOT hidden;
CREATE INDEX jobs_updated ON jobs (owner, updated) WHERE task = 0 AND NOT hidden;
CREATE INDEX jobs_task_status ON jobs (task, status, number) WHERE task <> 0 AND NOT hidden;
CREATE INDEX accounts_of_platform ON accounts ((substr(id, 1, length(id) - length(ltrim(id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-')))), due, id) WHERE due > 0;
CREATE INDEX tasks_hidden ON tasks (id) WHERE hidden;
CREATE INDEX tokens_by_end ON tokens (expires);
CREATE INDEX period_counts_by_period ON period_counts (period);
CREATE INDEX line_counts_unmerged ON line_counts (account, owner, task, shard) WHERE shard <> 0;
CREATE INDEX account_counts_unmerged ON account_counts (account, shard) WHERE shard <> 0;
CREATE INDEX owner_counts_unmerged ON owner_counts (owner, account, shard) WHERE shard <> 0;
CREATE INDEX period_counts_unmerged ON period_counts (owner, account, period, shard) WHERE shard <> 0;
CREATE INDEX task_counts_unmerged ON task_counts (task, status, shard) WHERE shard <> 0;
CREATE TABLE processes (
	owner   TEXT NOT NULL,
	id      TEXT NOT NULL,
	body    TEXT NOT NULL, -- JSON, as it was sent
	bytes   BIGINT NOT NULL,
	updated BIGINT NOT NULL,
	PRIMARY KEY (owner, id)
);
CREATE TABLE unstarted (
	job     BIGINT NOT NULL, -- 0: a task
	task    BIGINT NOT NULL, -- 0: a job
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	title   TEXT NOT NULL,
	body    TEXT NOT NULL,
	created BIGINT NOT NULL,
	updated BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	version BIGINT NOT NULL DEFAULT 1,
	PRIMARY KEY (job, task)
);
CREATE INDEX unstarted_owner ON unstarted (owner, created);
CREATE INDEX unstarted_expires ON unstarted (expires);
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
END;
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
END;
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
END;
CREATE TRIGGER count_costs AFTER UPDATE OF costs ON jobs WHEN OLD.costs IS NOT NEW.costs BEGIN
	UPDATE owner_counts SET costs = costs + CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN NEW.costs ELSE 0 END
			- CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN OLD.costs ELSE 0 END,
		priced = priced + CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END - CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END
	WHERE owner = NEW.owner AND account = NEW.account AND shard = 0;
END;
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
END;
CREATE TABLE census (
	one    BIGINT PRIMARY KEY CHECK (one = 1),
	holder TEXT NOT NULL,
	ends   BIGINT NOT NULL -- of its lease
);
CREATE INDEX jobs_queue ON jobs (account, phase, line, due, id) WHERE phase = 'waiting' AND due < 253370764800000000;
CREATE TABLE hooks (
	id       TEXT PRIMARY KEY,
	owner    TEXT NOT NULL,
	url      TEXT NOT NULL,
	statuses TEXT NOT NULL, -- that are told, as '|finished|failed|'
	key      TEXT NOT NULL,
	sealed   TEXT NOT NULL,
	gone     BOOLEAN NOT NULL DEFAULT FALSE, -- the receiver wants nothing more
	hold     BIGINT NOT NULL DEFAULT 0,      -- until when nothing is sent
	failures BIGINT NOT NULL DEFAULT 0,      -- rounds of deliveries in a row in which none arrived
	ran      BIGINT NOT NULL DEFAULT 0,      -- when the last round ended
	created  BIGINT NOT NULL
, kind TEXT NOT NULL DEFAULT 'webhook', job BIGINT NOT NULL DEFAULT 0, task BIGINT NOT NULL DEFAULT 0);
CREATE INDEX hooks_of_owner ON hooks (owner, created);
CREATE TABLE deliveries (
	hook     TEXT NOT NULL,
	job      BIGINT NOT NULL, -- 0: a test
	epoch    BIGINT NOT NULL, -- jobs.turn; of a test its time
	status   TEXT NOT NULL,
	task     BIGINT NOT NULL,
	number   BIGINT NOT NULL,
	happened BIGINT NOT NULL,
	queued   BIGINT NOT NULL,           -- since when it is to be sent
	due      BIGINT NOT NULL,           -- 0: no more
	state    TEXT NOT NULL DEFAULT 'waiting', -- or delivered, failed
	tries    BIGINT NOT NULL DEFAULT 0,
	tried    BIGINT NOT NULL DEFAULT 0, -- when the last one began
	answer   BIGINT NOT NULL DEFAULT 0, -- HTTP status of the last one; 0: none
	notice   TEXT NOT NULL DEFAULT '',  -- why the last one failed
	PRIMARY KEY (hook, job, epoch, status)
);
CREATE INDEX deliveries_due ON deliveries (hook, due) WHERE due > 0;
CREATE INDEX deliveries_of_hook ON deliveries (hook, happened);
CREATE INDEX deliveries_by_age ON deliveries (queued);
CREATE TABLE ledger (
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	month   TEXT NOT NULL, -- 2026-11
	unit    TEXT NOT NULL, -- of the platform; '': it names none
	shard   BIGINT NOT NULL DEFAULT 0,
	costs   DOUBLE PRECISION NOT NULL,
	runs    BIGINT NOT NULL, -- with costs
	PRIMARY KEY (owner, account, month, unit, shard)
);
CREATE TABLE task_costs (
	task  BIGINT NOT NULL,
	unit  TEXT NOT NULL,
	shard BIGINT NOT NULL DEFAULT 0,
	costs DOUBLE PRECISION NOT NULL,
	runs  BIGINT NOT NULL,
	PRIMARY KEY (task, unit, shard)
);
CREATE TRIGGER book_costs AFTER UPDATE OF costs, spent ON jobs WHEN (NEW.costs IS NOT NULL AND NEW.costs IS DISTINCT FROM OLD.costs OR NEW.spent <> OLD.spent AND NEW.costs IS NOT DISTINCT FROM OLD.costs) BEGIN
	INSERT INTO ledger (owner, account, month, unit, costs, runs)
	VALUES (NEW.owner, NEW.account, strftime('%Y-%m', NEW.updated / 1000000, 'unixepoch'), NEW.unit, CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN NEW.costs ELSE 0 END - CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN OLD.costs ELSE 0 END + NEW.spent - OLD.spent,
	CASE WHEN OLD.costs IS NULL OR NEW.spent <> OLD.spent THEN 1 ELSE 0 END)
	ON CONFLICT (owner, account, month, unit, shard) DO UPDATE SET costs = costs + excluded.costs, runs = runs + excluded.runs;
	INSERT INTO task_costs (task, unit, costs, runs) SELECT NEW.task, NEW.unit, CASE WHEN NEW.costs BETWEEN 0 AND 1e12 THEN NEW.costs ELSE 0 END - CASE WHEN OLD.costs BETWEEN 0 AND 1e12 THEN OLD.costs ELSE 0 END + NEW.spent - OLD.spent,
	CASE WHEN OLD.costs IS NULL OR NEW.spent <> OLD.spent THEN 1 ELSE 0 END WHERE NEW.task <> 0
	ON CONFLICT (task, unit, shard) DO UPDATE SET costs = costs + excluded.costs, runs = runs + excluded.runs;
END;
CREATE INDEX jobs_meter ON jobs (account, meter_due, id) WHERE meter_due > 0;
CREATE INDEX jobs_aging ON jobs (pruned, moved) WHERE task = 0 AND phase = 'ended';
CREATE TABLE operator_holds (
	scope   TEXT PRIMARY KEY,
	notice  TEXT NOT NULL,
	held_by TEXT NOT NULL,
	since   BIGINT NOT NULL
);
CREATE TABLE events (
	job       BIGINT NOT NULL,
	at        BIGINT NOT NULL,
	what      TEXT NOT NULL,
	phase     TEXT NOT NULL,
	status    TEXT NOT NULL,
	attention TEXT NOT NULL,
	attempt   BIGINT NOT NULL,
	outcome   TEXT NOT NULL,
	took      BIGINT NOT NULL,
	detail    TEXT NOT NULL
);
CREATE INDEX events_of_job ON events (job, at);
CREATE INDEX events_by_age ON events (at);
CREATE INDEX deliveries_of_job ON deliveries (job);
CREATE INDEX hooks_of_job ON hooks (owner, job, task, created);
CREATE TRIGGER add_deliveries AFTER UPDATE OF status ON jobs
WHEN NEW.status <> OLD.status AND NEW.status IN ('running', 'finished', 'failed', 'canceled') AND NOT NEW.hidden BEGIN
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, NEW.id, NEW.turn, NEW.status, NEW.task, NEW.number, NEW.updated, NEW.updated, NEW.updated FROM hooks h
	WHERE h.owner = NEW.owner AND h.job IN (0, NEW.id) AND h.task IN (0, NEW.task) AND (h.job = 0 OR h.task = 0) AND NOT h.gone AND replace(h.statuses, '|' || NEW.status || '|', '') <> h.statuses
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;
END;
CREATE INDEX jobs_open ON jobs (owner, task) WHERE phase <> 'ended';
CREATE TABLE task_marks (
	task  BIGINT NOT NULL,
	job   BIGINT NOT NULL,
	epoch BIGINT NOT NULL, -- jobs.turn
	PRIMARY KEY (task, job, epoch)
);
CREATE TRIGGER mark_task AFTER UPDATE OF status ON jobs WHEN NEW.status <> OLD.status AND NEW.status IN ('finished', 'failed', 'canceled') AND NEW.task <> 0 AND NOT NEW.hidden BEGIN
	INSERT INTO task_marks (task, job, epoch) SELECT NEW.task, NEW.id, NEW.turn
	WHERE EXISTS (SELECT 1 FROM hooks h WHERE h.owner = NEW.owner AND h.job IN (0, NEW.id) AND h.task IN (0, NEW.task) AND (h.job = 0 OR h.task = 0) AND NOT h.gone AND replace(h.statuses, '|task_', '') <> h.statuses)
	ON CONFLICT (task, job, epoch) DO NOTHING;
END;
CREATE TRIGGER add_attention AFTER UPDATE OF attention ON jobs WHEN NEW.attention <> OLD.attention AND NEW.phase <> 'ended' AND NOT NEW.hidden
	AND NEW.attention IN ('sign_in_required', 'submission_unknown', 'set_aside', 'stalled') BEGIN
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, NEW.id, NEW.turn, 'attention', NEW.task, NEW.number, NEW.updated, NEW.updated, NEW.updated FROM hooks h
	WHERE h.owner = NEW.owner AND h.job IN (0, NEW.id) AND h.task IN (0, NEW.task) AND (h.job = 0 OR h.task = 0) AND NOT h.gone AND replace(h.statuses, '|attention|', '') <> h.statuses
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;
END;
CREATE TRIGGER add_sign_in AFTER UPDATE OF sign_in_since ON accounts WHEN NEW.sign_in_since > OLD.sign_in_since BEGIN
	INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
	SELECT h.id, 0, NEW.sign_in_since, 'sign_in_required', 0, 0, NEW.sign_in_since, NEW.sign_in_since, NEW.sign_in_since FROM hooks h
	WHERE h.owner = substr(NEW.id, instr(NEW.id, '/') + 1) AND NOT h.gone AND replace(h.statuses, '|attention|', '') <> h.statuses
		AND (h.job = 0 AND h.task = 0 OR EXISTS (SELECT 1 FROM jobs j WHERE j.id = h.job AND j.account = NEW.id AND j.phase <> 'ended')
			OR EXISTS (SELECT 1 FROM jobs j WHERE j.task = h.task AND j.task <> 0 AND j.account = NEW.id AND j.phase <> 'ended'))
	ON CONFLICT (hook, job, epoch, status) DO NOTHING;
END;
CREATE INDEX task_marks_of_job ON task_marks (job);
CREATE INDEX deliveries_waiting ON deliveries (queued) WHERE due > 0;
CREATE INDEX hooks_held ON hooks (hold) WHERE hold > 0;
CREATE TABLE job_labels (
	job     BIGINT NOT NULL REFERENCES jobs ON DELETE CASCADE,
	owner   TEXT NOT NULL,
	name    TEXT NOT NULL,
	value   TEXT NOT NULL,
	created BIGINT NOT NULL, -- of the job
	PRIMARY KEY (job, name)
);
CREATE INDEX job_labels_found ON job_labels (owner, name, value, created, job);
CREATE TABLE task_labels (
	task    BIGINT NOT NULL REFERENCES tasks ON DELETE CASCADE,
	owner   TEXT NOT NULL,
	name    TEXT NOT NULL,
	value   TEXT NOT NULL,
	created BIGINT NOT NULL, -- of the task
	PRIMARY KEY (task, name)
);
CREATE INDEX task_labels_found ON task_labels (owner, name, value, created, task);
CREATE TRIGGER mark_gone AFTER UPDATE OF hidden ON jobs WHEN NEW.hidden AND NOT OLD.hidden AND NEW.phase <> 'ended' AND NEW.task <> 0 BEGIN
	INSERT INTO task_marks (task, job, epoch) SELECT NEW.task, NEW.id, NEW.turn
	WHERE EXISTS (SELECT 1 FROM hooks h WHERE h.owner = NEW.owner AND h.job IN (0, NEW.id) AND h.task IN (0, NEW.task) AND (h.job = 0 OR h.task = 0) AND NOT h.gone AND replace(h.statuses, '|task_', '') <> h.statuses)
	ON CONFLICT (task, job, epoch) DO NOTHING;
END;
CREATE INDEX jobs_budgeted ON jobs (task) WHERE task <> 0 AND budgeted AND (phase NOT IN ('waiting', 'ended') OR meter_due > 0);
CREATE INDEX jobs_finished_runs ON jobs (owner, account, service_hash, moved) WHERE status = 'finished';
CREATE INDEX jobs_troubled ON jobs (moved, id) WHERE phase NOT IN ('waiting', 'ended') AND attention <> '';
CREATE INDEX jobs_set_aside ON jobs (moved, id) WHERE attention = 'set_aside' AND NOT hidden;
CREATE INDEX accounts_held ON accounts (hold) WHERE hold > 0;
INSERT INTO census (one, holder, ends) VALUES (1, '', 0);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (1, 0, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (2, 1, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (3, 2, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (4, 3, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (5, 4, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (6, 5, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (7, 6, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (8, 7, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (9, 8, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (10, 9, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (11, 10, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (12, 11, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (13, 12, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (14, 13, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (15, 14, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (16, 16, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (17, 17, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (18, 19, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (19, 20, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (20, 21, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (21, 23, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (22, 25, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (23, 26, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (24, 28, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (25, 29, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (26, 30, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (27, 31, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (28, 32, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (29, 33, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (30, 34, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (31, 36, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (32, 38, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (33, 40, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (34, 41, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (35, 42, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (36, 44, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (37, 45, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (38, 48, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (39, 49, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (40, 50, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (41, 51, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (42, 52, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (43, 56, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (44, 57, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (45, 59, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (46, 60, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (47, 61, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (48, 63, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (49, 64, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (50, 65, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (51, 66, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (52, 67, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (53, 68, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (54, 69, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (55, 70, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (56, 71, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (57, 72, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (58, 73, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (59, 74, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (60, 76, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (61, 78, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (62, 81, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (63, 82, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (64, 83, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (65, 87, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (66, 88, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (67, 92, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (68, 93, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (69, 94, 1);
INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (70, 95, 1);
INSERT INTO ids (name, last) VALUES ('job', 0);
INSERT INTO ids (name, last) VALUES ('task', 0);
