-- +goose Up
ALTER TABLE accounts ADD COLUMN sign_in_since BIGINT NOT NULL DEFAULT 0; -- since when it waits for its user
CREATE INDEX jobs_owner ON jobs (owner, created);

-- +goose Down
DROP INDEX jobs_owner;
ALTER TABLE accounts DROP COLUMN sign_in_since;
