-- +goose Up
-- Removal of ended jobs from their platforms, see dispatch.Removal.
ALTER TABLE jobs ADD COLUMN removal_due BIGINT NOT NULL DEFAULT 0; -- 0: nothing is to be removed
ALTER TABLE jobs ADD COLUMN removal TEXT NOT NULL DEFAULT ''; -- the rest, as JSON

-- +goose Down
ALTER TABLE jobs DROP COLUMN removal;
ALTER TABLE jobs DROP COLUMN removal_due;
