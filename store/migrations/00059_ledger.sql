-- +goose Up
-- What runs cost, see dispatch.Job. costs is that of the present attempt, spent that of the attempts before.
ALTER TABLE jobs ADD COLUMN unit TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN spent DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN metered TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN unmetered TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN meter_due BIGINT NOT NULL DEFAULT 0; -- of the first of unmetered; 0: there is none

-- What users' runs cost, by the month (UTC) in which the platform reported it. Nothing is subtracted when a job is retried or deleted. The
-- triggers of migration 60 write it, in shards like those of migration 29.
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

-- Likewise, of a task's jobs.
CREATE TABLE task_costs (
	task  BIGINT NOT NULL,
	unit  TEXT NOT NULL,
	shard BIGINT NOT NULL DEFAULT 0,
	costs DOUBLE PRECISION NOT NULL,
	runs  BIGINT NOT NULL,
	PRIMARY KEY (task, unit, shard)
);

-- +goose Down
DROP TABLE task_costs;
DROP TABLE ledger;
ALTER TABLE jobs DROP COLUMN meter_due;
ALTER TABLE jobs DROP COLUMN unmetered;
ALTER TABLE jobs DROP COLUMN metered;
ALTER TABLE jobs DROP COLUMN spent;
ALTER TABLE jobs DROP COLUMN unit;
