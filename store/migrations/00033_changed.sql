-- +goose Up
-- The jobs of a task that changed lately, so that a stream of a large task reads no other job.
CREATE INDEX jobs_changed ON jobs (task, updated) WHERE task <> 0;

-- +goose Down
DROP INDEX jobs_changed;
