-- The schema on SQLite. On PostgreSQL keys are BIGINT where they are INTEGER here: such a key is that of the table itself
-- on SQLite. That of jobs is a BIGINT there, too, with an index of its own, because SQLite does not compare (due, id) by
-- an index if id is the key of the table. Times are microseconds since 1970; 0 is no time. JSON is kept as text, to the
-- byte. Each index says which rows it finds.

-- Accounts, and what waits for them ---------------------------------------------------------------------------------

-- An account of the broker or of a user at a platform. Its row is the queue of the engine.
CREATE TABLE accounts (
	id                TEXT PRIMARY KEY, -- PLATFORM/shared or PLATFORM/OWNER, see dispatch.Account
	platform          TEXT NOT NULL,
	due               BIGINT NOT NULL DEFAULT 0, -- when it is to be visited; 0: nothing is to be done
	wakes             BIGINT NOT NULL DEFAULT 0, -- number of wakes, by which a visit knows whether it missed one
	generation        BIGINT NOT NULL DEFAULT 0, -- of its lease; a visit writes only with the generation that it took
	lease_until       BIGINT NOT NULL DEFAULT 0, -- 0: nobody visits it
	lapses            BIGINT NOT NULL DEFAULT 0, -- leases in a row that ran out, see dispatch.Lease
	lapsed            BIGINT NOT NULL DEFAULT 0, -- when the last one did
	served            BIGINT NOT NULL DEFAULT 0, -- number of slots that it has given away
	reading_send_time BIGINT NOT NULL DEFAULT 0, -- when it may read from its platform next, see dispatch.Schedule
	acting_send_time  BIGINT NOT NULL DEFAULT 0, -- when it may send a request with an effect
	hold              BIGINT NOT NULL DEFAULT 0, -- until when nothing is submitted
	hold_attention    TEXT NOT NULL DEFAULT '', -- the reason
	hold_notice       TEXT NOT NULL DEFAULT '',
	sign_in_since     BIGINT NOT NULL DEFAULT 0, -- since when its jobs wait for the sign-in of its user
	restored          BIGINT NOT NULL DEFAULT 0 -- not 0: to be compared with its platform's list, see dispatch.Restored
);
-- The next accounts to visit
CREATE INDEX accounts_due ON accounts (due, id) WHERE due > 0;
-- When the next lease lapses
CREATE INDEX accounts_leased ON accounts (lease_until) WHERE lease_until > 0;
-- For metrics: accounts whose platform is held
CREATE INDEX accounts_held ON accounts (hold) WHERE hold > 0;
-- The next accounts to visit of one platform
CREATE INDEX accounts_of_platform ON accounts (platform, due, id) WHERE due > 0;

-- Which send times of a platform are given away, see dispatch.Schedule.
CREATE TABLE schedules (
	platform TEXT PRIMARY KEY,
	next     BIGINT NOT NULL DEFAULT 0, -- the first that is free
	kept     BIGINT NOT NULL DEFAULT 0, -- the first that is free of those that are kept
	seen     BIGINT NOT NULL DEFAULT 0 -- when the last one was given away
);

-- What was last heard of platforms.
CREATE TABLE platforms (
	name          TEXT PRIMARY KEY,
	answered      BIGINT NOT NULL, -- when it last answered
	failed        BIGINT NOT NULL, -- when it last did not
	failure       TEXT NOT NULL,
	prompt_starts BIGINT NOT NULL DEFAULT 0, -- what statuses have shown after confirmed starts, see dispatch.Promptness
	start_lag     BIGINT NOT NULL DEFAULT 0 -- microseconds
);

-- When a process last noted that it serves a platform.
CREATE TABLE served (
	platform TEXT PRIMARY KEY,
	seen     BIGINT NOT NULL
);

-- What an operator holds: a platform by its name, or an account.
CREATE TABLE operator_holds (
	scope   TEXT PRIMARY KEY,
	notice  TEXT NOT NULL,
	held_by TEXT NOT NULL,
	since   BIGINT NOT NULL
);

-- Jobs at platforms that carry the tag of this installation and are not known here, found after the database was
-- set back.
CREATE TABLE unrecognized (
	account  TEXT NOT NULL,
	ref_base TEXT NOT NULL,
	ref_id   TEXT NOT NULL,
	tag      TEXT NOT NULL,
	status   TEXT NOT NULL,
	found    BIGINT NOT NULL,
	PRIMARY KEY (account, ref_base, ref_id)
);

-- Tasks -------------------------------------------------------------------------------------------------------------

CREATE TABLE tasks (
	id             INTEGER PRIMARY KEY,
	owner          TEXT NOT NULL,
	account        TEXT NOT NULL,
	created        BIGINT NOT NULL,
	hidden         BOOLEAN NOT NULL DEFAULT FALSE, -- its owner deleted it
	edited         BIGINT NOT NULL DEFAULT 0, -- when its owner last paused, resumed, canceled or annotated it
	paused         BOOLEAN NOT NULL DEFAULT FALSE,
	paused_for     TEXT NOT NULL DEFAULT '', -- the attention of a task that its owner did not pause
	trial          BIGINT NOT NULL DEFAULT 0, -- how many of the first jobs run before the task is resumed; 0: no trial
	budget         DOUBLE PRECISION NOT NULL DEFAULT 0, -- 0: none
	budget_unit    TEXT NOT NULL DEFAULT '',
	spread         BOOLEAN NOT NULL DEFAULT FALSE, -- its jobs may run at several accounts, see task_placements
	moves          BIGINT NOT NULL DEFAULT 0, -- changed by each move of its jobs to another; 0: none can be moved
	pruned         BOOLEAN NOT NULL DEFAULT FALSE, -- its parameters were deleted by age, see dispatch.Retention
	sent           BIGINT NOT NULL DEFAULT 0, -- bytes of a process that was sent with its request and is kept in documents
	dimension      TEXT NOT NULL, -- the name of the first
	annotations    TEXT NOT NULL DEFAULT '', -- JSON, see dispatch.Annotations; '': none
	head           TEXT NOT NULL DEFAULT '', -- what lists read of a long request, see dispatch.RequestHead
	request        TEXT NOT NULL -- JSON, what its jobs share
);
-- The tasks of an owner by age
CREATE INDEX tasks_owner ON tasks (owner, created, id) WHERE NOT hidden;
-- What the purge deletes
CREATE INDEX tasks_hidden ON tasks (id) WHERE hidden;
-- Tasks of which jobs may move to another platform
CREATE INDEX tasks_spread ON tasks (id) WHERE moves > 0;
-- For metrics: tasks that start nothing for now
CREATE INDEX tasks_limited ON tasks (paused_for) WHERE paused AND NOT hidden;

-- The accounts between which a task spreads its jobs, see dispatch.Placement.
CREATE TABLE task_placements (
	task       BIGINT NOT NULL REFERENCES tasks ON DELETE CASCADE,
	account    TEXT NOT NULL,
	number     BIGINT NOT NULL, -- in the order of the request
	platform   TEXT NOT NULL,
	base       TEXT NOT NULL,
	hash       BIGINT NOT NULL, -- see dispatch.ServiceHash
	service    TEXT NOT NULL DEFAULT '', -- as in definitions, of each placement but the first that is used
	document   TEXT NOT NULL DEFAULT '', -- '': it cannot change, or is not known
	changed_to TEXT NOT NULL DEFAULT '', -- as in definitions
	PRIMARY KEY (task, account)
);

-- The labels of a task, by which lists are filtered. Its annotations hold them, too.
CREATE TABLE task_labels (
	task    BIGINT NOT NULL REFERENCES tasks ON DELETE CASCADE,
	owner   TEXT NOT NULL,
	name    TEXT NOT NULL,
	value   TEXT NOT NULL,
	created BIGINT NOT NULL, -- of the task
	PRIMARY KEY (task, name)
);
-- The tasks of an owner with a label
CREATE INDEX task_labels_found ON task_labels (owner, name, value, created, task);

-- Changes of the jobs of tasks that are under way, see store/task_change.go. One whose process died is continued by
-- another.
CREATE TABLE task_changes (
	task     INTEGER PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,
	owner    TEXT NOT NULL,
	account  TEXT NOT NULL,
	action   TEXT NOT NULL,
	stops    BOOLEAN NOT NULL, -- no job of the task that waits is submitted meanwhile
	statuses TEXT NOT NULL, -- JSON, that the jobs must have; '': any
	numbers  TEXT NOT NULL, -- JSON, of the jobs; '': all
	last     BIGINT NOT NULL, -- the number of the last job
	done     BIGINT NOT NULL, -- the number up to which jobs were changed
	jobs     BIGINT NOT NULL, -- how many more jobs will be live by it
	bytes    BIGINT NOT NULL, -- of their requests
	touched  BIGINT NOT NULL -- when a process last continued it
);
-- How many changes of an owner are underway
CREATE INDEX task_changes_owner ON task_changes (owner);

-- The numbers of the last changes of tasks and their jobs, see dispatch.ChangeNumbers. They are not in tasks, because
-- rows of tasks are locked before those of jobs, and these are written after them.
CREATE TABLE task_numbers (
	task   INTEGER PRIMARY KEY,
	owner  TEXT NOT NULL,
	change BIGINT NOT NULL,
	floor  BIGINT NOT NULL -- which jobs changed up to this number is not known
);
-- Which tasks of an owner changed since a number
CREATE INDEX task_numbers_owner ON task_numbers (owner, change, task);

-- Jobs --------------------------------------------------------------------------------------------------------------

-- See dispatch.Job. What is read most often comes first.
CREATE TABLE jobs (
	id           BIGINT PRIMARY KEY,
	task         BIGINT NOT NULL, -- 0: none
	number       BIGINT NOT NULL, -- in its task, from 1; 0: it belongs to none
	owner        TEXT NOT NULL,
	account      TEXT NOT NULL,
	version      BIGINT NOT NULL DEFAULT 1, -- a visit writes only the version that it read

	-- Its state.
	desired      TEXT NOT NULL, -- by its owner: run or canceled
	phase        TEXT NOT NULL, -- what visits have done for it
	status       TEXT NOT NULL, -- what its owner sees
	attention    TEXT NOT NULL DEFAULT '', -- why it does not go on; '': it does
	hidden       BOOLEAN NOT NULL DEFAULT FALSE, -- its owner deleted it, or it was refused
	paused       BOOLEAN NOT NULL DEFAULT FALSE, -- by its task
	budgeted     BOOLEAN NOT NULL DEFAULT FALSE, -- its task had a budget when it was accepted
	pruned       BOOLEAN NOT NULL DEFAULT FALSE, -- its parameters were deleted by age, see dispatch.Retention
	awaited      BOOLEAN NOT NULL, -- a client waits for its next status
	changed      BIGINT NOT NULL DEFAULT 0, -- number of the last change that its owner sees, see store/numbers.go

	-- When something is to be done for it, and was.
	due          BIGINT NOT NULL, -- when the next step is due; 0: it waits and is paused
	created      BIGINT NOT NULL,
	updated      BIGINT NOT NULL, -- when its status or what explains it last changed
	moved        BIGINT NOT NULL, -- when phase or status last changed
	checked      BIGINT NOT NULL DEFAULT 0, -- when the platform last reported the status
	started      BIGINT NOT NULL DEFAULT 0, -- when its platform began to run it; 0: not known
	ended        BIGINT NOT NULL DEFAULT 0, -- when it ended, by its platform's report; 0: none, see moved
	refused      BIGINT NOT NULL DEFAULT 0, -- since when it is turned away, or its document is unavailable
	deadline     BIGINT NOT NULL DEFAULT 0, -- when it will have run for max_duration; 0: no limit, or not started
	max_duration BIGINT NOT NULL DEFAULT 0, -- microseconds that it may run; 0: no limit
	duration     BIGINT NOT NULL DEFAULT 0, -- microseconds that it ran, by its platform; 0: none were reported
	unmoved      BIGINT NOT NULL DEFAULT 0, -- microseconds in which statuses have shown no effect of a start in doubt
	polls        BIGINT NOT NULL DEFAULT 0, -- status reads and searches in this epoch that did not settle it
	tries        BIGINT NOT NULL DEFAULT 0, -- requests in a row that failed

	-- Its submission.
	epoch        BIGINT NOT NULL DEFAULT 0, -- number of changes of phase
	attempt      BIGINT NOT NULL DEFAULT 0, -- each create and each retry takes a new number
	begun        BIGINT NOT NULL DEFAULT 0, -- submissions that were begun since one got a response
	retries      BIGINT NOT NULL DEFAULT 0, -- how often it is retried by itself
	retried      BIGINT NOT NULL DEFAULT 0, -- how often it was
	send_by      BIGINT NOT NULL DEFAULT 0, -- when the last request that submits it is certainly over
	intent_lease BIGINT NOT NULL DEFAULT 0, -- the generation of the lease under which that request was intended
	service      BIGINT NOT NULL DEFAULT 0, -- see dispatch.ServiceHash
	base         TEXT NOT NULL, -- URL below which its platform lists it
	ref_base     TEXT NOT NULL DEFAULT '', -- the job at the platform; '': none
	ref_id       TEXT NOT NULL DEFAULT '',
	seen         TEXT NOT NULL DEFAULT '', -- the last reported status, believed or not
	nonces       TEXT NOT NULL DEFAULT '', -- random parts of the tags of its attempts, see dispatch.Nonces
	orphans      TEXT NOT NULL DEFAULT '', -- JSON, further platform jobs of it, which are to be canceled; '': none
	past         TEXT NOT NULL DEFAULT '', -- JSON, platform jobs of it to be ignored; '': none
	versions     TEXT NOT NULL DEFAULT '', -- JSON, which software runs it, see dispatch.Versions; '': not known

	-- What it costs, and what is to be removed.
	progress     DOUBLE PRECISION,
	costs        DOUBLE PRECISION, -- of the present attempt
	spent        DOUBLE PRECISION NOT NULL DEFAULT 0, -- of the attempts before
	unit         TEXT NOT NULL DEFAULT '', -- of both; '': the platform does not charge, or names none
	meter_due    BIGINT NOT NULL DEFAULT 0, -- when costs or usage are to be read; 0: no more
	metered      TEXT NOT NULL DEFAULT '', -- JSON, see dispatch.Metered; '': nothing
	unmetered    TEXT NOT NULL DEFAULT '', -- JSON, runs whose costs or usage are still to be read; '': none
	unpriced     BIGINT NOT NULL DEFAULT 0, -- how many of these lack the costs
	removal_due  BIGINT NOT NULL DEFAULT 0, -- when its platform is to remove it, see dispatch.Removal; 0: never
	removal      TEXT NOT NULL DEFAULT '', -- the rest of that, JSON
	bytes        BIGINT NOT NULL DEFAULT 0, -- of its request, so that none is read to add up those of a user

	-- What is to be shown.
	notice       TEXT NOT NULL DEFAULT '', -- text about attention
	failure      TEXT NOT NULL DEFAULT '', -- why it failed
	annotations  TEXT NOT NULL DEFAULT '', -- JSON, see dispatch.Annotations; '': none
	names        TEXT NOT NULL DEFAULT '', -- JSON, names of its values, see dispatch.Job; '': none
	traceparent  TEXT NOT NULL DEFAULT '', -- trace context of the request that accepted it; '': it was not traced

	-- What a visit has to do for it once it is due. A cancel waits until what is in doubt is over, and until there is
	-- something to cancel. NULL: nothing.
	step         TEXT GENERATED ALWAYS AS (CASE
		WHEN orphans <> '' THEN 'cancel'
		WHEN phase = 'waiting' AND paused THEN 'paused'
		WHEN phase = 'waiting' THEN 'wait'
		WHEN phase = 'ended' THEN NULL
		WHEN phase = 'creating' THEN 'settle'
		WHEN desired = 'canceled' THEN 'cancel'
		WHEN phase = 'starting' THEN 'settle'
		WHEN phase = 'created' THEN 'start'
		ELSE 'poll' END) STORED
);

-- What visits read.

-- The jobs of an account that are due for a step; for metrics
CREATE INDEX jobs_step ON jobs (account, step, due, id) WHERE step IS NOT NULL;
-- The queues of an account: whose jobs wait, and which is next
CREATE INDEX jobs_queue ON jobs (account, owner, task, due, id) WHERE phase = 'waiting' AND NOT paused;
-- Waiting jobs whose application is to be read: while no slot is free, only those are visited. With step in it SQLite,
-- which has not counted its rows, takes it rather than jobs_step.
CREATE INDEX jobs_unprepared ON jobs (account, step, attention, due, id)
	WHERE step = 'wait' AND attention = 'application_unreachable';
-- Jobs whose costs are still to be read
CREATE INDEX jobs_meter ON jobs (account, meter_due, id) WHERE meter_due > 0;
-- Jobs to be removed on their platform
CREATE INDEX jobs_removal ON jobs (account, removal_due, id)
	WHERE removal_due > 0 AND phase = 'ended' AND orphans = '' AND meter_due = 0;
-- The job with an identifier on a platform
CREATE INDEX jobs_refs ON jobs (ref_id) WHERE ref_id <> '';

-- What owners list.

-- How many jobs an owner has
CREATE INDEX jobs_owner ON jobs (owner, created, account);
-- The jobs of no task of an owner by age
CREATE INDEX jobs_single ON jobs (owner, created, id) WHERE task = 0;
-- Jobs of no task of one platform and with one status
CREATE INDEX jobs_filtered ON jobs (owner, account, status, created, id) WHERE task = 0 AND NOT hidden;
-- Jobs of no task by their last change
CREATE INDEX jobs_updated ON jobs (owner, updated) WHERE task = 0 AND NOT hidden;
-- Jobs of no task that changed since a number, also those that are hidden
CREATE INDEX jobs_numbers ON jobs (owner, changed, id) WHERE task = 0;
-- Jobs at a platform, of which owners await the status. With phase in it SQLite takes it rather than jobs_owner.
CREATE INDEX jobs_started ON jobs (owner, phase, task) WHERE phase = 'started';
-- Jobs of an owner or of a task that have not ended: quotas, bytes, cancellation
CREATE INDEX jobs_open ON jobs (owner, task) WHERE phase <> 'ended';
-- The last finished runs of a process: from which requests are estimated
CREATE INDEX jobs_finished_runs ON jobs (owner, account, service, moved) WHERE status = 'finished';

-- What is read of the jobs of a task.

-- The jobs of a task in their order
CREATE INDEX jobs_number ON jobs (task, number) WHERE task <> 0;
-- The jobs of a task with one status
CREATE INDEX jobs_task_status ON jobs (task, status, number) WHERE task <> 0 AND NOT hidden;
-- The jobs of a task by their last change; when a task changed last
CREATE INDEX jobs_changed ON jobs (task, updated) WHERE task <> 0;
-- Jobs of a task that changed since a number
CREATE INDEX jobs_numbers_of_task ON jobs (task, changed, id) WHERE task <> 0;
-- The finished jobs of a task in the order in which they finished
CREATE INDEX jobs_finished ON jobs (task, moved, id) WHERE task <> 0 AND status = 'finished' AND NOT hidden;
-- With jobs_finished it gives the end of a task
CREATE INDEX jobs_stopped ON jobs (task, moved)
	WHERE task <> 0 AND status IN ('failed', 'canceled') AND NOT hidden;
-- What needs attention in a task
CREATE INDEX jobs_attention ON jobs (task, attention) WHERE task <> 0 AND attention <> '' AND NOT hidden;
-- Runs of tasks with a budget whose costs are not known yet
CREATE INDEX jobs_budgeted ON jobs (task)
	WHERE task <> 0 AND budgeted AND (phase NOT IN ('waiting', 'ended') OR meter_due > 0);

-- What operators and upkeep read.

-- For operators: jobs with a platform that need attention; for metrics
CREATE INDEX jobs_troubled ON jobs (moved, id) WHERE phase NOT IN ('waiting', 'ended') AND attention <> '';
-- For operators: jobs that were set aside; for metrics
CREATE INDEX jobs_set_aside ON jobs (moved, id) WHERE attention = 'set_aside' AND NOT hidden;
-- What the purge deletes
CREATE INDEX jobs_hidden ON jobs (moved) WHERE hidden;
-- What retention prunes and deletes
CREATE INDEX jobs_aging ON jobs (pruned, moved) WHERE task = 0 AND phase = 'ended';

-- What was asked for.
CREATE TABLE requests (
	job  INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
	head TEXT NOT NULL DEFAULT '', -- what lists read of a long body, see dispatch.RequestHead
	body TEXT NOT NULL -- JSON, a dispatch.Request; of a task's job its value
);

-- The finished jobs that their owners see, by where and when their data are, see dispatch.Item. Narrow, because searches
-- read many rows.
CREATE TABLE items (
	job      INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
	owner    TEXT NOT NULL,
	task     BIGINT NOT NULL, -- 0: none
	account  TEXT NOT NULL,
	platform TEXT NOT NULL,
	service  BIGINT NOT NULL, -- see dispatch.ServiceHash
	given    BOOLEAN NOT NULL DEFAULT FALSE, -- the platform returned the results in its response to the submission
	due      BIGINT NOT NULL, -- when the results are to be read; 0: they are not
	tries    BIGINT NOT NULL DEFAULT 0, -- how often that was begun
	place    BIGINT, -- see store/item_cells.go; NULL: not known
	period   BIGINT, -- likewise of the time
	west     DOUBLE PRECISION,
	south    DOUBLE PRECISION,
	east     DOUBLE PRECISION,
	north    DOUBLE PRECISION,
	begins   BIGINT, -- 0: the time is not known; NULL: the results were not read
	ends     BIGINT
);
-- Results to be read from a platform
CREATE INDEX items_due ON items (platform, due) WHERE due > 0;
-- The Items of a service; of a task
CREATE INDEX items_service ON items (owner, service, job) WHERE begins IS NOT NULL;
CREATE INDEX items_task ON items (task, (-job)) WHERE begins IS NOT NULL;
-- The Items of an owner in a place, and of a time
CREATE INDEX items_place ON items (owner, place) WHERE begins IS NOT NULL;
CREATE INDEX items_period ON items (owner, period) WHERE begins IS NOT NULL;
-- The Items of an owner, the newest jobs first
CREATE INDEX items_newest ON items (owner, (-job)) WHERE begins IS NOT NULL;

-- The results that are kept of jobs.
CREATE TABLE results (
	job   INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
	body  TEXT NOT NULL, -- JSON, a STAC Collection; '': it is too long
	head  TEXT NOT NULL DEFAULT '', -- JSON, geometry and properties of a STAC Item; '': not yet known
	until BIGINT NOT NULL DEFAULT 0 -- when a link of body expires
);

-- The labels of a job of no task, by which lists are filtered. Its annotations hold them, too.
CREATE TABLE job_labels (
	job     BIGINT NOT NULL REFERENCES jobs ON DELETE CASCADE,
	owner   TEXT NOT NULL,
	name    TEXT NOT NULL,
	value   TEXT NOT NULL,
	created BIGINT NOT NULL, -- of the job
	PRIMARY KEY (job, name)
);
-- The jobs of an owner with a label
CREATE INDEX job_labels_found ON job_labels (owner, name, value, created, job);

-- What happened to jobs, for operators, see dispatch.JobEvent. Package history writes it behind the work, and may lose
-- some.
CREATE TABLE events (
	job       BIGINT NOT NULL,
	at        BIGINT NOT NULL,
	what      TEXT NOT NULL,
	phase     TEXT NOT NULL,
	status    TEXT NOT NULL,
	attention TEXT NOT NULL,
	attempt   BIGINT NOT NULL,
	outcome   TEXT NOT NULL,
	took      BIGINT NOT NULL, -- microseconds
	detail    TEXT NOT NULL
);
-- The events of a job
CREATE INDEX events_of_job ON events (job, at);
-- What the purge deletes
CREATE INDEX events_by_age ON events (at);

-- Jobs and tasks that clients created and have not started, see dispatch.Unstarted. Their ids are from the same
-- counters.
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
-- What an owner created and has not started
CREATE INDEX unstarted_owner ON unstarted (owner, created);
-- What the purge deletes
CREATE INDEX unstarted_expires ON unstarted (expires);

-- Synchronous runs. Their ids are from the counter of jobs; visits do not see them.
CREATE TABLE sync_runs (
	id       INTEGER PRIMARY KEY,
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
-- The synchronous runs of an owner: a list, quotas
CREATE INDEX sync_runs_owner ON sync_runs (owner, created, id, account);
-- Runs underway of an owner
CREATE INDEX sync_runs_live ON sync_runs (owner, lapses, account) WHERE ended = 0;
-- What the purge deletes
CREATE INDEX sync_runs_created ON sync_runs (created);
-- One run per identifier on a platform, see ClaimRef
CREATE UNIQUE INDEX sync_runs_refs ON sync_runs (account, ref_base, ref_id) WHERE ref_id <> '';

-- Names that clients gave to their requests, by which a repeated one is recognized.
CREATE TABLE keys (
	owner       TEXT NOT NULL,
	name        TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	task        BIGINT NOT NULL,
	job         BIGINT NOT NULL,
	created     BIGINT NOT NULL,
	PRIMARY KEY (owner, name)
);
-- What the purge deletes
CREATE INDEX keys_created ON keys (created);

-- Documents that define services -------------------------------------------------------------------------------------

-- What defines services, at some time. Large ones are kept once, whoever uses them.
CREATE TABLE documents (
	hash TEXT PRIMARY KEY, -- SHA-256 of the body
	body TEXT NOT NULL
);

-- The document that defined the service of a task, or of a job without one, when that was accepted.
CREATE TABLE definitions (
	task       BIGINT NOT NULL, -- 0: a job's
	job        BIGINT NOT NULL, -- 0: a task's
	owner      TEXT NOT NULL,
	platform   TEXT NOT NULL,
	service    TEXT NOT NULL, -- a dispatch.Service in JSON
	document   TEXT NOT NULL REFERENCES documents,
	changed_to TEXT NOT NULL DEFAULT '', -- the hash of the document since, if that is another
	PRIMARY KEY (task, job)
);
-- Which documents nobody uses
CREATE INDEX definitions_document ON definitions (document);

-- What was last read from each source of the catalogue of services, see dispatch.Source.
CREATE TABLE sources (
	name      TEXT PRIMARY KEY,
	documents TEXT NOT NULL DEFAULT '[]', -- JSON, see dispatch.SourceDocument
	read      BIGINT NOT NULL DEFAULT 0, -- when
	failure   TEXT NOT NULL DEFAULT '',
	revision  BIGINT NOT NULL DEFAULT 0,
	claim     BIGINT NOT NULL DEFAULT 0, -- number of the last claim
	due       BIGINT NOT NULL DEFAULT 0 -- when a process may claim it
);

-- The processes that users have stored, see dispatch.StoredProcess.
CREATE TABLE processes (
	owner   TEXT NOT NULL,
	id      TEXT NOT NULL,
	body    TEXT NOT NULL, -- JSON, as it was sent
	bytes   BIGINT NOT NULL,
	updated BIGINT NOT NULL,
	PRIMARY KEY (owner, id)
);

-- Counts and costs ---------------------------------------------------------------------------------------------------

-- Who changes jobs writes these tables in the same transaction, see store/effects.go.

-- Unfinished jobs of each queue, see dispatch.Queue.
CREATE TABLE queue_counts (
	account TEXT NOT NULL,
	owner   TEXT NOT NULL,
	task    BIGINT NOT NULL,
	waiting BIGINT NOT NULL, -- and not paused
	held    BIGINT NOT NULL, -- that hold a slot
	served  BIGINT NOT NULL DEFAULT 0, -- which of the slots that the account has given away it got last; 0: none
	PRIMARY KEY (account, owner, task)
);

CREATE TABLE account_counts (
	account TEXT NOT NULL,
	waiting BIGINT NOT NULL, -- and not paused
	held    BIGINT NOT NULL,
	started BIGINT NOT NULL, -- of those held
	PRIMARY KEY (account)
);

CREATE TABLE owner_counts (
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	waiting BIGINT NOT NULL, -- paused ones, too
	held    BIGINT NOT NULL,
	bytes   BIGINT NOT NULL, -- of the requests of unfinished jobs
	jobs    BIGINT NOT NULL, -- all that are stored
	served  BIGINT NOT NULL DEFAULT 0, -- as in queue_counts, of all its queues
	costs   DOUBLE PRECISION NOT NULL,
	priced  BIGINT NOT NULL, -- jobs with costs
	PRIMARY KEY (owner, account)
);
-- The owners with jobs of an account
CREATE INDEX owner_counts_of_account ON owner_counts (account);

-- How many jobs were created in a period of five minutes, for quotas of a day.
CREATE TABLE period_counts (
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	period  BIGINT NOT NULL, -- jobs.created divided by five minutes
	jobs    BIGINT NOT NULL,
	PRIMARY KEY (owner, account, period)
);
-- What the purge deletes
CREATE INDEX period_counts_by_period ON period_counts (period);

-- The jobs of a task, without hidden ones.
CREATE TABLE task_counts (
	task     BIGINT NOT NULL,
	status   TEXT NOT NULL,
	jobs     BIGINT NOT NULL,
	progress BIGINT NOT NULL, -- sum, in millionths of a percent, which have no rounding errors
	PRIMARY KEY (task, status)
);

-- What users' runs cost, by the month (UTC) in which the platform reported it. Nothing is subtracted when a job is
-- retried or deleted.
CREATE TABLE ledger (
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	month   TEXT NOT NULL, -- 2026-11
	unit    TEXT NOT NULL, -- of the platform; '': it names none
	costs   DOUBLE PRECISION NOT NULL,
	runs    BIGINT NOT NULL, -- with costs
	PRIMARY KEY (owner, account, month, unit)
);

-- What the runs of a task cost.
CREATE TABLE task_costs (
	task  BIGINT NOT NULL,
	unit  TEXT NOT NULL,
	costs DOUBLE PRECISION NOT NULL,
	runs  BIGINT NOT NULL,
	PRIMARY KEY (task, unit)
);

-- What users' runs cost by the labels that a job, or its task, had when the platform reported it, like ledger.
CREATE TABLE label_costs (
	owner   TEXT NOT NULL,
	name    TEXT NOT NULL, -- the key of the label
	month   TEXT NOT NULL, -- 2026-11
	account TEXT NOT NULL,
	unit    TEXT NOT NULL,
	value   TEXT NOT NULL, -- of the label
	costs   DOUBLE PRECISION NOT NULL,
	runs    BIGINT NOT NULL,
	PRIMARY KEY (owner, name, month, account, unit, value)
);
-- What the purge deletes
CREATE INDEX label_costs_month ON label_costs (month);

-- Hooks --------------------------------------------------------------------------------------------------------------

-- Addresses at which users want to be notified. What is sealed can be read only with a key that is not in the
-- database.
CREATE TABLE hooks (
	id       TEXT PRIMARY KEY,
	owner    TEXT NOT NULL,
	kind     TEXT NOT NULL DEFAULT 'webhook', -- the form of messages, see dispatch.HookKind
	job      BIGINT NOT NULL DEFAULT 0, -- 0: not of one job
	task     BIGINT NOT NULL DEFAULT 0, -- 0: not of one task
	url      TEXT NOT NULL,
	statuses TEXT NOT NULL, -- JSON, that are sent
	key      TEXT NOT NULL,
	sealed   TEXT NOT NULL,
	gone     BOOLEAN NOT NULL DEFAULT FALSE, -- the receiver wants nothing more
	hold     BIGINT NOT NULL DEFAULT 0, -- until when nothing is sent
	failures BIGINT NOT NULL DEFAULT 0, -- rounds of deliveries in a row in which none arrived
	ran      BIGINT NOT NULL DEFAULT 0, -- when the last round ended
	created  BIGINT NOT NULL
);
-- The hooks of an owner, of a job, of a task
CREATE INDEX hooks_of_job ON hooks (owner, job, task, created);
-- For metrics: hooks that are paused
CREATE INDEX hooks_held ON hooks (hold) WHERE hold > 0;

-- The outbox: what is to be sent to hooks. It does not refer to hooks, so that the deletion of a hook never makes the
-- end of a job fail.
CREATE TABLE deliveries (
	hook     TEXT NOT NULL,
	job      BIGINT NOT NULL, -- 0: of a task, a test, or a sign-in
	task     BIGINT NOT NULL, -- of the job, or which itself is the subject; 0: none
	epoch    BIGINT NOT NULL, -- jobs.epoch; otherwise a time, or a share, see store/task_events.go
	status   TEXT NOT NULL,
	number   BIGINT NOT NULL, -- of the job in its task
	happened BIGINT NOT NULL,
	queued   BIGINT NOT NULL, -- since when it is to be sent
	due      BIGINT NOT NULL, -- 0: no more
	state    TEXT NOT NULL DEFAULT 'waiting', -- or delivered, failed
	tries    BIGINT NOT NULL DEFAULT 0,
	tried    BIGINT NOT NULL DEFAULT 0, -- when the last one began
	answer   BIGINT NOT NULL DEFAULT 0, -- HTTP status of the last one; 0: none
	notice   TEXT NOT NULL DEFAULT '', -- why the last one failed
	PRIMARY KEY (hook, job, task, epoch, status)
);
-- The next deliveries of a hook
CREATE INDEX deliveries_due ON deliveries (hook, due) WHERE due > 0;
-- For metrics: the age of the oldest delivery
CREATE INDEX deliveries_waiting ON deliveries (queued) WHERE due > 0;
-- The last deliveries of a hook
CREATE INDEX deliveries_of_hook ON deliveries (hook, happened);
-- Deliveries of a job, or of a task
CREATE INDEX deliveries_of_job ON deliveries (job, task);
-- What the purge deletes
CREATE INDEX deliveries_by_age ON deliveries (queued);

-- Users --------------------------------------------------------------------------------------------------------------

-- How many changes owners saw, see dispatch.ChangeNumbers.
CREATE TABLE owners (
	owner  TEXT PRIMARY KEY,
	change BIGINT NOT NULL, -- the number of the last one; the first number is a time
	floor  BIGINT NOT NULL -- which jobs and tasks changed up to this number is not known
);

-- Permissions to act for users who are away. What is sealed can be read only with a key that is not in the database.
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

-- Grants that are in use no more and that the identity provider is yet to revoke, sealed as in grants. They outlast
-- the data of their users, so they have the SHA-256 of the owner, to which their text is bound, too.
CREATE TABLE revocations (
	id         TEXT PRIMARY KEY,
	owner_hash TEXT NOT NULL,
	issuer     TEXT NOT NULL,
	kind       TEXT NOT NULL,
	key        TEXT NOT NULL,
	sealed     TEXT NOT NULL,
	created    BIGINT NOT NULL
);

-- Users who took back their permission to act for them while they are away, until they give it again.
CREATE TABLE withdrawals (
	owner  TEXT NOT NULL,
	issuer TEXT NOT NULL,
	PRIMARY KEY (owner, issuer)
);

-- Tokens that processes share, sealed as in grants, until they end.
CREATE TABLE tokens (
	name    TEXT PRIMARY KEY,
	owner   TEXT NOT NULL DEFAULT '', -- '': nobody's
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	expires BIGINT NOT NULL
);
-- Tokens of an owner, to erase them
CREATE INDEX tokens_of_owner ON tokens (owner);
-- What the purge deletes
CREATE INDEX tokens_by_end ON tokens (expires);

-- Browsers that are signed in to the page, sealed as in grants.
CREATE TABLE sessions (
	id      TEXT PRIMARY KEY, -- a hash of the browser's secret
	owner   TEXT NOT NULL,
	issuer  TEXT NOT NULL,
	sid     TEXT NOT NULL, -- the session at the identity provider
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	created BIGINT NOT NULL,
	ends    BIGINT NOT NULL,
	version BIGINT NOT NULL DEFAULT 1
);
-- The oldest sessions of an owner, which end when there are too many
CREATE INDEX sessions_of_owner ON sessions (owner, created);
-- Sessions that an identity provider ends
CREATE INDEX sessions_of_provider ON sessions (issuer, sid);
-- What the purge deletes
CREATE INDEX sessions_by_end ON sessions (ends);

-- The installation ---------------------------------------------------------------------------------------------------

-- What all programs on this database share and none configures.
CREATE TABLE settings (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
);

-- The last id that was given away. A table, because the databases number rows in different ways.
CREATE TABLE ids (
	name TEXT PRIMARY KEY,
	last BIGINT NOT NULL
);
INSERT INTO ids (name, last) VALUES ('job', 0), ('task', 0);

-- Which process counts for the metrics of all, see dispatch.Stats.
CREATE TABLE stats_lease (
	one    INTEGER PRIMARY KEY CHECK (one = 1),
	holder TEXT NOT NULL,
	ends   BIGINT NOT NULL -- of its lease
);
INSERT INTO stats_lease (one, holder, ends) VALUES (1, '', 0);
