-- +goose Up
ALTER TABLE accounts ADD COLUMN lapses BIGINT NOT NULL DEFAULT 0; -- see dispatch.Lease
ALTER TABLE accounts ADD COLUMN lapsed BIGINT NOT NULL DEFAULT 0; -- when the last lease ran out that was not released

-- +goose Down
ALTER TABLE accounts DROP COLUMN lapsed;
ALTER TABLE accounts DROP COLUMN lapses;
