-- +goose Up
-- What hooks were told of a task, see store/task_events.go: the largest share in percent, how often it ended, and the jobs of its last end.
ALTER TABLE tasks ADD COLUMN told_share BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN ends BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN ended_as TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE tasks DROP COLUMN ended_as;
ALTER TABLE tasks DROP COLUMN ends;
ALTER TABLE tasks DROP COLUMN told_share;
