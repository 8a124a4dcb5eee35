-- +goose Up
-- Whether the parameters were deleted because of their age, see dispatch.Retention. Migration 64 adds the index that finds aged jobs.
ALTER TABLE jobs ADD COLUMN pruned BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE tasks ADD COLUMN pruned BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE tasks DROP COLUMN pruned;
ALTER TABLE jobs DROP COLUMN pruned;
