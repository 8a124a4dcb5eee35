-- +goose Up
-- Limits that owners set for their tasks, see dispatch.Budget and dispatch.Task.
ALTER TABLE tasks ADD COLUMN budget DOUBLE PRECISION NOT NULL DEFAULT 0; -- 0: none
ALTER TABLE tasks ADD COLUMN budget_unit TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN trial BIGINT NOT NULL DEFAULT 0; -- how many of the first jobs run before the task is resumed; 0: no trial
ALTER TABLE tasks ADD COLUMN paused_for TEXT NOT NULL DEFAULT ''; -- the attention of a task that its owner did not pause
ALTER TABLE jobs ADD COLUMN budgeted BOOLEAN NOT NULL DEFAULT FALSE; -- its task had a budget when it was accepted

-- +goose Down
ALTER TABLE jobs DROP COLUMN budgeted;
ALTER TABLE tasks DROP COLUMN paused_for;
ALTER TABLE tasks DROP COLUMN trial;
ALTER TABLE tasks DROP COLUMN budget_unit;
ALTER TABLE tasks DROP COLUMN budget;
