-- +goose Up

-- Hooks of one job or one task, and those that are told in another form, see dispatch.HookKind. Migration 70 has them told.
ALTER TABLE hooks ADD COLUMN kind TEXT NOT NULL DEFAULT 'webhook';
ALTER TABLE hooks ADD COLUMN job BIGINT NOT NULL DEFAULT 0;
ALTER TABLE hooks ADD COLUMN task BIGINT NOT NULL DEFAULT 0;
CREATE INDEX hooks_of_job ON hooks (owner, job, task, created);

-- +goose Down
DROP INDEX hooks_of_job;
ALTER TABLE hooks DROP COLUMN task;
ALTER TABLE hooks DROP COLUMN job;
ALTER TABLE hooks DROP COLUMN kind;
