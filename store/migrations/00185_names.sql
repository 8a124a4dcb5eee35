-- +goose Up
-- The names of the values of a task's job, see dispatch.Job.Names: JSON, '' for none.
ALTER TABLE jobs ADD COLUMN names TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE jobs DROP COLUMN names;
