-- +goose Up
-- See dispatch.Job.
ALTER TABLE jobs ADD COLUMN retries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN retried BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE jobs DROP COLUMN retried;
ALTER TABLE jobs DROP COLUMN retries;
