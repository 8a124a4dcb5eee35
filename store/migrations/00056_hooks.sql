-- +goose Up

-- Addresses that users want to be told at. What is sealed can be read only with a key that is not here.
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
);
CREATE INDEX hooks_of_owner ON hooks (owner, created);

-- The outbox: ends of jobs, each for each hook. Triggers on jobs insert them (migration 57, store/hook_triggers.go). There is no reference to
-- hooks, so that the deletion of a hook never makes the end of a job fail.
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

-- +goose Down
DROP TABLE deliveries;
DROP TABLE hooks;
