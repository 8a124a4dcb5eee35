-- +goose Up
ALTER TABLE tasks ADD COLUMN paused BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE tasks ADD COLUMN edited BIGINT NOT NULL DEFAULT 0; -- when its owner last paused or resumed it
ALTER TABLE jobs ADD COLUMN paused BOOLEAN NOT NULL DEFAULT FALSE; -- see dispatch.Job; migration 49 counts with it

-- +goose Down
ALTER TABLE jobs DROP COLUMN paused;
ALTER TABLE tasks DROP COLUMN edited;
ALTER TABLE tasks DROP COLUMN paused;
