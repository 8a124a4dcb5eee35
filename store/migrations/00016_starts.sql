-- +goose Up
ALTER TABLE jobs ADD COLUMN nonces TEXT NOT NULL DEFAULT ''; -- see dispatch.Nonces
ALTER TABLE jobs ADD COLUMN unmoved BIGINT NOT NULL DEFAULT 0; -- microseconds, see dispatch.Job
-- What a platform's statuses have shown after confirmed starts, see dispatch.Promptness.
ALTER TABLE platforms ADD COLUMN prompt_starts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE platforms ADD COLUMN start_lag BIGINT NOT NULL DEFAULT 0; -- microseconds

-- +goose Down
ALTER TABLE platforms DROP COLUMN start_lag;
ALTER TABLE platforms DROP COLUMN prompt_starts;
ALTER TABLE jobs DROP COLUMN unmoved;
ALTER TABLE jobs DROP COLUMN nonces;
