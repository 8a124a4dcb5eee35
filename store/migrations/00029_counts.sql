-- +goose Up
-- Counts of jobs, kept by triggers on jobs (migration 30, store/counts_triggers.go). A count is the sum of its shards. On PostgreSQL each
-- connection writes a shard of its own, named by its process, so that no transaction waits for another one's counts; Purge merges them.
-- On SQLite there is one shard.

-- Unfinished jobs of each line, see dispatch.Line.
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

-- How many jobs were created in a period of five minutes. Purge deletes old rows.
CREATE TABLE period_counts (
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	period  BIGINT NOT NULL, -- jobs.created divided by five minutes
	shard   BIGINT NOT NULL DEFAULT 0,
	jobs    BIGINT NOT NULL,
	PRIMARY KEY (owner, account, period, shard)
);

-- A task's jobs, without hidden ones.
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

-- Whether the statement that inserted the job counted it, in place of the trigger.
ALTER TABLE jobs ADD COLUMN counted BOOLEAN NOT NULL DEFAULT FALSE;
-- The index from which the jobs of a task were counted.
DROP INDEX jobs_task;

-- +goose Down
CREATE INDEX jobs_task ON jobs (task, hidden, status, progress, updated) WHERE task <> 0;
ALTER TABLE jobs DROP COLUMN counted;
DROP TABLE task_counts;
DROP TABLE period_counts;
DROP TABLE owner_counts;
DROP TABLE account_counts;
DROP TABLE line_counts;
