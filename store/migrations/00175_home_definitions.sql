-- +goose Up
-- As in definitions, of each home of a task but the first that is used. Empty: the document cannot change, or is not known.
ALTER TABLE task_homes ADD COLUMN service TEXT NOT NULL DEFAULT '';
ALTER TABLE task_homes ADD COLUMN document TEXT NOT NULL DEFAULT '';
ALTER TABLE task_homes ADD COLUMN told TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE task_homes DROP COLUMN told;
ALTER TABLE task_homes DROP COLUMN document;
ALTER TABLE task_homes DROP COLUMN service;
