-- +goose Up
ALTER TABLE jobs ADD COLUMN max_duration BIGINT NOT NULL DEFAULT 0; -- microseconds, 0: none
ALTER TABLE jobs ADD COLUMN deadline BIGINT NOT NULL DEFAULT 0; -- when it will have taken so long
ALTER TABLE jobs ADD COLUMN duration BIGINT NOT NULL DEFAULT 0; -- microseconds, by the platform; 0: not told

-- +goose Down
ALTER TABLE jobs DROP COLUMN duration;
ALTER TABLE jobs DROP COLUMN deadline;
ALTER TABLE jobs DROP COLUMN max_duration;
