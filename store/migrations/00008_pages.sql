-- +goose Up
-- Counts, and when something last changed, are read from the index alone.
DROP INDEX jobs_task;
CREATE INDEX jobs_task ON jobs (task, hidden, status, progress, updated) WHERE task <> 0;
CREATE INDEX jobs_number ON jobs (task, number) WHERE task <> 0;

-- +goose Down
DROP INDEX jobs_number;
DROP INDEX jobs_task;
CREATE INDEX jobs_task ON jobs (task, hidden, status, progress) WHERE task <> 0;
