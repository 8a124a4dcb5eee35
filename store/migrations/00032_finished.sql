-- +goose Up
-- The finished jobs of a task in the order in which they finished, so that a page of results reads no other job.
CREATE INDEX jobs_finished ON jobs (task, moved, id) WHERE task <> 0 AND status = 'finished' AND NOT hidden;

-- +goose Down
DROP INDEX jobs_finished;
