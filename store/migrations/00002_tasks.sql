-- +goose Up
ALTER TABLE jobs ADD COLUMN past TEXT NOT NULL DEFAULT ''; -- JSON like strays
ALTER TABLE jobs ADD COLUMN refused BIGINT NOT NULL DEFAULT 0;

CREATE INDEX tasks_owner ON tasks (owner, created, id) WHERE NOT hidden;
-- Counts are read from the index alone.
CREATE INDEX jobs_task ON jobs (task, hidden, status, progress) WHERE task <> 0;
CREATE INDEX jobs_live ON jobs (owner) WHERE phase <> 'ended';
CREATE INDEX jobs_started ON jobs (owner, task) WHERE phase = 'started';

-- +goose Down
DROP INDEX jobs_started;
DROP INDEX jobs_live;
DROP INDEX jobs_task;
DROP INDEX tasks_owner;
ALTER TABLE jobs DROP COLUMN refused;
ALTER TABLE jobs DROP COLUMN past;
