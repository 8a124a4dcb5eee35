-- +goose Up
ALTER TABLE jobs ADD COLUMN begun BIGINT NOT NULL DEFAULT 0; -- see dispatch.Job

-- +goose Down
ALTER TABLE jobs DROP COLUMN begun;
