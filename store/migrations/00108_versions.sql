-- +goose Up
-- Which software runs a job, see dispatch.Versions; '': not known.
ALTER TABLE jobs ADD COLUMN versions TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE jobs DROP COLUMN versions;
