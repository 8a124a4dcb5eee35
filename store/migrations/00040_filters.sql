-- +goose Up
-- What filters of lists select, so that a page reads no other job: by account and status, by change, and by status in a task.
CREATE INDEX jobs_filtered ON jobs (owner, account, status, created, id) WHERE task = 0 AND NOT hidden;
CREATE INDEX jobs_updated ON jobs (owner, updated) WHERE task = 0 AND NOT hidden;
CREATE INDEX jobs_task_status ON jobs (task, status, number) WHERE task <> 0 AND NOT hidden;

-- +goose Down
DROP INDEX jobs_task_status;
DROP INDEX jobs_updated;
DROP INDEX jobs_filtered;
