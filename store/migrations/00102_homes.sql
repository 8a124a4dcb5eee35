-- +goose Up
-- The homes of tasks that spread their jobs, see dispatch.Home.
CREATE TABLE task_homes (
	task         BIGINT NOT NULL REFERENCES tasks ON DELETE CASCADE,
	account      TEXT NOT NULL,
	number       BIGINT NOT NULL, -- in the order of the request
	platform     TEXT NOT NULL,
	base         TEXT NOT NULL,
	service_hash BIGINT NOT NULL,
	PRIMARY KEY (task, account)
);
-- 0: the task has one home; 1: its jobs have ended; otherwise a number that each move of its jobs changes.
ALTER TABLE tasks ADD COLUMN spread BIGINT NOT NULL DEFAULT 0;
CREATE INDEX tasks_spread ON tasks (id) WHERE spread > 1;

-- +goose Down
DROP INDEX tasks_spread;
ALTER TABLE tasks DROP COLUMN spread;
DROP TABLE task_homes;
